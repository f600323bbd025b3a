//! The option that decides which checkpoints are followed by the rehearsal of a restart.

use super::option_kinds::{Kept, OptionError};
use serde::{Serialize, Serializer};
use standfast_format::manifest;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

const EVERY: &str = "every:";

/// Which checkpoints are followed by the rehearsal of a restart, in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rehearse {
    /// None.
    Off,
    /// The first of each life, and later ones until one could be restarted.
    #[default]
    First,
    /// Every Nth.
    Every(NonZeroU32),
}

impl Kept for Rehearse {
    type Record = manifest::RehearsedCheckpoints;

    fn to_record(self) -> Option<Self::Record> {
        Some(match self {
            Self::Off => Self::Record::Off,
            Self::First => Self::Record::First,
            Self::Every(number) => Self::Record::Every { checkpoints: number.get() },
        })
    }

    fn from_record(record: Self::Record) -> Option<Self> {
        match record {
            Self::Record::Off => Some(Self::Off),
            Self::Record::First => Some(Self::First),
            Self::Record::Every { checkpoints } => NonZeroU32::new(checkpoints).map(Self::Every),
        }
    }
}

impl FromStr for Rehearse {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "off" => Ok(Self::Off),
            "first" => Ok(Self::First),
            _ => {
                let number = text.strip_prefix(EVERY).and_then(|number| number.parse().ok());
                let remedy = "write 'first', 'every:N' or 'off'";
                number.map(Self::Every).ok_or_else(|| OptionError::new(text, "does not say when to rehearse", remedy))
            }
        }
    }
}

impl fmt::Display for Rehearse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::First => f.write_str("first"),
            Self::Every(number) => write!(f, "{EVERY}{number}"),
        }
    }
}

impl Serialize for Rehearse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_shown() {
        for text in ["off", "first", "every:1", "every:20"] {
            assert_eq!(text.parse::<Rehearse>().unwrap().to_string(), text);
        }
        for text in ["", "every", "every:", "every:0", "every:-1", "always"] {
            assert!(text.parse::<Rehearse>().is_err(), "{text}");
        }
    }
}
