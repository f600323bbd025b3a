//! Options about what a checkpoint saves: incremental checkpoints, how changes are found, and how many images build
//! upon each other.

use super::option_kinds::number;
use standfast_engine::Tracking;
use standfast_format::manifest::{Incremental, Track};
use standfast_store::CoalesceRule;

/// Under [`Incremental::Auto`], a process is saved whole if less than this percentage of it is unchanged. That writes a
/// third more, but neither restart nor coalescing has a chain to read.
const UNCHANGED_PERCENT_MIN: u8 = 25;

/// Chains of smaller differences are coalesced only when they have too many links.
const COALESCED_BYTES_MIN: u64 = 4 << 20;

number! {
    /// Number of generations to keep.
    Keep, "is not a number of checkpoints to keep",
    /// Two, so that a job can fall back to the other generation if one is damaged.
    2
}

/// Returns the least percentage of a process that must be unchanged for an incremental checkpoint.
pub(crate) fn unchanged_percent_min(incremental: Incremental) -> u8 {
    match incremental {
        Incremental::Off | Incremental::On => 0,
        Incremental::Auto => UNCHANGED_PERCENT_MIN,
    }
}

/// Converts the options for the engine. Checkpoints that save everything need no tracking.
pub(crate) fn tracking(incremental: Incremental, track: Track) -> Tracking {
    match (incremental, track) {
        (Incremental::Off, _) | (_, Track::Off) => Tracking::Off,
        (_, Track::Auto) => Tracking::Auto,
        (_, Track::Pagemap) => Tracking::Pagemap,
        (_, Track::Hash) => Tracking::Hash,
    }
}

number! {
    /// Number of images that may build upon each other before they are coalesced (L7).
    MaxFiles, "is not a number of images in a chain",
    /// Sixteen: a full image is rewritten at most once in sixteen checkpoints, and a restart reads few files.
    16
}

impl MaxFiles {
    /// Returns the rule by which the store coalesces.
    pub(crate) fn rule(self, keep: Keep) -> CoalesceRule {
        CoalesceRule { keep: keep.get(), links: self.get().get(), bytes_min: COALESCED_BYTES_MIN }
    }
}
