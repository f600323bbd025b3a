//! The option for the time within which a stop must end.

use super::option_kinds::{Kept, OptionError, day_at_most, milliseconds};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Time within which a stop after a checkpoint must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadline {
    /// There is none.
    #[default]
    Off,
    /// This long after the request.
    Within(Duration),
}

impl Deadline {
    /// Returns the time, if there is a limit.
    pub fn get(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Within(time) => Some(time),
        }
    }
}

impl Kept for Deadline {
    /// In milliseconds; 0 without a limit.
    type Record = u64;

    fn to_record(self) -> Option<u64> {
        Some(self.get().map_or(0, milliseconds))
    }

    fn from_record(record: u64) -> Option<Self> {
        match record {
            0 => Some(Self::Off),
            milliseconds => day_at_most(Some(Duration::from_millis(milliseconds))).map(Self::Within),
        }
    }
}

impl FromStr for Deadline {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let time = day_at_most(humantime::parse_duration(text).ok()).filter(|time| *time >= Duration::from_millis(1));
        let remedy = "write a time of at most a day with its unit (30s, 2m), or 'off'";
        time.map(Self::Within).ok_or_else(|| OptionError::new(text, "is not a deadline", remedy))
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Within(time) => humantime::format_duration(*time).fmt(f),
        }
    }
}

impl Serialize for Deadline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_none(),
            Self::Within(time) => serializer.serialize_f64(time.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_time_or_off() {
        for text in ["off", "30s", "1ms", "2m"] {
            let deadline: Deadline = text.parse().unwrap();
            assert_eq!(deadline.to_string(), text);
            assert_eq!(deadline.to_record().and_then(Deadline::from_record), Some(deadline));
        }
        for text in ["", "0s", "30", "2 days", "never", "-1s"] {
            assert!(text.parse::<Deadline>().is_err(), "{text}");
        }
    }
}
