//! Recoveries from shard stores that a test arranges by hand: nodes struck at one certain moment, nodes that come back,
//! pages that a disk has damaged. One process acts after the other, and storage acts at once; the simulator covers the
//! disorder.

use proptest::prelude::*;
use standfast_core::delta::Page;
use standfast_core::erasure::Scheme;
use standfast_core::{Checksum, PAGE_BYTES};
use standfast_format::manifest::JobId;
use standfast_group::transfer::Costs;
use standfast_group::{
    Action, Beginning, Control, Data, Effect, EpochId, EpochLevel, Event, Group, Input, Life, LogicalRank, Membership,
    MemoryShardStore, Message, MessageError, Payload, Phase, Plan, Process, ProcessSettings, Protocol, Rank,
    RecoveryMode, RegionId, Restore, Resumption, ShardId, ShardStore, SlotMap, SlotSet, Survey, Term, encode, load,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

const JOB: JobId = JobId::from_bytes([4; 16]);
const COSTS: Costs = Costs { latency_nanoseconds: 1_000, page_nanoseconds: 1_000 };

/// A member whose pages follow from its logical rank and the number of the checkpoint that it has reached.
#[derive(Clone, Default)]
struct Program {
    map: SlotMap,
    logical_rank: u32,
    number: u64,
    /// Whether the program reports that nothing has changed.
    still: bool,
    /// The pages that have been read, if the program writes to a page as soon as it has been read.
    restless: Option<RefCell<BTreeSet<u32>>>,
}

impl Program {
    fn new(logical_rank: LogicalRank, number: u64) -> Self {
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

struct Player {
    process: Process,
    shard_store: MemoryShardStore,
    program: Program,
}

/// How far storage gets once there is an epoch.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Until {
    /// The epoch is sealed.
    Sealed,
    /// The epoch is sealed and acknowledged.
    Acknowledged,
    /// Everything is done.
    Stable,
}

/// Processes at a table: each input is handled completely before the next.
struct Table {
    plan: Arc<Plan>,
    players: BTreeMap<Rank, Player>,
    inputs: VecDeque<(Rank, Input)>,
    /// How far storage gets before all processes are struck.
    until: Until,
    /// Bytes sent.
    sent: usize,
    /// The last resumption that each process received.
    told: BTreeMap<Rank, Resumption>,
    refused: Option<String>,
    /// A message that its sender damages before it makes the checksum: which one, and the changes to its body.
    damaged: Option<(usize, Vec<(u16, u8)>)>,
}

impl Table {
    /// Puts one process on each shard store. The process with the number of a logical rank prefers that rank.
    fn new(plan: &Arc<Plan>, shard_stores: Vec<MemoryShardStore>, until: Until) -> Self {
        Self::encoding_every(1, plan, shard_stores, until)
    }

    /// Does the same, with local epochs between the encoded ones.
    fn encoding_every(encode_every: u64, plan: &Arc<Plan>, shard_stores: Vec<MemoryShardStore>, until: Until) -> Self {
        Self::with((encode_every, None), plan, shard_stores, until)
    }

    /// Does the same, with checks that are always or never made in full.
    fn with(
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
        let (inputs, told) = (VecDeque::new(), BTreeMap::new());
        let (plan, players) = (plan.clone(), players.collect());
        let mut table = Self { plan, players, inputs, until, sent: 0, told, refused: None, damaged: None };
        table.membership(1);
        table
    }

    fn membership(&mut self, number: u64) {
        let present: Vec<Rank> = self.players.keys().copied().collect();
        let told = |rank: &Rank| (*rank, Input::Membership(Membership { number, present: present.clone() }));
        self.inputs.extend(present.iter().map(told));
        self.play();
    }

    fn checkpoint(&mut self) {
        self.told.clear();
        for (rank, player) in &mut self.players {
            if player.process.protocol().logical_rank().is_some_and(|logical_rank| self.plan.is_member(logical_rank)) {
                player.program.number += 1;
                self.inputs.push_back((*rank, Input::Arrived(player.program.number)));
            }
        }
        self.play();
    }

    fn play(&mut self) {
        while let Some((rank, input)) = self.inputs.pop_front() {
            let player = self.players.get_mut(&rank).expect("nobody leaves the table");
            for output in player.process.handle(input, &mut player.program, &mut player.shard_store) {
                let answer = match output {
                    Effect::Send(to, mut bytes) => {
                        match &mut self.damaged {
                            Some((0, changes)) => change(&mut bytes, changes),
                            Some((before, _)) => *before -= 1,
                            None => {}
                        }
                        self.sent += bytes.len();
                        self.inputs.push_back((to, Input::Message(rank, bytes)));
                        continue;
                    }
                    Effect::Survey(membership) => Input::Surveyed(membership, player.shard_store.survey()),
                    Effect::Seal(work) => {
                        player.shard_store.seal(work);
                        Input::Sealed(work.epoch)
                    }
                    Effect::Acknowledge(_) if self.until < Until::Acknowledged => continue,
                    Effect::Acknowledge(epoch) => {
                        player.shard_store.acknowledge(epoch);
                        Input::Acknowledged(epoch)
                    }
                    Effect::Keep { epoch, logical_rank, life } if self.until == Until::Stable || epoch.is_none() => {
                        player.shard_store.keep(epoch, logical_rank, life);
                        Input::Kept
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
                        self.told.insert(rank, resumption);
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
                self.inputs.push_back((rank, answer));
            }
        }
    }

    fn shard_store(&self, rank: u32) -> MemoryShardStore {
        self.players[&Rank(rank)].shard_store.clone()
    }

    /// Asserts that every member's logical rank is taken, and that its memory is what it was at this checkpoint.
    fn assert_all_back_at(&self, number: u64) {
        assert_eq!(self.refused, None);
        let mut logical_ranks = Vec::new();
        for (rank, resumption) in &self.told {
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
fn change(bytes: &mut [u8], changes: &[(u16, u8)]) {
    let body = bytes.len() - 80;
    changes.iter().for_each(|(at, byte)| bytes[usize::from(*at) % body] = *byte);
    let (summed, checksum) = bytes.split_last_chunk_mut::<16>().expect("every message ends with one");
    *checksum = Checksum::of(summed).to_bytes();
}

fn rotating(scheme: Scheme, members: u32) -> Arc<Plan> {
    rotating_by(RecoveryMode::Relaunch, scheme, members)
}

/// Returns a plan in which the few slots of these programs lie in every stripe group.
fn rotating_by(recovery_mode: RecoveryMode, scheme: Scheme, members: u32) -> Arc<Plan> {
    let plan = Plan::rotating(JOB, recovery_mode, scheme, members).expect("the tests ask for codes that there are");
    Arc::new(plan.in_runs_of(1))
}

fn begun(plan: &Arc<Plan>) -> Table {
    begun_with(None, plan)
}

fn begun_with(full: Option<bool>, plan: &Arc<Plan>) -> Table {
    let mut table =
        Table::with((1, full), plan, vec![MemoryShardStore::default(); plan.logical_ranks()], Until::Stable);
    table.checkpoint();
    assert!(table.told.values().all(|told| matches!(told, Resumption::Committed(epoch, _) if epoch.number == 1)));
    table
}

/// A process is struck while it encodes. The next time it takes another logical rank of the very epoch of which it has
/// half a shard.
#[test]
fn what_was_half_encoded_is_never_sealed_with_something_else() {
    let plan = rotating(Scheme::ReedSolomon { checks: 2 }, 4);
    let mut table = begun(&plan);
    let mut half = table.shard_store(2);
    let old = half.shards().next().expect("the first epoch is kept");
    table.until = Until::Acknowledged;
    table.checkpoint();
    let new = table.players[&Rank(0)].process.protocol().kept().expect("all have sealed it");
    half.open(ShardId { epoch: new, logical_rank: LogicalRank(2) }, Some(old));
    // The logical ranks of processes 2 and 3 change, and all processes are struck again before the recovery is stable.
    let shard_stores = vec![table.shard_store(0), table.shard_store(1), MemoryShardStore::default(), half];
    let second = Table::new(&plan, shard_stores, Until::Acknowledged);
    let shards: Vec<_> = second.shard_store(3).shards().filter(|shard| shard.epoch == new).collect();
    assert_eq!(shards, [ShardId { epoch: new, logical_rank: LogicalRank(3) }]);
    let shard_stores =
        vec![MemoryShardStore::default(), second.shard_store(1), second.shard_store(2), second.shard_store(3)];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
}

/// A node that comes back with a shard that another node also has takes an empty logical rank. If it is the only node
/// left with both shards, it takes one of the logical ranks, and the process that takes the other gets the shard as it
/// is.
#[test]
fn a_shard_that_is_lent_by_who_sits_elsewhere_goes_over_whole() {
    let plans = [
        rotating(Scheme::Parity, 3),
        rotating(Scheme::Mirroring, 4),
        rotating(Scheme::OneDimensional { groups: 2 }, 5),
        rotating(Scheme::EvenOdd, 4),
        rotating(Scheme::ReedSolomon { checks: 2 }, 5),
        Arc::new(Plan::dedicated(JOB, RecoveryMode::Relaunch, Scheme::ReedSolomon { checks: 2 }, 3, 2).unwrap()),
    ];
    for plan in plans {
        let table = begun(&plan);
        let others = || (2..plan.logical_ranks() as u32).map(|rank| table.shard_store(rank));
        let shard_stores = [table.shard_store(1), table.shard_store(1)].into_iter().chain(others());
        let mut second = Table::new(&plan, shard_stores.collect(), Until::Acknowledged);
        let both = second.players.get_mut(&Rank(0)).expect("it is there").shard_store.survey();
        assert_eq!(
            both.holdings.iter().map(|it| it.logical_rank).collect::<Vec<_>>(),
            [LogicalRank(0), LogicalRank(1)]
        );
        let shard_stores = [second.shard_store(0), MemoryShardStore::default()].into_iter().chain(others());
        Table::new(&plan, shard_stores.collect(), Until::Stable).assert_all_back_at(1);
    }
}

/// One process was struck before the first epoch counted, and had sealed nothing. It then took another logical rank, and
/// had sealed its shard when the next process was struck. It still knows that nothing was promised, so the job begins
/// again.
#[test]
fn a_recovery_that_breaks_off_does_not_forget_that_nothing_was_promised() {
    let group = |logical_ranks: [u32; 3]| Group {
        members: logical_ranks.map(LogicalRank).to_vec(),
        parity_nodes: Vec::new(),
        scheme: Scheme::Parity,
    };
    let groups = vec![group([0, 1, 2]), group([3, 4, 5])];
    let plan = Arc::new(Plan::new(JOB, RecoveryMode::Relaunch, groups).unwrap().in_runs_of(1));
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 6], Until::Sealed);
    let sealed_nothing = table.shard_store(0);
    table.checkpoint();
    assert!(table.told.is_empty(), "nobody goes on");
    let others = |table: &Table, ranks: Range<u32>| ranks.map(|rank| table.shard_store(rank)).collect::<Vec<_>>();
    let shard_stores = [vec![MemoryShardStore::default()], others(&table, 1..5), vec![sealed_nothing]].concat();
    let second = Table::new(&plan, shard_stores, Until::Sealed);
    assert_eq!(second.shard_store(5).survey().holdings.len(), 1);
    let shard_stores = [vec![MemoryShardStore::default(); 2], others(&second, 2..6)].concat();
    let third = Table::new(&plan, shard_stores, Until::Stable);
    assert_eq!(third.refused, None);
    assert!(third.told.len() == 6 && third.told.values().all(|told| matches!(told, Resumption::Start(_))));
}

/// Damage shows while the recovery reads the pages: the shard then counts as lost, if the code tolerates that.
#[test]
fn what_proves_damaged_in_a_recovery_counts_as_lost() {
    for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
        let plan = rotating_by(recovery_mode, Scheme::ReedSolomon { checks: 2 }, 4);
        let mut table = begun(&plan);
        table.checkpoint();
        let damage = |rank: u32, choice| {
            let mut shard_store = table.shard_store(rank);
            assert!(shard_store.damage(choice));
            shard_store
        };
        let (own, checks) = table.shard_store(1).pages();
        for choice in 0..own + checks {
            let recovered = |first, last| {
                let shard_stores = vec![first, damage(1, choice), table.shard_store(2), last];
                Table::new(&plan, shard_stores, Until::Stable)
            };
            recovered(table.shard_store(0), table.shard_store(3)).assert_all_back_at(2);
            recovered(MemoryShardStore::default(), table.shard_store(3)).assert_all_back_at(2);
            let reason = recovered(MemoryShardStore::default(), damage(3, choice)).refused.expect("it is too much");
            assert!(reason.contains("lacks the shards of 3 logical ranks"), "{reason}");
        }
    }
}

/// If the last shard proves damaged, none is left. The job then does not begin again, unless it is known that nothing was
/// promised.
#[test]
fn a_job_of_which_all_is_damaged_begins_full_only_where_nothing_was_promised() {
    let plan = rotating(Scheme::Parity, 2);
    let damaged = |table: &Table, rank| {
        let mut shard_store = table.shard_store(rank);
        assert!(shard_store.damage(0));
        shard_store
    };
    let table = begun(&plan);
    let promised = Table::new(&plan, vec![damaged(&table, 0), damaged(&table, 1)], Until::Stable);
    assert!(promised.refused.is_some_and(|reason| reason.contains("is damaged")) && promised.told.is_empty());
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 2], Until::Sealed);
    let sealed_nothing = table.shard_store(1);
    table.checkpoint();
    let unpromised = Table::new(&plan, vec![damaged(&table, 0), sealed_nothing], Until::Stable);
    assert_eq!(unpromised.refused, None);
    assert!(unpromised.told.values().all(|told| matches!(told, Resumption::Start(_))));
}

/// The damage shows when the page is read, and the epoch that would be made from it is abandoned.
#[test]
fn nothing_is_encoded_from_a_damaged_page() {
    for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
        let plan = rotating_by(recovery_mode, Scheme::Parity, 3);
        let (own, checks) = begun(&plan).shard_store(1).pages();
        assert!(own > 0 && checks > 0);
        for choice in 0..own + checks {
            let mut table = begun_with(Some(false), &plan);
            assert!(table.players.get_mut(&Rank(1)).expect("it is there").shard_store.damage(choice));
            table.checkpoint();
            for told in table.told.values() {
                assert!(
                    matches!(told, Resumption::Abandoned(reason) if reason.contains("logical rank 1 in epoch 1")),
                    "{told:?}"
                );
            }
            table.told.clear();
            table.membership(2);
            table.assert_all_back_at(1);
        }
    }
}

/// Checks that are made in full do not come from the previous pages, so damage to those pages ends there. A page that has
/// not changed is still one of them.
#[test]
fn checks_that_are_made_full_come_from_no_damaged_page() {
    let plan = rotating(Scheme::ReedSolomon { checks: 2 }, 4);
    let (own, checks) = begun(&plan).shard_store(1).pages();
    let damaged = |choice| {
        let mut table = begun_with(Some(true), &plan);
        assert!(table.players.get_mut(&Rank(1)).expect("it is there").shard_store.damage(choice));
        table
    };
    for choice in 0..own + checks {
        let mut table = damaged(choice);
        table.checkpoint();
        for lost in 0..4 {
            let mut shard_stores: Vec<_> = (0..4).map(|rank| table.shard_store(rank)).collect();
            shard_stores[lost] = MemoryShardStore::default();
            Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
        }
    }
    let given_up = (0..own + checks).filter(|choice| {
        let mut table = damaged(*choice);
        table.players.get_mut(&Rank(1)).expect("it is there").program.still = true;
        table.checkpoint();
        table
            .told
            .values()
            .all(|told| matches!(told, Resumption::Abandoned(reason) if reason.contains("logical rank 1 in epoch 1")))
    });
    assert_eq!(given_up.count(), own);
}

/// The encoding uses what was stored, even if the program writes to its pages meanwhile.
#[test]
fn a_page_that_is_written_during_its_checkpoint_counts_as_it_was_when_it_was_first_read() {
    for (full, lost) in [false, true].into_iter().flat_map(|full| (0..4).map(move |lost| (full, lost))) {
        let plan = rotating(Scheme::Parity, 4);
        let mut table = begun_with(Some(full), &plan);
        table.players.values_mut().for_each(|player| player.program.restless = Some(RefCell::default()));
        table.checkpoint();
        let mut shard_stores: Vec<_> = (0..4).map(|rank| table.shard_store(rank)).collect();
        shard_stores[lost] = MemoryShardStore::default();
        Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
    }
}

/// After a crash that leaves all memory whole, the job goes back to the local epoch. After the loss of one node, it goes
/// back to the encoded epoch before it. It continues from either, and its next encoded epoch is right.
#[test]
fn a_local_epoch_is_gone_back_to_after_a_crash_and_the_encoded_one_after_a_loss() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = Table::encoding_every(3, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
    (0..3).for_each(|_| table.checkpoint());
    let shard_stores = |table: &Table| (0..3).map(|rank| table.shard_store(rank)).collect::<Vec<_>>();
    assert!(
        shard_stores(&table).iter().all(|shard_store| shard_store.shards().count() == 2),
        "the encoded one stays beside the local"
    );
    let mut lost = shard_stores(&table);
    lost[1] = MemoryShardStore::default();
    for (shard_stores, back) in [(shard_stores(&table), 3), (lost, 1)] {
        let mut second = Table::encoding_every(3, &plan, shard_stores, Until::Stable);
        second.assert_all_back_at(back);
        while second.players[&Rank(0)].process.protocol().kept().is_none_or(|kept| kept.number == 1) {
            second.checkpoint();
        }
        let newest = second.players[&Rank(0)].process.protocol().kept().expect("it was waited for").number;
        assert_eq!(newest, 4);
        let shard_stores = vec![second.shard_store(0), MemoryShardStore::default(), second.shard_store(2)];
        Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(newest);
    }
}

/// Some processes have sealed the second local epoch and some have not; the first one is whole.
#[test]
fn a_crash_during_a_local_seal_goes_back_to_the_one_before() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = Table::encoding_every(9, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
    (0..2).for_each(|_| table.checkpoint());
    let before = table.shard_store(1);
    table.until = Until::Sealed;
    table.checkpoint();
    let newest =
        |shard_store: &mut MemoryShardStore| shard_store.survey().holdings.iter().map(|it| it.epoch.number).max();
    assert_eq!((newest(&mut table.shard_store(0)), newest(&mut before.clone())), (Some(3), Some(2)));
    let shard_stores = vec![table.shard_store(0), before.clone(), table.shard_store(2)];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(2);
    let shard_stores = vec![table.shard_store(0), before, MemoryShardStore::default()];
    Table::new(&plan, shard_stores, Until::Stable).assert_all_back_at(1);
}

#[test]
fn a_checkpoint_in_which_one_cannot_take_part_is_given_up_by_all_with_its_reason() {
    for encode_every in [1, 9] {
        let plan = rotating(Scheme::Parity, 3);
        let mut table = Table::encoding_every(encode_every, &plan, vec![MemoryShardStore::default(); 3], Until::Stable);
        table.checkpoint();
        table.told.clear();
        table.inputs.extend([0, 2].map(|rank| (Rank(rank), Input::Arrived(u64::from(rank)))));
        table.inputs.push_back((Rank(1), Input::Unable(1, "it lacks a region".into())));
        table.play();
        let given_up =
            |told: &Resumption| matches!(told, Resumption::Abandoned(reason) if reason == "it lacks a region");
        assert!(table.told.len() == 3 && table.told.values().all(given_up), "{:?}", table.told);
        table.checkpoint();
        assert!(table.told.values().all(|told| matches!(told, Resumption::Committed(..))), "{:?}", table.told);
    }
}

#[test]
fn a_survey_answers_for_its_own_membership_alone() {
    let beginning = Beginning { rank: Rank(0), prefers: None, started: false, costs: COSTS, encode_every: 1 };
    let mut protocol = Protocol::new(rotating(Scheme::Parity, 2), beginning);
    let membership = |number| Event::Membership(Membership { number, present: vec![Rank(1), Rank(0)] });
    assert_eq!(protocol.handle(membership(1)), [Action::Survey(1)]);
    assert_eq!(protocol.handle(membership(2)), [Action::Survey(2)]);
    assert_eq!(protocol.handle(Event::Surveyed(1, Survey::default())), []);
    assert_eq!(protocol.handle(Event::Surveyed(2, Survey::default())).len(), 1);
}

/// A recovery begins again while storage still works on the shards of the first attempt.
#[test]
fn what_storage_could_not_do_counts_for_the_attempt_that_waits_for_it() {
    let beginning = Beginning { rank: Rank(0), prefers: None, started: false, costs: COSTS, encode_every: 1 };
    let mut protocol = Protocol::new(rotating(Scheme::Parity, 2), beginning);
    let logical_ranks = vec![(LogicalRank(0), Rank(0)), (LogicalRank(1), Rank(1))];
    let epoch = EpochId { job: JOB, life: Life(1), number: 1, random: 1 };
    let restore = Restore {
        life: Life(2),
        epoch: Some(epoch),
        logical_ranks: logical_ranks.clone(),
        sources: logical_ranks,
        level: EpochLevel::Encoded,
    };
    let attempt = |round| {
        let control = Control::Restore(restore.clone(), COSTS);
        Event::Message { from: Rank(1), term: Term { membership: 1, round }, control }
    };
    let full = || Event::Unstored(epoch, "no space left".into());
    protocol.handle(Event::Membership(Membership { number: 1, present: vec![Rank(1), Rank(0)] }));
    protocol.handle(Event::Surveyed(1, Survey::default()));
    for round in 0..2 {
        assert!(matches!(protocol.handle(attempt(round))[..], [Action::Rebuild { .. }]));
        assert_eq!(protocol.handle(full()), [], "nothing is stored of this attempt yet");
        assert!(matches!(protocol.handle(Event::Done(epoch))[..], [Action::Seal(_)]));
    }
    assert_eq!(protocol.handle(full()), [Action::Leave("no space left".into())]);
}

/// Another history of the job uses the same number, and one of its processes is still there.
#[test]
fn what_belongs_to_another_epoch_of_the_same_number_is_named() {
    let plan = rotating(Scheme::Parity, 3);
    let mut table = begun(&plan);
    let player = table.players.get_mut(&Rank(1)).expect("it is there");
    let (here, term) = (player.process.protocol().kept().expect("it is begun"), player.process.protocol().term());
    let found = EpochId { random: !here.random, ..here };
    let low_water_mark = Message::Data(Data::LowWaterMark { epoch: found, group: 0, piece: 1 });
    let commit = Message::Control(Control::Phase(Phase::Commit(found)));
    for message in [low_water_mark, commit] {
        let input = Input::Message(Rank(0), encode(&plan, term, message.clone()));
        let outputs = player.process.handle(input, &mut player.program, &mut player.shard_store);
        assert_eq!(outputs, [Effect::Rejected(Rank(0), MessageError::OtherEpoch { found, here })]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// From one message on, every message arrives with other bytes than its sender meant, and passes the checksum. It may
    /// be refused, the epoch may be abandoned, or nothing may come of it.
    #[test]
    fn no_message_makes_a_process_panic(
        first in 0_usize..120,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        dedicated: bool,
    ) {
        let plan = if dedicated {
            Arc::new(Plan::dedicated(JOB, RecoveryMode::InPlace, Scheme::EvenOdd, 2, 2).unwrap())
        } else {
            rotating(Scheme::ReedSolomon { checks: 2 }, 4)
        };
        let mut table = begun(&plan);
        table.damaged = Some((first, changes));
        table.checkpoint();
        table.membership(2);
    }
}

/// Returns the bytes that all processes send for one checkpoint of members with this many pages, none of which changes.
fn bytes_of_an_idle_checkpoint(pages: u32) -> usize {
    let plan = rotating(Scheme::Parity, 4);
    let mut table = Table::new(&plan, vec![MemoryShardStore::default(); 4], Until::Stable);
    for player in table.players.values_mut() {
        player.program.map.resize(RegionId(1), u64::from(pages) * PAGE_BYTES as u64).expect("they have room");
    }
    table.checkpoint();
    table.sent = 0;
    table.players.values_mut().for_each(|player| player.program.number -= 1);
    table.checkpoint();
    assert!(table.told.values().all(|told| matches!(told, Resumption::Committed(epoch, _) if epoch.number == 2)));
    table.sent
}

#[test]
fn a_page_that_did_not_change_costs_a_bit_at_most() {
    let (few, many) = (bytes_of_an_idle_checkpoint(64), bytes_of_an_idle_checkpoint(64 + 3200));
    // Each of four members sends to three others.
    assert!(many - few <= 4 * 3 * 3200 / 8, "{few} bytes for 64 pages, {many} for 3264");
}
