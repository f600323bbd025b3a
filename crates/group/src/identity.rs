//! The names in the protocol: processes, logical ranks, lives, epochs, terms. Plain values, nothing else.

use minicbor::{Decode, Encode};
use standfast_format::manifest::JobId;
use std::fmt;

/// A process, as the transport numbers it. The number has a meaning only within its membership.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cbor(transparent)]
pub struct Rank(#[n(0)] pub u32);

/// A place in the plan that a process takes: first the members in the application's order, then the parity nodes. Unlike
/// a rank it outlives processes.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cbor(transparent)]
pub struct LogicalRank(#[n(0)] pub u32);

/// A section of the job's history between two recoveries, counted from 1. Each recovery begins a higher life, so every
/// epoch of an abandoned history is older than every epoch of the history that replaced it.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[cbor(transparent)]
pub struct Life(#[n(0)] pub u64);

/// One checkpoint of the whole job. Two epochs are the same only if all fields are: a number that is used again after a
/// recovery comes with another life and another random id.
///
/// Epochs are ordered by age within a job. Among epochs with the same life and number the order has no meaning.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochId {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The life.
    #[n(1)]
    pub life: Life,
    /// The number, counted from 1 through all lives.
    #[n(2)]
    pub number: u64,
    /// The random id, drawn by the coordinator in *prepare*.
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

/// How an epoch is stored, and so which losses it survives.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum EpochLevel {
    /// With checks: each group may lose as many shards as its code tolerates.
    #[n(0)]
    #[default]
    Encoded,
    /// Each shard by itself, as differences from this encoded epoch, which stays; `None` if the shard is complete in
    /// itself. It does not survive the loss of any shard.
    #[n(1)]
    Local(#[n(0)] Option<EpochId>),
}

/// The membership of a message, and the recovery attempt within it. Messages of an older term are dropped, those of a
/// newer one wait until this process reaches it, too.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Term {
    /// The number of the membership.
    #[n(0)]
    pub membership: u64,
    /// The number of the attempt, from 0.
    #[n(1)]
    pub round: u32,
}

/// The processes that are present. Its source, an agreement protocol of the message-passing system or the launcher, gives
/// all processes in it the same list under the same number, and a higher number each time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// The number, from 1.
    pub number: u64,
    /// The processes; the first is the coordinator.
    pub present: Vec<Rank>,
}

impl Membership {
    /// Returns the coordinator, the process that counts and decides.
    pub fn coordinator(&self) -> Rank {
        *self.present.first().expect("whoever is told a membership is in it")
    }
}
