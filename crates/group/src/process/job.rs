//! A process's part in encoding or rebuilding one group: first all processes learn the descriptions, then a transfer
//! runs.

mod pages;

use super::staging::Staging;
use crate::buffers::Buffers;
use crate::decide::Restore;
use crate::description::{DeltaDescriptor, Description};
use crate::identity::{EpochId, LogicalRank, Rank};
use crate::layout::Layout;
use crate::message::Data;
use crate::payload::Payload;
use crate::plan::Plan;
use crate::shard::{Damaged, ShardId};
use crate::shard_store::{ShardStore, compare};
use crate::slots::SlotSet;
use crate::transfer::{
    Costs, FIRST_WINDOW_END, Route, Transfer, TransferError, TransferPlan, TransferRanks, TransferTask,
};
use pages::{Live, LogicalRankPages};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Why a process cannot do its part.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A page of its own is not what was written.
    Damaged(Damaged),
    /// A reason for people to read.
    Other(String),
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl From<TransferError> for Trouble {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Damaged(damaged) => Self::Damaged(damaged),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Work on one group.
#[derive(Debug)]
pub(super) struct Job {
    plan: Arc<Plan>,
    group: usize,
    epoch: EpochId,
    kind: Kind,
    ranks: TransferRanks,
    sending: Sending,
    /// The members' descriptions, as they become known, with the slots that changed.
    delta_descriptors: BTreeMap<usize, (Description, SlotSet)>,
    /// If checks are made in full, the members' slots that may have changed, and the slots they hold.
    write_sets: BTreeMap<usize, (SlotSet, SlotSet)>,
    /// This member's own shard.
    staging: Option<Staging>,
    /// Parts that came before all members were described. They belong to one window, since this process has not reported
    /// a low-water mark yet. They are processed as soon as there is a transfer.
    pending: VecDeque<(Rank, Data)>,
    transfer: Option<Transfer>,
}

/// How a job sends.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    /// This process.
    pub(super) me: Rank,
    /// Costs by which the route is chosen.
    pub(super) costs: Costs,
    /// Whether differences travel in word form if that pays.
    pub(super) compress: bool,
    /// Pool of buffers.
    pub(super) buffers: Buffers,
}

#[derive(Clone, Debug)]
enum Kind {
    /// `full`: whether checks are made in full.
    Encode { shard: ShardId, base: Option<ShardId>, full: bool },
    /// Positions that this process takes without having their shards.
    Rebuild { replacements: Vec<usize> },
}

impl Job {
    /// Creates a logical rank's part in a new epoch.
    pub(super) fn encode(
        plan: &Arc<Plan>,
        shard: ShardId,
        base: Option<ShardId>,
        logical_ranks: &[(LogicalRank, Rank)],
        sending: Sending,
        full: bool,
    ) -> Self {
        let (group, _) = plan.place(shard.logical_rank);
        let present = by_position(plan, group, logical_ranks);
        let ranks = TransferRanks { me: sending.me, sources: present.clone(), sinks: present };
        Self::new(plan, group, shard.epoch, Kind::Encode { shard, base, full }, ranks, sending)
    }

    /// Sets this member's own shard. It is staged completely unless checks are made in full.
    pub(super) fn stage(&mut self, staging: Staging) {
        self.staging = Some(staging);
    }

    /// Creates a process's parts in a recovery: one for each group that lost something and in which the process has or
    /// takes a shard.
    pub(super) fn rebuild(
        plan: &Arc<Plan>,
        epoch: EpochId,
        restore: &Restore,
        sending: Sending,
        shard_store: &mut dyn ShardStore,
    ) -> BTreeMap<usize, Self> {
        let me = sending.me;
        let mine = restore.logical_ranks.iter().chain(&restore.sources).filter(|(_, rank)| *rank == me);
        let groups: BTreeSet<usize> = mine.map(|(logical_rank, _)| plan.place(*logical_rank).0).collect();
        let mut jobs = BTreeMap::new();
        for group in groups {
            let sources = by_position(plan, group, &restore.sources);
            let sinks = by_position(plan, group, &restore.logical_ranks);
            let is_replacement = |at: &usize| sinks[*at].is_some() && sinks[*at] != sources[*at];
            let replacements: Vec<usize> = (0..sinks.len()).filter(is_replacement).collect();
            if replacements.is_empty() {
                continue;
            }
            let own: Vec<usize> = replacements.into_iter().filter(|at| sinks[*at] == Some(me)).collect();
            for position in &own {
                shard_store.open(ShardId { epoch, logical_rank: plan.logical_rank(group, *position) }, None);
            }
            let ranks = TransferRanks { me, sources, sinks };
            let mut job = Self::new(plan, group, epoch, Kind::Rebuild { replacements: own }, ranks, sending.clone());
            job.learn_own(shard_store);
            jobs.insert(group, job);
        }
        jobs
    }

    fn new(plan: &Arc<Plan>, group: usize, epoch: EpochId, kind: Kind, ranks: TransferRanks, sending: Sending) -> Self {
        let plan = plan.clone();
        let (delta_descriptors, write_sets, pending) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self {
            plan,
            group,
            epoch,
            kind,
            ranks,
            sending,
            delta_descriptors,
            write_sets,
            staging: None,
            pending,
            transfer: None,
        }
    }

    pub(super) fn group(&self) -> usize {
        self.group
    }

    pub(super) fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// Returns the other processes that take part.
    pub(super) fn others(&self) -> BTreeSet<Rank> {
        let everybody = self.ranks.sources.iter().chain(&self.ranks.sinks).flatten().copied();
        everybody.filter(|rank| *rank != self.ranks.me).collect()
    }

    fn layout(&self) -> &Layout {
        self.plan.layout(self.group)
    }

    fn shard(&self, position: usize) -> ShardId {
        ShardId { epoch: self.epoch, logical_rank: self.plan.logical_rank(self.group, position) }
    }

    fn lends(&self) -> bool {
        self.ranks.sources.contains(&Some(self.ranks.me))
    }

    /// Learns the descriptions stored with a shard that this process lends.
    fn learn_own(&mut self, shard_store: &dyn ShardStore) {
        let lent = (0..self.ranks.sources.len()).find(|at| self.ranks.sources[*at] == Some(self.ranks.me));
        if let Some(position) = lent {
            shard_store.descriptions(self.shard(position)).to_vec().into_iter().for_each(|it| self.learn(it));
        }
    }

    fn learn(&mut self, description: Description) {
        let (_, position) = self.plan.place(description.logical_rank);
        let used = description.map.used();
        self.delta_descriptors.insert(position, (description, used));
    }

    /// Returns the descriptions to send. In a recovery, the first process that has a shard sends them to those that have
    /// none.
    pub(super) fn hello(&self) -> Vec<(Rank, Data)> {
        let first = self.ranks.sources.iter().flatten().next();
        if matches!(self.kind, Kind::Encode { .. }) || first != Some(&self.ranks.me) {
            return Vec::new();
        }
        let ignorant = self.others().into_iter().filter(|rank| !self.ranks.sources.contains(&Some(*rank)));
        let description = |(description, _): &(Description, _)| Data::Description {
            epoch: self.epoch,
            description: description.clone(),
        };
        ignorant.flat_map(|rank| self.delta_descriptors.values().map(move |it| (rank, description(it)))).collect()
    }

    /// Processes data from another process.
    ///
    /// # Errors
    /// If the data is wrong, or this process cannot do its part.
    pub(super) fn take(
        &mut self,
        from: Rank,
        data: Data,
        payload: &mut dyn Payload,
        shard_store: &mut dyn ShardStore,
    ) -> Result<(), Trouble> {
        match data {
            Data::DeltaDescriptor { delta_descriptor, .. } => {
                self.take_delta_descriptor(from, delta_descriptor, shard_store)?
            }
            Data::WriteSet { logical_rank, changed, held, .. } => {
                let (_, position) = self.plan.place(logical_rank);
                if !self.is_full() || self.ranks.sources[position] != Some(from) {
                    return Err(format!(
                        "process {} drafts logical rank {}, which is not asked for",
                        from.0, logical_rank.0
                    )
                    .into());
                }
                self.write_sets.insert(position, (changed, held));
            }
            Data::Description { description, .. } => {
                if matches!(self.kind, Kind::Encode { .. }) || self.lends() {
                    let logical_rank = description.logical_rank.0;
                    return Err(format!(
                        "process {} describes logical rank {logical_rank}, which is known here",
                        from.0
                    )
                    .into());
                }
                self.learn(description);
            }
            Data::LowWaterMark { piece, .. } => match &mut self.transfer {
                Some(transfer) => transfer.low_water_mark(from, piece),
                None => self.pending.push_back((from, data)),
            },
            Data::Part(part) => match self.transfer.take() {
                Some(mut transfer) => {
                    let taken = transfer.receive(part, &mut self.pages(payload, shard_store));
                    self.transfer = Some(transfer);
                    taken.map_err(|error| match error.into() {
                        Trouble::Other(reason) => format!("from process {}: {reason}", from.0).into(),
                        own @ Trouble::Damaged(_) => own,
                    })?;
                }
                None if part.piece < FIRST_WINDOW_END => self.pending.push_back((from, Data::Part(part))),
                None => {
                    return Err(format!("process {} sends piece {}, which is too early", from.0, part.piece).into());
                }
            },
        }
        self.start()?;
        while self.transfer.is_some()
            && let Some((from, data)) = self.pending.pop_front()
        {
            self.take(from, data, payload, shard_store)?;
        }
        Ok(())
    }

    fn take_delta_descriptor(
        &mut self,
        from: Rank,
        delta_descriptor: DeltaDescriptor,
        shard_store: &dyn ShardStore,
    ) -> Result<(), String> {
        let (logical_rank, (_, position)) =
            (delta_descriptor.logical_rank, self.plan.place(delta_descriptor.logical_rank));
        let Kind::Encode { base, .. } = &self.kind else {
            return Err(format!("process {} describes logical rank {} again in a recovery", from.0, logical_rank.0));
        };
        if self.ranks.sources[position] != Some(from) {
            return Err(format!(
                "process {} describes logical rank {}, which it does not hold",
                from.0, logical_rank.0
            ));
        }
        let before = base
            .map_or(&[][..], |base| shard_store.descriptions(base))
            .iter()
            .find(|it| it.logical_rank == logical_rank);
        let description = delta_descriptor.upon(before);
        let description =
            description.ok_or_else(|| format!("the description of logical rank {} is another here", logical_rank.0))?;
        self.delta_descriptors.insert(position, (description, delta_descriptor.changed));
        Ok(())
    }

    fn is_full(&self) -> bool {
        matches!(self.kind, Kind::Encode { full: true, .. })
    }

    /// Plans the transfer once the descriptions of all members are known, or their write sets.
    fn start(&mut self) -> Result<(), String> {
        if self.transfer.is_some() {
            return Ok(());
        }
        let known = if self.is_full() { self.write_sets.len() } else { self.delta_descriptors.len() };
        if known < self.layout().members() {
            return match self.kind {
                // A process that has a shard must have the descriptions too: the others do not send them.
                Kind::Rebuild { .. } if self.lends() => Err("a shard has not the descriptions of all members".into()),
                _ => Ok(()),
            };
        }
        let (sets, held): (Vec<SlotSet>, Option<Vec<SlotSet>>) = if self.is_full() {
            (
                self.write_sets.values().map(|it| it.0.clone()).collect(),
                Some(self.write_sets.values().map(|it| it.1.clone()).collect()),
            )
        } else {
            (self.delta_descriptors.values().map(|(_, set)| set.clone()).collect(), None)
        };
        let positions = 0..self.layout().positions();
        let route = self.route(&sets);
        let task = match &self.kind {
            Kind::Encode { .. } => {
                let vacant = positions.filter(|at| self.ranks.sinks[*at].is_none()).collect();
                TransferTask::Encode { changed: sets, held, vacant }
            }
            Kind::Rebuild { .. } => TransferTask::Rebuild {
                lost: positions.clone().filter(|at| self.ranks.sources[*at].is_none()).collect(),
                replacements: positions
                    .filter(|at| self.ranks.sinks[*at].is_some() && self.ranks.sinks[*at] != self.ranks.sources[*at])
                    .collect(),
                used: sets,
            },
        };
        let plan = TransferPlan::new(self.layout(), &task, route).map_err(|error| error.to_string())?;
        let (group, layout, ranks) = (self.group as u32, self.layout().clone(), self.ranks.clone());
        let compress = self.sending.compress && matches!(self.kind, Kind::Encode { full: false, .. });
        let buffers = self.sending.buffers.clone();
        self.transfer = Some(Transfer::new(self.epoch, group, plan, layout, ranks, compress, buffers));
        Ok(())
    }

    /// Chooses the route of the shares from what all processes know, so that all choose the same.
    fn route(&self, sets: &[SlotSet]) -> Route {
        let lost = self.ranks.sources.iter().filter(|source| source.is_none()).count();
        let rebuilt = matches!(self.kind, Kind::Rebuild { .. }).then_some(lost);
        Route::of(self.sending.costs, self.layout(), sets, rebuilt)
    }

    /// Does what can be done, and returns the messages to send.
    ///
    /// # Errors
    /// If this process cannot do its part.
    pub(super) fn advance(
        &mut self,
        payload: &mut dyn Payload,
        shard_store: &mut dyn ShardStore,
    ) -> Result<Vec<(Rank, Data)>, Trouble> {
        self.start()?;
        let Some(mut transfer) = self.transfer.take() else { return Ok(Vec::new()) };
        let messages = transfer.advance(&mut self.pages(payload, shard_store));
        let is_done = transfer.is_done();
        self.transfer = Some(transfer);
        let mut messages = messages?;
        if is_done && self.is_full() {
            messages.extend(self.delta_descriptor(payload, shard_store)?);
        }
        Ok(messages)
    }

    /// Returns the new description of this member's shard, for all others.
    fn delta_descriptor(
        &mut self,
        payload: &dyn Payload,
        shard_store: &mut dyn ShardStore,
    ) -> Result<Vec<(Rank, Data)>, String> {
        let Some(mut staging) = self.staging.take() else { return Ok(Vec::new()) };
        // If the checks of a stripe group have no holder, its shares were never requested.
        staging.stage_rest(payload, shard_store);
        let (description, changed) = staging.described();
        let delta_descriptor = DeltaDescriptor::new(&description, changed);
        self.take_delta_descriptor(self.sending.me, delta_descriptor.clone(), shard_store)?;
        let data = Data::DeltaDescriptor { epoch: self.epoch, delta_descriptor };
        Ok(self.others().into_iter().map(|rank| (rank, data.clone())).collect())
    }

    /// Returns the bytes of sums in progress, and their upper bound.
    pub(super) fn held_bytes(&self) -> Option<(usize, usize)> {
        self.transfer.as_ref().map(|transfer| (transfer.held_bytes(), transfer.held_bytes_max()))
    }

    /// Reports whether the transfer is too long to go at once.
    pub(super) fn moves_much(&self) -> bool {
        self.transfer.as_ref().is_some_and(Transfer::is_long)
    }

    pub(super) fn is_done(&self) -> bool {
        let is_described = self.delta_descriptors.len() == self.layout().members();
        is_described && self.transfer.as_ref().is_some_and(Transfer::is_done)
    }

    /// Compares what was rebuilt with what its owner had sealed, and stores the descriptions with the shard.
    ///
    /// # Errors
    /// If pages differ; the error says which.
    pub(super) fn finish(&self, shard_store: &mut dyn ShardStore) -> Result<(), String> {
        let descriptions: Vec<_> =
            self.delta_descriptors.values().map(|(description, _)| description.clone()).collect();
        match &self.kind {
            Kind::Encode { shard, .. } => shard_store.describe(*shard, descriptions),
            Kind::Rebuild { replacements } => {
                for position in replacements {
                    let shard = self.shard(*position);
                    shard_store.describe(shard, descriptions.clone());
                    if self.plan.is_member(shard.logical_rank) {
                        compare(shard_store, shard).map_err(|error| format!("after rebuilding, {error}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn pages<'p>(
        &'p mut self,
        payload: &'p mut dyn Payload,
        shard_store: &'p mut dyn ShardStore,
    ) -> LogicalRankPages<'p> {
        let (shards, live) = match self.kind {
            Kind::Encode { shard, base, full } => {
                let staging = self.staging.as_mut();
                (Vec::new(), Some(Live { shard, base, full, recovery_mode: self.plan.recovery_mode(), staging }))
            }
            Kind::Rebuild { .. } => ((0..self.layout().positions()).map(|at| self.shard(at)).collect(), None),
        };
        LogicalRankPages { payload, shard_store, shards, live }
    }
}

fn by_position(plan: &Plan, group: usize, logical_ranks: &[(LogicalRank, Rank)]) -> Vec<Option<Rank>> {
    let mut places = vec![None; plan.layout(group).positions()];
    for (logical_rank, rank) in logical_ranks {
        let (of, position) = plan.place(*logical_rank);
        if of == group {
            places[position] = Some(*rank);
        }
    }
    places
}
