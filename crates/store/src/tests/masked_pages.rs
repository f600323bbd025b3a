//! Pages with masked words: whatever a chain of them is made of, the words that count read back.

use super::disk::Disk;
use super::encodings::any_encodings;
use super::{LIVE, begin, newest, open_on, state};
use crate::progress::Progress;
use crate::{CoalesceRule, Encodings, JobDirectory, Lease, PreparePlan};
use proptest::prelude::*;
use standfast_core::directions::{MaskedPages, Regions};
use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use standfast_format::manifest::Generation;
use standfast_format::{BackingPage, BatchRange, ImageSink};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const START: u64 = 0x10_0000;
const PAGES: u64 = 6;
const SPACE: usize = PAGES as usize * PAGE_BYTES;
const DEAD: u64 = 1;
const READ_ONLY: u64 = 2;

/// The regions that a program declares before a checkpoint, and the pages that it has not written since the previous
/// one.
#[derive(Debug, Clone)]
struct Step {
    regions: Vec<(u64, u64, u64)>,
    untouched: u64,
    seed: u64,
}

fn some_step() -> impl Strategy<Value = Step> {
    let region = (0..SPACE as u64, 1..9000u64, prop_oneof![Just(DEAD), Just(READ_ONLY)]);
    let tiny = (0..SPACE as u64, 1..40u64, prop_oneof![Just(DEAD), Just(READ_ONLY)]);
    let regions = prop_oneof![prop::collection::vec(region, 0..12), prop::collection::vec(tiny, 0..300)];
    (regions, 0..1u64 << PAGES, any::<u64>()).prop_map(|(regions, untouched, seed)| Step { regions, untouched, seed })
}

fn masked_pages_of(step: &Step, held: bool) -> Arc<MaskedPages> {
    let entry = |(start, bytes, kind): &(u64, u64, u64)| {
        let end = (start + bytes).min(SPACE as u64);
        [((START + start) | (kind << 62)).to_le_bytes(), (end - start).to_le_bytes()].concat()
    };
    let table: Vec<u8> = step.regions.iter().flat_map(entry).collect();
    let pages = PageSet::of([PageRange::new(Address::new(START), PAGES)]);
    Arc::new(Regions::decode([&table[..]]).unwrap().masked_pages(held.then_some(0))).where_held(&pages)
}

fn noise(mut seed: u64) -> Vec<u8> {
    let byte = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    std::iter::repeat_with(byte).take(SPACE).collect()
}

/// A history, and the value that each byte must read back; `None` for any value.
struct Story {
    directory: JobDirectory,
    lease: Lease,
    now: Vec<u8>,
    wanted: Vec<Option<u8>>,
}

impl Story {
    fn new(encodings: Encodings) -> Self {
        let directory = open_on(Disk::new().storage_backend(), 1);
        directory.set_encodings(encodings);
        let lease = directory.take_lease(LIVE).unwrap();
        begin(&directory, &lease).unwrap();
        Self { directory, lease, now: vec![0; SPACE], wanted: vec![None; SPACE] }
    }

    fn checkpoint(&mut self, step: &Step) -> Generation {
        let parent = self.directory.manifest().unwrap().generations.last().map(|it| it.number);
        let mut prepared =
            self.directory.prepare_with(&self.lease, PreparePlan { parent, ..PreparePlan::default() }).unwrap();
        let masked_pages = masked_pages_of(step, parent.is_some());
        prepared.follow(0, 0);
        let fresh = noise(step.seed);
        let mut batch = prepared.lend().unwrap();
        batch.bytes.clear();
        for number in 0..PAGES {
            let page = PageRange::new(Address::new(START + number * PAGE_BYTES as u64), 1);
            let own = number as usize * PAGE_BYTES..(number as usize + 1) * PAGE_BYTES;
            if parent.is_some() && step.untouched >> number & 1 == 1 {
                prepared.inherit(0, 0, &PageSet::of([page])).unwrap();
                continue;
            }
            let masked_page = masked_pages.within(page).first();
            let has = |mask: [u8; 128], word: usize| mask[word / 8] >> (word % 8) & 1 == 1;
            for at in own.clone() {
                let word = at % PAGE_BYTES / 4;
                let is_dead = masked_page.is_some_and(|masked_page| has(masked_page.dead.to_bytes(), word));
                let is_held = !is_dead && masked_page.is_some_and(|masked_page| has(masked_page.out.to_bytes(), word));
                // Read-only words are not written, as was promised.
                self.now[at] = if is_held { self.now[at] } else { fresh[at] };
                self.wanted[at] = if is_dead {
                    None
                } else if is_held {
                    self.wanted[at]
                } else {
                    Some(fresh[at])
                };
            }
            batch.ranges.push(BatchRange { owner: 0, range: page, backing_page: BackingPage::Zeros });
            batch.bytes.extend_from_slice(&self.now[own]);
        }
        batch.masked_pages = Some(masked_pages);
        prepared.submit(batch).unwrap();
        prepared.finish(&state("any")).unwrap();
        prepared.seal().unwrap().commit(Duration::ZERO).unwrap()
    }

    /// Reports whether the newest generation reads back every word that counts.
    fn is_told(&self) -> bool {
        let (_, pages) = newest(&self.directory).unwrap();
        let found = |at: usize| {
            let address = START + (at - at % PAGE_BYTES) as u64;
            pages.get(&(0, address)).map_or(0, |page| page[at % PAGE_BYTES])
        };
        self.wanted.iter().enumerate().all(|(at, wanted)| wanted.is_none_or(|wanted| wanted == found(at)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn unmasked_words_survive_chains_and_coalescing(
        steps in prop::collection::vec(some_step(), 1..7),
        encodings in any_encodings(),
    ) {
        let mut story = Story::new(encodings);
        for step in &steps {
            story.checkpoint(step);
            prop_assert!(story.is_told());
        }
        let rule = CoalesceRule::at_once(NonZeroU32::MIN);
        story.directory.coalesce(&story.lease, rule, &AtomicBool::new(false), &Progress::default()).unwrap();
        prop_assert!(story.is_told(), "what was coalesced");
        if let Some(step) = steps.first() {
            story.checkpoint(step);
            prop_assert!(story.is_told(), "upon what was coalesced");
        }
    }
}

#[test]
fn masked_words_take_no_space() {
    // Three words in four, as in the links of a neural network.
    let most = |kind| Step {
        regions: (0..SPACE as u64).step_by(16).map(|start| (start, 12, kind)).collect(),
        untouched: 0,
        seed: 7,
    };
    let tables = 4096 + 1024;
    let room = SPACE / 4 + PAGES as usize * 140 + tables;
    let mut story = Story::new(Encodings::default());
    let dead = story.checkpoint(&most(DEAD));
    assert!(dead.parent.is_none() && dead.file_bytes < room as u64, "{dead:?}");
    let whole = story.checkpoint(&Step { regions: vec![], untouched: 0, seed: 8 });
    assert!(whole.file_bytes > SPACE as u64);
    let held = story.checkpoint(&most(READ_ONLY));
    assert!(held.parent == Some(whole.number) && held.file_bytes < room as u64, "{held:?}");
    assert!(story.is_told());
}
