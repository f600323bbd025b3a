//! Transfers between processes that consist only of pages, with messages in random order, compared with direct encoding.

use super::*;
use crate::identity::Life;
use crate::layout::Layout;
use crate::slots::SlotSet;
use proptest::prelude::*;
use standfast_core::Syndrome;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;

const EPOCH: EpochId = EpochId { job: JobId::from_bytes([1; 16]), life: Life(1), number: 1, random: 1 };

/// The state of one process: its own pages before and now, and checks.
#[derive(Clone, Default, Debug)]
struct Store {
    before: BTreeMap<u32, Page>,
    now: BTreeMap<u32, Page>,
    checks: BTreeMap<(usize, u32), Page>,
    difference: bool,
}

impl Pages for Store {
    fn column(&mut self, _: usize, slot: u32, page: &mut Page) -> Result<(), Damaged> {
        *page = self.now.get(&slot).copied().unwrap_or([0; PAGE_BYTES]);
        if let Some(before) = self.before.get(&slot).filter(|_| self.difference) {
            page.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
        }
        Ok(())
    }

    fn check(&mut self, _: usize, check: usize, stripe: u32, page: &mut Page) -> Result<(), Damaged> {
        *page = self.checks.get(&(check, stripe)).copied().unwrap_or([0; PAGE_BYTES]);
        Ok(())
    }

    fn take_check(&mut self, _: usize, check: usize, stripe: u32, page: &Page, update: bool) -> Result<(), Damaged> {
        let entry = self.checks.entry((check, stripe)).or_insert([0; PAGE_BYTES]);
        if !update {
            *entry = [0; PAGE_BYTES];
        }
        entry.iter_mut().zip(page).for_each(|(byte, new)| *byte ^= new);
        Ok(())
    }

    fn take_column(&mut self, _: usize, slot: u32, page: &Page) {
        self.now.insert(slot, *page);
    }
}

struct Pseudo(u64);

impl Pseudo {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    /// Changes a few bytes of a page, and sometimes all of them.
    fn change(&mut self, page: &mut Page) {
        if self.below(4) == 0 {
            page.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
        } else {
            page[self.below(PAGE_BYTES)] ^= 1 + self.below(255) as u8;
        }
    }
}

/// Runs a task at all occupied positions; messages of different pairs overtake each other. A slow process receives
/// messages only when none is on its way to any other.
fn run(
    layout: &Layout,
    task: &TransferTask,
    route: Route,
    stores: &mut [Store],
    running: (&TransferRanks, Option<usize>),
    random: &mut Pseudo,
) {
    run_and(layout, task, route, stores, running, random, |_, _| ()).unwrap();
}

/// Runs a task like `run`, and alters parts on their way.
fn run_and(
    layout: &Layout,
    task: &TransferTask,
    route: Route,
    stores: &mut [Store],
    (ranks, slow): (&TransferRanks, Option<usize>),
    random: &mut Pseudo,
    mut befalls: impl FnMut(&mut Pseudo, &mut Part),
) -> Result<(), TransferError> {
    let plan = TransferPlan::new(layout, task, route).unwrap();
    let compress = random.below(2) == 0;
    let transfer = |at: usize| {
        let ranks = TransferRanks { me: Rank(at as u32), ..ranks.clone() };
        Transfer::new(EPOCH, 0, plan.clone(), layout.clone(), ranks, compress, Buffers::default())
    };
    let mut transfers: Vec<Transfer> = (0..stores.len()).map(transfer).collect();
    let mut links: BTreeMap<(usize, usize), std::collections::VecDeque<Data>> = BTreeMap::new();
    for at in 0..stores.len() {
        for (to, data) in transfers[at].advance(&mut stores[at]).unwrap() {
            links.entry((at, to.0 as usize)).or_default().push_back(data);
        }
    }
    while !links.is_empty() {
        let quick = links.keys().copied().filter(|(_, to)| Some(*to) != slow);
        let mut keys: Vec<_> = quick.collect();
        if keys.is_empty() {
            keys.extend(links.keys());
        }
        let (from, to) = keys[random.below(keys.len())];
        let link = links.get_mut(&(from, to)).unwrap();
        let data = link.pop_front().unwrap();
        if link.is_empty() {
            links.remove(&(from, to));
        }
        match data {
            Data::Part(mut part) => {
                befalls(random, &mut part);
                transfers[to].receive(part, &mut stores[to])?;
            }
            Data::LowWaterMark { piece, .. } => {
                assert!(transfers[to].plan.pieces > AT_ONCE, "nobody waits for it");
                transfers[to].low_water_mark(Rank(from as u32), piece);
            }
            other => panic!("{other:?} is not a transfer's"),
        }
        for (next, data) in transfers[to].advance(&mut stores[to])? {
            links.entry((to, next.0 as usize)).or_default().push_back(data);
        }
        assert!(
            transfers.iter().all(|transfer| transfer.held_bytes() <= transfer.held_bytes_max()),
            "a window at most"
        );
        for ((_, to), data) in links.iter().flat_map(|(between, link)| link.iter().map(move |data| (between, data))) {
            let window = transfers[*to].low_water_mark..transfers[*to].low_water_mark + transfers[*to].plan.window();
            assert!(
                !matches!(data, Data::Part(part) if !window.contains(&part.piece)),
                "on its way: of a window as well"
            );
        }
    }
    assert!(transfers.iter().all(Transfer::is_done), "everybody comes to the end");
    Ok(())
}

/// Computes the checks stripe by stripe from all current pages.
fn direct(layout: &Layout, stores: &[Store]) -> Vec<BTreeMap<(usize, u32), Page>> {
    let mut found = vec![BTreeMap::new(); layout.positions()];
    let stripes = stores.iter().flat_map(|store| store.now.keys()).max().map_or(0, |slot| slot + 1);
    for (stripe_group, stripe) in
        (0..layout.stripe_groups()).flat_map(|stripe_group| (0..stripes).map(move |stripe| (stripe_group, stripe)))
    {
        let mut sums = vec![vec![0; PAGE_BYTES]; layout.code().checks()];
        for column in 0..layout.code().members() {
            let page = stores[layout.column_holder(stripe_group, column)].now.get(&layout.slot(column, stripe));
            let mut refs: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
            layout.code().combiner().add(column, page.unwrap_or(&[0; PAGE_BYTES]), &mut refs);
        }
        for (check, sum) in sums.iter().enumerate().filter(|(_, sum)| sum.iter().any(|byte| *byte != 0)) {
            found[layout.check_holder(stripe_group, check)].insert((check, stripe), sum.as_slice().try_into().unwrap());
        }
    }
    found
}

fn nonzero(checks: &BTreeMap<(usize, u32), Page>) -> BTreeMap<(usize, u32), Page> {
    checks.iter().filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(key, page)| (*key, *page)).collect()
}

fn layouts() -> impl Strategy<Value = (Scheme, usize, usize)> {
    prop_oneof![
        (2_usize..7).prop_map(|members| (Scheme::Parity, members, 0)),
        (2_usize..6).prop_map(|members| (Scheme::Parity, members, 1)),
        (3_usize..8).prop_map(|members| (Scheme::EvenOdd, members, 0)),
        (2_usize..6).prop_map(|members| (Scheme::EvenOdd, members, 2)),
        (1_usize..4).prop_map(|pairs| (Scheme::Mirroring, 2 * pairs, 0)),
        (1_usize..4).prop_map(|members| (Scheme::Mirroring, members, members)),
        (4_usize..8).prop_map(|members| (Scheme::OneDimensional { groups: 2 }, members, 0)),
        (4_usize..8).prop_map(|members| (Scheme::ReedSolomon { checks: 3 }, members, 0)),
        (2_usize..6).prop_map(|members| (Scheme::ReedSolomon { checks: 2 }, members, 2)),
    ]
}

fn all_present(layout: &Layout) -> TransferRanks {
    let everybody: Vec<_> = (0..layout.positions()).map(|at| Some(Rank(at as u32))).collect();
    TransferRanks { me: Rank(0), sources: everybody.clone(), sinks: everybody }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn checks_are_updated_and_every_loss_is_rebuilt(
        (scheme, members, parity_nodes) in layouts(),
        route in prop_oneof![Just(Route::Chain), Just(Route::FanIn), Just(Route::Direct)],
        slots in 1_usize..900,
        seed: u64,
    ) {
        let mut random = Pseudo(seed);
        let layout = Layout::new(scheme, members, parity_nodes).unwrap().in_runs_of([1, 3, 16][random.below(3)]);
        let slow = Some(random.below(2 * layout.positions()));
        let mut stores = vec![Store { difference: true, ..Store::default() }; layout.positions()];
        let mut used = vec![SlotSet::default(); layout.members()];
        for _ in 0..3 {
            let mut changed = vec![SlotSet::default(); layout.members()];
            for (at, store) in stores.iter_mut().enumerate().take(layout.members()) {
                let extent = 1 + random.below(slots);
                for _ in 0..random.below(40) {
                    let slot = random.below(extent) as u32;
                    let page = store.now.entry(slot).or_insert([0; PAGE_BYTES]);
                    random.change(page);
                    if random.below(9) == 0 {
                        store.now.remove(&slot);
                    }
                    changed[at].insert(slot);
                }
                used[at].extend(&changed[at]);
            }
            let full = random.below(2) == 0;
            stores.iter_mut().for_each(|store| store.difference = !full);
            let task = TransferTask::Encode { changed, held: full.then(|| used.clone()), vacant: Vec::new() };
            run(&layout, &task, route, &mut stores, (&all_present(&layout), slow), &mut random);
            let wanted = direct(&layout, &stores);
            for (store, wanted) in stores.iter_mut().zip(wanted) {
                prop_assert!(nonzero(&store.checks) == wanted);
                store.before = store.now.clone();
            }
        }
        let mut lost: Vec<usize> = Vec::new();
        for _ in 0..layout.code().tolerance() {
            let next = random.below(layout.positions());
            if !lost.contains(&next) {
                lost.push(next);
            }
        }
        let whole = stores.clone();
        let mut ranks = all_present(&layout);
        for position in &lost {
            stores[*position] = Store::default();
            ranks.sources[*position] = None;
        }
        stores.iter_mut().for_each(|store| store.difference = false);
        let task = TransferTask::Rebuild { lost: lost.clone(), replacements: lost.clone(), used };
        run(&layout, &task, route, &mut stores, (&ranks, slow), &mut random);
        for position in lost {
            let content = |store: &Store| {
                let pages = store.now.iter().filter(|(_, page)| page.iter().any(|byte| *byte != 0));
                pages.map(|(slot, page)| (*slot, *page)).collect::<BTreeMap<_, _>>()
            };
            prop_assert!(content(&stores[position]) == content(&whole[position]));
            prop_assert!(nonzero(&stores[position].checks) == nonzero(&whole[position].checks));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn data_altered_in_transit_is_detected_before_use(
        (scheme, members, parity_nodes) in layouts(),
        route in prop_oneof![Just(Route::Chain), Just(Route::FanIn), Just(Route::Direct)],
        seed: u64,
    ) {
        let mut random = Pseudo(seed);
        let layout = Layout::new(scheme, members, parity_nodes).unwrap().in_runs_of(1);
        let mut stores = vec![Store { difference: true, ..Store::default() }; layout.positions()];
        for store in stores.iter_mut().take(layout.members()) {
            let pages = (0..20).map(|slot| (slot, std::array::from_fn(|_| random.below(256) as u8)));
            store.now = pages.collect();
        }
        let all = vec![SlotSet::all(20); layout.members()];
        let mut ranks = all_present(&layout);
        let encode = TransferTask::Encode { changed: all.clone(), held: None, vacant: Vec::new() };
        let altered = alter_each(&layout, &encode, route, &stores, &ranks, &mut random)?;
        prop_assert!(altered > 0);
        run(&layout, &encode, route, &mut stores, (&ranks, None), &mut random);
        let first = random.below(layout.members());
        let several = layout.code().tolerance().min(layout.members());
        let lost: Vec<usize> = (0..several).map(|next| (first + next) % layout.members()).collect();
        for position in &lost {
            stores[*position] = Store::default();
            ranks.sources[*position] = None;
        }
        stores.iter_mut().for_each(|store| store.difference = false);
        let rebuild = TransferTask::Rebuild { lost: lost.clone(), replacements: lost, used: all };
        let altered = alter_each(&layout, &rebuild, route, &stores, &ranks, &mut random)?;
        prop_assert!(altered > 0);
    }
}

/// Runs a task as often as it has parts, flips a bit of each part in turn, and returns how many there were.
fn alter_each(
    layout: &Layout,
    task: &TransferTask,
    route: Route,
    stores: &[Store],
    ranks: &TransferRanks,
    random: &mut Pseudo,
) -> Result<usize, TestCaseError> {
    for unlucky in 0.. {
        let mut parts = 0;
        let done = run_and(layout, task, route, &mut stores.to_vec(), (ranks, None), random, |random, part| {
            if parts == unlucky {
                let at = random.below(part.bytes.len());
                part.bytes[at] ^= 1 << random.below(8);
            }
            parts += 1;
        });
        prop_assert_eq!(done.is_err(), unlucky < parts, "part {} of {}", unlucky, parts);
        if unlucky >= parts {
            return Ok(parts);
        }
    }
    unreachable!("parts come to an end")
}

#[test]
fn a_parity_node_that_replaces_a_member_still_lends_its_check() {
    let layout = Layout::new(Scheme::Parity, 3, 1).unwrap();
    let mut random = Pseudo(5);
    let mut stores = vec![Store { difference: true, ..Store::default() }; 4];
    let all: SlotSet = (0..100).collect();
    for store in stores.iter_mut().take(3) {
        for slot in 0..100 {
            let mut page = [0; PAGE_BYTES];
            random.change(&mut page);
            store.now.insert(slot, page);
        }
    }
    let changed = vec![all.clone(); 3];
    let encode = TransferTask::Encode { changed: changed.clone(), held: None, vacant: Vec::new() };
    run(&layout, &encode, Route::Chain, &mut stores, (&all_present(&layout), None), &mut random);
    let wanted = stores[1].now.clone();
    let mut ranks = all_present(&layout);
    (ranks.sinks[1], ranks.sinks[3]) = (Some(Rank(3)), None);
    stores.iter_mut().for_each(|store| store.difference = false);
    let hand_over = TransferTask::Rebuild { lost: vec![], replacements: vec![1], used: changed.clone() };
    let mut handed = stores.clone();
    assert!(alter_each(&layout, &hand_over, Route::Chain, &handed, &ranks, &mut random).unwrap() > 0);
    run(&layout, &hand_over, Route::Chain, &mut handed, (&ranks, None), &mut random);
    assert!(handed[3].now == wanted);
    stores[1] = Store::default();
    ranks.sources[1] = None;
    let rebuild = TransferTask::Rebuild { lost: vec![1], replacements: vec![1], used: changed };
    assert!(alter_each(&layout, &rebuild, Route::Chain, &stores, &ranks, &mut random).unwrap() > 0);
    run(&layout, &rebuild, Route::Chain, &mut stores, (&ranks, None), &mut random);
    assert!(stores[3].now == wanted);
}

#[test]
fn no_process_buffers_more_than_a_window_for_a_slow_peer() {
    // A member is a column of three in a rotating group, and should have more pieces than go at once.
    let slots = 4 * AT_ONCE * u64::BITS;
    for (parity_nodes, route) in [(0, Route::Chain), (1, Route::Chain), (1, Route::FanIn), (1, Route::Direct)] {
        let layout = Layout::new(Scheme::Parity, 4, parity_nodes).unwrap();
        let mut random = Pseudo(11);
        let mut stores = vec![Store { difference: true, ..Store::default() }; layout.positions()];
        for (at, store) in stores.iter_mut().enumerate().take(4) {
            store.now.extend((0..slots).map(|slot| (slot, [slot as u8 ^ at as u8; PAGE_BYTES])));
        }
        let all = vec![SlotSet::all(slots); 4];
        let slow = Some(layout.positions() - 1);
        let encode = TransferTask::Encode { changed: all.clone(), held: None, vacant: Vec::new() };
        run(&layout, &encode, route, &mut stores, (&all_present(&layout), slow), &mut random);
        let (wanted, mut ranks) = (stores[1].clone(), all_present(&layout));
        stores[1] = Store::default();
        ranks.sources[1] = None;
        stores.iter_mut().for_each(|store| store.difference = false);
        let rebuild = TransferTask::Rebuild { lost: vec![1], replacements: vec![1], used: all };
        run(&layout, &rebuild, route, &mut stores, (&ranks, Some(1)), &mut random);
        assert!((&stores[1].now, &stores[1].checks) == (&wanted.now, &wanted.checks), "{route:?}");
    }
}

#[test]
fn unexpected_parts_are_refused() {
    let layout = Layout::new(Scheme::Parity, 2, 1).unwrap();
    let changed = vec![[0].into_iter().collect(), SlotSet::default()];
    let task = TransferTask::Encode { changed, held: None, vacant: Vec::new() };
    let plan = TransferPlan::new(&layout, &task, Route::Direct).unwrap();
    let ranks = TransferRanks { me: Rank(2), ..all_present(&layout) };
    let part = |sum, piece, to, stripes, sums| {
        let pages = u64::count_ones(stripes) as usize * sums as usize;
        let (bytes, syndromes) = (vec![0; pages * PAGE_BYTES], vec![Syndrome::default(); pages]);
        Part { epoch: EPOCH, group: 0, sum, piece, to, stripes, sums, words: false, syndromes, bytes }
    };
    let mut parity_node = Transfer::new(EPOCH, 0, plan, layout, ranks, false, Buffers::default());
    let mut store = Store::default();
    let wrong = [
        part(1, 0, Node::Target(0), 1, 1),
        part(0, 1, Node::Target(0), 1, 1),
        part(0, 0, Node::Target(1), 1, 1),
        part(0, 0, Node::Hop(0), 1, 1),
        part(0, 0, Node::Replacement(0), 1, 1),
        part(0, 0, Node::Target(0), 2, 1),
        part(0, 0, Node::Target(0), 1, 2),
        Part { syndromes: Vec::new(), ..part(0, 0, Node::Target(0), 1, 1) },
    ];
    for part in wrong {
        assert!(parity_node.receive(part.clone(), &mut store).is_err(), "{part:?}");
    }
    parity_node.receive(part(0, 0, Node::Target(0), 1, 1), &mut store).unwrap();
    assert!(parity_node.is_done());
}
