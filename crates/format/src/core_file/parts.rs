//! Divides a mapping into parts: pages that the file holds, zeros, and pages that it says nothing about.

use standfast_core::{Address, PAGE_BYTES, PageRange};

/// Zeros between two pages of a file: up to this length they become a hole within one segment, since debuggers search
/// segments one after the other.
const GAP_PAGES_MAX: u64 = (1 << 20) / PAGE_BYTES as u64;

/// What the file holds of some pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holding {
    /// Their bytes.
    Pages,
    /// That they are zeros.
    Zeros,
    /// Nothing. If they belong to a mapped file, a debugger reads that; else nobody knows them.
    Nothing,
}

/// Some adjoining pages of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: PageRange,
    pub(super) holding: Holding,
}

/// The parts of one mapping, in order.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<Part>,
    at: Address,
    /// The pages that read as zeros unless something else is known of them.
    zeros: Option<PageRange>,
}

impl Parts {
    /// Divides `whole`. `known` says what is known of some of its pages, ascending. Of the others, those of `zeros`
    /// read as zeros.
    pub(super) fn of(whole: PageRange, zeros: Option<PageRange>, known: &[Part]) -> Vec<Part> {
        let mut parts = Self { parts: Vec::new(), at: whole.start(), zeros };
        for part in known {
            parts.fill(part.range.start());
            parts.push(part.range.end(), part.holding);
        }
        parts.fill(whole.end());
        parts.parts
    }

    /// Adds the pages up to `end`, of which nothing in particular is known.
    fn fill(&mut self, end: Address) {
        let within = |address: Address| address.clamp(self.at, end);
        if let Some(zeros) = self.zeros {
            let (first, last) = (within(zeros.start()), within(zeros.end()));
            self.push(first, Holding::Nothing);
            self.push(last, Holding::Zeros);
        }
        self.push(end, Holding::Nothing);
    }

    fn push(&mut self, end: Address, holding: Holding) {
        if end <= self.at {
            return;
        }
        let mut start = std::mem::replace(&mut self.at, end);
        if let [.., before, gap] = self.parts[..]
            && (before.holding, gap.holding, holding) == (Holding::Pages, Holding::Zeros, Holding::Pages)
            && gap.range.pages() <= GAP_PAGES_MAX
        {
            self.parts.truncate(self.parts.len() - 2);
            start = before.range.start();
        } else if let Some(last) = self.parts.pop_if(|last| last.holding == holding) {
            start = last.range.start();
        }
        self.parts.push(Part { range: PageRange::between(start, end), holding });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Holding::{Nothing, Pages, Zeros};

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * PAGE_BYTES as u64), pages)
    }

    fn part(first: u64, count: u64, holding: Holding) -> Part {
        Part { range: pages(first, count), holding }
    }

    #[test]
    fn pages_that_nobody_knows_are_zeros_only_where_these_are_expected() {
        let known = [part(4, 2, Pages), part(8, 1, Zeros)];
        let expected =
            [part(1, 1, Nothing), part(2, 2, Zeros), part(4, 2, Pages), part(6, 3, Zeros), part(9, 2, Nothing)];
        assert_eq!(Parts::of(pages(1, 10), Some(pages(2, 7)), &known), expected);
        let expected =
            [part(1, 3, Nothing), part(4, 2, Pages), part(6, 2, Nothing), part(8, 1, Zeros), part(9, 2, Nothing)];
        assert_eq!(Parts::of(pages(1, 10), None, &known), expected);
    }

    #[test]
    fn short_zeros_between_pages_are_a_hole_and_long_ones_a_part() {
        for (gap, count) in [(1, 1), (GAP_PAGES_MAX, 1), (GAP_PAGES_MAX + 1, 3)] {
            let known = [part(0, 1, Pages), part(1 + gap, 1, Pages)];
            let whole = pages(0, 2 + gap);
            let parts = Parts::of(whole, Some(whole), &known);
            assert_eq!(parts.len(), count, "{gap}");
            assert_eq!(parts.iter().map(|part| part.range.pages()).sum::<u64>(), whole.pages());
        }
    }

    #[test]
    fn adjoining_pages_become_one_part() {
        let known = [part(3, 1, Pages), part(4, 2, Pages)];
        assert_eq!(Parts::of(pages(3, 3), None, &known), [part(3, 3, Pages)]);
        assert_eq!(Parts::of(pages(3, 0), None, &[]), []);
    }
}
