//! Blocks stored as differences or compressed: whatever a chain is made of, it reads back what was written, and damage
//! is noticed. The histories of `chains` and `levels` also run with every encoding.

use super::disk::Disk;
use super::{LIVE, Pages, begin, checkpoint, checkpoint_upon, newest, open_on, page, pages_of, state, submit_all};
use crate::progress::Progress;
use crate::{CoalesceRule, Encodings, JobDirectory, Lease, PreparePlan};
use proptest::prelude::*;
use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Allowed;
use standfast_format::ImageSink;
use standfast_format::manifest::GenerationNumber;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn always(encodings: &[Encoding]) -> Encodings {
    Encodings { always: Allowed::of(encodings), where_it_pays: Allowed::default() }
}

/// Generates any selectable encodings, by measurement or always.
pub(super) fn any_encodings() -> impl Strategy<Value = Encodings> {
    let some = || prop::sample::subsequence(vec![Encoding::Differences, Encoding::Lz4, Encoding::Zstd], 0..=3);
    (some(), some()).prop_map(|(always, where_it_pays)| Encodings {
        always: Allowed::of(&always),
        where_it_pays: Allowed::of(&where_it_pays),
    })
}

fn job_on(disk: &Disk, encodings: Encodings) -> (JobDirectory, Lease) {
    let directory = open_on(disk.storage_backend(), 1);
    directory.set_encodings(encodings);
    let lease = directory.take_lease(LIVE).unwrap();
    begin(&directory, &lease).unwrap();
    (directory, lease)
}

fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

/// Returns noise that no codec compresses. Each generation changes a word in each page.
fn history(at: u64) -> Pages {
    let noise = |seed: u64| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let word = std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).to_le_bytes()
        });
        word.take(512).flatten().collect::<Vec<u8>>()
    };
    let mut pages: Pages = (0..300).map(|place| ((0, 0x10_0000 + 0x1000 * place), noise(place))).collect();
    for at in 2..=at {
        pages.values_mut().for_each(|page| page[at as usize * 72] ^= at as u8);
    }
    pages
}

/// Creates a chain of `generations` generations.
fn chain_of(generations: u64, encodings: Encodings) -> (Disk, JobDirectory, Lease) {
    let disk = Disk::new();
    let (directory, lease) = job_on(&disk, encodings);
    for at in 1..=generations {
        checkpoint_upon(&directory, &lease, &history(at - 1), &history(at), "any").unwrap();
    }
    (disk, directory, lease)
}

#[test]
fn a_chain_of_differences_is_small_and_reads_back() {
    let (_, directory, lease) = chain_of(5, always(&[Encoding::Differences]));
    let manifest = directory.manifest().unwrap();
    for generation in &manifest.generations {
        let image = directory.image(generation.number).unwrap();
        assert_eq!(pages_of(&image).unwrap(), history(generation.number.get()), "{}", generation.number);
        assert!(image.verify().is_ok());
        // This allows a bitmap, a word, a form and a sum for each page, and an eighth more for the tables.
        let most = 300 * (64 + 8 + 1 + 8) * 9 / 8 + 4096 + 2048;
        assert!(generation.number.get() == 1 || generation.file_bytes < most, "{generation:?}");
    }
    let rule = CoalesceRule::at_once(NonZeroU32::MIN);
    assert!(directory.coalesce(&lease, rule, &AtomicBool::new(false), &Progress::default()).unwrap().is_some());
    assert_eq!(pages_of(&directory.image(number(5)).unwrap()).unwrap(), history(5));
    checkpoint_upon(&directory, &lease, &history(5), &history(6), "any").unwrap();
    assert_eq!(newest(&directory).unwrap().1, history(6), "upon one that has been coalesced");
}

#[test]
fn any_number_of_threads_writes_what_was_given() {
    let (_, directory, lease) = chain_of(1, always(&[Encoding::Zstd]));
    for (at, writers) in (2..).zip([1, 3, 40]) {
        directory.set_writers(NonZeroU32::new(writers).unwrap());
        checkpoint_upon(&directory, &lease, &history(at - 1), &history(at), "any").unwrap();
        assert_eq!(newest(&directory).unwrap().1, history(at), "{writers} threads");
    }
}

#[test]
fn differences_follow_a_process_that_changes_its_number() {
    let (_, directory, lease) = chain_of(1, always(&[Encoding::Differences]));
    let now: Pages = history(2).into_iter().map(|((_, address), page)| ((1, address), page)).collect();
    let plan = PreparePlan { parent: Some(number(1)), ..PreparePlan::default() };
    let mut prepared = directory.prepare_with(&lease, plan).unwrap();
    prepared.follow(1, 0);
    submit_all(&mut prepared, &now).unwrap();
    prepared.finish(&state("swapped")).unwrap();
    let made = prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
    assert_eq!((made.parent, made.inherited_pages), (Some(number(1)), 0));
    assert!(made.file_bytes < 100 << 10, "{made:?}");
    assert_eq!(newest(&directory).unwrap().1, now);
    // If a process follows no other, all its pages are saved as they are.
    let mut prepared = directory.prepare_with(&lease, PreparePlan { parent: Some(number(2)), ..plan }).unwrap();
    submit_all(&mut prepared, &history(2)).unwrap();
    prepared.finish(&state("new")).unwrap();
    let made = prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
    assert_eq!(made.parent, None);
    assert!(made.file_bytes > 300 * 4096, "{made:?}");
}

#[test]
fn a_damaged_difference_fails_only_generations_that_need_it() {
    let (disk, directory, lease) = chain_of(4, always(&[Encoding::Differences]));
    lease.release().unwrap();
    let file = "generation-00000003.image";
    let whole = disk.content(file);
    for at in (4096..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        disk.set_content(file, damaged);
        let directory = open_on(disk.storage_backend(), 1);
        for (generation, needs_it) in [(1, false), (2, false), (3, true), (4, true)] {
            let read = directory.image(number(generation)).map_err(Into::into).and_then(|image| pages_of(&image));
            match read {
                Ok(pages) => assert!(!needs_it && pages == history(generation), "byte {at}, generation {generation}"),
                Err(error) => assert!(needs_it, "byte {at}, generation {generation}: {error}"),
            }
        }
    }
    disk.set_content(file, whole);
    assert_eq!(newest(&directory).unwrap().1, history(4));
}

#[test]
fn an_unreadable_parent_makes_the_checkpoint_full() {
    let (disk, directory, lease) = chain_of(2, always(&[Encoding::Differences]));
    let file = "generation-00000001.image";
    let mut damaged = disk.content(file);
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    disk.set_content(file, damaged);
    let made = checkpoint_upon(&directory, &lease, &Pages::new(), &history(3), "any").unwrap();
    assert_eq!(made.parent, None);
    assert_eq!(newest(&directory).unwrap().1, history(3));
}

#[test]
fn a_codec_that_was_asked_for_is_used_where_it_makes_blocks_shorter() {
    for encoding in [Encoding::Lz4, Encoding::Zstd] {
        let disk = Disk::new();
        let (directory, lease) = job_on(&disk, always(&[encoding]));
        let plain: Pages = (0..200u64).map(|place| ((0, 0x1000 * place), page(place as u8))).collect();
        let made = checkpoint(&directory, &lease, &plain, "plain").unwrap();
        assert!(made.file_bytes < 200 * 4096 / 8, "{encoding}: {made:?}");
        assert_eq!(newest(&directory).unwrap().1, plain);
        let made = checkpoint(&directory, &lease, &history(1), "noise").unwrap();
        assert!(made.file_bytes > 300 * 4096, "{encoding}: {made:?}");
        let mut both = history(1);
        both.extend(plain);
        checkpoint(&directory, &lease, &both, "both").unwrap();
        assert_eq!(newest(&directory).unwrap().1, both);
    }
}

#[test]
fn in_haste_only_requested_encodings_are_used() {
    let disk = Disk::new();
    let by_measure = Encodings { always: Allowed::default(), where_it_pays: Allowed::of(&[Encoding::Lz4]) };
    let (directory, lease) = job_on(&disk, by_measure);
    directory.level_directory.rates.handed(1 << 20, Duration::ZERO);
    directory.level_directory.rates.synced(Duration::from_secs(100));
    let plain: Pages = (0..200u64).map(|place| ((0, 0x1000 * place), page(place as u8))).collect();
    for (in_haste, is_short) in [(false, true), (true, false)] {
        let mut prepared = directory.prepare_with(&lease, PreparePlan { in_haste, ..PreparePlan::default() }).unwrap();
        super::fill(&mut prepared, &plain, &state("any")).unwrap();
        let made = prepared.seal().unwrap().commit(Duration::ZERO).unwrap();
        assert_eq!(made.file_bytes < 200 * 4096 / 2, is_short, "{made:?}");
        assert_eq!(newest(&directory).unwrap().1, plain);
    }
}

/// Runs the same history on a slow level, and on one that is faster than any processor.
#[test]
fn differences_are_used_only_where_they_save_time() {
    let by_measure = Encodings { always: Allowed::default(), where_it_pays: Allowed::of(&[Encoding::Differences]) };
    for (bytes, time, is_short) in
        [(1 << 20, Duration::from_secs(100), true), (1 << 50, Duration::from_millis(1), false)]
    {
        let disk = Disk::new();
        let (directory, lease) = job_on(&disk, by_measure);
        let mut made = None;
        // The first is full, the second measures both, and the third uses the measurements.
        for at in 1..=3 {
            directory.level_directory.rates.handed(bytes, Duration::ZERO);
            directory.level_directory.rates.synced(time);
            made = Some(checkpoint_upon(&directory, &lease, &history(at - 1), &history(at), "any").unwrap());
            assert_eq!(newest(&directory).unwrap().1, history(at));
        }
        let made = made.unwrap();
        assert_eq!(made.parent.is_some(), is_short, "what builds upon nothing is full");
        assert_eq!(made.file_bytes < 300 * 4096 / 8, is_short, "{bytes} bytes in {time:?}: {made:?}");
    }
}
