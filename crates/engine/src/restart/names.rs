//! Which names of files a job knows: those that stand in the memory with which it goes on. Where the directory cannot tell
//! whose a file is, this does: a program that is about to write to a file has its name somewhere, and hardly has that of
//! somebody else's.

use super::family::Family;
use super::plan::JobPlan;
use aho_corasick::AhoCorasick;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::records::Mapping;
use standfast_linux::{PageScan, Populated};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

/// Shorter names stand in any memory by chance.
const NAME_BYTES_MIN: usize = 3;
/// So much memory is searched: some seconds. Whoever has more of it is taken not to know the name.
const MEMORY_BYTES_MAX: u64 = 16 << 30;
/// Mapped files that are longer are data.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How much is read at a time.
const PIECE_PAGES: u64 = (1 << 20) / PAGE_BYTES as u64;
/// Up to this many names are searched for one after the other, which is quicker than an automaton for all.
const FEW_NAMES: usize = 8;
/// A name and what stands beside it, across the edge of two pieces.
const OVERLAP_BYTES: usize = 300;

/// The names that were found.
#[derive(Debug, Default)]
pub(super) struct NamesInMemory<'a>(BTreeSet<&'a [u8]>);

impl<'a> NamesInMemory<'a> {
    /// Looks for `names` in the memory of all processes of a job that has been rebuilt.
    pub(super) fn find(family: &Family, plan: &JobPlan<'_>, names: BTreeSet<&'a [u8]>) -> Self {
        let mut search = Search::new(names.into_iter().filter(|name| name.len() >= NAME_BYTES_MIN).collect());
        let mut bytes_left = MEMORY_BYTES_MAX;
        for (built, process) in family.processes.iter().zip(&plan.job.processes) {
            if search.is_over() {
                break;
            }
            // What cannot be read holds no name that we know of.
            let Ok(ranges) = searched(built.pid(), &process.mappings) else { continue };
            let mut piece = Vec::new();
            for range in ranges.into_iter().flat_map(pieces) {
                bytes_left = bytes_left.saturating_sub(range.bytes());
                if search.is_over() || bytes_left == 0 {
                    break;
                }
                let edge = piece.len().saturating_sub(OVERLAP_BYTES);
                piece.drain(..edge);
                let old = piece.len();
                piece.resize(old + range.bytes() as usize, 0);
                if built.memory.read(range.start(), &mut piece[old..]).is_err() {
                    piece.clear();
                    continue;
                }
                search.look_in(&piece);
            }
        }
        Self(search.found)
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.0.contains(name)
    }
}

/// A search for names in memory, in one pass where they are many.
struct Search<'a> {
    missing: BTreeSet<&'a [u8]>,
    found: BTreeSet<&'a [u8]>,
    many: Option<Many<'a>>,
}

/// An automaton that finds all of these names, and costs more than a search for a few.
struct Many<'a> {
    automaton: AhoCorasick,
    names: Vec<&'a [u8]>,
}

impl<'a> Search<'a> {
    fn new(names: BTreeSet<&'a [u8]>) -> Self {
        Self { many: Many::of(&names), missing: names, found: BTreeSet::new() }
    }

    fn is_over(&self) -> bool {
        self.missing.is_empty()
    }

    fn look_in(&mut self, memory: &[u8]) {
        let found: Vec<&[u8]> = match &self.many {
            Some(many) => many.in_memory(memory).collect(),
            None => self.missing.iter().copied().filter(|name| holds(memory, name)).collect(),
        };
        for name in found {
            if self.missing.remove(name) {
                self.found.insert(name);
            }
        }
        if self.many.as_ref().is_some_and(|many| self.missing.len() <= many.names.len() / 2) {
            self.many = Many::of(&self.missing);
        }
    }
}

impl<'a> Many<'a> {
    /// `None` where a search for one after the other is quicker.
    fn of(names: &BTreeSet<&'a [u8]>) -> Option<Self> {
        if names.len() <= FEW_NAMES {
            return None;
        }
        let automaton = AhoCorasick::new(names).ok()?;
        Some(Self { automaton, names: names.iter().copied().collect() })
    }

    fn in_memory<'m>(&'m self, memory: &'m [u8]) -> impl Iterator<Item = &'a [u8]> + 'm {
        let found = self.automaton.find_overlapping_iter(memory);
        found.filter(|found| stands_alone(memory, found.range())).map(|found| self.names[found.pattern().as_usize()])
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

/// A range in parts of which each is read at once.
fn pieces(range: PageRange) -> impl Iterator<Item = PageRange> {
    let mut at = range.start();
    std::iter::from_fn(move || {
        let piece = PageRange::between(at, range.end());
        let piece = PageRange::new(at, piece.pages().min(PIECE_PAGES));
        at = piece.end();
        (piece.pages() > 0).then_some(piece)
    })
}

/// Whether a name stands somewhere as a name of its own, and not as a part of another.
fn holds(memory: &[u8], name: &[u8]) -> bool {
    memchr::memmem::find_iter(memory, name).any(|at| stands_alone(memory, at..at + name.len()))
}

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

    #[test]
    fn a_name_counts_where_it_stands_by_itself() {
        for text in [&b"echo $i >> results.txt; true"[..], b"results.txt", b"\0data/results.txt\0", b"'results.txt'"] {
            assert!(holds(text, b"results.txt"), "{}", text.escape_ascii());
        }
        for text in [&b"old-results.txt"[..], b"results.txt.old", b"results.tx", b"\x01results.txt\x02", b""] {
            assert!(!holds(text, b"results.txt"), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn many_names_are_found_as_few_are() {
        let names: Vec<String> = (0..40).map(|number| format!("log.{number}")).collect();
        let memory = b"log.7\0old-log.8 log.39.txt 'log.3' log.21\n";
        for some in [&names[..8], &names] {
            let mut search = Search::new(some.iter().map(|name| name.as_bytes()).collect());
            assert_eq!(search.many.is_some(), some.len() > FEW_NAMES);
            search.look_in(memory);
            let wanted: BTreeSet<&[u8]> = [&b"log.3"[..], b"log.7", b"log.21"]
                .into_iter()
                .filter(|name| some.iter().any(|it| it.as_bytes() == *name))
                .collect();
            assert_eq!(search.found, wanted);
            assert!(!search.is_over());
        }
    }

    #[test]
    fn every_page_of_a_range_is_in_one_piece() {
        let range = PageRange::new(Address::new(4096), 2 * PIECE_PAGES + 3);
        let found: Vec<_> = pieces(range).collect();
        assert_eq!(found.iter().map(|piece| piece.pages()).sum::<u64>(), range.pages());
        assert!(found.windows(2).all(|pair| pair[0].end() == pair[1].start()));
        assert_eq!((found[0].start(), found[2].end()), (range.start(), range.end()));
    }
}
