//! The options about what a checkpoint saves: incremental checkpoints, how changes are found, how many images build upon each
//! other.

use super::option_kinds::{number, words};
use standfast_engine::Tracking;
use standfast_store::CoalesceRule;

/// A process of which less than this is as it was is saved whole under [`Incremental::Auto`]: a third more is written,
/// and neither restart nor coalescing has a chain to read.
const UNCHANGED_PERCENT_MIN: u8 = 25;

/// Differences of less than this are coalesced for their number only.
const COALESCED_BYTES_MIN: u64 = 4 << 20;

number! {
    /// How many generations are kept.
    Keep, "is not a number of checkpoints to keep",
    /// Two, so that one that turns out damaged leaves another to fall back to.
    2
}

words! {
    /// Whether a checkpoint saves only what has changed since the one before (L6).
    kept Incremental, "is not a mode of incremental checkpoints",
    /// Each one saves everything.
    Off = "off",
    /// Each one that can.
    On = "on",
    /// Each one, but for processes most of which has changed.
    #[default]
    Auto = "auto",
}

impl Incremental {
    /// The least share of a process that must be as it was, in percent.
    pub(crate) fn unchanged_percent_min(self) -> u8 {
        match self {
            Self::Off | Self::On => 0,
            Self::Auto => UNCHANGED_PERCENT_MIN,
        }
    }
}

words! {
    /// Dirty-page detection (M3, H10).
    kept Track, "is not a way to detect dirty pages",
    /// As the kernel allows: by its page tables, else by checksums.
    #[default]
    Auto = "auto",
    /// By the kernel's page tables; what it cannot note there counts as changed.
    Pagemap = "pagemap",
    /// By reading all memory and comparing checksums.
    Hash = "hash",
    /// Not at all: every checkpoint is full.
    Off = "off",
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

number! {
    /// How many images there may be that build upon each other before they are coalesced (L7).
    MaxFiles, "is not a number of images in a chain",
    /// Sixteen: a full image is rewritten once in so many checkpoints at most, and a restart reads few files.
    16
}

impl MaxFiles {
    /// When the store is to coalesce.
    pub(crate) fn rule(self, keep: Keep) -> CoalesceRule {
        CoalesceRule { keep: keep.get(), links: self.get().get(), bytes_min: COALESCED_BYTES_MIN }
    }
}
