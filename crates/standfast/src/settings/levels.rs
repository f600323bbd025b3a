//! The options about levels: whether checkpoints go to memory first, which of them go on to the disk, and by when.

use super::option_kinds::{number, time};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where memory is a file system on every Linux.
const USUAL_PLACE: &str = "/dev/shm";

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

number! {
    /// Every Nth in-memory checkpoint is flushed to disk (H1).
    FlushEvery, "is not a number: write N to flush every Nth in-memory checkpoint to disk",
    /// Sixteen: with a disk 50 times as dear as memory and 83 % of failures that memory survives, the model of H2 says 15.6.
    16
}

time! {
    /// How long the newest checkpoint on the disk may be behind at most, while there are newer ones in memory.
    DurableEvery, "is not an interval between checkpoints on disk",
    /// Ten minutes, as long as checkpoints are apart where nobody says otherwise.
    600
}

time! {
    /// How long the newest checkpoint may take to get to the disk when the job has been stopped or has failed.
    Grace, "is not a time for flushing the newest checkpoint to disk",
    /// Thirty seconds: what batch systems leave between SIGTERM and SIGKILL.
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_place_or_a_word() {
        let read = |text: &str| text.parse::<Memory>().expect("every word is a place");
        assert_eq!((read("off"), read("auto")), (Memory::Off, Memory::Auto));
        assert_eq!(read("/dev/shm").place(), Some(Path::new("/dev/shm")));
        assert_eq!(Memory::Auto.place(), Some(Path::new("/dev/shm")));
    }
}
