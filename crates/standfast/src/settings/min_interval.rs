//! The option for the least time between checkpoints that a program requests itself (L13, M7).

use super::interval::INTERVAL_MAX;
use super::option_kinds::{Kept, OptionError, milliseconds};
use serde::{Serialize, Serializer};
use standfast_format::manifest;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Minimum interval between program-requested checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinInterval {
    /// The program's requests are ignored.
    Never,
    /// This long after any checkpoint.
    After(Duration),
}

impl Default for MinInterval {
    /// Returns zero, the default of the 1995 paper's library.
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

impl Kept for MinInterval {
    type Record = manifest::RecordedInterval;

    fn to_record(self) -> Option<Self::Record> {
        Some(match self {
            Self::Never => Self::Record::Off,
            Self::After(wait) => Self::Record::Every { milliseconds: milliseconds(wait) },
        })
    }

    fn from_record(record: Self::Record) -> Option<Self> {
        match record {
            Self::Record::Auto => None,
            Self::Record::Off => Some(Self::Never),
            Self::Record::Every { milliseconds } => {
                Some(Duration::from_millis(milliseconds)).filter(|wait| *wait <= INTERVAL_MAX).map(Self::After)
            }
        }
    }
}

impl FromStr for MinInterval {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let wait = humantime::parse_duration(text).ok().filter(|wait| *wait <= INTERVAL_MAX);
        let remedy = "write a time of at most a year with its unit (90s, 10m), 0s, or 'never'";
        wait.map(Self::After).ok_or_else(|| OptionError::new(text, "is not a minimum interval", remedy))
    }
}

impl fmt::Display for MinInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::After(wait) => humantime::format_duration(*wait).fmt(f),
        }
    }
}

impl Serialize for MinInterval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Never => serializer.serialize_none(),
            Self::After(wait) => serializer.serialize_f64(wait.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_intervals_are_parsed_with_units() {
        let after = |milliseconds| MinInterval::After(Duration::from_millis(milliseconds));
        for (text, wanted) in
            [("0s", after(0)), ("90s", after(90_000)), ("20ms", after(20)), ("never", MinInterval::Never)]
        {
            assert_eq!(text.parse(), Ok(wanted));
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
            assert_eq!(wanted.to_record().and_then(MinInterval::from_record), Some(wanted));
        }
        for text in ["soon", "-1s", "", "400days"] {
            assert!(text.parse::<MinInterval>().is_err(), "{text}");
        }
    }
}
