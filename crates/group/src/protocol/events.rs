//! Events and effects of the protocol, and the messages in them. Values only.

use super::Work;
use crate::costs::Costs;
use crate::decide::{Holding, Refusal, Report, Restore};
use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Membership, Rank, Term};
use crate::shard::{Damaged, ShardId};
use minicbor::{Decode, Encode};

/// Messages between the logical ranks about an epoch.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// To the coordinator: the application is at a checkpoint.
    #[n(0)]
    Arrived(#[n(0)] Arrival),
    /// From the coordinator: encode and seal this epoch, as differences to the other, by routes chosen by these costs.
    /// With `true`, make the checks of changed pages in full.
    #[n(1)]
    Prepare(#[n(0)] EpochId, #[n(1)] Option<EpochId>, #[n(2)] Costs, #[n(3)] bool),
    /// From the coordinator: seal this epoch, each process by itself, as differences to the other, which is encoded.
    #[n(8)]
    PrepareLocal(#[n(0)] EpochId, #[n(1)] EpochId),
    /// To the coordinator: the shard is sealed.
    #[n(2)]
    Sealed(#[n(0)] EpochId),
    /// From the coordinator: all processes have sealed it.
    #[n(3)]
    Commit(#[n(0)] EpochId),
    /// To the coordinator: this process has acknowledged it.
    #[n(4)]
    Acknowledged(#[n(0)] EpochId),
    /// From the coordinator: all processes have acknowledged it.
    #[n(5)]
    Stable(#[n(0)] EpochId),
    /// To the coordinator: this process cannot do its part.
    #[n(6)]
    Failed(#[n(0)] EpochId, #[n(1)] String),
    /// From the coordinator: the epoch is abandoned, the previous one stays.
    #[n(7)]
    Abandon(#[n(0)] EpochId, #[n(1)] String),
    /// To the coordinator, in the recovery of this epoch: a reported shard is damaged, and counts as lost.
    #[n(9)]
    Damaged(#[n(0)] EpochId, #[n(1)] ShardId),
}

/// The arrival of an application at a checkpoint.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Arrival {
    /// Random number for the epoch's id.
    #[n(0)]
    pub random: u64,
    /// Whether so much has changed here that checks made in full, from page contents, take less work than checks made
    /// from differences. They are made in full if all processes say so.
    #[n(1)]
    pub full: bool,
}

/// Messages between the processes.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// To the coordinator, before a recovery: this process's report.
    #[n(0)]
    Report(#[n(0)] Report),
    /// From the coordinator: recover this, by routes chosen by these costs.
    #[n(1)]
    Restore(#[n(0)] Restore, #[n(1)] Costs),
    /// From the coordinator: recovery is refused.
    #[n(2)]
    Refuse(#[n(0)] Refusal),
    /// A message about an epoch.
    #[n(3)]
    Phase(#[n(0)] Phase),
}

/// An event at a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProtocolEvent {
    /// The membership has changed.
    Membership(Membership),
    /// The application is at a checkpoint and its memory does not change.
    Arrived(Arrival),
    /// A message has arrived.
    Message {
        /// The sender.
        from: Rank,
        /// The term of the message.
        term: Term,
        /// The content.
        control: Control,
    },
    /// Answer to [`ProtocolEffect::Survey`], with its membership.
    Surveyed(u64, Survey),
    /// Answer to [`ProtocolEffect::Encode`], [`ProtocolEffect::Stage`] and [`ProtocolEffect::Rebuild`]: this process's part is done.
    Done(EpochId),
    /// Answer to [`ProtocolEffect::Seal`].
    Sealed(EpochId),
    /// Answer to [`ProtocolEffect::Acknowledge`].
    Acknowledged(EpochId),
    /// Answer to [`ProtocolEffect::Keep`].
    Kept,
    /// Answer to [`ProtocolEffect::Encode`], [`ProtocolEffect::Stage`] and [`ProtocolEffect::Rebuild`]: this process could not do its part.
    Failed(EpochId, String),
    /// Answer to [`ProtocolEffect::Seal`], [`ProtocolEffect::Acknowledge`] and [`ProtocolEffect::Keep`]: storage failed.
    Unstored(EpochId, String),
    /// Answer to [`ProtocolEffect::Encode`], [`ProtocolEffect::Stage`] and [`ProtocolEffect::Rebuild`]: a page of a local shard is not what was
    /// written.
    Damaged(EpochId, Damaged),
}

/// The content of a process's storage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// The latest life that it knows.
    pub life: Life,
    /// Every complete sealed shard. Its pages are verified only when it is recovered.
    pub holdings: Vec<Holding>,
    /// Whether it shows that no epoch has been promised since the job began: the last order was to keep nothing, and it
    /// has sealed nothing since, except in a recovery that it has not acknowledged. No shard was deleted, damaged or
    /// omitted from `holdings`.
    pub unpromised: bool,
}

/// What a process has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProtocolEffect {
    /// Send a message.
    Send {
        /// The receiver; never this process.
        to: Rank,
        /// The term of the message.
        term: Term,
        /// The content.
        control: Control,
    },
    /// Abandon all encoding and rebuilding, delete open shards, and list the sealed ones, for the membership with this
    /// number.
    Survey(u64),
    /// Make this logical rank's shard of an epoch from the live memory, together with the group.
    Encode {
        /// The epoch.
        epoch: EpochId,
        /// The epoch to which the differences refer; `None` for zeros.
        base: Option<EpochId>,
        /// The logical rank of this process. A spare has none, and only reports that it is done.
        logical_rank: Option<LogicalRank>,
        /// All logical ranks that are taken, and their processes.
        logical_ranks: Vec<(LogicalRank, Rank)>,
        /// Costs by which the route is chosen.
        costs: Costs,
        /// Whether the checks of changed pages are made in full.
        full: bool,
    },
    /// Make this logical rank's shard of a local epoch from the live memory, without the other processes.
    Stage {
        /// The epoch.
        epoch: EpochId,
        /// The epoch to which the differences refer.
        base: EpochId,
        /// The logical rank of this process. A spare has none, and only reports that it is done.
        logical_rank: Option<LogicalRank>,
    },
    /// Rebuild what was lost, together with the group, and verify every page of what was not.
    Rebuild {
        /// The decision.
        restore: Restore,
        /// The epoch of `restore`.
        epoch: EpochId,
        /// Costs by which the route is chosen.
        costs: Costs,
    },
    /// Make the shard of an epoch durable.
    Seal(Work),
    /// Record that all processes have sealed it.
    Acknowledge(EpochId),
    /// Delete every shard except this logical rank's shard of this epoch and the base of a local one, and record the
    /// life.
    Keep {
        /// The epoch that stays; `None` for nothing at all.
        epoch: Option<EpochId>,
        /// The logical rank; `None` for a spare, which keeps nothing.
        logical_rank: Option<LogicalRank>,
        /// The life to record.
        life: Life,
    },
    /// Let the application continue.
    Resume(Resumption),
    /// Nothing can be recovered. The driver reports it, and ends the job or waits for another membership.
    Refuse(Refusal),
    /// This process cannot store what it must keep. It counts as lost from now on.
    Leave(String),
}

/// How the application continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumption {
    /// From its beginning, on this logical rank.
    Start(LogicalRank),
    /// After its checkpoint, which counts. After a local epoch, all changes since the last encoded one still count as
    /// changed.
    Committed(EpochId, EpochLevel),
    /// After its checkpoint, which does not count.
    Abandoned(String),
    /// From the epoch's content, on this logical rank.
    Rollback(EpochId, LogicalRank),
}
