//! A simulated cluster: the real [`Process`]es on simulated nodes, with a clock, a network, storage that takes its time,
//! and failures. Everything follows from the scenario's seed.
//!
//! The invariants are checked as events happen ([`Failure`]). Processes that roll back do so together, to one epoch and
//! to exactly the bytes that it had. They roll back to nothing older than what was promised, unless more was lost than is
//! tolerated.

mod losses;
mod reporting;

use crate::network::Agenda;
use crate::program::Program;
use crate::scenario::{Plant, Scenario};
use fastrand::Rng;
use standfast_core::{Checksum, PAGE_BYTES, Syndrome};
use standfast_group::{
    Beginning, Effect, EpochId, EpochLevel, Event, Life, LoadError, LogicalRank, Membership, MemoryShardStore, Message,
    Nothing, Process, ProcessSettings, Rank, RecoveryMode, Resumption, ShardId, Stage, Work, decode, encode,
};
use std::collections::{BTreeMap, BTreeSet};

/// Most events of a run; a longer one runs in circles.
const HAPPENINGS_MAX: u64 = 40_000_000;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Epochs that were committed.
    pub committed: u64,
    /// Failures.
    pub kills: u32,
    /// Committed epochs that were local.
    pub local: u64,
    /// Completed recoveries.
    pub recoveries: u32,
    /// Completed recoveries of a local epoch.
    pub local_recoveries: u32,
    /// Whether recovery was refused in the end, because more was lost than is tolerated.
    pub refused: bool,
    /// Checkpoints that were abandoned because storage failed.
    pub abandoned: u32,
    /// Messages sent.
    pub messages: u64,
    /// Most bytes of sums in progress that a process had.
    pub held_peak: usize,
    /// For each logical rank, the most pages that it held beside the program: its own, and those of checks.
    pub peaks: BTreeMap<LogicalRank, (usize, usize)>,
    /// For each logical rank, the pages that it holds at the end.
    pub steady: BTreeMap<LogicalRank, (usize, usize)>,
    /// For each member, the pages of its program at the end.
    pub program: BTreeMap<LogicalRank, usize>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

enum Happening {
    Message(Rank, Rank, Vec<u8>),
    /// Storage has finished, in this incarnation of the host.
    Stored(Rank, u64, Store),
    Arrives(Rank, u64),
    Told(Rank, Membership),
    Kill,
}

#[derive(Clone, Debug)]
enum Store {
    Survey(u64),
    Seal(Work),
    Acknowledge(EpochId),
    Keep(Option<EpochId>, Option<LogicalRank>, Life),
}

/// The part of a node that outlives a process.
#[derive(Clone, Default)]
struct Node {
    shard_store: MemoryShardStore,
    /// Groups in which it had a logical rank since all was complete. Its loss counts as one of theirs, even if it has
    /// none of their shards.
    served: BTreeSet<usize>,
}

struct Host {
    process: Process,
    shard_store: MemoryShardStore,
    served: BTreeSet<usize>,
    program: Option<Program>,
    /// The pending storage actions; the first is in progress.
    storage: std::collections::VecDeque<Store>,
    last_epoch: u64,
    /// Distinguishes the host from its predecessors, when an old event happens late.
    incarnation: u64,
    /// When its program was last resumed.
    resumed: u64,
}

/// A cluster in the middle of a run.
pub struct Cluster<'s> {
    scenario: &'s Scenario,
    random: Rng,
    agenda: Agenda<Happening>,
    hosts: BTreeMap<Rank, Host>,
    away: Vec<MemoryShardStore>,
    membership: u64,
    next_rank: u32,
    incarnations: u64,
    resumptions: u64,
    kills_left: u32,
    /// The program of every member when its shard was sealed.
    truth: BTreeMap<ShardId, Checksum>,
    promised: Option<EpochId>,
    /// The newest encoded epoch: what is left of a promise when a shard is lost.
    encoded: Option<EpochId>,
    /// Whether a shard was lost since all was complete.
    has_lost: bool,
    /// Losses in each group since all was complete.
    lost: BTreeMap<usize, u32>,
    /// Logical ranks that were empty when all was last complete, and those that a recovery has left empty since.
    empty: BTreeSet<LogicalRank>,
    vacated: BTreeSet<LogicalRank>,
    /// Whether there was a membership since all losses were last repaired.
    has_membership: bool,
    beyond: bool,
    /// Whether a disk has been damaged: until that is recovered, checkpoints are abandoned.
    damaged: bool,
    rolled_back: Option<(u64, EpochId)>,
    outcome: RunOutcome,
}

/// Runs a scenario to its end.
///
/// # Errors
/// [`Failure`]
pub fn run(scenario: &Scenario) -> Result<RunOutcome, Failure> {
    let mut cluster = Cluster::new(scenario);
    let mut happened = 0;
    while let Some(happening) = cluster.agenda.next() {
        cluster.happen(happening)?;
        happened += 1;
        if happened > HAPPENINGS_MAX {
            return Err(Failure("it goes on and on".into()));
        }
    }
    cluster.end()
}

impl<'s> Cluster<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let mut cluster = Self {
            scenario,
            random: Rng::with_seed(scenario.seed ^ 0x5eed),
            agenda: Agenda::default(),
            hosts: BTreeMap::new(),
            away: Vec::new(),
            membership: 0,
            next_rank: 0,
            incarnations: 0,
            resumptions: 0,
            kills_left: scenario.kills,
            truth: BTreeMap::new(),
            promised: None,
            encoded: None,
            has_lost: false,
            lost: BTreeMap::new(),
            empty: BTreeSet::new(),
            vacated: BTreeSet::new(),
            has_membership: false,
            beyond: false,
            damaged: false,
            rolled_back: None,
            outcome: RunOutcome::default(),
        };
        let count = scenario.plan.logical_ranks() as u32 + scenario.spares;
        cluster.launch(vec![Node::default(); count as usize]);
        for _ in 0..scenario.kills {
            let at = cluster.random.u64(..30_000);
            cluster.agenda.after(at, Happening::Kill);
        }
        cluster
    }

    /// Starts all processes again, one on each of these nodes, in any order.
    fn launch(&mut self, mut nodes: Vec<Node>) {
        self.random.shuffle(&mut nodes);
        self.hosts.clear();
        self.next_rank = 0;
        for node in nodes {
            self.add_host(node);
        }
        self.assemble();
    }

    fn add_host(&mut self, Node { shard_store, served }: Node) {
        let rank = Rank(self.next_rank);
        self.next_rank += 1;
        self.incarnations += 1;
        let logical_rank = LogicalRank(rank.0);
        let costs = self.scenario.costs[rank.0 as usize % self.scenario.costs.len()];
        let prefers = self.scenario.plan.has(logical_rank).then_some(logical_rank);
        let encode_every = self.scenario.encode_every;
        let settings = ProcessSettings {
            beginning: Beginning { rank, prefers, started: false, costs, encode_every },
            compress: self.scenario.compress,
            full: self.scenario.full,
        };
        let process = Process::new(self.scenario.plan.clone(), settings);
        let (storage, incarnation) = (std::collections::VecDeque::new(), self.incarnations);
        self.hosts.insert(
            rank,
            Host { process, shard_store, served, program: None, storage, last_epoch: 0, incarnation, resumed: 0 },
        );
    }

    /// Gives all processes a new membership, each at another time, with any of them as coordinator.
    fn assemble(&mut self) {
        self.membership += 1;
        self.has_membership = true;
        let mut present: Vec<Rank> = self.hosts.keys().copied().collect();
        self.random.shuffle(&mut present);
        let membership = Membership { number: self.membership, present };
        for rank in membership.present.clone() {
            let delay = self.random.u64(..300);
            self.agenda.after(delay, Happening::Told(rank, membership.clone()));
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Failure> {
        match happening {
            Happening::Message(from, to, bytes) => self.event(to, Event::Message(from, bytes)),
            Happening::Told(rank, membership) => self.event(rank, Event::Membership(membership)),
            Happening::Stored(rank, incarnation, store) => match self.hosts.get(&rank) {
                Some(host) if host.incarnation == incarnation => self.stored(rank, store),
                _ => Ok(()),
            },
            Happening::Arrives(rank, resumed) => {
                let Some(host) = self.hosts.get_mut(&rank).filter(|it| it.resumed == resumed) else { return Ok(()) };
                if let Some(program) = &mut host.program {
                    program.compute();
                }
                let random = self.random.u64(..);
                self.event(rank, Event::Arrived(random))
            }
            Happening::Kill => self.kill(),
        }
    }

    fn event(&mut self, rank: Rank, event: Event) -> Result<(), Failure> {
        let Some(host) = self.hosts.get_mut(&rank) else { return Ok(()) };
        let mut nothing = Nothing::default();
        let effects = match &mut host.program {
            Some(program) => host.process.handle(event, program, &mut host.shard_store),
            None => host.process.handle(event, &mut nothing, &mut host.shard_store),
        };
        let incarnation = host.incarnation;
        let (held, most) = host.process.held_bytes();
        if held > most {
            return Err(Failure(format!("process {} holds {held} bytes of sums, and {most} at most", rank.0)));
        }
        self.outcome.held_peak = self.outcome.held_peak.max(held);
        self.note_truth(rank);
        for effect in effects {
            // A process that has ended does nothing more, nor does another one that has its rank.
            if self.hosts.get(&rank).is_some_and(|host| host.incarnation == incarnation) {
                self.effect(rank, effect)?;
            }
        }
        self.note_pages(rank);
        self.note_wholeness();
        Ok(())
    }

    fn effect(&mut self, rank: Rank, effect: Effect) -> Result<(), Failure> {
        match effect {
            Effect::Send(to, mut bytes) => {
                self.outcome.messages += 1;
                if self.scenario.plant == Some(Plant::WrongCoefficient) {
                    self.miscompute(&mut bytes);
                }
                self.agenda.message(rank, to, &mut self.random, Happening::Message(rank, to, bytes));
            }
            Effect::Survey(membership) => self.store(rank, Store::Survey(membership)),
            Effect::Seal(work) => {
                self.note_vacated(rank);
                self.store(rank, Store::Seal(work));
                if self.scenario.plant == Some(Plant::CommittedTooEarly) {
                    self.event(rank, Event::Sealed(work.epoch))?;
                }
            }
            Effect::Acknowledge(epoch) => self.store(rank, Store::Acknowledge(epoch)),
            Effect::Keep { epoch, logical_rank, life } => self.store(rank, Store::Keep(epoch, logical_rank, life)),
            Effect::Resume(resumption) => return self.resume(rank, resumption),
            Effect::Refuse(refusal) => return self.refused(rank, &refusal.to_string()),
            Effect::Leave(_) => {
                self.beyond |= !self.tolerates(rank);
                self.lose_logical_ranks(rank);
                self.hosts.remove(&rank);
                return self.begin_again(Some(MemoryShardStore::default()));
            }
            Effect::Rejected(from, error) => {
                return Err(Failure(format!("process {} does not take a message of {}: {error}", rank.0, from.0)));
            }
        }
        Ok(())
    }

    /// Storage executes its actions one by one.
    fn store(&mut self, rank: Rank, store: Store) {
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        host.storage.push_back(store);
        if host.storage.len() == 1 {
            self.begin_storage(rank);
        }
    }

    fn begin_storage(&mut self, rank: Rank) {
        let host = &self.hosts[&rank];
        let Some(store) = host.storage.front() else { return };
        let delay = self.random.u64(1..400);
        self.agenda.after(delay, Happening::Stored(rank, host.incarnation, store.clone()));
    }

    fn stored(&mut self, rank: Rank, store: Store) -> Result<(), Failure> {
        let fails = self.random.u32(..1000) < self.scenario.storage_fails_permille;
        let host = self.hosts.get_mut(&rank).expect("its incarnation was looked at");
        host.storage.pop_front();
        let event = match store {
            Store::Survey(membership) => {
                let mut survey = host.shard_store.survey();
                if self.scenario.plant == Some(Plant::IdIgnored) {
                    survey.holdings.iter_mut().for_each(|it| (it.epoch.life, it.epoch.random) = (Life(0), 0));
                }
                Event::Surveyed(membership, survey)
            }
            Store::Seal(work) if fails => Event::Unstored(work.epoch, "no space left on the device".into()),
            Store::Seal(work) => {
                host.shard_store.seal(work);
                if self.scenario.plant == Some(Plant::DeletedTooEarly) {
                    let (logical_rank, life) = (host.process.protocol().logical_rank(), host.shard_store.survey().life);
                    host.shard_store.keep(Some(work.epoch), logical_rank, life);
                }
                Event::Sealed(work.epoch)
            }
            Store::Acknowledge(epoch) => {
                host.shard_store.acknowledge(epoch);
                Event::Acknowledged(epoch)
            }
            Store::Keep(epoch, logical_rank, life) => {
                host.shard_store.keep(epoch, logical_rank, life);
                Event::Kept
            }
        };
        self.begin_storage(rank);
        self.event(rank, event)
    }

    /// Records the program of a member while an epoch is made of it.
    fn note_truth(&mut self, rank: Rank) {
        let Some(host) = self.hosts.get(&rank) else { return };
        let (Some(logical_rank), Some(program)) = (host.process.protocol().logical_rank(), &host.program) else {
            return;
        };
        if let Stage::Working(work) | Stage::Sealing(work) = host.process.protocol().stage()
            && !work.recovery
        {
            let shard = ShardId { epoch: work.epoch, logical_rank };
            self.truth.entry(shard).or_insert_with(|| program.fingerprint());
        }
    }

    fn resume(&mut self, rank: Rank, resumption: Resumption) -> Result<(), Failure> {
        let scenario = self.scenario;
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        match resumption {
            Resumption::Start(logical_rank) => {
                if let Some(promised) = self.promised.filter(|_| !self.beyond) {
                    return Err(Failure(format!("{logical_rank:?} begins again though {promised} was promised")));
                }
                (self.promised, self.encoded) = (None, None);
                host.program = Some(Program::new(scenario.habits, scenario.seed ^ u64::from(logical_rank.0) << 32));
                host.last_epoch = 0;
            }
            Resumption::Committed(epoch, level) => {
                host.last_epoch = epoch.number;
                let is_local = level != EpochLevel::Encoded;
                if self.promised < Some(epoch) {
                    (self.promised, self.outcome.committed) = (Some(epoch), self.outcome.committed + 1);
                    self.outcome.local += u64::from(is_local);
                }
                if let Some(program) = host.program.as_mut().filter(|_| !is_local) {
                    self.encoded = self.encoded.max(Some(epoch));
                    program.is_saved();
                }
            }
            Resumption::Abandoned(reason) => {
                self.outcome.abandoned += 1;
                if scenario.storage_fails_permille == 0 && !self.damaged {
                    return Err(Failure(format!("a checkpoint was given up: {reason}")));
                }
            }
            Resumption::Rollback(epoch, logical_rank) => {
                if !self.roll_back(rank, epoch, logical_rank)? {
                    return self.begin_again(None);
                }
            }
        }
        self.resumptions += 1;
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        host.resumed = self.resumptions;
        if host.last_epoch < scenario.epochs {
            let delay = self.random.u64(1..3000);
            self.agenda.after(delay, Happening::Arrives(rank, host.resumed));
        }
        Ok(())
    }

    /// Reports whether the rollback succeeded. It fails if the shard was damaged after it was verified.
    fn roll_back(&mut self, rank: Rank, epoch: EpochId, logical_rank: LogicalRank) -> Result<bool, Failure> {
        let membership = self.hosts[&rank].process.protocol().term().membership;
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        let age = |epoch: EpochId| (epoch.life, epoch.number);
        let left = if self.has_lost { self.encoded } else { self.promised };
        if let Some(promised) = left.filter(|_| !self.beyond)
            && epoch != promised
            && age(epoch) <= age(promised)
        {
            return Err(Failure(format!("{logical_rank:?} goes back to {epoch} though {promised} was promised")));
        }
        if let Some((when, other)) = self.rolled_back
            && when == membership
            && other != epoch
        {
            return Err(Failure(format!("{logical_rank:?} goes back to {epoch}, another to {other}")));
        }
        let encoded = host.process.protocol().kept();
        if self.rolled_back.is_none_or(|(when, _)| when != membership) {
            self.outcome.recoveries += 1;
            self.outcome.local_recoveries += u32::from(encoded != Some(epoch));
        }
        (self.rolled_back, self.promised) = (Some((membership, epoch)), Some(epoch));
        let shard = ShardId { epoch, logical_rank };
        self.encoded = encoded;
        let differs_from = (encoded != Some(epoch)).then(|| encoded.map(|epoch| ShardId { epoch, logical_rank }));
        let program = match Program::restored(self.scenario.habits, &host.shard_store, shard, differs_from) {
            Ok(program) => program,
            Err(LoadError::Damaged(_)) => return Ok(false),
            Err(error) => return Err(Failure(error.to_string())),
        };
        if Some(program.fingerprint()) != self.truth.get(&shard).copied() {
            return Err(Failure(format!("{logical_rank:?} went back to {epoch} and is not what it was")));
        }
        (host.program, host.last_epoch) = (Some(program), epoch.number);
        Ok(true)
    }

    fn refused(&mut self, rank: Rank, reason: &str) -> Result<(), Failure> {
        // Other processes may get the next membership while this one ends.
        if self.hosts[&rank].process.protocol().term().membership < self.membership {
            return Ok(());
        }
        let few = self.hosts.len() < self.scenario.plan.members();
        let nothing = self.promised.is_none() && self.scenario.plan.recovery_mode() == RecoveryMode::InPlace;
        if !(self.beyond || few || nothing) {
            return Err(Failure(format!("refused: {reason}")));
        }
        self.outcome.refused = true;
        Ok(())
    }

    /// Lets a hop add twice the right amount to one byte. Checksum and syndrome are recomputed, so no process notices on
    /// the way.
    fn miscompute(&mut self, bytes: &mut Vec<u8>) {
        let plan = &self.scenario.plan;
        let Ok((term, Message::Data(standfast_group::Data::Part(mut part)))) = decode(plan, bytes.clone()) else {
            return;
        };
        if !part.words
            && let Some(at) = part.bytes.iter().position(|byte| *byte != 0)
        {
            let left = |part: &standfast_group::Part| Syndrome::of(&part.bytes.as_chunks().0[at / PAGE_BYTES]);
            let before = left(&part);
            part.bytes[at] = part.bytes[at].rotate_left(1) ^ 1;
            let after = left(&part);
            part.syndromes[at / PAGE_BYTES] ^= before ^ after;
            *bytes = encode(plan, term, Message::Data(standfast_group::Data::Part(part)));
        }
    }
}
