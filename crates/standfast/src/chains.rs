//! The options about what a checkpoint saves: incremental checkpoints, how changes are found, how many images build upon each
//! other.

use crate::options::{Keep, OptionError};
use serde::Serialize;
use standfast_engine::Tracking;
use standfast_format::manifest;
use standfast_store::CoalesceRule;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A process of which less than this is as it was is saved whole under [`Incremental::Auto`]: a third more is written,
/// and neither restart nor coalescing has a chain to read.
const UNCHANGED_PERCENT_MIN: u8 = 25;

/// Differences of less than this are coalesced for their number only.
const COALESCED_BYTES_MIN: u64 = 4 << 20;

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
        for it in [Track::Auto, Track::Pagemap, Track::Hash, Track::Off] {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(Track::from_record(it.to_record()), it);
        }
        assert_eq!("7".parse(), Ok(MaxFiles::new(7).unwrap()));
        assert!("0".parse::<MaxFiles>().unwrap_err().to_string().contains("1 or more"));
        assert!("yes".parse::<Incremental>().unwrap_err().to_string().contains("'auto'"));
        assert!("soft-dirty".parse::<Track>().unwrap_err().to_string().contains("'pagemap'"));
    }
}
