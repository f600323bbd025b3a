//! Which names of files a job knows: those that stand in the memory with which it goes on. Where the directory cannot tell
//! whose a file is, this does: a program that is about to write to a file has its name somewhere, and hardly has that of
//! somebody else's.

use super::family::Family;
use super::plan::JobPlan;
use crate::abreast;
use aho_corasick::{AhoCorasick, packed};
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::records::Mapping;
use standfast_linux::{PageScan, Populated, ProcessMemory};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Shorter names stand in any memory by chance.
const NAME_BYTES_MIN: usize = 3;
/// No name is longer.
const NAME_BYTES_MAX: usize = 255;
/// So much memory is searched: some seconds. Whoever has more of it is taken not to know the name.
const MEMORY_BYTES_MAX: u64 = 16 << 30;
/// Mapped files that are longer are data.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How much is read at a time: it fits a processor's cache.
const PIECE_PAGES: u64 = (256 << 10) / PAGE_BYTES as u64;

/// The names that were found.
#[derive(Debug, Default)]
pub(super) struct NamesInMemory<'a>(BTreeSet<&'a [u8]>);

impl<'a> NamesInMemory<'a> {
    /// Looks for `names` in the memory of all processes of a job that has been rebuilt.
    pub(super) fn find(family: &Family, plan: &JobPlan<'_>, names: BTreeSet<&'a [u8]>) -> Self {
        let names = names.into_iter().filter(|name| (NAME_BYTES_MIN..=NAME_BYTES_MAX).contains(&name.len()));
        let search = RwLock::new(Search::new(names.collect()));
        let mut bytes_left = MEMORY_BYTES_MAX;
        for (built, process) in family.processes.iter().zip(&plan.job.processes) {
            // What cannot be read holds no name that we know of.
            let Ok(ranges) = searched(built.pid(), &process.mappings) else { continue };
            let fits = |piece: &Piece| {
                let fits = piece.bytes() <= bytes_left;
                bytes_left -= if fits { piece.bytes() } else { 0 };
                fits
            };
            let pieces: Vec<Piece> = in_pieces(&ranges).take_while(fits).collect();
            abreast::each(&pieces, |piece| piece.search(&built.memory, &search));
        }
        Self(search.into_inner().unwrap_or_else(PoisonError::into_inner).found)
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.0.contains(name)
    }
}

/// A part of a range in which names may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    whole: PageRange,
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// What is read for it: a byte before it, and as much behind it as a name that begins in it may have.
    fn window(&self) -> Range<u64> {
        let start = self.whole.start().get().max(self.start.saturating_sub(1));
        start..self.whole.end().get().min(self.end + NAME_BYTES_MAX as u64)
    }

    fn search(&self, memory: &ProcessMemory, search: &RwLock<Search<'_>>) {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let names = search.read().unwrap_or_else(PoisonError::into_inner);
        if names.missing.is_empty() {
            return;
        }
        let own = self.start..self.end;
        // What lies beside it may not be readable.
        let found = [self.window(), own].into_iter().find_map(|window| {
            let begin = (self.start - window.start) as usize;
            BUFFER.with_borrow_mut(|buffer| {
                buffer.resize(buffer.len().max((window.end - window.start) as usize), 0);
                let memory_there = &mut buffer[..(window.end - window.start) as usize];
                memory.read(Address::new(window.start), memory_there).ok()?;
                Some(names.look_in(memory_there, begin..begin + self.bytes() as usize))
            })
        });
        let found = found.unwrap_or_default();
        drop(names);
        if !found.is_empty() {
            search.write().unwrap_or_else(PoisonError::into_inner).note(&found);
        }
    }
}

/// A search for names in memory, in one pass however many they are.
struct Search<'a> {
    missing: BTreeSet<&'a [u8]>,
    found: BTreeSet<&'a [u8]>,
    finder: Finder,
}

/// Finds where any of the missing names begins.
enum Finder {
    /// Some dozens of names at once, by what their first bytes have in common.
    Few(packed::Searcher),
    /// Any number; at a fraction of the speed.
    Many(AhoCorasick),
    /// There is nothing to be found.
    None,
}

impl Finder {
    fn of(names: &BTreeSet<&[u8]>) -> Self {
        match packed::Searcher::new(names) {
            Some(few) => Self::Few(few),
            None if names.is_empty() => Self::None,
            None => {
                Self::Many(AhoCorasick::new(names).expect("it has a state for a byte of some names, not for billions"))
            }
        }
    }
}

impl<'a> Search<'a> {
    fn new(names: BTreeSet<&'a [u8]>) -> Self {
        Self { finder: Finder::of(&names), missing: names, found: BTreeSet::new() }
    }

    /// The missing names that begin in `part` of some memory and stand there by themselves.
    fn look_in(&self, memory: &[u8], part: Range<usize>) -> Vec<&'a [u8]> {
        let mut found = Vec::new();
        // One name may begin like another.
        let mut note = |at: usize| {
            let here = self.missing.iter().filter(|name| memory[at..].starts_with(name));
            found.extend(here.filter(|name| stands_alone(memory, at..at + name.len())));
        };
        match &self.finder {
            Finder::Few(few) => {
                let mut at = part.start;
                while let Some(found) = few.find_in(memory, (at..memory.len()).into()) {
                    if found.start() >= part.end {
                        break;
                    }
                    note(found.start());
                    at = found.start() + 1;
                }
            }
            Finder::Many(many) => {
                let places = many.find_overlapping_iter(memory).map(|found| found.start());
                places.filter(|at| part.contains(at)).for_each(note);
            }
            Finder::None => {}
        }
        found
    }

    fn note(&mut self, names: &[&'a [u8]]) {
        let before = self.missing.len();
        for name in names.iter().filter(|name| self.missing.remove(*name)) {
            self.found.insert(name);
        }
        if self.missing.len() < before {
            self.finder = Finder::of(&self.missing);
        }
    }
}

/// Where names may stand: in what is populated, and in what the program has mapped of files, its executable among them.
fn searched(pid: i32, mappings: &[Mapping]) -> io::Result<Vec<PageRange>> {
    let scan = PageScan::open(pid)?;
    let mut ranges = Vec::new();
    for mapping in mappings {
        let range = PageRange::between(Address::new(mapping.start), Address::new(mapping.end));
        match mapping.backing.file() {
            Some(_) if range.bytes() <= FILE_BYTES_MAX && mapping.protection.read => ranges.push(range),
            _ => scan.populated(range, Populated::Any, &mut ranges)?,
        }
    }
    Ok(ranges)
}

/// All ranges in pieces. A name may go on from one range to the next where nothing lies between them.
fn in_pieces(ranges: &[PageRange]) -> impl Iterator<Item = Piece> + '_ {
    ranges.chunk_by(|one, next| one.end() == next.start()).flat_map(|adjacent| {
        let whole = PageRange::between(adjacent[0].start(), adjacent[adjacent.len() - 1].end());
        adjacent.iter().flat_map(move |range| pieces(*range, whole))
    })
}

/// A range in parts of which each is read at once.
fn pieces(range: PageRange, whole: PageRange) -> impl Iterator<Item = Piece> {
    let mut rest = range;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(PIECE_PAGES);
        rest = behind;
        (piece.pages() > 0).then(|| Piece { start: piece.start().get(), end: piece.end().get(), whole })
    })
}

/// Whether a name stands there as a name of its own, and not as a part of another.
fn stands_alone(memory: &[u8], name: Range<usize>) -> bool {
    let before = name.start.checked_sub(1).map_or(0, |place| memory[place]);
    let after = memory.get(name.end).copied().unwrap_or(0);
    ends_name(before) && ends_name(after)
}

/// Whether a byte may stand beside a name in text: not in the middle of data, nor of another name.
fn ends_name(byte: u8) -> bool {
    let is_text = byte == 0 || byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    is_text && !byte.is_ascii_alphanumeric() && !b"._-+".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(memory: &[u8], names: &[&'a [u8]]) -> BTreeSet<&'a [u8]> {
        let mut search = Search::new(names.iter().copied().collect());
        let found = search.look_in(memory, 0..memory.len());
        search.note(&found);
        assert_eq!(search.found.len() + search.missing.len(), names.len());
        search.found
    }

    #[test]
    fn a_name_counts_where_it_stands_by_itself() {
        let holds = |text: &[u8]| !found(text, &[b"results.txt"]).is_empty();
        for text in [&b"echo $i >> results.txt; true"[..], b"results.txt", b"\0data/results.txt\0", b"'results.txt'"] {
            assert!(holds(text), "{}", text.escape_ascii());
        }
        for text in [&b"old-results.txt"[..], b"results.txt.old", b"results.tx", b"\x01results.txt\x02", b""] {
            assert!(!holds(text), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn any_number_of_names_is_found_also_where_one_begins_like_another() {
        let names: Vec<String> = (0..400).map(|number| format!("log.{number}")).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let memory = b"log.7\0old-log.8 log.39.txt 'log.3' log.21\n";
        let wanted: BTreeSet<&[u8]> = [&b"log.3"[..], b"log.7", b"log.21"].into();
        for many in [1, 8, 40, 100, 400] {
            let few: BTreeSet<&[u8]> = names[..many].iter().copied().filter(|name| wanted.contains(name)).collect();
            assert_eq!(found(memory, &names[..many]), few, "{many}");
        }
        assert!(matches!(Finder::of(&names.into_iter().collect()), Finder::Many(_)));
    }

    #[test]
    fn a_name_across_the_edge_of_two_pieces_is_found_once_and_whole() {
        let whole = PageRange::new(Address::new(0x10_0000), 2 * PIECE_PAGES);
        let (edge, base) = ((PIECE_PAGES * PAGE_BYTES as u64) as usize, whole.start().get());
        for (text, at) in (0..14).flat_map(|before| [("\0results.txt\0", before), ("\0results.txt7", before)]) {
            let mut memory = vec![0; 2 * edge];
            memory[edge - at..edge - at + text.len()].copy_from_slice(text.as_bytes());
            let search = Search::new([&b"results.txt"[..]].into());
            let halves =
                [0, PIECE_PAGES].map(|at| PageRange::new(Address::new(base + at * PAGE_BYTES as u64), PIECE_PAGES));
            let times = in_pieces(&halves).map(|piece| {
                let window = piece.window();
                let (start, end) = ((window.start - base) as usize, (window.end - base) as usize);
                let begin = (piece.start - window.start) as usize;
                search.look_in(&memory[start..end], begin..begin + piece.bytes() as usize).len()
            });
            assert_eq!(times.sum::<usize>(), usize::from(text.ends_with('\0')), "{text:?} {at} bytes before the edge");
        }
    }

    #[test]
    fn every_page_of_a_range_is_in_one_piece() {
        let range = PageRange::new(Address::new(4096), 2 * PIECE_PAGES + 3);
        let found: Vec<_> = in_pieces(&[range]).collect();
        assert_eq!(found.iter().map(Piece::bytes).sum::<u64>(), range.bytes());
        assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((found[0].window().start, found[2].window().end), (range.start().get(), range.end().get()));
    }
}
