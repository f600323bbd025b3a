//! Finds which of several names occur in a piece of memory, each by itself and not as a part of another. One pass
//! searches for all of them, however many they are.

use aho_corasick::{AhoCorasick, packed};
use std::collections::BTreeSet;
use std::ops::Range;

/// Shorter names occur in any memory by chance.
const NAME_BYTES_MIN: usize = 3;
/// No name is longer.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// How many leading bytes of a name the first search uses.
const QUICK_BYTES: usize = 2;
/// One place in this many bytes may begin like a name without being one: checking it takes as long as passing them.
const QUICK_BYTES_PER_MISS: usize = 1024;

/// A search for names, and what it has found so far.
#[derive(Debug)]
pub(super) struct Search<'a> {
    missing: BTreeSet<&'a [u8]>,
    found: BTreeSet<&'a [u8]>,
    finder: Finder,
}

/// A piece of memory, and whether more precedes and follows it, which decides whether a name at its edge ends there.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub memory: &'a [u8],
    pub is_first: bool,
    pub is_last: bool,
}

impl View<'_> {
    /// Returns the range in which a name may be, so that the bytes beside it are visible.
    fn inner(&self) -> Range<usize> {
        let length = self.memory.len();
        let first = usize::from(!self.is_first).min(length);
        first..length.saturating_sub(usize::from(!self.is_last)).max(first)
    }
}

/// Finds the places where any of the missing names may begin.
#[derive(Debug)]
enum Finder {
    /// Some dozens of names at once.
    Few {
        /// By two bytes of each: twice as fast as by four, until too much else begins like them.
        quick: packed::Searcher,
        /// By as many bytes as can be compared together.
        sure: packed::Searcher,
    },
    /// Any number, at a fraction of the speed.
    Many(AhoCorasick),
    /// There is nothing to be found.
    None,
}

impl Finder {
    fn of(names: &BTreeSet<&[u8]>) -> Self {
        let beginnings: BTreeSet<&[u8]> = names.iter().map(|name| &name[..QUICK_BYTES]).collect();
        match (packed::Searcher::new(beginnings), packed::Searcher::new(names)) {
            (Some(quick), Some(sure)) => Self::Few { quick, sure },
            _ if names.is_empty() => Self::None,
            _ => {
                Self::Many(AhoCorasick::new(names).expect("it has a state for a byte of some names, not for billions"))
            }
        }
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let missing = names.filter(|name| (NAME_BYTES_MIN..=NAME_BYTES_MAX).contains(&name.len())).collect();
        Self { finder: Finder::of(&missing), missing, found: BTreeSet::new() }
    }

    /// Reports whether nothing is left to search for.
    pub(super) fn is_over(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the missing names that occur there by themselves. A name that reaches an edge next to more memory does
    /// not count.
    pub(super) fn search(&self, view: &View<'_>) -> Vec<&'a [u8]> {
        let (memory, inner) = (view.memory, view.inner());
        let mut found = Vec::new();
        // One name may begin like another.
        let mut note = |at: usize| {
            let mut here = self.missing.iter().filter(|name| memory[at..inner.end].starts_with(name)).peekable();
            let is_there = here.peek().is_some();
            found.extend(here.filter(|name| stands_alone(memory, at..at + name.len())));
            is_there
        };
        match &self.finder {
            Finder::Few { quick, sure } => {
                let (mut at, mut misses_left) = (inner.start, inner.len() / QUICK_BYTES_PER_MISS);
                let next = |at: usize, misses_left: usize| {
                    let finder = if misses_left > 0 { quick } else { sure };
                    finder.find_in(memory, (at..inner.end).into()).map(|place| place.start())
                };
                while let Some(place) = next(at, misses_left) {
                    misses_left -= usize::from(!note(place)).min(misses_left);
                    at = place + 1;
                }
            }
            Finder::Many(many) => {
                let places = many.find_overlapping_iter(&memory[..inner.end]).map(|found| found.start());
                places.filter(|at| *at >= inner.start).for_each(|at| _ = note(at));
            }
            Finder::None => {}
        }
        found
    }

    /// Records that they were found.
    pub(super) fn note(&mut self, names: &[&'a [u8]]) {
        let before = self.missing.len();
        for name in names.iter().filter(|name| self.missing.remove(*name)) {
            self.found.insert(name);
        }
        if self.missing.len() < before {
            self.finder = Finder::of(&self.missing);
        }
    }

    /// Reports whether a name was found.
    pub(super) fn has_found(&self, name: &[u8]) -> bool {
        self.found.contains(name)
    }
}

/// Reports whether a name is a name of its own there, and not a part of another.
fn stands_alone(memory: &[u8], name: Range<usize>) -> bool {
    let before = name.start.checked_sub(1).map_or(0, |place| memory[place]);
    let after = memory.get(name.end).copied().unwrap_or(0);
    ends_name(before) && ends_name(after)
}

/// Reports whether a byte may be next to a name in text: not in the middle of data, nor of another name.
fn ends_name(byte: u8) -> bool {
    let is_text = byte == 0 || byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    is_text && !byte.is_ascii_alphanumeric() && !b"._-+".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(memory: &[u8], names: &[&'a [u8]]) -> BTreeSet<&'a [u8]> {
        let mut search = Search::new(names.iter().copied());
        search.note(&search.search(&View { memory, is_first: true, is_last: true }));
        assert_eq!(search.found.len() + search.missing.len(), names.len());
        search.found
    }

    #[test]
    fn a_name_matches_only_as_a_whole_word() {
        let holds = |text: &[u8]| !found(text, &[b"results.txt"]).is_empty();
        for text in [&b"echo $i >> results.txt; true"[..], b"results.txt", b"\0data/results.txt\0", b"'results.txt'"] {
            assert!(holds(text), "{}", text.escape_ascii());
        }
        for text in [&b"old-results.txt"[..], b"results.txt.old", b"results.tx", b"\x01results.txt\x02", b""] {
            assert!(!holds(text), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_name_at_an_edge_matches_only_if_the_memory_ends_there() {
        let search = Search::new([&b"results.txt"[..]].into_iter());
        let holds = |memory: &[u8], is_first, is_last| !search.search(&View { memory, is_first, is_last }).is_empty();
        for (text, first, last) in
            [("results.txt ", true, false), (" results.txt", false, true), ("results.txt", true, true)]
        {
            for (is_first, is_last) in [(false, false), (false, true), (true, false), (true, true)] {
                let expected = (is_first || !first) && (is_last || !last);
                assert_eq!(holds(text.as_bytes(), is_first, is_last), expected, "{text:?} {is_first} {is_last}");
            }
        }
        assert!(!holds(b"", false, false));
    }

    #[test]
    fn many_names_with_common_prefixes_are_found() {
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
    fn a_name_is_found_after_many_partial_matches() {
        let memory = ["re result result.tx ".repeat(1000), " results.txt ".to_owned()].concat();
        assert_eq!(found(memory.as_bytes(), &[b"results.txt", b"reserved"]), [&b"results.txt"[..]].into());
    }
}
