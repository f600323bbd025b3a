//! The options about levels: whether checkpoints go to memory first, which of them go on to the disk, and by when.

use crate::options::OptionError;
use serde::{Serialize, Serializer};
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where memory is a file system on every Linux.
const USUAL_PLACE: &str = "/dev/shm";

/// Longest time that an option about levels may name: a day. A disk that is to be left alone for longer is no level.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Whether checkpoints go to memory first (H3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Memory {
    /// Straight to the job's directory.
    #[default]
    Off,
    /// To `/dev/shm`, where two generations fit; else nothing is said.
    Auto,
    /// To a directory of a memory file system, where two generations fit; else that is told.
    At(PathBuf),
}

impl Memory {
    /// The directory.
    pub(crate) fn place(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::Auto => Some(Path::new(USUAL_PLACE)),
            Self::At(place) => Some(place),
        }
    }
}

impl FromStr for Memory {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "off" => Self::Off,
            "auto" => Self::Auto,
            place => Self::At(PathBuf::from(place)),
        })
    }
}

/// One in so many checkpoints that went to memory goes on to the disk (H1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlushEvery(NonZeroU32);

impl FlushEvery {
    /// `None` for zero.
    pub fn new(checkpoints: u32) -> Option<Self> {
        NonZeroU32::new(checkpoints).map(Self)
    }

    /// The number.
    pub fn get(self) -> NonZeroU32 {
        self.0
    }
}

impl Default for FlushEvery {
    /// Sixteen: with a disk 50 times as dear as memory and 83 % of failures that memory survives, the model of H2 says 15.6.
    fn default() -> Self {
        Self(NonZeroU32::new(16).expect("sixteen is not zero"))
    }
}

impl FromStr for FlushEvery {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        text.parse().map(Self).map_err(|_| OptionError::FlushEvery { text: text.to_owned() })
    }
}

/// A time that an option about levels names.
fn time(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().filter(|time| *time <= TIME_MAX)
}

fn as_seconds<S: Serializer>(time: Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a day has few milliseconds")
}

fn of_milliseconds(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds)).filter(|time| *time <= TIME_MAX)
}

/// An option that is a time.
macro_rules! time_option {
    ($(#[$meaning:meta])* $name:ident, $(#[$why:meta])* $seconds:literal) => {
        $(#[$meaning])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(Duration);

        impl $name {
            /// The time.
            pub fn get(self) -> Duration {
                self.0
            }

            pub(crate) fn to_record(self) -> u64 {
                milliseconds(self.0)
            }

            pub(crate) fn from_record(record: u64) -> Option<Self> {
                of_milliseconds(record).map(Self)
            }
        }

        impl Default for $name {
            $(#[$why])*
            fn default() -> Self {
                Self(Duration::from_secs($seconds))
            }
        }

        impl FromStr for $name {
            type Err = OptionError;

            fn from_str(text: &str) -> Result<Self, OptionError> {
                time(text).map(Self).ok_or_else(|| OptionError::$name { text: text.to_owned() })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                humantime::format_duration(self.0).fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                as_seconds(self.0, serializer)
            }
        }
    };
}

time_option! {
    /// How long the newest checkpoint on the disk may be behind at most, while there are newer ones in memory.
    DurableEvery,
    /// Ten minutes, as long as checkpoints are apart where nobody says otherwise.
    600
}

time_option! {
    /// How long the newest checkpoint may take to get to the disk when the job has been stopped or has failed.
    Grace,
    /// Thirty seconds: what batch systems leave between SIGTERM and SIGKILL.
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_about_levels_is_read_and_nonsense_is_refused_with_what_to_write() {
        let read = |text: &str| text.parse::<Memory>().expect("every word is a place");
        assert_eq!((read("off"), read("auto")), (Memory::Off, Memory::Auto));
        assert_eq!(read("/dev/shm").place(), Some(Path::new("/dev/shm")));
        assert_eq!(Memory::Auto.place(), Some(Path::new("/dev/shm")));
        assert_eq!("4".parse(), Ok(FlushEvery::new(4).expect("four is not zero")));
        assert!("0".parse::<FlushEvery>().expect_err("none").to_string().contains("1 or more"));
        assert_eq!("90s".parse::<DurableEvery>().expect("a time").get(), Duration::from_secs(90));
        assert_eq!("0s".parse::<Grace>().expect("a time").get(), Duration::ZERO);
        assert!("2 days".parse::<DurableEvery>().expect_err("too long").to_string().contains("with its unit"));
        assert!("30".parse::<Grace>().expect_err("no unit").to_string().contains("with its unit"));
        let (durable, grace) = (DurableEvery::default(), Grace::default());
        assert_eq!(DurableEvery::from_record(durable.to_record()), Some(durable));
        assert_eq!(Grace::from_record(grace.to_record()), Some(grace));
        assert_eq!(Grace::from_record(u64::MAX), None);
    }
}
