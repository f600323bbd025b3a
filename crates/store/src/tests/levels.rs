//! Two levels: each reads back what was saved on it, and the newest good generation of both is found. Whatever is
//! interrupted, one of them has an intact generation.

use super::disk::{Disk, Fault, Survival};
use super::encodings::any_encodings;
use super::{AFTER_REBOOT, LIVE, Pages, begin, checkpoint_upon, open_on, page, pages_of, some_pages, written};
use crate::progress::Progress;
use crate::{CoalesceRule, JobDirectory, Lease, Level, Levels, Pacing, Selector, StoreError};
use proptest::prelude::*;
use standfast_format::BoxError;
use standfast_format::manifest::GenerationNumber;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

/// Returns a job whose levels are these two disks.
fn levels_on(disk: &Disk, memory: &Disk) -> Levels {
    levels_after(1, disk, memory)
}

/// Does the same after the machine has booted `boot` times.
fn levels_after(boot: u32, disk: &Disk, memory: &Disk) -> Levels {
    let directory = open_on(disk.storage_backend(), boot);
    let memory = directory.level_on(memory.storage_backend()).unwrap();
    Levels::new(directory, Some(memory))
}

/// Begins a job on two disks.
fn begin_on(disk: &Disk, memory: &Disk) -> (Levels, Lease) {
    let levels = levels_on(disk, memory);
    let lease = levels.directory.take_lease(LIVE).unwrap();
    begin(&levels.directory, &lease).unwrap();
    let job = levels.directory.manifest().unwrap();
    memory_of(&levels).begin_level(&lease, &job).unwrap();
    (levels, lease)
}

fn memory_of(levels: &Levels) -> &JobDirectory {
    levels.memory.as_ref().unwrap()
}

fn hurried() -> Pacing {
    let pacing = Pacing::default();
    pacing.hurry();
    pacing
}

fn flush(levels: &Levels, lease: &Lease, at: GenerationNumber) -> Result<bool, StoreError> {
    Ok(levels.directory.take_from(lease, memory_of(levels), at, &hurried())?.is_some())
}

fn found(levels: &Levels) -> (Level, u64, Pages) {
    let (level, choice) = levels.choose(Selector::Newest).unwrap();
    (level, choice.number.get(), pages_of(&choice.image).unwrap())
}

/// Returns many pages, a few of which each generation changes.
fn history(at: u8) -> Pages {
    let mut pages = some_pages(1);
    pages.extend((0..40u8).map(|place| ((1, 0x10_0000 + 0x1000 * u64::from(place)), page(place))));
    (2..=at).for_each(|at| drop(pages.insert((1, 0x10_0000 + 0x1000 * u64::from(at)), page(at + 100))));
    pages
}

#[test]
fn a_flush_writes_changes_since_the_newest_on_disk() {
    let (disk, memory) = (Disk::new(), Disk::new());
    let (levels, lease) = begin_on(&disk, &memory);
    let mut before = Pages::new();
    for at in 1..=6 {
        let made = checkpoint_upon(memory_of(&levels), &lease, &before, &history(at), "any").unwrap();
        before = history(at);
        if at % 2 == 1 {
            assert!(flush(&levels, &lease, made.number).unwrap());
            assert!(!flush(&levels, &lease, made.number).unwrap(), "it is there already");
        }
    }
    let on_disk = levels.directory.manifest().unwrap();
    let shown: Vec<_> =
        on_disk.generations.iter().map(|it| (it.number.get(), it.parent.map(GenerationNumber::get))).collect();
    assert_eq!(shown, [(1, None), (3, Some(1)), (5, Some(3))]);
    assert_eq!(on_disk.generations[2].stored_pages, 2, "those of 4 and 5");
    assert_eq!(found(&levels), (Level::Memory, 6, history(6)));
    for at in [1, 3, 5] {
        let image = levels.directory.image(number(at)).unwrap();
        assert_eq!(pages_of(&image).unwrap(), history(at as u8), "{at}");
    }
    let rebooted = Levels::new(open_on(disk.storage_backend(), 2), None);
    assert_eq!(found(&rebooted), (Level::Directory, 5, history(5)));
}

#[test]
fn a_flush_is_full_if_the_disks_newest_is_gone_from_memory() {
    let (disk, memory) = (Disk::new(), Disk::new());
    let (levels, lease) = begin_on(&disk, &memory);
    let mut before = Pages::new();
    for at in 1..=4 {
        checkpoint_upon(memory_of(&levels), &lease, &before, &history(at), "any").unwrap();
        before = history(at);
        if at == 1 {
            flush(&levels, &lease, number(1)).unwrap();
        }
    }
    let rule = CoalesceRule::at_once(NonZeroU32::MIN);
    memory_of(&levels).coalesce(&lease, rule, &AtomicBool::new(false), &Progress::default()).unwrap().unwrap();
    memory_of(&levels).retain(&lease, NonZeroU32::MIN).unwrap();
    flush(&levels, &lease, number(4)).unwrap();
    let flushed = levels.directory.manifest().unwrap().generation(number(4)).cloned().unwrap();
    assert_eq!(flushed.parent, None);
    assert_eq!(pages_of(&levels.directory.image(number(4)).unwrap()).unwrap(), history(4));
}

#[test]
fn a_cancelled_flush_leaves_nothing_behind() {
    let (disk, memory) = (Disk::new(), Disk::new());
    let (levels, lease) = begin_on(&disk, &memory);
    checkpoint_upon(memory_of(&levels), &lease, &Pages::new(), &history(1), "any").unwrap();
    let before = disk.names();
    let pacing = Pacing::default();
    pacing.cancel();
    assert_eq!(levels.directory.take_from(&lease, memory_of(&levels), number(1), &pacing).unwrap(), None);
    assert_eq!(disk.names(), before);
    pacing.hurry();
    assert_eq!(levels.directory.take_from(&lease, memory_of(&levels), number(1), &pacing).unwrap(), None, "for good");
}

/// Creates three generations in memory, the first of which is on the disk too.
fn three(disk: &Disk, memory: &Disk) {
    let (levels, lease) = begin_on(disk, memory);
    let mut before = Pages::new();
    for at in 1..=3 {
        checkpoint_upon(memory_of(&levels), &lease, &before, &history(at), "any").unwrap();
        before = history(at);
    }
    flush(&levels, &lease, number(1)).unwrap();
    lease.release().unwrap();
}

/// Flushes the newest generation, and removes the disk's older one.
fn flush_and_retain(disk: &Disk, memory: &Disk) -> Result<(), BoxError> {
    let levels = levels_on(disk, memory);
    let lease = levels.directory.take_lease(LIVE)?;
    flush(&levels, &lease, number(3))?;
    levels.directory.retain(&lease, NonZeroU32::MIN)?;
    Ok(lease.release()?)
}

/// Asserts that whatever became of the flush, memory has the newest generation, the disk alone has either, and flushing
/// works.
fn assert_both_whole(disk: &Disk, memory: &Disk, context: &str) {
    let levels = levels_after(2, disk, memory);
    assert_eq!(found(&levels), (Level::Memory, 3, history(3)), "{context}");
    let (_, at, pages) = found(&Levels::new(levels.directory.clone(), None));
    assert!(at == 1 || at == 3, "{context}: {at}");
    assert_eq!(pages, history(at as u8), "{context}");
    let lease = levels.directory.take_lease(AFTER_REBOOT).unwrap_or_else(|error| panic!("{context}: {error}"));
    flush(&levels, &lease, number(3)).unwrap_or_else(|error| panic!("{context}: {error}"));
    let (_, at, pages) = found(&Levels::new(levels.directory.clone(), None));
    assert_eq!((at, pages), (3, history(3)), "{context}");
}

#[test]
fn a_flush_that_is_killed_at_any_operation_leaves_whole_generations_on_both_levels() {
    let (disk, memory) = (Disk::new(), Disk::new());
    three(&disk, &memory);
    let rehearsal = disk.copy_with(Fault::None);
    flush_and_retain(&rehearsal, &memory).unwrap();
    let operations = rehearsal.operations();
    assert!(operations > 12, "the scenario does something: {operations}");
    for at in 0..=operations {
        let crashed = disk.copy_with(Fault::PowerLoss(at));
        assert_eq!(flush_and_retain(&crashed, &memory).is_ok(), at == operations, "operation {at}");
        let chances = (0..12).map(Survival::Chance);
        for survival in [Survival::Nothing, Survival::Everything, Survival::Names].into_iter().chain(chances) {
            let context = format!("killed at operation {at}, {survival:?} survived");
            assert_both_whole(&crashed.after_power_loss(survival), &memory, &context);
        }
    }
}

#[test]
fn a_disk_that_fails_under_a_flush_leaves_whole_generations_on_both_levels() {
    let (disk, memory) = (Disk::new(), Disk::new());
    three(&disk, &memory);
    let rehearsal = disk.copy_with(Fault::None);
    flush_and_retain(&rehearsal, &memory).unwrap();
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for at in 0..rehearsal.operations() {
            for fault in [Fault::Once(at, kind), Fault::From(at, kind)] {
                let failing = disk.copy_with(fault);
                let _ = flush_and_retain(&failing, &memory);
                assert_both_whole(&failing.copy_with(Fault::None), &memory, &format!("{fault:?}"));
            }
        }
    }
}

#[test]
fn a_full_or_emptied_memory_level_leaves_the_disk_usable() {
    let (disk, whole) = (Disk::new(), Disk::new());
    three(&disk, &whole);
    let tried = |levels: &Levels| {
        let lease = levels.directory.take_lease(LIVE).unwrap();
        let tried = checkpoint_upon(memory_of(levels), &lease, &history(3), &history(4), "any");
        (lease, tried.is_ok())
    };
    let rehearsal = whole.copy_with(Fault::None);
    assert!(tried(&levels_on(&disk.copy_with(Fault::None), &rehearsal)).1);
    let operations = rehearsal.operations();
    assert!(operations > 5, "a checkpoint does something: {operations}");
    for at in 0..=operations {
        let full = whole.copy_with(Fault::From(at, ErrorKind::StorageFull));
        let disk = disk.copy_with(Fault::None);
        let levels = levels_on(&disk, &full);
        let (lease, is_taken) = tried(&levels);
        assert_eq!(is_taken, at == operations, "operation {at}");
        // Its parent would be 3, which is not on the disk, so it is full.
        let number_min = levels.next().unwrap();
        let plan = crate::PreparePlan { parent: Some(number(3)), number_min, ..crate::PreparePlan::default() };
        let mut prepared = levels.directory.prepare_with(&lease, plan).unwrap();
        assert_eq!(prepared.parent(), None);
        super::fill(&mut prepared, &history(5), &super::state("degraded")).unwrap();
        let made = prepared.seal().unwrap().commit(std::time::Duration::ZERO).unwrap();
        assert_eq!(made.number, number_min, "no number is given twice");
        assert_eq!(found(&levels), (Level::Directory, made.number.get(), history(5)));
    }
    let levels = levels_on(&disk, &whole);
    let lease = levels.directory.take_lease(LIVE).unwrap();
    memory_of(&levels).manifest().unwrap();
    whole.names().iter().for_each(|name| whole.storage_backend().remove(name).unwrap());
    assert_eq!(found(&levels), (Level::Directory, 1, history(1)));
    let made = checkpoint_upon(memory_of(&levels), &lease, &history(3), &history(4), "any").unwrap();
    assert_eq!(made.parent, None, "what it would build upon is gone");
    assert_eq!(found(&levels), (Level::Memory, 4, history(4)));
}

#[derive(Debug, Clone)]
enum Step {
    /// A checkpoint with some pages written, in memory, or in the directory as if memory were full.
    Checkpoint(Vec<(u8, u8)>, Level),
    /// A flush of the newest generation in memory to the disk.
    Flush,
    Retain(u32),
    Coalesce(Level),
    /// A restart from one of the generations.
    Restart(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let writes = prop::collection::vec((0u8..40, 1u8..250), 1..12);
    let level = prop_oneof![6 => Just(Level::Memory), 1 => Just(Level::Directory)];
    prop_oneof![
        8 => (writes, level).prop_map(|(writes, level)| Step::Checkpoint(writes, level)),
        4 => Just(Step::Flush),
        1 => (1u32..3).prop_map(Step::Retain),
        1 => prop_oneof![Just(Level::Memory), Just(Level::Directory)].prop_map(Step::Coalesce),
        1 => any::<prop::sample::Index>().prop_map(Step::Restart),
    ]
}

fn checkpoint_at(
    levels: &Levels,
    level: Level,
    lease: &Lease,
    last: Option<GenerationNumber>,
    pages: &Pages,
    before: &Pages,
) -> GenerationNumber {
    let place = if level == Level::Memory { memory_of(levels) } else { &levels.directory };
    let plan = crate::PreparePlan { parent: last, number_min: levels.next().unwrap(), ..crate::PreparePlan::default() };
    let mut prepared = place.prepare_with(lease, plan).unwrap();
    super::fill_upon(&mut prepared, before, pages, &super::state("any")).unwrap();
    prepared.seal().unwrap().commit(std::time::Duration::ZERO).unwrap().number
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_number_has_the_same_contents_on_every_level(
        steps in prop::collection::vec(step(), 1..40),
        in_memory in any_encodings(),
        on_disk in any_encodings(),
    ) {
        let (disk, memory) = (Disk::new(), Disk::new());
        let (levels, lease) = begin_on(&disk, &memory);
        memory_of(&levels).set_encodings(in_memory);
        levels.directory.set_encodings(on_disk);
        let mut truth: BTreeMap<GenerationNumber, Pages> = BTreeMap::new();
        let (mut pages, mut saved, mut last) = (some_pages(1), Pages::new(), None);
        for step in steps {
            match step {
                Step::Checkpoint(writes, level) => {
                    for (at, fill) in writes {
                        let key = (0, 0x1000 * u64::from(at));
                        pages.insert(key, written(&pages, key, fill));
                    }
                    let made = checkpoint_at(&levels, level, &lease, last, &pages, &saved);
                    prop_assert!(truth.insert(made, pages.clone()).is_none(), "a number is given once");
                    (saved, last) = (pages.clone(), Some(made));
                }
                Step::Flush => {
                    let newest = memory_of(&levels).manifest().unwrap().generations.last().cloned();
                    if let Some(newest) = newest.filter(|it| !it.superseded) {
                        flush(&levels, &lease, newest.number).unwrap();
                    }
                }
                Step::Retain(keep) => {
                    memory_of(&levels).retain(&lease, NonZeroU32::MIN).unwrap();
                    levels.directory.retain(&lease, NonZeroU32::new(keep).unwrap()).unwrap();
                }
                Step::Coalesce(level) => {
                    let rule = CoalesceRule::at_once(NonZeroU32::MIN);
                    let place = if level == Level::Memory { memory_of(&levels) } else { &levels.directory };
                    place.coalesce(&lease, rule, &AtomicBool::new(false), &Progress::default()).unwrap();
                }
                Step::Restart(which) => {
                    let all: Vec<_> = truth.keys().filter(|it| levels.choose(Selector::Exactly(**it)).is_ok()).copied().collect();
                    if !all.is_empty() {
                        let number = all[which.index(all.len())];
                        levels.mark_superseded_after(&lease, number).unwrap();
                        prop_assert!(!levels.differs_from_life_at(number).unwrap());
                        pages = truth[&number].clone();
                        // The first checkpoint of a life is full.
                        last = None;
                    }
                }
            }
        }
        for (_, level) in levels.each() {
            for generation in &level.manifest().unwrap().generations {
                let held = pages_of(&level.image(generation.number).unwrap()).unwrap();
                prop_assert_eq!(&held, &truth[&generation.number], "generation {}", generation.number);
            }
        }
        let newest = levels.each().flat_map(|(_, level)| level.manifest().unwrap().generations).filter(|it| !it.superseded).map(|it| it.number).max();
        prop_assert_eq!(levels.choose(Selector::Newest).ok().map(|(_, choice)| choice.number), newest);
    }
}

/// Creates a job in real directories, with one generation in memory.
fn on_real_directories(place: &Path) -> (Levels, Lease) {
    let directory = JobDirectory::create(&place.join("job")).unwrap();
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    let mut levels = Levels::new(directory, None);
    std::fs::create_dir_all(place.join("memory")).unwrap();
    levels.make_memory(&lease, &place.join("memory")).unwrap();
    checkpoint_upon(memory_of(&levels), &lease, &Pages::new(), &history(1), "any").unwrap();
    (levels, lease)
}

fn reopen(path: &Path) -> (Levels, Option<StoreError>) {
    Levels::open(JobDirectory::open(path).unwrap()).unwrap()
}

fn names(place: &Path) -> usize {
    std::fs::read_dir(place).unwrap().count()
}

#[test]
fn only_the_level_named_by_the_directory_is_used() {
    let place = tempfile::tempdir().unwrap();
    let (mut levels, lease) = on_real_directories(place.path());
    let job = place.path().join("job");
    assert_eq!(found(&reopen(&job).0), (Level::Memory, 1, history(1)));
    // A copy of the directory cannot use the level.
    let copy = place.path().join("copy");
    JobDirectory::create(&copy).unwrap();
    std::fs::copy(job.join("manifest"), copy.join("manifest")).unwrap();
    let (of_copy, missing) = reopen(&copy);
    assert!(of_copy.memory.is_none() && matches!(missing, Some(StoreError::WrongImage(_))));
    // Another life has another level: what the first life left there is gone for good.
    let first = memory_of(&levels).path().to_owned();
    levels.make_memory(&lease, &place.path().join("memory")).unwrap();
    assert_ne!(first, memory_of(&levels).path());
    assert_eq!((first.exists(), names(&place.path().join("memory"))), (false, 1));
    assert!(matches!(reopen(&job).0.choose(Selector::Newest), Err(StoreError::NoCheckpoint(_))));
}

#[test]
fn a_memory_level_that_others_may_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("memory/standfast-of-another-job")).unwrap();
    let (levels, _lease) = on_real_directories(place.path());
    let level = memory_of(&levels).path().to_owned();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&level), 0o700);
    assert_eq!(mode(&level.join("generation-00000001.image")), 0o600);
    assert_eq!(names(&place.path().join("memory")), 2);
    std::fs::set_permissions(&level, std::fs::Permissions::from_mode(0o770)).unwrap();
    let (opened, missing) = reopen(&place.path().join("job"));
    assert!(opened.memory.is_none() && matches!(missing, Some(StoreError::Untrusted { .. })), "{missing:?}");
}

#[test]
fn discarding_memory_removes_it_and_optionally_keeps_the_place() {
    let place = tempfile::tempdir().unwrap();
    for remember in [true, false] {
        let (mut levels, lease) = on_real_directories(place.path());
        levels.discard_memory(&lease, remember).unwrap();
        assert_eq!(names(&place.path().join("memory")), 0);
        let recorded = levels.directory.manifest().unwrap().memory;
        assert_eq!(recorded.map(|it| it.level), remember.then_some(None));
        lease.release().unwrap();
    }
}
