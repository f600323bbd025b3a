//! The part that every process plays, including the coordinator's own logical rank.

use super::{After, Control, Phase, Protocol, ProtocolEffect, Resumption, Stage, Survey, Work};
use crate::costs::Costs;
use crate::decide::{Report, Restore};
use crate::identity::{EpochId, EpochLevel, LogicalRank, Rank};
use crate::shard::Damaged;
use std::collections::{BTreeMap, BTreeSet};

impl Protocol {
    pub(super) fn surveyed(&mut self, membership: u64, survey: Survey, effects: &mut Vec<ProtocolEffect>) {
        // This may answer a survey for an older membership. Open shards are not deleted before the survey of this one.
        if self.stage != Stage::Surveying || membership != self.term.membership {
            return;
        }
        self.stage = Stage::Reported;
        self.life = self.life.max(survey.life);
        let prefers = self.logical_rank().or(self.prefers);
        let Survey { holdings, unpromised, .. } = survey;
        let report = Report { life: self.life, started: self.started, prefers, holdings, unpromised };
        let coordinator = self.coordinator_rank().expect("a survey follows a membership");
        self.send(coordinator, Control::Report(report), effects);
        self.replay(effects);
    }

    pub(super) fn restore(&mut self, restore: Restore, costs: Costs, effects: &mut Vec<ProtocolEffect>) {
        if matches!(self.stage, Stage::Alone | Stage::Surveying) {
            return;
        }
        if !self.is_possible(&restore) {
            let reason = format!("process {} is to recover with processes that are not present", self.me.0);
            if let Some(epoch) = restore.epoch {
                self.send_coordinator(Phase::Failed(epoch, reason), effects);
            }
            return;
        }
        self.logical_ranks = restore.logical_ranks.iter().copied().collect();
        self.life = restore.life;
        self.started = true;
        let Some(epoch) = restore.epoch else {
            (self.kept, self.local) = (None, None);
            self.keep(After::Start, effects);
            return;
        };
        self.stage = Stage::Working(Work { epoch, recovery: true, level: restore.level });
        effects.push(ProtocolEffect::Rebuild { restore, epoch, costs });
    }

    /// Reports whether every member's logical rank is taken, no process has two, and all named processes are present. The
    /// coordinator sends no other decision, but messages go to these processes.
    fn is_possible(&self, restore: &Restore) -> bool {
        let present: BTreeSet<Rank> =
            self.membership.iter().flat_map(|membership| membership.present.iter().copied()).collect();
        let logical_ranks: BTreeMap<LogicalRank, Rank> = restore.logical_ranks.iter().copied().collect();
        let assigned: BTreeSet<Rank> = logical_ranks.values().copied().collect();
        let members = logical_ranks.keys().filter(|logical_rank| self.plan.is_member(**logical_rank)).count();
        let named = restore.logical_ranks.iter().chain(&restore.sources);
        members == self.plan.members()
            && assigned.len() == restore.logical_ranks.len()
            && named.map(|(_, rank)| rank).all(|rank| present.contains(rank))
    }

    /// Handles an order of the coordinator. An order that does not fit the stage belongs to work that has ended.
    pub(super) fn ordered(&mut self, order: Phase, effects: &mut Vec<ProtocolEffect>) {
        match (order.clone(), self.stage.clone()) {
            (Phase::Prepare(epoch, base, costs, full), Stage::Idle) => {
                self.prepare_encoded(epoch, base, costs, full, effects);
            }
            (Phase::PrepareLocal(epoch, base), Stage::Idle) => self.prepare_local(epoch, base, effects),
            (Phase::Prepare(..) | Phase::PrepareLocal(..), Stage::Keeping(_)) => self.prepare = Some(order),
            (Phase::Commit(epoch), Stage::Sealed(work)) if work.epoch == epoch => {
                self.stage = Stage::Marking(work);
                effects.push(ProtocolEffect::Acknowledge(epoch));
            }
            (Phase::Stable(epoch), Stage::Acknowledged(work)) if work.epoch == epoch => {
                (self.kept, self.local) = match work.level {
                    EpochLevel::Encoded => (Some(epoch), None),
                    EpochLevel::Local(base) => (base, Some(epoch)),
                };
                self.number = self.number.max(epoch.number);
                let after = if work.recovery { After::Rollback(epoch) } else { After::Commit(epoch) };
                self.keep(after, effects);
            }
            (Phase::Abandon(epoch, reason), Stage::Working(work) | Stage::Sealing(work) | Stage::Sealed(work))
                if work.epoch == epoch && !work.recovery =>
            {
                self.keep(After::Abandon(reason), effects);
            }
            // Nothing of the epoch exists here: the previous shards are still being deleted.
            (Phase::Abandon(..), Stage::Keeping(_)) => self.prepare = None,
            _ => {}
        }
    }

    fn prepare_encoded(
        &mut self,
        epoch: EpochId,
        base: Option<EpochId>,
        costs: Costs,
        full: bool,
        effects: &mut Vec<ProtocolEffect>,
    ) {
        if self.begins(epoch, EpochLevel::Encoded, base, effects) {
            let logical_ranks = self.logical_ranks.iter().map(|(logical_rank, rank)| (*logical_rank, *rank)).collect();
            // In place no shard is staged, and the old pages are needed anyway.
            let full = full && self.resumes_early();
            effects.push(ProtocolEffect::Encode {
                epoch,
                base,
                logical_rank: self.logical_rank(),
                logical_ranks,
                costs,
                full,
            });
        }
    }

    fn prepare_local(&mut self, epoch: EpochId, base: EpochId, effects: &mut Vec<ProtocolEffect>) {
        if self.begins(epoch, EpochLevel::Local(Some(base)), Some(base), effects) {
            effects.push(ProtocolEffect::Stage { epoch, base, logical_rank: self.logical_rank() });
        }
    }

    /// Begins an epoch, if this process has the base of its differences.
    fn begins(
        &mut self,
        epoch: EpochId,
        level: EpochLevel,
        base: Option<EpochId>,
        effects: &mut Vec<ProtocolEffect>,
    ) -> bool {
        self.number = self.number.max(epoch.number);
        self.stage = Stage::Working(Work { epoch, recovery: false, level });
        if base != self.kept {
            let reason =
                format!("process {} keeps another epoch than the one that the differences refer to", self.me.0);
            self.send_coordinator(Phase::Failed(epoch, reason), effects);
        }
        base == self.kept
    }

    pub(super) fn done(&mut self, epoch: EpochId, effects: &mut Vec<ProtocolEffect>) {
        if let Stage::Working(work) = self.stage
            && work.epoch == epoch
        {
            self.stage = Stage::Sealing(work);
            effects.push(ProtocolEffect::Seal(work));
        }
    }

    pub(super) fn sealed(&mut self, epoch: EpochId, effects: &mut Vec<ProtocolEffect>) {
        if let Stage::Sealing(work) = self.stage
            && work.epoch == epoch
        {
            self.stage = Stage::Sealed(work);
            self.send_coordinator(Phase::Sealed(epoch), effects);
        }
    }

    pub(super) fn acknowledged(&mut self, epoch: EpochId, effects: &mut Vec<ProtocolEffect>) {
        if let Stage::Marking(work) = self.stage
            && work.epoch == epoch
        {
            self.stage = Stage::Acknowledged(work);
            self.send_coordinator(Phase::Acknowledged(epoch), effects);
            if self.resumes_early() && !work.recovery {
                self.resume(Resumption::Committed(epoch, work.level), effects);
            }
        }
    }

    fn keep(&mut self, after: After, effects: &mut Vec<ProtocolEffect>) {
        let told = self.resumes_early() && matches!(after, After::Commit(_));
        self.stage = Stage::Keeping((!told).then_some(after));
        effects.push(ProtocolEffect::Keep { epoch: self.newest(), logical_rank: self.logical_rank(), life: self.life });
    }

    pub(super) fn kept_alone(&mut self, effects: &mut Vec<ProtocolEffect>) {
        let Stage::Keeping(after) = self.stage.clone() else { return };
        self.stage = Stage::Idle;
        if matches!(after, Some(After::Start | After::Rollback(_))) {
            // The application is no longer at the checkpoint where it arrived.
            self.arrived = None;
        }
        if let (Some(after), Some(logical_rank)) = (after, self.logical_rank()) {
            let resumption = match after {
                After::Start => Resumption::Start(logical_rank),
                After::Commit(epoch) => Resumption::Committed(epoch, EpochLevel::Encoded),
                After::Abandon(reason) => Resumption::Abandoned(reason),
                After::Rollback(epoch) => Resumption::Rollback(epoch, logical_rank),
            };
            self.resume(resumption, effects);
        }
        self.report_arrival(effects);
        if let Some(order) = self.prepare.take() {
            self.ordered(order, effects);
        }
    }

    /// Parity nodes and spares have no application.
    fn resume(&mut self, resumption: Resumption, effects: &mut Vec<ProtocolEffect>) {
        if self.logical_rank().is_some_and(|logical_rank| self.plan.is_member(logical_rank)) {
            effects.push(ProtocolEffect::Resume(resumption));
        }
    }

    pub(super) fn report_arrival(&mut self, effects: &mut Vec<ProtocolEffect>) {
        if self.stage == Stage::Idle
            && let Some(arrival) = self.arrived.take()
        {
            self.send_coordinator(Phase::Arrived(arrival), effects);
        }
    }

    /// In a recovery, other processes may have what replaces the damaged shard. A new epoch is abandoned, since the
    /// previous one stays.
    pub(super) fn damaged(&mut self, epoch: EpochId, damaged: Damaged, effects: &mut Vec<ProtocolEffect>) {
        match self.stage {
            Stage::Working(work) if work.recovery && work.epoch == epoch => {
                self.send_coordinator(Phase::Damaged(epoch, damaged.shard), effects);
            }
            _ => self.failed(epoch, damaged.to_string(), effects),
        }
    }

    pub(super) fn failed(&mut self, epoch: EpochId, reason: String, effects: &mut Vec<ProtocolEffect>) {
        match self.stage {
            // The epoch is as good as before; only this process cannot store its part.
            Stage::Sealing(work) if work.recovery => effects.push(ProtocolEffect::Leave(reason)),
            Stage::Working(work) | Stage::Sealing(work) if work.epoch == epoch => {
                self.send_coordinator(Phase::Failed(epoch, reason), effects);
            }
            // The epoch is sealed everywhere and may be committed. It cannot be undone, and this process cannot follow.
            Stage::Marking(_) | Stage::Keeping(_) => effects.push(ProtocolEffect::Leave(reason)),
            _ => {}
        }
    }
}
