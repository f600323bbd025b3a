//! One complete process of a group: the protocol, its transfers, and messages as bytes. This is what a driver drives.
//!
//! ```text
//!   transport --bytes--> +---------+ --bytes--> transport
//!   storage   --done---> | Process | --seal, acknowledge, keep, survey--> storage
//!   program   --arrive-> +---------+ --resume--> program
//!                          |     |
//!                     Payload   ShardStore        pages, read and written while an event is handled
//! ```

mod job;
mod staging;

use crate::buffers::Buffers;
use crate::decide::{Refusal, Restore};
use crate::description::{DeltaDescriptor, Fingerprint};
use crate::identity::{EpochId, EpochLevel, Life, LogicalRank, Membership, Rank, Term};
use crate::message::{self, Data, Message};
use crate::message_error::MessageError;
use crate::payload::Payload;
use crate::plan::{Plan, RecoveryMode};
use crate::protocol::{Arrival, Beginning, Protocol, ProtocolEffect, ProtocolEvent, Resumption, Survey, Work};
use crate::shard::{Place, ShardId};
use crate::shard_store::ShardStore;
use crate::slots::SlotSet;
use crate::transfer::Costs;
use job::{Job, Sending, Trouble};
use staging::Staging;
use standfast_core::PAGE_BYTES;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most messages of an epoch that has not begun here, for one sender: the windows of a transfer let it send no more.
const EARLY_PER_SENDER_MAX: usize = 4096;

/// An event to a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The membership has changed.
    Membership(Membership),
    /// The application is at a checkpoint, and its payload does not change until it is resumed. With a random number.
    Arrived(u64),
    /// The same, but this process cannot take part, for this reason. The epoch is abandoned everywhere.
    Unable(u64, String),
    /// A message has arrived.
    Message(Rank, Vec<u8>),
    /// Answer to [`Effect::Survey`], with its membership.
    Surveyed(u64, Survey),
    /// Answer to [`Effect::Seal`].
    Sealed(EpochId),
    /// Answer to [`Effect::Acknowledge`].
    Acknowledged(EpochId),
    /// Answer to [`Effect::Keep`].
    Kept,
    /// Answer to any of these three: storage failed, for this reason.
    Unstored(EpochId, String),
}

/// What the driver has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send a message.
    Send(Rank, Vec<u8>),
    /// Delete open shards, and list the sealed ones that verify, for the membership with this number.
    Survey(u64),
    /// Make the open shards of an epoch durable.
    Seal(Work),
    /// Record that all processes have sealed it.
    Acknowledge(EpochId),
    /// Delete every shard but this one and the base of a local one, and record the life.
    Keep {
        /// The epoch that stays; `None` for nothing at all.
        epoch: Option<EpochId>,
        /// The logical rank; `None` for a spare, which keeps nothing.
        logical_rank: Option<LogicalRank>,
        /// The life to record.
        life: Life,
    },
    /// Let the application continue. Its changes from now on count as changed since this epoch. [`Resumption::Abandoned`]
    /// and local epochs do not affect what counts as changed.
    Resume(Resumption),
    /// Recovery is refused.
    Refuse(Refusal),
    /// This process cannot store what it must keep: end it.
    Leave(String),
    /// A message that was rejected, for the log.
    Rejected(Rank, MessageError),
}

/// The settings of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSettings {
    /// Its identity and initial state.
    pub beginning: Beginning,
    /// Whether differences travel in word form if that pays.
    pub compress: bool,
    /// Whether checks are made in full instead of updated by differences; `None`: if that is less work.
    pub full: Option<bool>,
}

/// One process of a group.
#[derive(Debug)]
pub struct Process {
    plan: Arc<Plan>,
    protocol: Protocol,
    settings: ProcessSettings,
    buffers: Buffers,
    /// The jobs, by group: a process may lend a shard in one group and take a logical rank in another.
    jobs: BTreeMap<usize, Job>,
    /// The shards that this process provides for the current recovery.
    unverified: Vec<ShardId>,
    /// The epoch whose pages exist only in the live memory, and its changed slots.
    live: Option<(ShardId, SlotSet)>,
    early: Vec<(Rank, Term, Data)>,
    /// Why this process cannot take part in the next epoch.
    unable: Option<String>,
    /// The last epoch that was finished, and its term.
    finished: Option<(Term, EpochId)>,
}

impl Process {
    /// Creates a process that has no membership yet.
    pub fn new(plan: Arc<Plan>, settings: ProcessSettings) -> Self {
        let protocol = Protocol::new(plan.clone(), settings.beginning.clone());
        let (jobs, early) = (BTreeMap::new(), Vec::new());
        let (buffers, unverified) = (Buffers::default(), Vec::new());
        Self { plan, protocol, settings, buffers, jobs, unverified, live: None, early, unable: None, finished: None }
    }

    /// Uses buffers that the process shares with its transport.
    #[must_use]
    pub fn with_buffers(self, buffers: Buffers) -> Self {
        Self { buffers, ..self }
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Encodes every Nth epoch from now on. It counts if this process is the coordinator.
    pub fn set_encode_every(&mut self, every: u64) {
        self.protocol.set_encode_every(every);
    }

    /// Returns the bytes of sums in progress in this process's groups, and their upper bound.
    pub fn held_bytes(&self) -> (usize, usize) {
        let jobs = self.jobs.values().filter_map(Job::held_bytes);
        jobs.fold((0, 0), |(held, most), (of_job, most_of_job)| (held + of_job, most + most_of_job))
    }

    /// Reports whether any transfer is too long to go at once: then some process always has work.
    pub fn moves_much(&self) -> bool {
        self.jobs.values().any(Job::moves_much)
    }

    /// Sets the cost of sending after a new measurement. It counts from the next epoch on, if this process is the
    /// coordinator.
    pub fn set_costs(&mut self, costs: Costs) {
        self.protocol.set_costs(costs);
    }

    /// Handles an event and returns the effects to carry out.
    pub fn handle(&mut self, event: Event, payload: &mut dyn Payload, shard_store: &mut dyn ShardStore) -> Vec<Effect> {
        let mut turn = Turn { payload, shard_store, outputs: Vec::new(), events: VecDeque::new() };
        match event {
            Event::Membership(membership) => {
                self.settle_live(&mut turn);
                turn.events.push_back(ProtocolEvent::Membership(membership));
            }
            Event::Arrived(random) => {
                let full = self.prefers_full(&turn);
                turn.events.push_back(ProtocolEvent::Arrived(Arrival { random, full }));
            }
            Event::Unable(random, reason) => {
                self.unable = Some(reason);
                turn.events.push_back(ProtocolEvent::Arrived(Arrival { random, full: true }));
            }
            Event::Message(from, bytes) => self.received(from, bytes, &mut turn),
            Event::Surveyed(membership, survey) => turn.events.push_back(ProtocolEvent::Surveyed(membership, survey)),
            Event::Sealed(epoch) => turn.events.push_back(ProtocolEvent::Sealed(epoch)),
            Event::Acknowledged(epoch) => turn.events.push_back(ProtocolEvent::Acknowledged(epoch)),
            Event::Kept => {
                self.settle_live(&mut turn);
                turn.events.push_back(ProtocolEvent::Kept);
            }
            Event::Unstored(epoch, reason) => turn.events.push_back(ProtocolEvent::Unstored(epoch, reason)),
        }
        while let Some(event) = turn.events.pop_front() {
            for effect in self.protocol.handle(event) {
                self.act(effect, &mut turn);
            }
        }
        turn.outputs
    }

    fn act(&mut self, effect: ProtocolEffect, turn: &mut Turn) {
        if let ProtocolEffect::Encode { epoch, .. } | ProtocolEffect::Stage { epoch, .. } = effect
            && let Some(reason) = self.unable.take()
        {
            return self.fail(epoch, reason.into(), turn);
        }
        let output = match effect {
            ProtocolEffect::Send { to, term, control } => {
                Effect::Send(to, message::encode(&self.plan, term, Message::Control(control)))
            }
            ProtocolEffect::Survey(membership) => {
                self.jobs.clear();
                self.unverified.clear();
                Effect::Survey(membership)
            }
            ProtocolEffect::Encode { epoch, base, logical_rank, logical_ranks, costs, full } => {
                self.jobs.clear();
                if let Some(logical_rank) = logical_rank {
                    let shard = |epoch| ShardId { epoch, logical_rank };
                    self.encode(shard(epoch), base.map(shard), &logical_ranks, costs, full, turn);
                }
                return self.begin(epoch, turn);
            }
            ProtocolEffect::Stage { epoch, base, logical_rank } => {
                self.jobs.clear();
                if let Some(logical_rank) = logical_rank {
                    self.stage(ShardId { epoch, logical_rank }, ShardId { epoch: base, logical_rank }, turn);
                }
                return self.begin(epoch, turn);
            }
            ProtocolEffect::Rebuild { restore, epoch, costs } => {
                self.jobs = Job::rebuild(&self.plan, epoch, &restore, self.sending(costs), turn.shard_store);
                self.unverified = recovered_from(&restore, self.settings.beginning.rank);
                return self.begin(epoch, turn);
            }
            ProtocolEffect::Seal(work) => Effect::Seal(work),
            ProtocolEffect::Acknowledge(epoch) => Effect::Acknowledge(epoch),
            ProtocolEffect::Keep { epoch, logical_rank, life } => {
                // Another epoch is kept now: the live memory continues from it, or is rolled back to it.
                if self.live.as_ref().is_some_and(|(shard, _)| Some(shard.epoch) != epoch) {
                    self.live = None;
                }
                self.jobs.clear();
                Effect::Keep { epoch, logical_rank, life }
            }
            ProtocolEffect::Resume(resumption) => Effect::Resume(resumption),
            ProtocolEffect::Refuse(refusal) => Effect::Refuse(refusal),
            ProtocolEffect::Leave(reason) => Effect::Leave(reason),
        };
        turn.outputs.push(output);
    }

    /// Writes to a shard the pages that exist only in the live memory.
    fn settle_live(&mut self, turn: &mut Turn) {
        let Some((shard, changed)) = self.live.take() else { return };
        if !turn.shard_store.has(shard) {
            return;
        }
        let used = turn.payload.map().used();
        let mut page = [0; PAGE_BYTES];
        for slot in changed.iter() {
            read_now(turn.payload, &used, slot, &mut page);
            turn.shard_store.write(shard, Place::Slot(slot), &page, Fingerprint::of(&page));
        }
    }

    fn sending(&self, costs: Costs) -> Sending {
        let (me, compress) = (self.settings.beginning.rank, self.settings.compress);
        Sending { me, costs, compress, buffers: self.buffers.clone() }
    }

    fn prefers_full(&self, turn: &Turn) -> bool {
        let Some(logical_rank) =
            self.protocol.logical_rank().filter(|_| self.plan.recovery_mode() == RecoveryMode::Relaunch)
        else {
            return false;
        };
        self.settings.full.unwrap_or_else(|| {
            let before = self.protocol.kept().map(|epoch| ShardId { epoch, logical_rank });
            staging::prefers_full(before, self.settings.compress, turn.payload, turn.shard_store)
        })
    }

    /// Begins a member's or parity node's part in a new epoch.
    fn encode(
        &mut self,
        shard: ShardId,
        base: Option<ShardId>,
        logical_ranks: &[(LogicalRank, Rank)],
        costs: Costs,
        full: bool,
        turn: &mut Turn,
    ) {
        let epoch = shard.epoch;
        turn.shard_store.open(shard, base);
        let job = Job::encode(&self.plan, shard, base, logical_ranks, self.sending(costs), full);
        let (group, others) = (job.group(), job.others());
        self.jobs.insert(group, job);
        if !self.plan.is_member(shard.logical_rank) {
            return;
        }
        let mut staging = match Staging::new(shard, base, self.plan.recovery_mode(), turn.payload, turn.shard_store) {
            Ok(staging) => staging,
            Err(reason) => return self.fail(epoch, reason.into(), turn),
        };
        let data = if full {
            let (changed, held) = staging.write_set();
            Data::WriteSet { epoch, logical_rank: shard.logical_rank, changed, held }
        } else {
            staging.stage_rest(turn.payload, turn.shard_store);
            let (description, changed) = staging.described();
            if self.plan.recovery_mode() == RecoveryMode::InPlace {
                self.live = Some((shard, changed.clone()));
            }
            Data::DeltaDescriptor { epoch, delta_descriptor: DeltaDescriptor::new(&description, changed) }
        };
        self.jobs.get_mut(&group).expect("it has just been put there").stage(staging);
        others.into_iter().for_each(|rank| self.send(rank, data.clone(), turn));
        self.take(self.settings.beginning.rank, data, turn);
    }

    /// Makes a shard of a local epoch: its differences from the base. A parity node adds nothing to it.
    fn stage(&mut self, shard: ShardId, base: ShardId, turn: &mut Turn) {
        turn.shard_store.open_local(shard, Some(base));
        let descriptions = match self.plan.is_member(shard.logical_rank) {
            true => {
                let staging =
                    Staging::new(shard, Some(base), self.plan.recovery_mode(), turn.payload, turn.shard_store);
                staging.map(|mut staging| {
                    staging.stage_rest(turn.payload, turn.shard_store);
                    vec![staging.described().0]
                })
            }
            false => Ok(turn.shard_store.descriptions(base).to_vec()),
        };
        match descriptions {
            Ok(descriptions) => turn.shard_store.describe(shard, descriptions),
            Err(reason) => self.fail(shard.epoch, reason.into(), turn),
        }
    }

    /// Processes early messages of an epoch, and checks whether there is anything to do at all.
    fn begin(&mut self, epoch: EpochId, turn: &mut Turn) {
        if self.finished == Some((self.protocol.term(), epoch)) {
            // It failed as it began.
            return;
        }
        self.finished = None;
        let term = self.protocol.term();
        let hello: Vec<_> = self.jobs.values().flat_map(Job::hello).collect();
        hello.into_iter().for_each(|(rank, data)| self.send(rank, data, turn));
        for (from, of, data) in std::mem::take(&mut self.early) {
            if of == term && data.epoch() == epoch {
                self.take(from, data, turn);
            } else if of > term {
                self.early.push((from, of, data));
            }
        }
        self.advance(epoch, turn);
    }

    fn received(&mut self, from: Rank, bytes: Vec<u8>, turn: &mut Turn) {
        let (term, message) = match message::decode(&self.plan, bytes) {
            Ok(decoded) => decoded,
            Err(error) => return self.reject(from, error, turn),
        };
        if let Some(here) = self.protocol.epoch().filter(|_| term == self.protocol.term())
            && let Some(found) = message::other_epoch(&message, here)
        {
            return self.reject(from, MessageError::OtherEpoch { found, here }, turn);
        }
        match message {
            Message::Control(control) => turn.events.push_back(ProtocolEvent::Message { from, term, control }),
            Message::Data(data) => {
                let epoch = data.epoch();
                let current = self.protocol.term();
                if term < current || self.finished == Some((term, epoch)) {
                    return;
                }
                let is_awaited = term == current && self.jobs.values().any(|job| job.epoch() == epoch);
                if is_awaited {
                    self.take(from, data, turn);
                    self.advance(epoch, turn);
                } else if self.early.iter().filter(|(sender, ..)| *sender == from).count() < EARLY_PER_SENDER_MAX {
                    // A sender that works on another epoch now has finished or abandoned the one before.
                    self.early.retain(|(sender, of, it)| *sender != from || (*of, it.epoch()) == (term, epoch));
                    self.early.push((from, term, data));
                }
            }
        }
    }

    /// A message that is waited for may never arrive now.
    fn reject(&self, from: Rank, error: MessageError, turn: &mut Turn) {
        let under_way = self.jobs.values().next().map(Job::epoch);
        let failed = |epoch| ProtocolEvent::Failed(epoch, format!("a message from process {}: {error}", from.0));
        turn.events.extend(under_way.map(failed));
        turn.outputs.push(Effect::Rejected(from, error));
    }

    fn take(&mut self, from: Rank, data: Data, turn: &mut Turn) {
        let (epoch, group) = (data.epoch(), data.group(&self.plan));
        let Some(job) = self.jobs.get_mut(&group) else { return };
        if let Err(trouble) = job.take(from, data, turn.payload, turn.shard_store) {
            self.fail(epoch, trouble, turn);
        }
    }

    /// Does what the jobs can do, and reports to the protocol when all are done.
    fn advance(&mut self, epoch: EpochId, turn: &mut Turn) {
        let groups: Vec<usize> = self.jobs.keys().copied().collect();
        for group in groups {
            let Some(job) = self.jobs.get_mut(&group) else { continue };
            let messages = match job.advance(turn.payload, turn.shard_store) {
                Ok(messages) => messages,
                Err(trouble) => return self.fail(epoch, trouble, turn),
            };
            let finished = if job.is_done() { Some(job.finish(turn.shard_store)) } else { None };
            messages.into_iter().for_each(|(rank, data)| self.send(rank, data, turn));
            match finished {
                Some(Ok(())) => drop(self.jobs.remove(&group)),
                Some(Err(reason)) => return self.fail(epoch, reason.into(), turn),
                None => {}
            }
        }
        if self.jobs.is_empty() && self.finished.is_none() {
            let mut unverified = std::mem::take(&mut self.unverified).into_iter();
            if let Err(damaged) = unverified.try_for_each(|shard| turn.shard_store.verify(shard)) {
                return self.fail(epoch, Trouble::Damaged(damaged), turn);
            }
            self.finished = Some((self.protocol.term(), epoch));
            turn.events.push_back(ProtocolEvent::Done(epoch));
        }
    }

    fn fail(&mut self, epoch: EpochId, trouble: Trouble, turn: &mut Turn) {
        self.jobs.clear();
        self.finished = Some((self.protocol.term(), epoch));
        turn.events.push_back(match trouble {
            Trouble::Damaged(damaged) => ProtocolEvent::Damaged(epoch, damaged),
            Trouble::Other(reason) => ProtocolEvent::Failed(epoch, reason),
        });
    }

    fn send(&self, to: Rank, data: Data, turn: &mut Turn) {
        let bytes = message::encode(&self.plan, self.protocol.term(), Message::Data(data));
        turn.outputs.push(Effect::Send(to, bytes));
    }
}

/// The context in which one event is handled.
struct Turn<'t> {
    payload: &'t mut dyn Payload,
    shard_store: &'t mut dyn ShardStore,
    outputs: Vec<Effect>,
    events: VecDeque<ProtocolEvent>,
}

/// Returns the shards that a process provides for a recovery, its own or those that it lends, and the bases of local
/// ones.
fn recovered_from(restore: &Restore, me: Rank) -> Vec<ShardId> {
    let base = match restore.level {
        EpochLevel::Local(base) => base,
        EpochLevel::Encoded => None,
    };
    let mine = restore.sources.iter().filter(|(_, rank)| *rank == me);
    mine.flat_map(|(logical_rank, _)| {
        restore.epoch.into_iter().chain(base).map(|epoch| ShardId { epoch, logical_rank: *logical_rank })
    })
    .collect()
}

/// Reads a slot; a slot without a page is zeros.
fn read_now(payload: &dyn Payload, used: &SlotSet, slot: u32, page: &mut standfast_core::delta::Page) {
    if used.contains(slot) { payload.read(slot, page) } else { page.fill(0) }
}
