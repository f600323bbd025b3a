//! Names of shards and of places in them.

use crate::identity::{EpochId, LogicalRank};
use minicbor::{Decode, Encode};
use std::fmt;

/// How many pages ahead a page is announced ([`crate::ShardStore::expect`], [`Payload::expect`](crate::Payload::expect)):
/// it comes from memory while those pages are processed.
pub const AHEAD: usize = 2;

/// The name of a shard.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId {
    /// The epoch.
    #[n(0)]
    pub epoch: EpochId,
    /// The logical rank.
    #[n(1)]
    pub logical_rank: LogicalRank,
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logical rank {} in epoch {}", self.logical_rank.0, self.epoch)
    }
}

/// The place of a page in a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// A member's own page.
    Slot(u32),
    /// A page of a check that the logical rank holds.
    Check {
        /// Check of the code.
        check: u32,
        /// Stripe within its stripe group.
        stripe: u32,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot {slot}"),
            Self::Check { check, stripe } => write!(f, "stripe {stripe} of check {check}"),
        }
    }
}

/// A page that is not what was written. Its process counts as having lost the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard of {shard} is damaged at {place}")]
pub struct Damaged {
    /// The shard.
    pub shard: ShardId,
    /// The place of the page.
    pub place: Place,
}
