//! Processes of one group around a table: their messages and storage effects happen when a test lets them.

use standfast_core::delta::Page;
use standfast_core::erasure::Scheme;
use standfast_core::{Checksum, PAGE_BYTES};
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use standfast_group::{
    Beginning, Effect, Event, LogicalRank, Membership, MemoryShardStore, Payload, Plan, Process, ProcessSettings, Rank,
    RecoveryMode, RegionId, Resumption, ShardId, SlotMap, SlotSet, load,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(crate) const JOB: JobId = JobId::from_bytes([4; 16]);
pub(crate) const COSTS: Costs = Costs { latency_nanoseconds: 1_000, page_nanoseconds: 1_000 };

/// A member whose pages follow from its logical rank and the number of the checkpoint that it has reached.
#[derive(Clone, Default)]
pub(crate) struct Program {
    pub(crate) map: SlotMap,
    pub(crate) logical_rank: u32,
    pub(crate) number: u64,
    /// Whether the program reports that nothing has changed.
    pub(crate) still: bool,
    /// The pages that have been read, if the program writes to a page as soon as it has been read.
    pub(crate) restless: Option<RefCell<BTreeSet<u32>>>,
}

impl Program {
    pub(crate) fn new(logical_rank: LogicalRank, number: u64) -> Self {
        let mut map = SlotMap::default();
        map.resize(RegionId(1), u64::from(logical_rank.0 + 3) * PAGE_BYTES as u64).expect("a few pages have room");
        Self { map, logical_rank: logical_rank.0, number, still: false, restless: None }
    }
}

impl Payload for Program {
    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn changed(&self) -> SlotSet {
        if self.still { SlotSet::default() } else { self.map.used() }
    }

    fn read(&self, slot: u32, page: &mut Page) {
        let byte = |at: usize| (at as u64 * (self.number + 2) + u64::from(self.logical_rank * 41 + slot * 7)) as u8;
        page.iter_mut().enumerate().for_each(|(at, it)| *it = byte(at));
        if self.restless.as_ref().is_some_and(|read| !read.borrow_mut().insert(slot)) {
            page.reverse();
        }
    }
}

pub(crate) struct Player {
    pub(crate) process: Process,
    pub(crate) shard_store: MemoryShardStore,
    pub(crate) program: Program,
}

/// How far storage gets once there is an epoch.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Until {
    /// The epoch is sealed.
    Sealed,
    /// The epoch is sealed and acknowledged.
    Acknowledged,
    /// Everything is done.
    Stable,
}

/// Processes at a table: each event is handled completely before the next.
pub(crate) struct Table {
    pub(crate) plan: Arc<Plan>,
    pub(crate) players: BTreeMap<Rank, Player>,
    pub(crate) events: VecDeque<(Rank, Event)>,
    /// How far storage gets before all processes are struck.
    pub(crate) until: Until,
    /// Bytes sent.
    pub(crate) sent: usize,
    /// The last resumption that each process received.
    pub(crate) resumptions: BTreeMap<Rank, Resumption>,
    pub(crate) refused: Option<String>,
    /// A message that its sender damages before it makes the checksum: which one, and the changes to its body.
    pub(crate) damaged: Option<(usize, Vec<(u16, u8)>)>,
}

impl Table {
    /// Puts one process on each shard store. The process with the number of a logical rank prefers that rank.
    pub(crate) fn new(plan: &Arc<Plan>, shard_stores: Vec<MemoryShardStore>, until: Until) -> Self {
        Self::encoding_every(1, plan, shard_stores, until)
    }

    /// Does the same, with local epochs between the encoded ones.
    pub(crate) fn encoding_every(
        encode_every: u64,
        plan: &Arc<Plan>,
        shard_stores: Vec<MemoryShardStore>,
        until: Until,
    ) -> Self {
        Self::with((encode_every, None), plan, shard_stores, until)
    }

    /// Does the same, with checks that are always or never made in full.
    pub(crate) fn with(
        (encode_every, full): (u64, Option<bool>),
        plan: &Arc<Plan>,
        shard_stores: Vec<MemoryShardStore>,
        until: Until,
    ) -> Self {
        let players = (0..).map(Rank).zip(shard_stores).map(|(rank, shard_store)| {
            let prefers = Some(LogicalRank(rank.0)).filter(|logical_rank| plan.has(*logical_rank));
            let beginning = Beginning { rank, prefers, started: false, costs: COSTS, encode_every };
            let process = Process::new(plan.clone(), ProcessSettings { beginning, compress: false, full });
            (rank, Player { process, shard_store, program: Program::default() })
        });
        let (events, resumptions) = (VecDeque::new(), BTreeMap::new());
        let (plan, players) = (plan.clone(), players.collect());
        let mut table = Self { plan, players, events, until, sent: 0, resumptions, refused: None, damaged: None };
        table.membership(1);
        table
    }

    pub(crate) fn membership(&mut self, number: u64) {
        let present: Vec<Rank> = self.players.keys().copied().collect();
        let membership_event =
            |rank: &Rank| (*rank, Event::Membership(Membership { number, present: present.clone() }));
        self.events.extend(present.iter().map(membership_event));
        self.play();
    }

    pub(crate) fn checkpoint(&mut self) {
        self.resumptions.clear();
        for (rank, player) in &mut self.players {
            if player.process.protocol().logical_rank().is_some_and(|logical_rank| self.plan.is_member(logical_rank)) {
                player.program.number += 1;
                self.events.push_back((*rank, Event::Arrived(player.program.number)));
            }
        }
        self.play();
    }

    pub(crate) fn play(&mut self) {
        while let Some((rank, event)) = self.events.pop_front() {
            let player = self.players.get_mut(&rank).expect("nobody leaves the table");
            for effect in player.process.handle(event, &mut player.program, &mut player.shard_store) {
                let answer = match effect {
                    Effect::Send(to, mut bytes) => {
                        match &mut self.damaged {
                            Some((0, changes)) => change(&mut bytes, changes),
                            Some((before, _)) => *before -= 1,
                            None => {}
                        }
                        self.sent += bytes.len();
                        self.events.push_back((to, Event::Message(rank, bytes)));
                        continue;
                    }
                    Effect::Survey(membership) => Event::Surveyed(membership, player.shard_store.survey()),
                    Effect::Seal(work) => {
                        player.shard_store.seal(work);
                        Event::Sealed(work.epoch)
                    }
                    Effect::Acknowledge(_) if self.until < Until::Acknowledged => continue,
                    Effect::Acknowledge(epoch) => {
                        player.shard_store.acknowledge(epoch);
                        Event::Acknowledged(epoch)
                    }
                    Effect::Keep { epoch, logical_rank, life } if self.until == Until::Stable || epoch.is_none() => {
                        player.shard_store.keep(epoch, logical_rank, life);
                        Event::Kept
                    }
                    Effect::Keep { .. } => continue,
                    Effect::Resume(resumption) => {
                        match &resumption {
                            Resumption::Start(logical_rank) => player.program = Program::new(*logical_rank, 0),
                            Resumption::Rollback(epoch, logical_rank) => {
                                player.program = Program::new(*logical_rank, epoch.number)
                            }
                            _ => {}
                        }
                        self.resumptions.insert(rank, resumption);
                        continue;
                    }
                    Effect::Refuse(refusal) => {
                        self.refused = Some(refusal.to_string());
                        continue;
                    }
                    Effect::Leave(_) if self.damaged.is_some() => continue,
                    Effect::Leave(reason) => panic!("process {} has to leave: {reason}", rank.0),
                    Effect::Rejected(..) if self.damaged.is_some() => continue,
                    Effect::Rejected(from, error) => panic!("a message of process {}: {error}", from.0),
                };
                self.events.push_back((rank, answer));
            }
        }
    }

    pub(crate) fn shard_store(&self, rank: u32) -> MemoryShardStore {
        self.players[&Rank(rank)].shard_store.clone()
    }

    /// Asserts that every member's logical rank is taken, and that its memory is what it was at this checkpoint.
    pub(crate) fn assert_all_back_at(&self, number: u64) {
        assert_eq!(self.refused, None);
        let mut logical_ranks = Vec::new();
        for (rank, resumption) in &self.resumptions {
            let Resumption::Rollback(epoch, logical_rank) = resumption else {
                panic!("process {}: {resumption:?}", rank.0)
            };
            assert_eq!(epoch.number, number);
            let (shard, program) =
                (ShardId { epoch: *epoch, logical_rank: *logical_rank }, Program::new(*logical_rank, number));
            let mut wanted = [0; PAGE_BYTES];
            let description = load(&self.players[rank].shard_store, shard, |slot, page| {
                program.read(slot, &mut wanted);
                assert!(*page == wanted, "slot {slot} of {shard}");
            });
            assert_eq!(description.expect("it is sealed").map, program.map);
            logical_ranks.push(logical_rank.0);
        }
        logical_ranks.sort_unstable();
        assert_eq!(logical_ranks, (0..self.plan.members() as u32).collect::<Vec<_>>());
    }
}

/// Changes bytes of a message before its foot, and makes its checksum fit.
pub(crate) fn change(bytes: &mut [u8], changes: &[(u16, u8)]) {
    let body = bytes.len() - 80;
    changes.iter().for_each(|(at, byte)| bytes[usize::from(*at) % body] = *byte);
    let (summed, checksum) = bytes.split_last_chunk_mut::<16>().expect("every message ends with one");
    *checksum = Checksum::of(summed).to_bytes();
}

pub(crate) fn rotating(scheme: Scheme, members: u32) -> Arc<Plan> {
    rotating_by(RecoveryMode::Relaunch, scheme, members)
}

/// Returns a plan in which the few slots of these programs lie in every stripe group.
pub(crate) fn rotating_by(recovery_mode: RecoveryMode, scheme: Scheme, members: u32) -> Arc<Plan> {
    let plan = Plan::rotating(JOB, recovery_mode, scheme, members).expect("the tests ask for codes that there are");
    Arc::new(plan.in_runs_of(1))
}

pub(crate) fn begun(plan: &Arc<Plan>) -> Table {
    begun_with(None, plan)
}

pub(crate) fn begun_with(full: Option<bool>, plan: &Arc<Plan>) -> Table {
    let mut table =
        Table::with((1, full), plan, vec![MemoryShardStore::default(); plan.logical_ranks()], Until::Stable);
    table.checkpoint();
    assert!(table.resumptions.values().all(|it| matches!(it, Resumption::Committed(epoch, _) if epoch.number == 1)));
    table
}
