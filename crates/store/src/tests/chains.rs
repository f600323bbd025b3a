//! Generations that build on each other: whatever was inherited, coalesced, damaged or interrupted, the pages read back
//! are right.

use super::disk::{Disk, Fault, Survival};
use super::encodings::any_encodings;
use super::{
    AFTER_REBOOT, LIVE, Pages, begin, checkpoint, checkpoint_upon, newest, open_on, page, pages_of, some_pages, state,
    written,
};
use crate::progress::Progress;
use crate::{CoalesceRule, JobDirectory, Lease, PreparePlan, Selector, StoreError, Writing};
use proptest::prelude::*;
use standfast_core::{Address, PageRange, PageSet};
use standfast_format::manifest::GenerationNumber;
use standfast_format::{BoxError, ImageSink, ImageSource};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ONE: NonZeroU32 = NonZeroU32::MIN;

fn two() -> NonZeroU32 {
    NonZeroU32::new(2).unwrap()
}

fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

fn rule(keep: NonZeroU32, links: u32) -> CoalesceRule {
    CoalesceRule { keep, links, bytes_min: 0 }
}

fn upon(at: u64) -> PreparePlan {
    PreparePlan { parent: Some(number(at)), ..PreparePlan::default() }
}

fn coalesce(directory: &JobDirectory, lease: &Lease, rule: CoalesceRule) -> Result<bool, StoreError> {
    Ok(directory.coalesce(lease, rule, &AtomicBool::new(false), &Progress::default())?.is_some())
}

/// Returns the pages of each generation of a small chain: a full one, then others with one page changed, added or
/// dropped.
fn history() -> Vec<Pages> {
    let mut pages = some_pages(1);
    // These make the differences small by comparison.
    pages.extend((0..30u8).map(|at| ((1, 0x10_0000 + 0x1000 * u64::from(at)), page(at))));
    let mut history = vec![pages.clone()];
    for at in 2..=6u8 {
        pages.insert((0, 0x1000 * u64::from(at)), page(at + 100));
        if at == 4 {
            pages.remove(&(0, 0x9000));
        }
        history.push(pages.clone());
    }
    history
}

/// Creates a disk with all of that history, generations 1 to 6.
fn disk_with_chain() -> Disk {
    let disk = Disk::new();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    let mut before = Pages::new();
    for (pages, at) in history().into_iter().zip(1..) {
        let generation = checkpoint_upon(&directory, &lease, &before, &pages, &format!("{at}")).unwrap();
        assert_eq!(generation.parent.map(GenerationNumber::get), (at > 1).then_some(at - 1));
        before = pages;
    }
    lease.release().unwrap();
    disk
}

#[test]
fn every_generation_of_a_chain_reads_back() {
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    for (pages, at) in history().iter().zip(1..) {
        let image = directory.image(number(at)).unwrap();
        assert_eq!(&pages_of(&image).unwrap(), pages, "generation {at}");
        assert_eq!(image.runs().iter().map(|run| run.range.pages()).sum::<u64>(), pages.len() as u64);
        assert_eq!(image.verify().unwrap().bytes, image.header().file_bytes());
    }
    let manifest = directory.manifest().unwrap();
    assert!(manifest.generations[1..].iter().all(|it| it.stored_pages == 1 && it.inherited_pages >= 2));
}

#[test]
fn a_chain_at_its_maximum_length_is_not_extended() {
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let parent = |links_max| directory.prepare_with(&lease, PreparePlan { links_max, ..upon(6) }).unwrap().parent();
    assert_eq!((parent(6), parent(7)), (None, Some(number(6))));
}

#[test]
fn pages_are_inherited_from_the_owner_that_held_them() {
    let disk = Disk::new();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    let first: Pages = [((0, 0x1000), page(1)), ((1, 0x1000), page(2)), ((1, 0x2000), page(3))].into();
    checkpoint(&directory, &lease, &first, "one").unwrap();
    let mut prepared = directory.prepare_with(&lease, upon(1)).unwrap();
    // The two processes have changed places, and the second has a copy of one page.
    let pages = |pages| PageSet::of([PageRange::new(Address::new(0x1000), pages)]);
    prepared.inherit(0, 1, &pages(2)).unwrap();
    prepared.inherit(1, 1, &pages(1)).unwrap();
    prepared.finish(&state("two")).unwrap();
    prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
    let expected: Pages = [((0, 0x1000), page(2)), ((0, 0x2000), page(3)), ((1, 0x1000), page(2))].into();
    assert_eq!(pages_of(&directory.image(number(2)).unwrap()).unwrap(), expected);
}

#[test]
fn held_pages_are_written_on_release_or_when_the_buffer_is_full() {
    let disk = Disk::new();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    let pages: Pages = (1..4000u64).map(|at| ((0, at * 0x1000), page(at as u8 | 1))).collect();
    for bytes_max in [0, 64 << 20] {
        let before = disk.operations();
        let plan = PreparePlan {
            writing: Writing::Held { bytes_max, bytes_expected: bytes_max / 2 },
            ..PreparePlan::default()
        };
        let mut prepared = directory.prepare_with(&lease, plan).unwrap();
        super::submit_all(&mut prepared, &pages).unwrap();
        let is_held = disk.operations() == before + 1;
        assert_eq!(is_held, bytes_max > 0, "16 MB fit 64 and not 8");
        prepared.release();
        prepared.finish(&state("held")).unwrap();
        prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
        assert_eq!(newest(&directory).unwrap(), ("held".into(), pages.clone()));
    }
}

#[test]
fn a_generation_that_inherits_nothing_has_no_parent() {
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let generation = checkpoint_upon(&directory, &lease, &Pages::new(), &some_pages(9), "full").unwrap();
    assert_eq!((generation.parent, generation.inherited_pages), (None, 0));
    let prepared = directory.prepare_with(&lease, upon(77)).unwrap();
    assert_eq!(prepared.parent(), None, "there is no 77");
}

#[test]
fn a_damaged_link_leaves_the_newest_generation_without_it() {
    const DAMAGED_PLACES: usize = 300;
    let (history, chain) = (history(), disk_with_chain());
    for damaged in 1..=6u64 {
        let name = format!("generation-{damaged:08}.image");
        let good = chain.content(&name);
        // Places all over the header, the pages and the tables, including the last one; and a missing file.
        let places = (damaged as usize..good.len()).step_by(good.len() / DAMAGED_PLACES);
        for place in places.chain([good.len() - 1]).map(Some).chain([None]) {
            let disk = chain.copy_with(Fault::None);
            match place {
                Some(place) => {
                    let mut content = good.clone();
                    content[place] ^= 1 << (place % 8);
                    disk.set_content(&name, content);
                }
                None => disk.storage_backend().remove(&name).unwrap(),
            }
            let directory = open_on(disk.storage_backend(), 1);
            let found = restart(&directory);
            let context = format!("generation {damaged} damaged at {place:?}");
            match damaged {
                1 => assert!(found.is_none(), "{context}: {found:?}"),
                _ => {
                    let (at, pages) = found.unwrap_or_else(|| panic!("{context}: nothing found"));
                    assert_eq!(pages, history[at as usize - 1], "{context}");
                    // A later generation that does not need the damaged page is as good as any.
                    assert!(at >= damaged - 1 && at != damaged, "{context}: {at}");
                }
            }
        }
    }
}

/// Does what a restart does: reads the newest generation, and older ones as long as they prove damaged.
fn restart(directory: &JobDirectory) -> Option<(u64, Pages)> {
    let mut selector = Selector::Newest;
    for _ in 0..20 {
        let Ok(choice) = directory.choose(selector) else { return None };
        match pages_of(&choice.image) {
            Ok(pages) => return Some((choice.number.get(), pages)),
            Err(_) => selector = Selector::Before(choice.number),
        }
    }
    panic!("a restart ends")
}

#[test]
fn a_link_that_was_exchanged_for_another_image_is_refused() {
    let (ours, other) = (disk_with_chain(), disk_with_chain());
    let name = "generation-00000003.image";
    ours.set_content(name, other.content(name));
    let error = open_on(ours.storage_backend(), 1).image(number(6)).unwrap_err();
    assert!(matches!(&error, StoreError::Link { number, .. } if number.get() == 3), "{error}");
    assert!(error.to_string().contains("based on checkpoint 3"), "{error}");
}

#[test]
fn coalescing_keeps_the_contents_and_bounds_the_files() {
    let history = history();
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    assert!(!coalesce(&directory, &lease, rule(two(), 7)).unwrap(), "6 links are few");
    assert!(coalesce(&directory, &lease, rule(two(), 6)).unwrap());
    let numbers = || directory.manifest().unwrap().generations.iter().map(|it| it.number.get()).collect::<Vec<_>>();
    assert_eq!(numbers(), [1, 5, 6]);
    assert_eq!(directory.retain(&lease, two()).unwrap(), []);
    for at in [1, 5, 6u64] {
        assert_eq!(pages_of(&directory.image(number(at)).unwrap()).unwrap(), history[at as usize - 1], "{at}");
    }
    let images: Vec<_> = disk.names().into_iter().filter(|name| name.ends_with(".image")).collect();
    assert_eq!(images, ["generation-00000001.image", "generation-00000005.1.image", "generation-00000006.image"]);
    assert!(!coalesce(&directory, &lease, CoalesceRule::at_once(two())).unwrap(), "there is nothing more to do");
    let seventh = checkpoint_upon(&directory, &lease, &history[5], &some_pages(7), "7").unwrap();
    assert_eq!(newest(&directory).unwrap(), ("7".into(), some_pages(7)));
    assert_eq!(seventh.parent, None, "nothing is as it was");
    directory.retain(&lease, ONE).unwrap();
    assert_eq!(numbers(), [7]);
    assert_eq!(newest(&directory).unwrap(), ("7".into(), some_pages(7)));
}

#[test]
fn differences_as_large_as_the_full_image_are_coalesced_before_the_chain_is_long() {
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let rule = rule(two(), 100);
    assert!(!coalesce(&directory, &lease, rule).unwrap());
    let mut pages = history()[5].clone();
    pages.extend((0..30u8).map(|at| ((1, 0x10_0000 + 0x1000 * u64::from(at)), page(at + 1))));
    checkpoint_upon(&directory, &lease, &history()[5], &pages, "7").unwrap();
    let little = CoalesceRule { bytes_min: 1 << 20, ..rule };
    assert!(!coalesce(&directory, &lease, little).unwrap(), "it is little");
    assert!(coalesce(&directory, &lease, rule).unwrap());
    assert_eq!(newest(&directory).unwrap(), ("7".into(), pages));
}

#[test]
fn a_cancelled_coalescing_leaves_everything_as_it_was() {
    let disk = disk_with_chain();
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let before = disk.names();
    let done =
        directory.coalesce(&lease, CoalesceRule::at_once(two()), &AtomicBool::new(true), &Progress::default()).unwrap();
    assert_eq!((done, disk.names()), (None, before));
}

#[test]
fn a_damaged_link_aborts_coalescing_and_changes_nothing() {
    let disk = disk_with_chain();
    let name = "generation-00000003.image";
    let mut content = disk.content(name);
    content[4096] ^= 1;
    disk.set_content(name, content);
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE).unwrap();
    let before = disk.names();
    let error = coalesce(&directory, &lease, CoalesceRule::at_once(two())).unwrap_err();
    assert!(matches!(error, StoreError::Link { .. }), "{error}");
    assert_eq!(disk.names(), before);
    assert_eq!(directory.prepare_with(&lease, upon(6)).unwrap().parent(), None, "the next one is full");
    assert_eq!(directory.retain(&lease, ONE).unwrap(), [number(1)][..0], "2 is the newest good one and needs 1");
}

/// Coalesces all but the newest generation, takes one more and applies retention.
fn coalesce_and_go_on(disk: &Disk) -> Result<(), BoxError> {
    let directory = open_on(disk.storage_backend(), 1);
    let lease = directory.take_lease(LIVE)?;
    coalesce(&directory, &lease, CoalesceRule::at_once(two()))?;
    let mut pages = history()[5].clone();
    pages.insert((0, 0x5000), page(77));
    checkpoint_upon(&directory, &lease, &history()[5], &pages, "7")?;
    directory.retain(&lease, two())?;
    Ok(lease.release()?)
}

fn assert_whole(disk: &Disk, context: &str) {
    let directory = open_on(disk.storage_backend(), 2);
    let (name, pages) = newest(&directory).unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut seventh = history()[5].clone();
    seventh.insert((0, 0x5000), page(77));
    match name.as_str() {
        "6" => assert_eq!(pages, history()[5], "{context}"),
        "7" => assert_eq!(pages, seventh, "{context}"),
        other => panic!("{context}: there is no {other}"),
    }
    for generation in &directory.manifest().unwrap().generations {
        let image = directory.image(generation.number).unwrap_or_else(|error| panic!("{context}: {error}"));
        pages_of(&image).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    let lease = directory.take_lease(AFTER_REBOOT).unwrap_or_else(|error| panic!("{context}: {error}"));
    let manifest = directory.manifest().unwrap();
    let images = disk.names().into_iter().filter(|name| name.starts_with("generation")).count();
    assert_eq!(images, manifest.generations.len(), "{context}: leftovers are cleared away");
    checkpoint_upon(&directory, &lease, &pages, &some_pages(3), "next").unwrap();
    assert_eq!(newest(&directory).unwrap(), ("next".into(), some_pages(3)), "{context}");
}

#[test]
fn coalescing_that_is_killed_at_any_operation_leaves_whole_generations() {
    let disk = disk_with_chain();
    let rehearsal = disk.copy_with(Fault::None);
    coalesce_and_go_on(&rehearsal).unwrap();
    let operations = rehearsal.operations();
    assert!(operations > 30, "the scenario does something: {operations}");
    for at in 0..=operations {
        let crashed = disk.copy_with(Fault::PowerLoss(at));
        let outcome = coalesce_and_go_on(&crashed);
        assert_eq!(outcome.is_ok(), at == operations, "operation {at}");
        let chances = (0..12).map(Survival::Chance);
        for survival in [Survival::Nothing, Survival::Everything, Survival::Names].into_iter().chain(chances) {
            let context = format!("power lost at operation {at}, {survival:?} survived");
            assert_whole(&crashed.after_power_loss(survival), &context);
        }
    }
}

#[test]
fn coalescing_on_a_disk_that_fails_leaves_whole_generations() {
    let disk = disk_with_chain();
    let rehearsal = disk.copy_with(Fault::None);
    coalesce_and_go_on(&rehearsal).unwrap();
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for at in 0..rehearsal.operations() {
            for fault in [Fault::Once(at, kind), Fault::From(at, kind)] {
                let failing = disk.copy_with(fault);
                let _ = coalesce_and_go_on(&failing);
                assert_whole(&failing.copy_with(Fault::None), &format!("{fault:?}"));
            }
        }
    }
}

/// One step in the life of a store.
#[derive(Debug, Clone)]
enum Step {
    /// A checkpoint with some pages written and some dropped, either on the newest one or full.
    Checkpoint {
        writes: Vec<(u8, u8)>,
        drops: Vec<u8>,
        upon: bool,
    },
    Retain(u32),
    Coalesce(u32, u32),
    /// A restart from one of the generations.
    Restart(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let writes = prop::collection::vec((0u8..40, 1u8..250), 0..12);
    let drops = prop::collection::vec(0u8..40, 0..6);
    prop_oneof![
        8 => (writes, drops, prop::bool::weighted(0.9)).prop_map(|(writes, drops, upon)| Step::Checkpoint { writes, drops, upon }),
        1 => (1u32..4).prop_map(Step::Retain),
        1 => (1u32..4, 0u32..8).prop_map(|(keep, links)| Step::Coalesce(keep, links)),
        1 => any::<prop::sample::Index>().prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn generations_keep_their_contents_under_random_operations(
        steps in prop::collection::vec(step(), 1..40),
        encodings in any_encodings(),
    ) {
        let disk = Disk::new();
        let directory = open_on(disk.storage_backend(), 1);
        directory.set_encodings(encodings);
        let lease = directory.take_lease(LIVE).unwrap();
        begin(&directory, &lease).unwrap();
        let mut truth: BTreeMap<GenerationNumber, Pages> = BTreeMap::new();
        let (mut pages, mut saved) = (some_pages(1), Pages::new());
        for step in steps {
            match step {
                Step::Checkpoint { writes, drops, upon } => {
                    drops.iter().for_each(|at| drop(pages.remove(&(0, 0x1000 * u64::from(*at)))));
                    for (at, fill) in writes {
                        let key = (0, 0x1000 * u64::from(at));
                        pages.insert(key, written(&pages, key, fill));
                    }
                    let before = if upon { saved.clone() } else { Pages::new() };
                    let generation = checkpoint_upon(&directory, &lease, &before, &pages, "any").unwrap();
                    truth.insert(generation.number, pages.clone());
                    saved = pages.clone();
                }
                Step::Retain(keep) => drop(directory.retain(&lease, NonZeroU32::new(keep).unwrap()).unwrap()),
                Step::Coalesce(keep, links) => {
                    let rule = rule(NonZeroU32::new(keep).unwrap(), links);
                    coalesce(&directory, &lease, rule).unwrap();
                }
                Step::Restart(which) => {
                    let generations = directory.manifest().unwrap().generations;
                    if !generations.is_empty() {
                        let number = generations[which.index(generations.len())].number;
                        directory.mark_superseded_after(&lease, number).unwrap();
                        pages = truth[&number].clone();
                        saved = pages.clone();
                    }
                }
            }
        }
        let manifest = directory.manifest().unwrap();
        for generation in &manifest.generations {
            let held = pages_of(&directory.image(generation.number).unwrap()).unwrap();
            prop_assert_eq!(&held, &truth[&generation.number], "generation {}", generation.number);
        }
        let images = disk.names().into_iter().filter(|name| name.ends_with(".image")).count();
        prop_assert_eq!(images, manifest.generations.len());
    }
}
