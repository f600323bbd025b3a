//! The options about what a checkpoint saves and when it is written: incremental checkpoints, how changes are found, how
//! memory is taken, how many images build upon each other.

use crate::options::{Keep, OptionError};
use serde::Serialize;
use standfast_engine::Tracking;
use standfast_format::manifest;
use standfast_store::{CoalesceRule, Writing};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A process of which less than this is as it was is saved whole under [`Incremental::Auto`]: a third more is written,
/// and neither restart nor coalescing has a chain to read.
const UNCHANGED_PERCENT_MIN: u8 = 25;

/// Differences of less than this are coalesced for their number only.
const COALESCED_BYTES_MIN: u64 = 4 << 20;

/// [`Snapshot::Auto`] copies what fits this.
const COPY_BYTES_MAX: u64 = 512 << 20;
/// And this share of the memory that the system has to spare.
const COPY_SHARE: u64 = 8;
/// [`Snapshot::Copy`] goes so far.
const FORCED_SHARE: u64 = 2;

/// Whether a checkpoint saves only what has changed since the one before (L6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Incremental {
    /// Each one saves everything.
    Off,
    /// Each one that can.
    On,
    /// Each one, but for processes most of which has changed.
    #[default]
    Auto,
}

impl Incremental {
    /// The least share of a process that must be as it was, in percent.
    pub(crate) fn unchanged_percent_min(self) -> u8 {
        match self {
            Self::Off | Self::On => 0,
            Self::Auto => UNCHANGED_PERCENT_MIN,
        }
    }

    pub(crate) fn to_record(self) -> manifest::Incremental {
        match self {
            Self::Off => manifest::Incremental::Off,
            Self::On => manifest::Incremental::On,
            Self::Auto => manifest::Incremental::Auto,
        }
    }

    pub(crate) fn from_record(record: manifest::Incremental) -> Self {
        match record {
            manifest::Incremental::Off => Self::Off,
            manifest::Incremental::On => Self::On,
            manifest::Incremental::Auto => Self::Auto,
        }
    }
}

impl FromStr for Incremental {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            "auto" => Ok(Self::Auto),
            _ => Err(OptionError::Incremental { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Incremental {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
        })
    }
}

/// How memory is taken while the program stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Snapshot {
    /// It is written as it is read; the program goes on when all has been handed to the file system (L5).
    Sequential,
    /// It is copied and written when the program runs on, as far as half of the free memory goes.
    Copy,
    /// As [`Snapshot::Copy`] where little memory is needed for it, else sequential.
    #[default]
    Auto,
}

impl Snapshot {
    /// How a checkpoint is written that is expected to read so many bytes from the program, as far as that is known, while
    /// the system has `available_bytes` to spare.
    pub(crate) fn writing(self, expected_bytes: Option<u64>, available_bytes: u64) -> Writing {
        let room = COPY_BYTES_MAX.min(available_bytes / COPY_SHARE);
        let held = |bytes_max| Writing::Held { bytes_max, bytes_expected: expected_bytes.unwrap_or(0) };
        match self {
            Self::Copy => held(available_bytes / FORCED_SHARE),
            // There may be more than was expected: what has no room is written at once.
            Self::Auto if expected_bytes.is_some_and(|bytes| bytes <= room) => held(room),
            Self::Auto | Self::Sequential => Writing::AtOnce,
        }
    }

    pub(crate) fn to_record(self) -> manifest::Snapshot {
        match self {
            Self::Sequential => manifest::Snapshot::Sequential,
            Self::Copy => manifest::Snapshot::Copy,
            Self::Auto => manifest::Snapshot::Auto,
        }
    }

    pub(crate) fn from_record(record: manifest::Snapshot) -> Self {
        match record {
            manifest::Snapshot::Sequential => Self::Sequential,
            manifest::Snapshot::Copy => Self::Copy,
            manifest::Snapshot::Auto => Self::Auto,
        }
    }
}

impl FromStr for Snapshot {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "sequential" => Ok(Self::Sequential),
            "copy" => Ok(Self::Copy),
            "auto" => Ok(Self::Auto),
            _ => Err(OptionError::Snapshot { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Copy => "copy",
            Self::Auto => "auto",
        })
    }
}

/// How it is found out which pages have changed (M3, H10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// As the kernel allows: by its page tables, else by checksums.
    #[default]
    Auto,
    /// By the kernel's page tables; what it cannot note there counts as changed.
    Pagemap,
    /// By reading all memory and comparing checksums.
    Hash,
    /// Not at all: every checkpoint is full.
    Off,
}

impl Track {
    pub(crate) fn to_record(self) -> manifest::Track {
        match self {
            Self::Auto => manifest::Track::Auto,
            Self::Pagemap => manifest::Track::Pagemap,
            Self::Hash => manifest::Track::Hash,
            Self::Off => manifest::Track::Off,
        }
    }

    pub(crate) fn from_record(record: manifest::Track) -> Self {
        match record {
            manifest::Track::Auto => Self::Auto,
            manifest::Track::Pagemap => Self::Pagemap,
            manifest::Track::Hash => Self::Hash,
            manifest::Track::Off => Self::Off,
        }
    }
}

impl FromStr for Track {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => Ok(Self::Auto),
            "pagemap" => Ok(Self::Pagemap),
            "hash" => Ok(Self::Hash),
            "off" => Ok(Self::Off),
            _ => Err(OptionError::Track { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Pagemap => "pagemap",
            Self::Hash => "hash",
            Self::Off => "off",
        })
    }
}

/// As the engine says it: nothing needs to be tracked for checkpoints that save everything anyway.
pub(crate) fn tracking(incremental: Incremental, track: Track) -> Tracking {
    match (incremental, track) {
        (Incremental::Off, _) | (_, Track::Off) => Tracking::Off,
        (_, Track::Auto) => Tracking::Auto,
        (_, Track::Pagemap) => Tracking::Pagemap,
        (_, Track::Hash) => Tracking::Hash,
    }
}

/// How many images there may be that build upon each other before they are coalesced (L7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MaxFiles(NonZeroU32);

impl MaxFiles {
    /// `None` for zero.
    pub fn new(files: u32) -> Option<Self> {
        NonZeroU32::new(files).map(Self)
    }

    /// The number.
    pub fn get(self) -> NonZeroU32 {
        self.0
    }

    /// When the store is to coalesce.
    pub(crate) fn rule(self, keep: Keep) -> CoalesceRule {
        CoalesceRule { keep: keep.get(), links: self.0.get(), bytes_min: COALESCED_BYTES_MIN }
    }
}

impl Default for MaxFiles {
    /// Sixteen: a full image is rewritten once in so many checkpoints at most, and a restart reads few files.
    fn default() -> Self {
        Self(NonZeroU32::new(16).expect("sixteen is not zero"))
    }
}

impl FromStr for MaxFiles {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        text.parse().map(Self).map_err(|_| OptionError::MaxFiles { text: text.to_owned() })
    }
}

impl fmt::Display for MaxFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_and_nonsense_is_refused_with_what_to_write() {
        for it in [Incremental::Off, Incremental::On, Incremental::Auto] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Incremental::from_record(it.to_record()), it);
        }
        for it in [Snapshot::Sequential, Snapshot::Copy, Snapshot::Auto] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Snapshot::from_record(it.to_record()), it);
        }
        for it in [Track::Auto, Track::Pagemap, Track::Hash, Track::Off] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Track::from_record(it.to_record()), it);
        }
        assert_eq!("7".parse(), Ok(MaxFiles::new(7).unwrap()));
        assert!("0".parse::<MaxFiles>().unwrap_err().to_string().contains("1 or more"));
        assert!("yes".parse::<Incremental>().unwrap_err().to_string().contains("'auto'"));
        assert!("fork".parse::<Snapshot>().unwrap_err().to_string().contains("'copy'"));
        assert!("soft-dirty".parse::<Track>().unwrap_err().to_string().contains("'pagemap'"));
    }

    #[test]
    fn auto_copies_only_what_is_expected_to_be_little() {
        const GIB: u64 = 1 << 30;
        let auto = |expected, available| Snapshot::Auto.writing(expected, available);
        assert_eq!(auto(None, 8 * GIB), Writing::AtOnce, "nothing is known yet");
        assert_eq!(auto(Some(10 << 20), 8 * GIB), Writing::Held { bytes_max: 512 << 20, bytes_expected: 10 << 20 });
        assert_eq!(auto(Some(GIB), 64 * GIB), Writing::AtOnce);
        assert_eq!(auto(Some(10 << 20), 40 << 20), Writing::AtOnce, "a small machine");
        let copy = Writing::Held { bytes_max: 4 * GIB, bytes_expected: 0 };
        assert_eq!(Snapshot::Copy.writing(None, 8 * GIB), copy);
        assert_eq!(Snapshot::Sequential.writing(Some(0), 8 * GIB), Writing::AtOnce);
    }
}
