//! Buffers against a model that forgets nothing. Whatever is written in whichever order, a checkpoint turns the memory
//! of the previous one into the current memory, and the buffer never exceeds its size.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGES: u64 = 12;

/// The memory and its protected pages: the watcher's part.
#[derive(Clone)]
struct Program {
    pages: Vec<Page>,
    protected: BTreeSet<u64>,
}

impl ProgramPages for Program {
    fn page(&self, number: u64) -> &Page {
        &self.pages[number as usize]
    }
}

impl Program {
    fn new() -> Self {
        let pages = (0..PAGES).map(|page| [page as u8 + 1; PAGE_BYTES]).collect();
        Self { pages, protected: (0..PAGES).collect() }
    }

    /// Writes some words of a page, through the buffer if the page is protected.
    fn write(&mut self, page: u64, words: usize, fill: u8, buffer: &mut Buffer) {
        if self.protected.remove(&page) {
            let protect = buffer.fault(page, self);
            assert!(!protect.again.contains(&page), "the page that is written is let go");
            for again in protect.again {
                assert!(self.protected.insert(again), "only what was let go is protected again");
            }
        }
        let step = (crate::delta::WORDS / words.max(1)).max(1);
        let all = self.pages[page as usize].as_chunks_mut::<8>().0;
        all.iter_mut().step_by(step).take(words).for_each(|word| word[3] = word[3].wrapping_add(fill));
    }
}

#[derive(Clone, Debug)]
enum Event {
    Write { page: u64, words: usize, fill: u8 },
    Checkpoint,
}

fn event() -> impl Strategy<Value = Event> {
    let words = prop_oneof![4 => 0usize..20, 1 => 20usize..=512];
    let write = (0..PAGES, words, 1u8..9).prop_map(|(page, words, fill)| Event::Write { page, words, fill });
    prop_oneof![30 => write, 1 => Just(Event::Checkpoint)]
}

/// Takes a checkpoint, and returns the memory that results from applying it to the previous one.
fn checkpointed(buffer: &mut Buffer, program: &Program, before: &[Page]) -> (Vec<Page>, BTreeSet<u64>, Held) {
    let (mut after, mut told) = (before.to_vec(), BTreeSet::new());
    let held = buffer.checkpoint(program, |page, saved| {
        assert!(told.last().is_none_or(|last| *last < page) && told.insert(page), "ascending, each once");
        match saved {
            Saved::Whole => after[page as usize] = *program.page(page),
            Saved::Compressed(bytes) => Delta::parse(bytes, 1).unwrap().apply([&mut after[page as usize]]),
        }
    });
    (after, told, held)
}

proptest! {
    #[test]
    fn a_checkpoint_holds_exactly_the_changes(
        events in prop::collection::vec(event(), 1..150),
        bytes in 0usize..8 * PAGE_BYTES,
        is_online: bool,
    ) {
        let when_full = if is_online { WhenFull::Online } else { WhenFull::Standard };
        let mut buffer = Buffer::new(bytes, when_full);
        let mut program = Program::new();
        let (mut before, mut written) = (program.pages.clone(), Vec::new());
        for event in events.into_iter().chain([Event::Checkpoint]) {
            match event {
                Event::Write { page, words, fill } => {
                    if !written.contains(&page) {
                        written.push(page);
                    }
                    program.write(page, words, fill, &mut buffer);
                    let held = buffer.held();
                    prop_assert!(held.bytes <= bytes as u64);
                    prop_assert_eq!(held.changed(), (written.len() * PAGE_BYTES) as u64);
                    if when_full == WhenFull::Standard {
                        // Pages are buffered in the order of their first writes.
                        let fitting = (bytes / PAGE_BYTES).min(written.len());
                        prop_assert_eq!(held.buffered_once, (fitting * PAGE_BYTES) as u64);
                        prop_assert_eq!(held.effective(), held.buffered_once);
                        prop_assert_eq!(held.evicted, 0);
                    }
                }
                Event::Checkpoint => {
                    let (after, told, held) = checkpointed(&mut buffer, &program, &before);
                    prop_assert_eq!(&after, &program.pages);
                    prop_assert_eq!(told, written.iter().copied().collect::<BTreeSet<_>>());
                    prop_assert_eq!(held.changed(), (written.len() * PAGE_BYTES) as u64);
                    prop_assert_eq!(buffer.held(), Held::default());
                    program.protected = (0..PAGES).collect();
                    (before, written) = (program.pages.clone(), Vec::new());
                }
            }
        }
    }
}

#[test]
fn online_compresses_the_oldest_pages_to_make_room() {
    let mut program = Program::new();
    let mut online = Buffer::new(2 * PAGE_BYTES, WhenFull::Online);
    (0..6).for_each(|page| program.write(page, 1, 1, &mut online));
    let held = online.held();
    let page = PAGE_BYTES as u64;
    assert_eq!((held.compressed, held.buffered_once, held.unbuffered), (5 * page, page, 0));
    assert_eq!(held.bytes, page + 5 * 73, "a bitmap, a word and a form each");
    assert_eq!(program.protected.iter().filter(|page| **page < 6).count(), 5);
}

#[test]
fn a_page_is_compressed_only_once() {
    let mut program = Program::new();
    let mut buffer = Buffer::new(2 * PAGE_BYTES, WhenFull::Online);
    (0..3).for_each(|page| program.write(page, 1, 1, &mut buffer));
    let page = PAGE_BYTES as u64;
    assert_eq!(buffer.held().compressed, 2 * page);
    // There is no room for its before-image: it is evicted and saved whole.
    program.write(0, 1, 1, &mut buffer);
    assert_eq!((buffer.held().evicted, buffer.held().compressed), (page, page));
    assert!(!program.protected.contains(&0), "it needs no third fault");

    let mut program = Program::new();
    let mut buffer = Buffer::new(3 * PAGE_BYTES, WhenFull::Online);
    (0..3).for_each(|page| program.write(page, 255, 1, &mut buffer));
    program.write(3, 1, 1, &mut buffer);
    assert_eq!(buffer.held().compressed, 3 * page, "two would have left a hole in which no page fits");
    program.write(2, 1, 1, &mut buffer);
    assert_eq!(buffer.held().evicted, page);
    program.write(1, 1, 1, &mut buffer);
    assert_eq!(buffer.held().buffered_twice, page, "there is room for its before-image now");
    (4..8).for_each(|page| program.write(page, 1, 1, &mut buffer));
    assert_eq!(buffer.held().buffered_twice, page, "others are compressed, not this one");
    let before = Program::new().pages;
    assert_eq!(checkpointed(&mut buffer, &program, &before).0, program.pages);
}

#[test]
fn an_incompressible_page_is_evicted_to_make_room() {
    let mut program = Program::new();
    let mut buffer = Buffer::new(PAGE_BYTES, WhenFull::Online);
    program.write(0, 512, 1, &mut buffer);
    program.write(1, 1, 1, &mut buffer);
    let page = PAGE_BYTES as u64;
    assert_eq!((buffer.held().evicted, buffer.held().buffered_once), (page, page));
    assert!(!program.protected.contains(&0), "it is saved whole, whatever becomes of it");
}

#[test]
fn free_space_in_holes_too_small_for_a_page_is_not_used() {
    let mut program = Program::new();
    let mut buffer = Buffer::new(2 * PAGE_BYTES, WhenFull::Online);
    (0..3).for_each(|page| program.write(page, 200, 1, &mut buffer));
    program.write(3, 1, 1, &mut buffer);
    program.write(0, 1, 1, &mut buffer);
    program.write(4, 1, 1, &mut buffer);
    let (held, page) = (buffer.held(), PAGE_BYTES as u64);
    assert_eq!((held.compressed, held.evicted, held.unbuffered), (2 * page, page, 2 * page));
    assert!(2 * page - held.bytes >= page, "a page's worth is free: {held:?}");
    let before = Program::new().pages;
    assert_eq!(checkpointed(&mut buffer, &program, &before).0, program.pages);
}

#[test]
fn fresh_pages_are_saved_whole_and_take_no_room() {
    let program = Program::new();
    let mut buffer = Buffer::new(PAGE_BYTES, WhenFull::Online);
    buffer.fresh(3);
    assert_eq!((buffer.held().unbuffered, buffer.held().bytes), (PAGE_BYTES as u64, 0));
    let mut all = Vec::new();
    buffer.checkpoint(&program, |page, saved| all.push((page, saved == Saved::Whole)));
    assert_eq!(all, [(3, true)]);
}
