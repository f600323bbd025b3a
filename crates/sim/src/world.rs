//! The abstract world of the explorer: processes with the real protocol, shard stores with abstract shards, and links
//! with messages.

mod checks;
mod steps;

use standfast_group::transfer::Costs;
use standfast_group::{
    Arrival, Beginning, Control, EpochId, EpochLevel, Holding, Life, LogicalRank, Membership, Plan, Protocol,
    ProtocolEffect, ProtocolEvent, Rank, RecoveryMode, Restore, Resumption, Stage, Survey, Term,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// The parameters of an exploration.
#[derive(Clone, Debug)]
pub struct Model {
    /// The groups.
    pub plan: Arc<Plan>,
    /// Processes beyond the logical ranks.
    pub spares: u32,
    /// Number of the last epoch that the application makes.
    pub epochs: u64,
    /// Interval at which epochs are encoded.
    pub encode_every: u64,
    /// Number of nodes that may fail.
    pub kills: u32,
    /// How often all processes may end while their nodes stay, if the recovery mode is to relaunch.
    pub crashes: u32,
    /// Whether further failures may come before the previous one is recovered, even if the code does not tolerate both.
    pub beyond: bool,
    /// Whether a failed node may come back with the shards that it had.
    pub returns: bool,
    /// Whether every order of messages is explored; otherwise they arrive at once.
    pub messages: bool,
    /// Whether states that differ only in names are one.
    pub symmetric: bool,
    /// An injected fault.
    pub plant: Option<ProtocolFault>,
}

/// Faults that are injected at the interface of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolFault {
    /// A shard is reported sealed before it is.
    CommittedTooEarly,
    /// The old shard is deleted as soon as the new one is sealed.
    DeletedTooEarly,
    /// Shards are distinguished by their number alone.
    IdIgnored,
}

/// A step from one state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The oldest message from the first process to the second arrives.
    Deliver(Rank, Rank),
    /// The oldest action of a process ends.
    Complete(Rank),
    /// A process learns the current membership.
    ReportMembership(Rank),
    /// A node fails. The rest gets a new coordinator.
    Kill {
        /// The node that fails.
        victim: Rank,
        /// The new coordinator.
        coordinator: Rank,
        /// Whether a node that failed before comes back.
        back: bool,
    },
    /// All processes end and are launched again, with the shards of all their nodes, under this coordinator.
    Crash(Rank),
}

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A tolerated loss would not be recovered.
    Unrecoverable(String),
    /// A rebuild, encoding or rollback used the wrong shard.
    Mixed(String),
    /// No step is possible, and the application is not at its end.
    Stuck(String),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Work {
    Survey,
    Encode(EpochId, Option<EpochId>, Vec<(LogicalRank, Rank)>),
    Stage(EpochId, EpochId),
    Rebuild(EpochId, Restore),
    Seal { epoch: EpochId, recovery: bool, level: EpochLevel },
    Acknowledge(EpochId),
    Keep(Option<EpochId>, Option<LogicalRank>, Life),
}

/// What is known of a sealed shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Shard {
    acknowledged: bool,
    level: EpochLevel,
}

/// Sealed shards.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct ShardStore {
    life: Life,
    shards: BTreeMap<(EpochId, LogicalRank), Shard>,
    /// Whether an epoch may have been promised since the job last began.
    promised: bool,
}

impl ShardStore {
    /// Returns the epoch to which the shard really belongs.
    fn find(&self, model: &Model, epoch: EpochId, logical_rank: LogicalRank) -> Option<EpochId> {
        let mut shards = self.shards.keys().filter(|(of, whose)| model.same(*of, epoch) && *whose == logical_rank);
        shards.next_back().map(|(of, _)| *of)
    }

    /// Deletes all shards but one and its base.
    fn keep(&mut self, model: &Model, epoch: Option<EpochId>, logical_rank: Option<LogicalRank>) {
        let level = epoch.zip(logical_rank).and_then(|kept| self.shards.get(&kept)).map(|shard| shard.level);
        let base = level.and_then(|level| match level {
            EpochLevel::Local(base) => base,
            EpochLevel::Encoded => None,
        });
        let counts = |of: EpochId| [epoch, base].into_iter().flatten().any(|kept| model.same(of, kept));
        self.shards.retain(|(of, whose), _| counts(*of) && Some(*whose) == logical_rank);
    }
}

impl Model {
    /// Reports whether two epochs count as one.
    fn same(&self, one: EpochId, two: EpochId) -> bool {
        one == two || (self.plant == Some(ProtocolFault::IdIgnored) && one.number == two.number)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Host {
    protocol: Protocol,
    shard_store: ShardStore,
    work: VecDeque<Work>,
    last_epoch: u64,
    refused: bool,
    /// Whether there is a membership that the process does not know yet.
    unreported: bool,
}

/// A state of the model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    hosts: BTreeMap<Rank, Host>,
    away: Vec<ShardStore>,
    links: BTreeMap<(Rank, Rank), VecDeque<(Term, Control)>>,
    membership: Membership,
    next_rank: u32,
    kills_left: u32,
    crashes_left: u32,
    /// Failures since every logical rank had its shard.
    missing: u32,
    /// The newest epoch from which an application continued.
    promised: Option<EpochId>,
    /// The newest encoded epoch: what is left of a promise when a shard is lost.
    encoded: Option<EpochId>,
    /// The epoch to which the processes of this membership were rolled back.
    rolled_back: Option<EpochId>,
}

impl World {
    /// Returns the initial state: all processes have just been informed that all are present.
    pub fn new(model: &Model) -> Self {
        let logical_ranks = model.plan.logical_ranks() as u32;
        let present: Vec<Rank> = (0..logical_ranks + model.spares).map(Rank).collect();
        let mut world = Self {
            hosts: BTreeMap::new(),
            away: Vec::new(),
            links: BTreeMap::new(),
            membership: Membership { number: 1, present: present.clone() },
            next_rank: logical_ranks + model.spares,
            kills_left: model.kills,
            crashes_left: model.crashes,
            missing: 0,
            promised: None,
            encoded: None,
            rolled_back: None,
        };
        for rank in present {
            let prefers = (rank.0 < logical_ranks).then_some(LogicalRank(rank.0));
            world.hosts.insert(rank, world.host(model, rank, prefers, ShardStore::default()));
        }
        world.report_membership_to_all(model).expect("nothing has happened yet that could be wrong");
        world
    }

    fn host(&self, model: &Model, rank: Rank, prefers: Option<LogicalRank>, shard_store: ShardStore) -> Host {
        let costs = Costs { latency_nanoseconds: 1, page_nanoseconds: 1 };
        let beginning = Beginning { rank, prefers, started: false, costs, encode_every: model.encode_every };
        Host {
            protocol: Protocol::new(model.plan.clone(), beginning),
            shard_store,
            work: VecDeque::new(),
            last_epoch: 0,
            refused: false,
            unreported: true,
        }
    }

    fn report_membership_to_all(&mut self, model: &Model) -> Result<(), Violation> {
        if !model.messages {
            for rank in self.membership.present.clone() {
                self.report_membership(model, rank)?;
            }
        }
        Ok(())
    }

    fn report_membership(&mut self, model: &Model, rank: Rank) -> Result<(), Violation> {
        self.hosts.get_mut(&rank).expect("it is present").unreported = false;
        self.event(model, rank, ProtocolEvent::Membership(self.membership.clone()))
    }

    /// Reports whether recovery was refused to any process.
    pub fn is_refused(&self) -> bool {
        self.hosts.values().any(|host| host.refused)
    }

    /// Takes a step.
    ///
    /// # Errors
    /// [`Violation::Mixed`]
    pub fn take(&mut self, model: &Model, step: Step) -> Result<(), Violation> {
        match step {
            Step::ReportMembership(rank) => self.report_membership(model, rank),
            Step::Deliver(from, to) => self.deliver(model, from, to),
            Step::Complete(rank) => self.complete(model, rank),
            Step::Kill { victim, coordinator, back } => self.kill(model, victim, coordinator, back),
            Step::Crash(coordinator) => {
                self.crashes_left -= 1;
                self.begin_again(model, coordinator, Vec::new())
            }
        }?;
        if self.is_whole(model) {
            self.missing = 0;
        }
        Ok(())
    }

    fn deliver(&mut self, model: &Model, from: Rank, to: Rank) -> Result<(), Violation> {
        let link = self.links.get_mut(&(from, to)).expect("the step was offered");
        let (term, control) = link.pop_front().expect("the step was offered");
        if link.is_empty() {
            self.links.remove(&(from, to));
        }
        self.event(model, to, ProtocolEvent::Message { from, term, control })
    }

    /// Removes the node with its shards, which may come back later. In place the others continue; otherwise all processes
    /// start again, with another node in place of the failed one.
    fn kill(&mut self, model: &Model, victim: Rank, coordinator: Rank, back: bool) -> Result<(), Violation> {
        let lost = self.hosts.remove(&victim).expect("the step was offered");
        let returned = if back { self.away.pop() } else { None };
        if model.returns {
            self.away.push(lost.shard_store);
        }
        self.kills_left -= 1;
        self.missing += 1;
        let fresh = (model.plan.recovery_mode() == RecoveryMode::Relaunch).then(ShardStore::default);
        self.begin_again(model, coordinator, returned.into_iter().chain(fresh).collect())
    }

    /// Gives all processes a new membership, with new processes on these shard stores.
    fn begin_again(&mut self, model: &Model, coordinator: Rank, joining: Vec<ShardStore>) -> Result<(), Violation> {
        self.rolled_back = None;
        if model.plan.recovery_mode() == RecoveryMode::Relaunch {
            self.links.clear();
            for rank in self.hosts.keys().copied().collect::<Vec<_>>() {
                let host = &self.hosts[&rank];
                let fresh = self.host(model, rank, host.protocol.logical_rank(), host.shard_store.clone());
                self.hosts.insert(rank, fresh);
            }
        }
        for shard_store in joining {
            let rank = Rank(self.next_rank);
            self.next_rank += 1;
            self.hosts.insert(rank, self.host(model, rank, None, shard_store));
        }
        let others = self.hosts.keys().copied().filter(|rank| *rank != coordinator);
        let present = std::iter::once(coordinator).chain(others).collect();
        self.membership = Membership { number: self.membership.number + 1, present };
        self.hosts.values_mut().for_each(|host| host.unreported = true);
        self.report_membership_to_all(model)
    }

    fn complete(&mut self, model: &Model, rank: Rank) -> Result<(), Violation> {
        let host = self.hosts.get_mut(&rank).expect("the step was offered");
        let logical_rank = host.protocol.logical_rank();
        let event = match host.work.pop_front().expect("the step was offered") {
            Work::Survey => ProtocolEvent::Surveyed(host.protocol.term().membership, survey(model, &host.shard_store)),
            Work::Encode(epoch, base, _) => {
                if let (Some(base), Some(logical_rank)) = (base, logical_rank)
                    && host.shard_store.find(model, base, logical_rank).is_none()
                {
                    return Err(Violation::Mixed(format!("{logical_rank:?} encodes {epoch} without its {base}")));
                }
                ProtocolEvent::Done(epoch)
            }
            Work::Stage(epoch, base) => {
                if let Some(logical_rank) = logical_rank
                    && host.shard_store.find(model, base, logical_rank).is_none()
                {
                    return Err(Violation::Mixed(format!("{logical_rank:?} lays {epoch} down without its {base}")));
                }
                ProtocolEvent::Done(epoch)
            }
            Work::Rebuild(epoch, restore) => {
                self.check_sources(model, epoch, &restore)?;
                ProtocolEvent::Done(epoch)
            }
            Work::Seal { epoch, recovery, level } => {
                if let Some(logical_rank) = logical_rank {
                    host.shard_store
                        .shards
                        .entry((epoch, logical_rank))
                        .or_insert(Shard { acknowledged: false, level });
                    host.shard_store.promised |= !recovery;
                }
                if model.plant == Some(ProtocolFault::DeletedTooEarly) {
                    host.shard_store.shards.retain(|(of, _), _| *of == epoch);
                }
                if model.plant == Some(ProtocolFault::CommittedTooEarly) {
                    return Ok(());
                }
                ProtocolEvent::Sealed(epoch)
            }
            Work::Acknowledge(epoch) => {
                host.shard_store.promised = true;
                host.shard_store
                    .shards
                    .iter_mut()
                    .filter(|((of, _), _)| *of == epoch)
                    .for_each(|(_, shard)| shard.acknowledged = true);
                ProtocolEvent::Acknowledged(epoch)
            }
            Work::Keep(epoch, logical_rank, life) => {
                host.shard_store.life = life;
                host.shard_store.promised = epoch.is_some();
                host.shard_store.keep(model, epoch, logical_rank);
                ProtocolEvent::Kept
            }
        };
        self.event(model, rank, event)
    }

    /// Checks that the sources of a rebuild are of one epoch.
    fn check_sources(&self, model: &Model, epoch: EpochId, restore: &Restore) -> Result<(), Violation> {
        let mut found = BTreeSet::new();
        for (logical_rank, rank) in &restore.sources {
            let shard = self.hosts.get(rank).and_then(|host| host.shard_store.find(model, epoch, *logical_rank));
            let missing =
                || Violation::Mixed(format!("process {} has no shard of {logical_rank:?} for {epoch}", rank.0));
            found.insert(shard.ok_or_else(missing)?);
        }
        if found.len() > 1 {
            return Err(Violation::Mixed(format!("{epoch} is put together from {found:?}")));
        }
        Ok(())
    }

    /// Gives a process an event and executes its answers; without `messages`, also everything that follows by messages
    /// alone.
    fn event(&mut self, model: &Model, rank: Rank, event: ProtocolEvent) -> Result<(), Violation> {
        let mut events = VecDeque::from([(rank, event)]);
        while let Some((rank, event)) = events.pop_front() {
            let Some(host) = self.hosts.get_mut(&rank) else { continue };
            for effect in host.protocol.handle(event) {
                match effect {
                    ProtocolEffect::Send { to, term, control } if model.messages => {
                        self.links.entry((rank, to)).or_default().push_back((term, control));
                    }
                    ProtocolEffect::Send { to, term, control } => {
                        events.push_back((to, ProtocolEvent::Message { from: rank, term, control }));
                    }
                    other => events.extend(self.act(model, rank, other)?.map(|event| (rank, event))),
                }
            }
        }
        Ok(())
    }

    /// Carries out an effect. Storage effects are queued; the application arrives at its next checkpoint as soon as it may.
    fn act(&mut self, model: &Model, rank: Rank, effect: ProtocolEffect) -> Result<Option<ProtocolEvent>, Violation> {
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        let work = match effect {
            ProtocolEffect::Survey(_) => {
                host.work.clear();
                Work::Survey
            }
            ProtocolEffect::Encode { epoch, base, logical_ranks, .. } => Work::Encode(epoch, base, logical_ranks),
            ProtocolEffect::Stage { epoch, base, .. } => Work::Stage(epoch, base),
            ProtocolEffect::Rebuild { restore, epoch, .. } => Work::Rebuild(epoch, restore),
            ProtocolEffect::Seal(work) => {
                let standfast_group::Work { epoch, recovery, level } = work;
                host.work.push_back(Work::Seal { epoch, recovery, level });
                return Ok(
                    (model.plant == Some(ProtocolFault::CommittedTooEarly)).then_some(ProtocolEvent::Sealed(epoch))
                );
            }
            ProtocolEffect::Acknowledge(epoch) => Work::Acknowledge(epoch),
            ProtocolEffect::Keep { epoch, logical_rank, life } => Work::Keep(epoch, logical_rank, life),
            ProtocolEffect::Resume(resumption) => return self.resume(model, rank, resumption),
            ProtocolEffect::Refuse(_) => {
                host.refused = true;
                return Ok(None);
            }
            ProtocolEffect::Leave(_) | ProtocolEffect::Send { .. } => {
                unreachable!("no storage fails here, and messages were sent")
            }
        };
        host.work.push_back(work);
        Ok(None)
    }

    fn resume(
        &mut self,
        model: &Model,
        rank: Rank,
        resumption: Resumption,
    ) -> Result<Option<ProtocolEvent>, Violation> {
        let host = self.hosts.get_mut(&rank).expect("it has just acted");
        match resumption {
            Resumption::Start(_) => {}
            Resumption::Committed(epoch, level) => {
                host.last_epoch = epoch.number;
                self.promised = self.promised.max(Some(epoch));
                if level == EpochLevel::Encoded {
                    self.encoded = self.encoded.max(Some(epoch));
                }
            }
            Resumption::Abandoned(reason) => return Err(Violation::Stuck(reason)),
            Resumption::Rollback(epoch, logical_rank) => {
                if host.shard_store.find(model, epoch, logical_rank).is_none() {
                    return Err(Violation::Mixed(format!(
                        "{logical_rank:?} goes back to {epoch} and has no shard of it"
                    )));
                }
                if self.rolled_back.replace(epoch).is_some_and(|other| other != epoch) {
                    return Err(Violation::Mixed(format!(
                        "{logical_rank:?} goes back to {epoch}, another to another epoch"
                    )));
                }
                host.last_epoch = epoch.number;
                (self.promised, self.encoded) = (Some(epoch), host.protocol.kept());
            }
        }
        let host = &self.hosts[&rank];
        // Any number will do for the id, as long as an epoch that is begun again in another membership has another one.
        let arrival = Arrival { random: self.membership.number, full: false };
        Ok((host.last_epoch < model.epochs).then_some(ProtocolEvent::Arrived(arrival)))
    }
}

fn has_done(stage: &Stage, epoch: EpochId) -> bool {
    match stage {
        Stage::Sealing(work) | Stage::Sealed(work) | Stage::Marking(work) | Stage::Acknowledged(work) => {
            work.epoch == epoch
        }
        _ => false,
    }
}

fn survey(model: &Model, shard_store: &ShardStore) -> Survey {
    let id = |epoch: EpochId| match model.plant {
        Some(ProtocolFault::IdIgnored) => EpochId { life: Life(0), random: 0, ..epoch },
        _ => epoch,
    };
    let shards = shard_store.shards.iter();
    let holding = |((epoch, logical_rank), shard): (&(EpochId, LogicalRank), &Shard)| {
        let Shard { acknowledged, level } = *shard;
        Holding { epoch: id(*epoch), logical_rank: *logical_rank, acknowledged, level }
    };
    let unpromised = shard_store.life != Life::default() && !shard_store.promised;
    Survey { life: shard_store.life, holdings: shards.map(holding).collect(), unpromised }
}

/// Returns how many losses every group tolerates, wherever they occur.
fn tolerance(plan: &Plan) -> u32 {
    (0..plan.groups().len()).map(|group| plan.layout(group).code().tolerance() as u32).min().unwrap_or(0)
}
