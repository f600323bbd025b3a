//! The names that the protocol lives on: processes, logical ranks, lives, epochs, terms. Plain values, nothing else.

use minicbor::{Decode, Encode};
use standfast_format::manifest::JobId;
use std::fmt;

/// A process, as the transport numbers it. Means nothing beyond the membership in which it was told.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cbor(transparent)]
pub struct Rank(#[n(0)] pub u32);

/// A place in the plan that a process takes: first the members in the application's order, then the parity nodes. Unlike a
/// rank it outlives processes.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cbor(transparent)]
pub struct LogicalRank(#[n(0)] pub u32);

/// A section of the job's history between two recoveries. Counted from 1; each recovery begins a higher one, so that an
/// epoch of a history that was given up is older than every epoch of the one that took its place.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[cbor(transparent)]
pub struct Life(#[n(0)] pub u64);

/// One checkpoint of the whole job. Two epochs are the same only if all of it is: a number that is used again after a
/// recovery comes with another life and another random id.
///
/// The order is that of age within a job; among equals in life and number it says nothing.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochId {
    /// Which job.
    #[n(0)]
    pub job: JobId,
    /// In which life.
    #[n(1)]
    pub life: Life,
    /// Counted from 1, on through all lives.
    #[n(2)]
    pub number: u64,
    /// Drawn by the coordinator in *prepare*.
    #[n(3)]
    pub random: u64,
}

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-{:04x}", self.number, self.life.0, self.random & 0xffff)
    }
}

impl fmt::Debug for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How an epoch is kept, and so what it bears.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum EpochLevel {
    /// With checks: as many pieces of each group may be lost as its code bears.
    #[n(0)]
    #[default]
    Encoded,
    /// Each piece by itself, as what differs from that of this encoded epoch, which stays beside it; `None` where it is
    /// whole in itself. The first piece that is lost is too many.
    #[n(1)]
    Local(#[n(0)] Option<EpochId>),
}

/// What a message belongs to: the membership, and within it the attempt to recover. Messages of an older term are dropped,
/// those of a newer one wait until it is told here, too.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Term {
    /// The membership's number.
    #[n(0)]
    pub membership: u64,
    /// The attempt, from 0.
    #[n(1)]
    pub round: u32,
}

/// Who is there. Whoever tells it, an agreement of the message-passing system or the launcher, tells all processes in it
/// the same list under the same number, and a higher number each time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// Its number, from 1.
    pub number: u64,
    /// The processes; the first is the coordinator.
    pub present: Vec<Rank>,
}

impl Membership {
    /// The process that counts and decides.
    pub fn coordinator(&self) -> Rank {
        *self.present.first().expect("whoever is told a membership is in it")
    }
}
