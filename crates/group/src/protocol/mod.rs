//! Commit and recovery without any of the processes' memory: events in, effects out (D4).
//!
//! ```text
//!                  coordinator                         all present processes, the coordinator as well
//! arrived          <--------------------------------   members, when the application is at a checkpoint
//! prepare(i)       -------------------------------->   encode, then seal the shard of i           i-1 |
//! sealed(i)        <--------------------------------   (phase 1: i is recoverable from here on)       |  both
//! commit(i)        -------------------------------->   acknowledge i                                  |  kept
//! acknowledged(i)  <--------------------------------   (phase 2)                                      |
//! stable(i)        -------------------------------->   all know: keep i alone                       i |
//! ```
//!
//! With `encode_every`, the epochs between two encoded ones are *local*. Each process seals its differences from the
//! encoded epoch for itself; the encoded epoch stays until the next one is stable. The order of steps is the same.
//!
//! i-1 is deleted only when all processes are known to have acknowledged i, and the coordinator does not begin the next
//! epoch before. A recovery ends with the same second half: what was rebuilt is sealed, committed and stable like a new
//! epoch. A change of the membership at any moment ends all work in progress and begins a recovery. A failure during a
//! recovery is a change of the membership.
//!
//! The recovery decision is based on what storage lists. Each process reads the pages once, while the rest is rebuilt. If
//! a shard proves damaged, it counts as lost, and the coordinator decides again without it. So no application continues
//! before every page that it rolls back to has been verified.
//!
//! The driver owns transport, storage and clock. It promises:
//!
//! - messages arrive complete and once, and in the order in which one process sent them to another; otherwise their
//!   receiver is given a new membership;
//! - storage effects are executed in order, and each is answered when its result would survive what it must survive;
//! - [`ProtocolEffect::Survey`] is answered when no earlier effect can change the answer any more; earlier effects are answered
//!   before it or never;
//! - a membership is the same for all processes in it, and its number grows.

mod coordinator;
mod events;
mod logical_rank;

pub use events::{Arrival, Control, Phase, ProtocolEffect, ProtocolEvent, Resumption, Survey};

use crate::costs::Costs;
use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Membership, Rank, Term};
use crate::plan::{Plan, RecoveryMode};
use coordinator::Coordinator;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most messages of a future term kept for one sender. It sends no more before it must hear from this process.
const EARLY_PER_SENDER_MAX: usize = 4;

/// The stage of a process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// No membership yet.
    Alone,
    /// Waits for the survey of the storage.
    Surveying,
    /// Waits for the coordinator's decision.
    Reported,
    /// Recovery was refused.
    Refused,
    /// Encodes or rebuilds.
    Working(Work),
    /// Waits for the storage.
    Sealing(Work),
    /// Waits for the other processes.
    Sealed(Work),
    /// Waits for the storage.
    Marking(Work),
    /// Waits for the other processes.
    Acknowledged(Work),
    /// Deletes old shards, and then resumes the application in this way.
    Keeping(Option<After>),
    /// The application runs, or waits for the others to arrive.
    Idle,
}

/// An epoch in the making.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Work {
    /// The epoch.
    pub epoch: EpochId,
    /// Whether it is recovered, and not new.
    pub recovery: bool,
    /// The level of the epoch.
    pub level: EpochLevel,
}

/// What follows when old shards are deleted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum After {
    /// The job begins.
    Start,
    /// The application continues.
    Commit(EpochId),
    /// The application continues, and learns why the epoch was abandoned.
    Abandon(String),
    /// The application rolls back.
    Rollback(EpochId),
}

/// The initial state of a process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Beginning {
    /// Its own number.
    pub rank: Rank,
    /// The logical rank to which it is entitled; `None` for a spare.
    pub prefers: Option<LogicalRank>,
    /// Whether the application may have run before. If so, it does not start again when shards are missing.
    pub started: bool,
    /// The cost of sending, as far as it is known. It counts if this process is the coordinator.
    pub costs: Costs,
    /// Interval at which epochs are encoded; 0 and 1 encode all. It counts if this process is the coordinator and the
    /// recovery mode is to relaunch: in place, what a process kept for itself does not survive the loss of that process.
    pub encode_every: u64,
}

/// The protocol of one process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Protocol {
    plan: Arc<Plan>,
    me: Rank,
    prefers: Option<LogicalRank>,
    started: bool,
    costs: Costs,
    encode_every: u64,
    term: Term,
    membership: Option<Membership>,
    stage: Stage,
    logical_ranks: BTreeMap<LogicalRank, Rank>,
    life: Life,
    /// The encoded epoch that this process keeps.
    kept: Option<EpochId>,
    /// The local epoch based on it, or without a base.
    local: Option<EpochId>,
    /// The highest number of any epoch that was begun.
    number: u64,
    /// The arrival of the application, until the coordinator is informed.
    arrived: Option<Arrival>,
    /// A *prepare* that came while old shards were still being deleted.
    prepare: Option<Phase>,
    coordinator: Coordinator,
    early: Vec<(Rank, Term, Control)>,
    /// Messages to itself.
    own: VecDeque<Control>,
}

impl Protocol {
    /// Creates the protocol of a process that has no membership yet.
    pub fn new(plan: Arc<Plan>, beginning: Beginning) -> Self {
        Self {
            plan,
            me: beginning.rank,
            prefers: beginning.prefers,
            started: beginning.started,
            costs: beginning.costs,
            encode_every: beginning.encode_every,
            term: Term::default(),
            membership: None,
            stage: Stage::Alone,
            logical_ranks: BTreeMap::new(),
            life: Life::default(),
            kept: None,
            local: None,
            number: 0,
            arrived: None,
            prepare: None,
            coordinator: Coordinator::None,
            early: Vec::new(),
            own: VecDeque::new(),
        }
    }

    /// Returns the current term, whose messages are accepted.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns the logical rank of this process, once it has one.
    pub fn logical_rank(&self) -> Option<LogicalRank> {
        self.logical_ranks.iter().find(|(_, rank)| **rank == self.me).map(|(logical_rank, _)| *logical_rank)
    }

    /// Returns the process on each logical rank, as of the last recovery decision. Logical ranks of parity nodes may be
    /// empty: their groups tolerate fewer losses.
    pub fn logical_ranks(&self) -> &BTreeMap<LogicalRank, Rank> {
        &self.logical_ranks
    }

    /// Returns the current stage.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Returns the epoch that is being made or recovered here, or else the one that is kept.
    pub(crate) fn epoch(&self) -> Option<EpochId> {
        match &self.stage {
            Stage::Working(work) | Stage::Sealing(work) | Stage::Sealed(work) => Some(work.epoch),
            Stage::Marking(work) | Stage::Acknowledged(work) => Some(work.epoch),
            _ => self.newest(),
        }
    }

    /// Returns the newest epoch that this process keeps, local or encoded.
    pub fn newest(&self) -> Option<EpochId> {
        self.local.or(self.kept)
    }

    /// Returns the encoded epoch that this process keeps.
    pub fn kept(&self) -> Option<EpochId> {
        self.kept
    }

    /// Encodes every Nth epoch from now on. It counts if this process is the coordinator.
    pub fn set_encode_every(&mut self, every: u64) {
        self.encode_every = every;
    }

    /// Sets the cost of sending after a new measurement.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// Handles an event and returns the effects to carry out.
    pub fn handle(&mut self, event: ProtocolEvent) -> Vec<ProtocolEffect> {
        let mut effects = Vec::new();
        match event {
            ProtocolEvent::Membership(membership) => self.member_change(membership, &mut effects),
            ProtocolEvent::Message { from, term, control } => self.received(from, term, control, &mut effects),
            ProtocolEvent::Arrived(arrival) => {
                self.arrived = Some(arrival);
                self.report_arrival(&mut effects);
            }
            ProtocolEvent::Surveyed(membership, survey) => self.surveyed(membership, survey, &mut effects),
            ProtocolEvent::Done(epoch) => self.done(epoch, &mut effects),
            ProtocolEvent::Sealed(epoch) => self.sealed(epoch, &mut effects),
            ProtocolEvent::Acknowledged(epoch) => self.acknowledged(epoch, &mut effects),
            ProtocolEvent::Kept => self.kept_alone(&mut effects),
            ProtocolEvent::Failed(epoch, reason) => self.failed(epoch, reason, &mut effects),
            // This belongs to an abandoned attempt. The current one seals by itself, and gets its own answer.
            ProtocolEvent::Unstored(..) if matches!(self.stage, Stage::Working(_)) => {}
            ProtocolEvent::Unstored(epoch, reason) => self.failed(epoch, reason, &mut effects),
            ProtocolEvent::Damaged(epoch, damaged) => self.damaged(epoch, damaged, &mut effects),
        }
        while let Some(control) = self.own.pop_front() {
            self.take(self.me, control, &mut effects);
        }
        effects
    }

    fn member_change(&mut self, membership: Membership, effects: &mut Vec<ProtocolEffect>) {
        if membership.number <= self.term.membership || !membership.present.contains(&self.me) {
            return;
        }
        self.coordinator = Coordinator::new(&membership, self.me);
        self.term = Term { membership: membership.number, round: 0 };
        self.membership = Some(membership);
        self.stage = Stage::Surveying;
        self.arrived = None;
        self.prepare = None;
        self.own.clear();
        effects.push(ProtocolEffect::Survey(self.term.membership));
        self.replay(effects);
    }

    fn received(&mut self, from: Rank, term: Term, control: Control, effects: &mut Vec<ProtocolEffect>) {
        // A new attempt begins with the coordinator's decision, which is the first message of its term.
        let begins =
            matches!(control, Control::Restore(..) | Control::Refuse(_)) && term.membership == self.term.membership;
        if term == self.term {
            return self.take(from, control, effects);
        }
        if term > self.term && begins && self.stage != Stage::Surveying {
            self.term = term;
            self.take(from, control, effects);
            return self.replay(effects);
        }
        let waiting = self.early.iter().filter(|(sender, ..)| *sender == from).count();
        if term > self.term && waiting < EARLY_PER_SENDER_MAX {
            self.early.push((from, term, control));
        }
    }

    /// Processes messages that came early for the term that has begun.
    fn replay(&mut self, effects: &mut Vec<ProtocolEffect>) {
        let early = std::mem::take(&mut self.early);
        for (from, term, control) in early {
            self.received(from, term, control, effects);
        }
    }

    fn take(&mut self, from: Rank, control: Control, effects: &mut Vec<ProtocolEffect>) {
        if self.membership.as_ref().is_none_or(|membership| !membership.present.contains(&from)) {
            return;
        }
        let from_coordinator = Some(from) == self.coordinator_rank();
        match control {
            Control::Report(report) => self.reported(from, report, effects),
            Control::Restore(restore, costs) if from_coordinator => self.restore(restore, costs, effects),
            Control::Refuse(refusal) if from_coordinator => {
                self.stage = Stage::Refused;
                effects.push(ProtocolEffect::Refuse(refusal));
            }
            Control::Phase(phase) => match phase {
                Phase::Arrived(arrival) => self.member_arrived(from, arrival, effects),
                Phase::Sealed(epoch) => self.logical_rank_sealed(from, epoch, effects),
                Phase::Acknowledged(epoch) => self.logical_rank_acknowledged(from, epoch, effects),
                Phase::Failed(epoch, reason) => self.logical_rank_failed(epoch, reason, effects),
                Phase::Damaged(epoch, shard) => self.shard_damaged(from, epoch, shard, effects),
                order if from_coordinator => self.ordered(order, effects),
                _ => {}
            },
            Control::Restore(..) | Control::Refuse(_) => {}
        }
    }

    fn coordinator_rank(&self) -> Option<Rank> {
        self.membership.as_ref().map(Membership::coordinator)
    }

    fn send(&mut self, to: Rank, control: Control, effects: &mut Vec<ProtocolEffect>) {
        if to == self.me {
            self.own.push_back(control);
        } else {
            effects.push(ProtocolEffect::Send { to, term: self.term, control });
        }
    }

    fn send_coordinator(&mut self, phase: Phase, effects: &mut Vec<ProtocolEffect>) {
        let coordinator = self.coordinator_rank().expect("it acts only within a membership");
        self.send(coordinator, Control::Phase(phase), effects);
    }

    fn resumes_early(&self) -> bool {
        self.plan.recovery_mode() == RecoveryMode::Relaunch
    }
}
