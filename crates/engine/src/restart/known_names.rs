//! Finds which names of files a job knows: those in the memory with which it continues. They decide if the directory
//! does not show whose a file is. A program that is about to write to a file has its name somewhere, and hardly has the
//! name of another program's file.
//!
//! The executable and the libraries are searched first: they are small, and a compiled program has its names there.
//! Pages are searched as they are delivered: while they are in the processor's cache that costs a quarter of what it
//! costs to read them again.

use super::family::Family;
use super::names::{NAME_BYTES_MAX, Search, View};
use super::plan::JobPlan;
use crate::pool;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::{Contents, Run};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError, RwLock};

/// Longer mapped files count as data.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How many pages of a mapped file are read at a time: they fit a processor's cache.
const PIECE_PAGES: u64 = (256 << 10) / PAGE_BYTES as u64;
/// The bytes needed on each side of a place to recognize all names that reach it: the longest name, and a byte beside
/// it.
const MARGIN_BYTES: u64 = NAME_BYTES_MAX as u64 + 1;

/// A search for names in the memory of a job that is being rebuilt.
#[derive(Debug)]
pub(super) struct KnownNames<'a> {
    search: RwLock<Search<'a>>,
    /// All memory that is delivered, ascending, without adjoining stretches.
    stretches: Vec<Stretch>,
    /// The places where one delivered piece of a stretch ends and another begins.
    seams: Mutex<Vec<Part>>,
}

/// Memory of one owner without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    owner: u32,
    range: PageRange,
}

/// A part of a stretch, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    stretch: Stretch,
    start: u64,
    end: u64,
}

impl<'a> KnownNames<'a> {
    /// Returns a search for `names` in the contents of `runs`: all of an image's, ascending by owner and address.
    pub(super) fn new(names: impl Iterator<Item = &'a [u8]>, runs: &[Run]) -> Self {
        let search = Search::new(names);
        let stretches = if search.is_over() { Vec::new() } else { stretches(runs) };
        Self { search: RwLock::new(search), stretches, seams: Mutex::default() }
    }

    /// Searches pages that are being delivered. Several threads may call this.
    pub(super) fn scan_runs(&self, runs: &[Run], bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        let mut rest = bytes;
        for runs in runs.chunk_by(adjoin) {
            let (start, end) = (runs[0].range.start().get(), runs[runs.len() - 1].range.end().get());
            let (memory, after) = rest.split_at((end - start) as usize);
            rest = after;
            let stretch = self.stretch(runs[0].owner, start);
            let part = Part { stretch, start, end };
            self.scan(&part, memory);
            if !part.is_first() {
                self.seams.lock().unwrap_or_else(PoisonError::into_inner).push(Part { end: start, ..part }.widened());
            }
        }
    }

    /// Searches the places where delivered pieces meet; `read` reads the pages of an owner. Unreadable memory counts as
    /// holding no name.
    pub(super) fn scan_seams(&self, read: impl Fn(u32, Address, &mut [u8]) -> io::Result<()> + Sync) {
        let seams = std::mem::take(&mut *self.seams.lock().unwrap_or_else(PoisonError::into_inner));
        let scan = |seam: &Part| self.read_and_scan(seam, |start, into| read(seam.stretch.owner, start, into));
        pool::each(&seams, scan);
    }

    /// Searches the files that the processes have mapped, their executables among them.
    pub(super) fn scan_mapped_files(&self, family: &Family, plan: &JobPlan<'_>) {
        for (built, process) in family.processes.iter().zip(&plan.job.processes) {
            let is_searched = |range: &PageRange| range.bytes() <= FILE_BYTES_MAX;
            let mapped = process.mappings.iter().filter(|mapping| mapping.backing.file().is_some());
            let readable = mapped.filter(|mapping| mapping.protection.read);
            let ranges =
                readable.map(|mapping| PageRange::between(Address::new(mapping.start), Address::new(mapping.end)));
            let pieces: Vec<Part> = ranges.filter(is_searched).flat_map(pieces).collect();
            pool::each(&pieces, |piece| self.read_and_scan(piece, |start, into| built.memory.read(start, into)));
        }
    }

    /// Reports whether a name was found.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.search.read().unwrap_or_else(PoisonError::into_inner).has_found(name)
    }

    fn is_over(&self) -> bool {
        self.search.read().unwrap_or_else(PoisonError::into_inner).is_over()
    }

    fn stretch(&self, owner: u32, address: u64) -> Stretch {
        let after =
            self.stretches.partition_point(|stretch| (stretch.owner, stretch.range.start().get()) <= (owner, address));
        self.stretches[after - 1]
    }

    fn read_and_scan(&self, part: &Part, read: impl Fn(Address, &mut [u8]) -> io::Result<()>) {
        if self.is_over() {
            return;
        }
        let mut memory = vec![0; (part.end - part.start) as usize];
        if read(Address::new(part.start), &mut memory).is_ok() {
            self.scan(part, &memory);
        }
    }

    fn scan(&self, part: &Part, memory: &[u8]) {
        let view = View { memory, is_first: part.is_first(), is_last: part.is_last() };
        let found = self.search.read().unwrap_or_else(PoisonError::into_inner).search(&view);
        if !found.is_empty() {
            self.search.write().unwrap_or_else(PoisonError::into_inner).note(&found);
        }
    }
}

impl Part {
    fn is_first(&self) -> bool {
        self.start == self.stretch.range.start().get()
    }

    fn is_last(&self) -> bool {
        self.end == self.stretch.range.end().get()
    }

    /// Returns the part with the bytes needed beside it.
    fn widened(self) -> Self {
        let Range { start, end } = self.stretch.range.start().get()..self.stretch.range.end().get();
        let (from, to) = (self.start.saturating_sub(MARGIN_BYTES), self.end.saturating_add(MARGIN_BYTES));
        Self { start: from.max(start), end: to.min(end), ..self }
    }
}

/// Reports whether a run's pages adjoin those of the one before.
fn adjoin(one: &Run, next: &Run) -> bool {
    one.owner == next.owner && one.range.end() == next.range.start()
}

/// Joins adjoining runs. Cleared pages hold no names.
fn stretches(runs: &[Run]) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for Run { owner, range, .. } in runs.iter().copied().filter(|run| run.contents == Contents::Stored) {
        match stretches.last_mut() {
            Some(last) if last.owner == owner && last.range.end() == range.start() => {
                last.range = PageRange::between(last.range.start(), range.end());
            }
            _ => stretches.push(Stretch { owner, range }),
        }
    }
    stretches
}

/// Splits a mapping into parts that are read one at a time, with the bytes needed beside each.
fn pieces(range: PageRange) -> impl Iterator<Item = Part> {
    let stretch = Stretch { owner: 0, range };
    let mut rest = range;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(PIECE_PAGES);
        rest = after;
        let part = Part { stretch, start: piece.start().get(), end: piece.end().get() };
        (piece.pages() > 0).then(|| part.widened())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = PAGE_BYTES;

    fn run(owner: u32, page: usize, pages: usize) -> Run {
        let range = PageRange::new(Address::new((page * PAGE) as u64), pages as u64);
        Run { owner, range, contents: Contents::Stored }
    }

    /// Delivers `memory`, from address 0 on, in `deliveries` of one run each. Returns whether the name is known then.
    fn knows(memory: &[u8], deliveries: &[Run]) -> bool {
        let mut runs = deliveries.to_vec();
        runs.sort_unstable();
        let names = KnownNames::new([&b"results.txt"[..]].into_iter(), &runs);
        let bytes = |run: &Run| &memory[run.range.start().get() as usize..run.range.end().get() as usize];
        deliveries.iter().for_each(|run| names.scan_runs(&[*run], bytes(run)));
        names.scan_seams(|_, start, into| {
            let start = start.get() as usize;
            into.copy_from_slice(&memory[start..start + into.len()]);
            Ok(())
        });
        names.contains(b"results.txt")
    }

    fn with(text: &str, at: usize) -> Vec<u8> {
        let mut memory = vec![0; 4 * PAGE];
        memory[at..at + text.len()].copy_from_slice(text.as_bytes());
        memory
    }

    #[test]
    fn a_name_is_found_however_its_pages_are_delivered() {
        let deliveries: [&[Run]; 4] = [
            &[run(0, 0, 4)],
            &[run(0, 2, 2), run(0, 0, 2)],
            &[run(0, 1, 1), run(0, 3, 1), run(0, 0, 1), run(0, 2, 1)],
            &[run(0, 0, 1), run(0, 1, 3)],
        ];
        for deliveries in deliveries {
            for at in (PAGE - 13..=PAGE + 1).chain(2 * PAGE - 13..=2 * PAGE + 1) {
                assert!(knows(&with(" results.txt ", at), deliveries), "{at} {deliveries:?}");
                assert!(!knows(&with(" results.txt7", at), deliveries), "{at} {deliveries:?}");
                assert!(!knows(&with("7results.txt ", at), deliveries), "{at} {deliveries:?}");
            }
        }
    }

    #[test]
    fn a_name_at_the_end_of_a_fragment_is_known() {
        let fragments = [run(0, 0, 1), run(0, 2, 1)];
        for at in [0, PAGE - 11, 2 * PAGE, 3 * PAGE - 11] {
            assert!(knows(&with("results.txt", at), &fragments), "{at}");
        }
        assert!(!knows(&with("results.txt", PAGE - 5), &fragments));
        assert!(!knows(&with("results.txt", PAGE), &[run(0, 0, 1), run(1, 2, 1)]));
    }

    #[test]
    fn names_do_not_match_across_non_adjacent_runs() {
        let runs = [run(0, 0, 1), run(0, 1, 1), run(0, 3, 1), run(1, 0, 1)];
        let names: [&[u8]; 2] = [b"results.txt", b"other.txt"];
        let known = |memory: &[u8]| {
            let search = KnownNames::new(names.into_iter(), &runs);
            search.scan_runs(&runs, memory);
            search.scan_seams(|_, _, _| unreachable!("all that adjoins came together"));
            names.map(|name| search.contains(name))
        };
        assert_eq!(known(&with("results.txt", PAGE - 5)), [true, false]);
        assert_eq!(known(&with("results.txt", 2 * PAGE - 5)), [false, false]);
        assert_eq!(known(&with("results.txt", 3 * PAGE - 5)), [false, false]);
        assert_eq!(known(&with("other.txtresults.txt", 3 * PAGE - 9)), [true, true]);
    }

    #[test]
    fn pieces_of_a_mapped_file_overlap_by_the_margin() {
        let range = PageRange::new(Address::new(PAGE as u64), 2 * PIECE_PAGES + 3);
        let found: Vec<_> = pieces(range).collect();
        let edge = PAGE as u64 + PIECE_PAGES * PAGE as u64;
        assert_eq!((found[0].start, found[0].end), (PAGE as u64, edge + MARGIN_BYTES));
        assert_eq!(found[1].start, edge - MARGIN_BYTES);
        assert_eq!((found[2].end, found.len()), (range.end().get(), 3));
        assert!(found[0].is_first() && !found[0].is_last() && found[2].is_last() && !found[1].is_first());
    }
}
