//! The option that says how often the supervisor takes checkpoints.

use super::option_kinds::{Kept, OptionError, milliseconds};
use serde::Serialize;
use standfast_format::manifest;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Shortest interval between checkpoints. With a shorter one a program would be stopped for most of its life: even a
/// tiny program is frozen for some milliseconds at each checkpoint.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Longest interval. Users who mean "never" say `off`; an interval beyond a year could only break arithmetic on clocks.
pub const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// When the supervisor takes checkpoints by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Only on request and on SIGTERM.
    Off,
    /// This long after the previous checkpoint.
    Every(Duration),
    /// As long after it as is best, for what checkpoints cost and how often the job fails.
    Auto,
}

impl Default for Interval {
    /// Returns ten minutes, the default of the 1995 paper's library.
    fn default() -> Self {
        Self::Every(Duration::from_secs(600))
    }
}

impl Kept for Interval {
    type Record = manifest::RecordedInterval;

    fn to_record(self) -> Option<Self::Record> {
        Some(match self {
            Self::Off => Self::Record::Off,
            Self::Every(interval) => Self::Record::Every { milliseconds: milliseconds(interval) },
            Self::Auto => Self::Record::Auto,
        })
    }

    fn from_record(record: Self::Record) -> Option<Self> {
        match record {
            Self::Record::Off => Some(Self::Off),
            Self::Record::Auto => Some(Self::Auto),
            Self::Record::Every { milliseconds } => {
                let interval = Duration::from_millis(milliseconds);
                (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval).then_some(Self::Every(interval))
            }
        }
    }
}

impl FromStr for Interval {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "off" => return Ok(Self::Off),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        let remedy = "write a time from 10ms to a year with its unit (90s, 10m, 1h 30m), 'auto', or 'off'";
        let wrong = || OptionError::new(text, "is not an interval", remedy);
        let interval = humantime::parse_duration(text).map_err(|_| wrong())?;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            return Err(wrong());
        }
        Ok(Self::Every(interval))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Every(interval) => humantime::format_duration(*interval).fmt(f),
        }
    }
}

impl Serialize for Interval {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_none(),
            Self::Auto => serializer.serialize_str("auto"),
            Self::Every(interval) => serializer.serialize_f64(interval.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed_with_units() {
        let seconds = |seconds| Interval::Every(Duration::from_secs(seconds));
        assert_eq!("10m".parse(), Ok(seconds(600)));
        assert_eq!("1h 30m".parse(), Ok(seconds(5400)));
        assert_eq!("200ms".parse(), Ok(Interval::Every(Duration::from_millis(200))));
        assert_eq!("off".parse(), Ok(Interval::Off));
        assert_eq!("auto".parse(), Ok(Interval::Auto));
    }

    #[test]
    fn intervals_without_unit_or_out_of_range_are_refused_with_a_hint() {
        for text in ["600", "0s", "1ms", "-1s", "automatic", "", "1000 years"] {
            let refused = text.parse::<Interval>().expect_err(text);
            assert!(refused.to_string().contains("with its unit"), "{refused}");
        }
    }

    #[test]
    fn an_interval_survives_being_shown_and_read() {
        for interval in
            [Interval::Off, Interval::Auto, Interval::default(), Interval::Every(Duration::from_millis(1500))]
        {
            assert_eq!(interval.to_string().parse(), Ok(interval));
        }
    }
}
