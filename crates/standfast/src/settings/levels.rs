//! Options about levels: whether checkpoints go to memory first, which of them are flushed to the disk, and by when.

use super::option_kinds::{Kept, OptionError, time};
use serde::{Serialize, Serializer};
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A memory file system on every Linux.
const USUAL_PLACE: &str = "/dev/shm";

/// Whether checkpoints go to memory first (H3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Memory {
    /// No: they go straight to the job's directory.
    #[default]
    Off,
    /// Yes, in `/dev/shm`, if two generations fit. If not, nothing is reported.
    Auto,
    /// Yes, in this directory of a memory file system, if two generations fit. If not, that is reported.
    At(PathBuf),
}

impl Memory {
    /// Returns the directory of the level in memory.
    pub(crate) fn place(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::Auto => Some(Path::new(USUAL_PLACE)),
            Self::At(place) => Some(place),
        }
    }

    /// Returns that directory if it was named.
    pub(crate) fn named(&self) -> Option<&Path> {
        if let Self::At(place) = self { Some(place) } else { None }
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

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::At(place) => place.display().fmt(f),
        }
    }
}

/// Which in-memory checkpoints are flushed to disk (H1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushEvery {
    /// Every Nth.
    Nth(NonZeroU32),
    /// As many as is best for what checkpoints and flushes cost.
    Auto,
}

impl FlushEvery {
    /// Sixteen: if the disk costs 50 times as much as memory, and memory survives 83 % of the failures, the model of H2
    /// says 15.6.
    const USUAL: NonZeroU32 = NonZeroU32::new(16).expect("it is not zero");

    /// Returns the number with which a life begins.
    pub(crate) fn at_first(self) -> NonZeroU32 {
        match self {
            Self::Nth(number) => number,
            Self::Auto => Self::USUAL,
        }
    }
}

impl Default for FlushEvery {
    fn default() -> Self {
        Self::Nth(Self::USUAL)
    }
}

impl Kept for FlushEvery {
    /// 0 for `auto`.
    type Record = u32;

    fn to_record(self) -> Option<u32> {
        Some(match self {
            Self::Nth(number) => number.get(),
            Self::Auto => 0,
        })
    }

    fn from_record(record: u32) -> Option<Self> {
        Some(NonZeroU32::new(record).map_or(Self::Auto, Self::Nth))
    }
}

impl FromStr for FlushEvery {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Nth).map_err(|_| {
                OptionError::new(text, "is not a number of in-memory checkpoints", "write 1 or more, or 'auto'")
            }),
        }
    }
}

impl fmt::Display for FlushEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nth(number) => number.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl Serialize for FlushEvery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nth(number) => number.serialize(serializer),
            Self::Auto => serializer.collect_str(self),
        }
    }
}

time! {
    /// Longest time that the newest checkpoint on the disk may lag behind newer ones in memory.
    DurableEvery, "is not an interval between checkpoints on disk",
    /// Ten minutes, which is also the default interval between checkpoints.
    600
}

time! {
    /// Time for flushing the newest checkpoint to the disk when the job has been stopped or has failed.
    Grace, "is not a time for flushing the newest checkpoint to disk",
    /// Thirty seconds, the usual time of batch systems between SIGTERM and SIGKILL.
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flush_option_is_a_number_or_auto() {
        for text in ["1", "16", "auto"] {
            let read: FlushEvery = text.parse().expect("an option");
            assert_eq!(read.to_string(), text);
            assert_eq!(read.to_record().and_then(FlushEvery::from_record), Some(read));
        }
        assert!(["0", "-1", "often"].iter().all(|text| text.parse::<FlushEvery>().is_err()));
        assert_eq!(
            (FlushEvery::default().at_first(), FlushEvery::Auto.at_first()),
            (FlushEvery::USUAL, FlushEvery::USUAL)
        );
    }

    #[test]
    fn the_memory_option_is_a_path_or_a_keyword() {
        let read = |text: &str| text.parse::<Memory>().expect("every word is a place");
        assert_eq!((read("off"), read("auto")), (Memory::Off, Memory::Auto));
        assert_eq!(read("/dev/shm").place(), Some(Path::new("/dev/shm")));
        assert_eq!(Memory::Auto.place(), Some(Path::new("/dev/shm")));
        for text in ["off", "auto", "/mnt/memory"] {
            assert_eq!(read(text).to_string(), text);
        }
    }
}
