//! Sets of pages, stored in the form that suits most of them: few long runs.

use crate::{Address, PageRange};

/// A set of pages: ascending runs that neither overlap nor adjoin.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PageSet(Vec<PageRange>);

impl PageSet {
    /// Returns the set of all pages of some runs, which may be in any order and overlap.
    pub fn of(ranges: impl IntoIterator<Item = PageRange>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|range| range.pages() > 0).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let reaches = next.start() <= kept.end();
            if reaches {
                *kept = PageRange::between(kept.start(), kept.end().max(next.end()));
            }
            reaches
        });
        Self(ranges)
    }

    /// Returns its runs, ascending.
    pub fn ranges(&self) -> &[PageRange] {
        &self.0
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.0.iter().map(|range| range.pages()).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pages of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    /// Returns the pages that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut here, mut there) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(one), Some(two)) = (here.peek(), there.peek()) {
            let (start, end) = (one.start().max(two.start()), one.end().min(two.end()));
            if start < end {
                common.push(PageRange::between(start, end));
            }
            if one.end() < two.end() {
                here.next();
            } else {
                there.next();
            }
        }
        Self(common)
    }

    /// Returns the pages of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut holes = other.0.iter().peekable();
        for range in &self.0 {
            let mut start = range.start();
            while holes.next_if(|hole| hole.end() <= start).is_some() {}
            // A hole may extend over several runs, so it is dropped only once it ends before the current run.
            let mut ahead = holes.clone();
            while let Some(hole) = ahead.next_if(|hole| hole.start() < range.end()) {
                push(&mut left, start, hole.start());
                start = start.max(hole.end());
            }
            push(&mut left, start, range.end());
        }
        Self(left)
    }
}

fn push(ranges: &mut Vec<PageRange>, start: Address, end: Address) {
    if start < end {
        ranges.push(PageRange::between(start, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn some_ranges() -> impl Strategy<Value = Vec<PageRange>> {
        let range = (0u64..60, 0u64..8).prop_map(|(first, pages)| PageRange::new(Address::new(first * PAGE), pages));
        proptest::collection::vec(range, 0..12)
    }

    /// Reference implementation: page by page.
    fn pages(ranges: &[PageRange]) -> BTreeSet<u64> {
        ranges.iter().flat_map(|range| range.start().get() / PAGE..range.end().get() / PAGE).collect()
    }

    fn is_normal(set: &PageSet) -> bool {
        set.0.iter().all(|range| range.pages() > 0) && set.0.windows(2).all(|pair| pair[0].end() < pair[1].start())
    }

    proptest! {
        #[test]
        fn sets_of_runs_agree_with_sets_of_pages(one in some_ranges(), two in some_ranges()) {
            let (left, right) = (PageSet::of(one.clone()), PageSet::of(two.clone()));
            let (naive_left, naive_right) = (pages(&one), pages(&two));
            prop_assert_eq!(pages(left.ranges()), naive_left.clone());
            prop_assert_eq!(left.pages(), naive_left.len() as u64);
            prop_assert_eq!(left.is_empty(), naive_left.is_empty());
            let pairs = [
                (left.union(&right), &naive_left | &naive_right),
                (left.intersection(&right), &naive_left & &naive_right),
                (left.difference(&right), &naive_left - &naive_right),
            ];
            for (set, naive) in pairs {
                prop_assert!(is_normal(&set), "{:?}", set);
                prop_assert_eq!(pages(set.ranges()), naive);
            }
        }
    }
}
