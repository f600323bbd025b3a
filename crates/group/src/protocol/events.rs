//! What the protocol is told and what it tells: messages, events, actions. Values alone.

use super::Work;
use crate::costs::Costs;
use crate::decide::{Holding, Refusal, Report, Restore};
use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Membership, Rank, Term};
use crate::shard::{Damaged, ShardId};
use minicbor::{Decode, Encode};

/// What the logical ranks tell each other about an epoch.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// To the coordinator: the application stands at a checkpoint.
    #[n(0)]
    Arrived(#[n(0)] Arrival),
    /// From the coordinator: encode and seal this epoch, as differences to the other, by ways chosen by these costs; with
    /// `true` checks of what has changed are made in full.
    #[n(1)]
    Prepare(#[n(0)] EpochId, #[n(1)] Option<EpochId>, #[n(2)] Costs, #[n(3)] bool),
    /// From the coordinator: seal this epoch, each by itself, as differences to the other, which is encoded.
    #[n(8)]
    PrepareLocal(#[n(0)] EpochId, #[n(1)] EpochId),
    /// To the coordinator: the shard is sealed.
    #[n(2)]
    Sealed(#[n(0)] EpochId),
    /// From the coordinator: everybody has sealed it.
    #[n(3)]
    Commit(#[n(0)] EpochId),
    /// To the coordinator: it is acknowledged.
    #[n(4)]
    Acknowledged(#[n(0)] EpochId),
    /// From the coordinator: everybody has acknowledged it.
    #[n(5)]
    Stable(#[n(0)] EpochId),
    /// To the coordinator: it cannot be done here.
    #[n(6)]
    Failed(#[n(0)] EpochId, #[n(1)] String),
    /// From the coordinator: the epoch is given up, the other stays.
    #[n(7)]
    Abandon(#[n(0)] EpochId, #[n(1)] String),
    /// To the coordinator, in the recovery of this epoch: a shard that was reported is damaged, and counts as lost.
    #[n(9)]
    Damaged(#[n(0)] EpochId, #[n(1)] ShardId),
}

/// An application stands at a checkpoint.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Arrival {
    /// To draw the epoch's id from.
    #[n(0)]
    pub random: u64,
    /// So much has changed here that checks are made with less work in full, from what the pages are, than from what they
    /// differ in. That is done where all say so.
    #[n(1)]
    pub full: bool,
}

/// What the processes tell each other.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// To the coordinator, before a recovery.
    #[n(0)]
    Report(#[n(0)] Report),
    /// From the coordinator: do this, by ways chosen by these costs.
    #[n(1)]
    Restore(#[n(0)] Restore, #[n(1)] Costs),
    /// From the coordinator: nothing can be done.
    #[n(2)]
    Refuse(#[n(0)] Refusal),
    /// About an epoch.
    #[n(3)]
    Phase(#[n(0)] Phase),
}

/// What happens to a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Who is there has changed.
    Membership(Membership),
    /// The application stands at a checkpoint and its memory holds still.
    Arrived(Arrival),
    /// A message came.
    Message {
        /// From whom.
        from: Rank,
        /// Of which term.
        term: Term,
        /// What it says.
        control: Control,
    },
    /// Answer to [`Action::Survey`], with its membership.
    Surveyed(u64, Survey),
    /// Answer to [`Action::Encode`], [`Action::Stage`] and [`Action::Rebuild`]: this process's part in it is done.
    Done(EpochId),
    /// Answer to [`Action::Seal`].
    Sealed(EpochId),
    /// Answer to [`Action::Acknowledge`].
    Acknowledged(EpochId),
    /// Answer to [`Action::Keep`].
    Kept,
    /// Answer to [`Action::Encode`], [`Action::Stage`] and [`Action::Rebuild`]: it could not be done.
    Failed(EpochId, String),
    /// Answer to [`Action::Seal`], [`Action::Acknowledge`] and [`Action::Keep`]: storage could not do it.
    Unstored(EpochId, String),
    /// Answer to [`Action::Encode`], [`Action::Stage`] and [`Action::Rebuild`]: a page of a shard here is not what was written.
    Damaged(EpochId, Damaged),
}

/// What the storage of a process shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// The latest life that it knows of.
    pub life: Life,
    /// Every sealed shard that is there as a whole. Its pages are looked at when it is recovered.
    pub holdings: Vec<Holding>,
    /// Whether it shows that no epoch has been promised since the job began: it was told to keep nothing and has sealed
    /// nothing since, except in a recovery that it has not acknowledged. No shard was deleted, damaged or left out above.
    pub unpromised: bool,
}

/// What a process has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// To whom; never to itself.
        to: Rank,
        /// Of which term.
        term: Term,
        /// What it says.
        control: Control,
    },
    /// Give up whatever is being encoded or rebuilt: throw away what is open, and look what sealed shards there are. For
    /// the membership with this number.
    Survey(u64),
    /// Make this logical rank's shard of an epoch out of the live memory, together with the group.
    Encode {
        /// The epoch.
        epoch: EpochId,
        /// What the differences refer to; `None` for zeros.
        base: Option<EpochId>,
        /// The logical rank of this process; a spare has nothing to do but to say that it is done.
        logical_rank: Option<LogicalRank>,
        /// All logical ranks that are taken.
        logical_ranks: Vec<(LogicalRank, Rank)>,
        /// By which the way is chosen.
        costs: Costs,
        /// Whether checks of what has changed are made in full.
        full: bool,
    },
    /// Make this logical rank's shard of a local epoch out of the live memory, by itself.
    Stage {
        /// The epoch.
        epoch: EpochId,
        /// What the differences refer to.
        base: EpochId,
        /// The logical rank of this process; a spare has nothing to do but to say that it is done.
        logical_rank: Option<LogicalRank>,
    },
    /// Rebuild what was lost, together with the group, and look at every page of what was not.
    Rebuild {
        /// From and to what.
        restore: Restore,
        /// The epoch: that of `restore`.
        epoch: EpochId,
        /// By which the way is chosen.
        costs: Costs,
    },
    /// Make the shard of an epoch durable.
    Seal(Work),
    /// Note that everybody has sealed it.
    Acknowledge(EpochId),
    /// Delete every shard but this one of this logical rank, and what a local one stands upon, and note the life.
    Keep {
        /// What stays; `None` for nothing at all.
        epoch: Option<EpochId>,
        /// The logical rank; `None` for a spare, which keeps nothing.
        logical_rank: Option<LogicalRank>,
        /// The life.
        life: Life,
    },
    /// Let the application go on.
    Resume(Resumption),
    /// Nothing can be recovered. The driver tells, and ends the job or waits for another membership.
    Refuse(Refusal),
    /// This process cannot keep what it must keep. It counts as lost from now on.
    Leave(String),
}

/// How the application goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumption {
    /// From its beginning, on this logical rank.
    Start(LogicalRank),
    /// Behind its checkpoint, which counts. A local epoch leaves what has changed since the last encoded one changed.
    Committed(EpochId, EpochLevel),
    /// Behind its checkpoint, which does not count.
    Abandoned(String),
    /// From the epoch's content, on this logical rank.
    Rollback(EpochId, LogicalRank),
}
