//! The coordinator's bookkeeping and decisions. Any process can be the coordinator: it is the first of the membership.

use super::{Arrival, Control, Phase, Protocol, ProtocolEffect};
use crate::decide::{Rejected, Report, decide};
use crate::identity::{EpochId, Membership, Rank};
use crate::plan::RecoveryMode;
use crate::shard::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// What the coordinator waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Coordinator {
    /// This process is not the coordinator, or nothing can be done.
    None,
    /// The reports of all processes.
    Surveying(Recovery),
    /// The shards of all processes for the recovered epoch.
    Restoring(Recovery, EpochId, BTreeSet<Rank>),
    /// The arrival of all members at a checkpoint.
    Gathering(BTreeMap<Rank, Arrival>),
    /// The shards of all processes for a new epoch.
    Preparing(EpochId, BTreeSet<Rank>),
    /// The acknowledges of all processes.
    Committing(EpochId, BTreeSet<Rank>),
}

/// The facts on which a recovery decision is based.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Recovery {
    present: Vec<Rank>,
    reports: BTreeMap<Rank, Report>,
    rejected: Rejected,
}

impl Coordinator {
    pub(super) fn new(membership: &Membership, me: Rank) -> Self {
        if membership.coordinator() != me {
            return Self::None;
        }
        let present = membership.present.clone();
        Self::Surveying(Recovery { present, reports: BTreeMap::new(), rejected: Rejected::new() })
    }
}

impl Protocol {
    pub(super) fn reported(&mut self, from: Rank, report: Report, effects: &mut Vec<ProtocolEffect>) {
        let Coordinator::Surveying(recovery) = &mut self.coordinator else { return };
        recovery.reports.insert(from, report);
        if recovery.reports.len() == recovery.present.len() {
            let recovery = recovery.clone();
            self.decide(recovery, effects);
        }
    }

    fn decide(&mut self, recovery: Recovery, effects: &mut Vec<ProtocolEffect>) {
        let (coordinator, control) = match decide(&self.plan, &recovery.reports, &recovery.rejected) {
            Ok(restore) => {
                let coordinator = match restore.epoch {
                    Some(epoch) => {
                        Coordinator::Restoring(recovery.clone(), epoch, recovery.present.iter().copied().collect())
                    }
                    None => Coordinator::Gathering(BTreeMap::new()),
                };
                (coordinator, Control::Restore(restore, self.costs))
            }
            Err(refusal) => (Coordinator::None, Control::Refuse(refusal)),
        };
        self.coordinator = coordinator;
        recovery.present.iter().for_each(|rank| self.send(*rank, control.clone(), effects));
    }

    pub(super) fn member_arrived(&mut self, from: Rank, arrival: Arrival, effects: &mut Vec<ProtocolEffect>) {
        let Coordinator::Gathering(arrived) = &mut self.coordinator else { return };
        arrived.insert(from, arrival);
        let mut members = self.logical_ranks.iter().filter(|(logical_rank, _)| self.plan.is_member(**logical_rank));
        if !members.all(|(_, rank)| arrived.contains_key(rank)) {
            return;
        }
        let random = arrived.values().fold(0, |sum: u64, arrival| sum.rotate_left(1) ^ arrival.random);
        let full = arrived.values().all(|arrival| arrival.full);
        let epoch = EpochId { job: self.plan.job(), life: self.life, number: self.number + 1, random };
        self.coordinator = Coordinator::Preparing(epoch, self.everybody());
        let order = match self.kept.filter(|kept| self.may_be_local(epoch, *kept)) {
            Some(kept) => Phase::PrepareLocal(epoch, kept),
            None => Phase::Prepare(epoch, self.kept, self.costs, full),
        };
        self.order(&order, effects);
    }

    /// A local epoch cannot be recovered if a logical rank is empty.
    fn may_be_local(&self, epoch: EpochId, kept: EpochId) -> bool {
        self.plan.recovery_mode() == RecoveryMode::Relaunch
            && self.logical_ranks.len() == self.plan.logical_ranks()
            && epoch.number.saturating_sub(kept.number) < self.encode_every
    }

    pub(super) fn logical_rank_sealed(&mut self, from: Rank, epoch: EpochId, effects: &mut Vec<ProtocolEffect>) {
        let (of, waiting) = match &mut self.coordinator {
            Coordinator::Restoring(_, of, waiting) | Coordinator::Preparing(of, waiting) => (*of, waiting),
            _ => return,
        };
        if of == epoch && waiting.remove(&from) && waiting.is_empty() {
            self.coordinator = Coordinator::Committing(epoch, self.everybody());
            self.order(&Phase::Commit(epoch), effects);
        }
    }

    pub(super) fn logical_rank_acknowledged(&mut self, from: Rank, epoch: EpochId, effects: &mut Vec<ProtocolEffect>) {
        let Coordinator::Committing(of, waiting) = &mut self.coordinator else { return };
        if *of == epoch && waiting.remove(&from) && waiting.is_empty() {
            self.coordinator = Coordinator::Gathering(BTreeMap::new());
            self.order(&Phase::Stable(epoch), effects);
        }
    }

    pub(super) fn logical_rank_failed(&mut self, epoch: EpochId, reason: String, effects: &mut Vec<ProtocolEffect>) {
        match &mut self.coordinator {
            Coordinator::Preparing(of, _) if *of == epoch => {
                self.coordinator = Coordinator::Gathering(BTreeMap::new());
                self.order(&Phase::Abandon(epoch, reason), effects);
            }
            Coordinator::Restoring(recovery, of, _) if *of == epoch => {
                let mut recovery = recovery.clone();
                recovery.rejected.insert(epoch, reason);
                self.decide_again(recovery, effects);
            }
            _ => {}
        }
    }

    /// Handles a report that a listed shard is damaged.
    pub(super) fn shard_damaged(
        &mut self,
        from: Rank,
        epoch: EpochId,
        shard: ShardId,
        effects: &mut Vec<ProtocolEffect>,
    ) {
        let Coordinator::Restoring(recovery, of, _) = &self.coordinator else { return };
        if *of != epoch {
            return;
        }
        let mut recovery = recovery.clone();
        let is_lost = recovery.reports.get_mut(&from).is_some_and(|report| report.loses(shard));
        let is_held = |epoch| recovery.reports.values().flat_map(|it| &it.holdings).any(|it| it.epoch == epoch);
        // If the shard was never reported, the decision without it would be the same. If no process has another shard of
        // the epoch, remember that the epoch existed, so that the job does not start again because it is missing.
        let rejected = if is_lost { Some(shard.epoch).filter(|of| !is_held(*of)) } else { Some(epoch) };
        let reason = format!("the shard of {shard} is damaged");
        recovery.rejected.extend(rejected.map(|epoch| (epoch, reason)));
        self.decide_again(recovery, effects);
    }

    fn decide_again(&mut self, recovery: Recovery, effects: &mut Vec<ProtocolEffect>) {
        self.term.round += 1;
        self.decide(recovery, effects);
    }

    /// Sends an order to all present processes: spares have nothing to encode, but may have to take over as coordinator
    /// later.
    fn order(&mut self, phase: &Phase, effects: &mut Vec<ProtocolEffect>) {
        self.everybody().iter().for_each(|rank| self.send(*rank, Control::Phase(phase.clone()), effects));
    }

    fn everybody(&self) -> BTreeSet<Rank> {
        self.membership.iter().flat_map(|membership| membership.present.iter().copied()).collect()
    }
}
