//! Pages of a program's memory: their places, and whether they hold anything.

use std::fmt;

/// Bytes in a page. Huge pages are handled as runs of these.
pub const PAGE_BYTES: usize = 4096;

/// The bytes of a page.
pub type Page = [u8; PAGE_BYTES];

/// An address in the *program's* memory. Not a pointer: it means nothing in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(u64);

impl Address {
    /// Creates an address from its number.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reports whether the address is the first of a page.
    pub const fn is_page_aligned(self) -> bool {
        self.0.is_multiple_of(PAGE_BYTES as u64)
    }

    /// Returns the address `bytes` further on. Panics if it would leave the address space.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.checked_add(bytes).expect("address within 64 bits"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A run of adjoining pages. It is always valid: `start` is page aligned and the end does not overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    start: Address,
    pages: u64,
}

impl PageRange {
    /// Creates a range of `pages` pages from `start` on. Panics on an unaligned start or an end beyond the address
    /// space.
    pub const fn new(start: Address, pages: u64) -> Self {
        match Self::checked(start, pages) {
            Some(range) => range,
            None => panic!("page range starts on a page and ends within 64 bits"),
        }
    }

    /// Does the same as [`PageRange::new`] for untrusted numbers, and returns `None` instead of panicking.
    pub const fn checked(start: Address, pages: u64) -> Option<Self> {
        let Some(bytes) = pages.checked_mul(PAGE_BYTES as u64) else {
            return None;
        };
        if !start.is_page_aligned() || start.0.checked_add(bytes).is_none() {
            return None;
        }
        Some(Self { start, pages })
    }

    /// Creates the range of the pages from `start` to `end`, both page aligned.
    pub const fn between(start: Address, end: Address) -> Self {
        assert!(end.is_page_aligned() && end.0 >= start.0);
        Self::new(start, (end.0 - start.0) / PAGE_BYTES as u64)
    }

    /// Returns the first address.
    pub const fn start(self) -> Address {
        self.start
    }

    /// Returns the first address after the run.
    pub const fn end(self) -> Address {
        Address(self.start.0 + self.bytes())
    }

    /// Returns the number of pages.
    pub const fn pages(self) -> u64 {
        self.pages
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    /// Reports whether `address` is within the range.
    pub const fn contains(self, address: Address) -> bool {
        self.start.0 <= address.0 && address.0 < self.end().0
    }

    /// Reports whether the two ranges share a page.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end().0 && other.start.0 < self.end().0
    }

    /// Returns the pages that both ranges have; `None` if there are none.
    pub fn common(self, other: Self) -> Option<Self> {
        self.overlaps(other).then(|| Self::between(self.start.max(other.start), self.end().min(other.end())))
    }

    /// Returns the first `pages` pages and the rest. The rest is empty if there are no more.
    pub const fn split_at(self, pages: u64) -> (Self, Self) {
        let first = if pages < self.pages { pages } else { self.pages };
        let head = Self::new(self.start, first);
        (head, Self::new(head.end(), self.pages - first))
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.start.0, self.end().0)
    }
}

/// Joins neighbours in a sorted list of ranges in place.
pub fn merge_ranges(ranges: &mut Vec<PageRange>) {
    ranges.dedup_by(|next, kept| {
        let adjoins = kept.end() == next.start();
        if adjoins {
            *kept = PageRange::new(kept.start(), kept.pages() + next.pages());
        }
        adjoins
    });
}

/// Reports whether every byte is zero. Returns at the first 128 bytes that are not, where most pages already differ.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (pieces, rest) = bytes.as_chunks::<128>();
    pieces.iter().all(|piece| piece.iter().fold(0, |seen, byte| seen | byte) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_zero_naive(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == 0)
    }

    proptest! {
        #[test]
        fn is_zero_agrees_with_its_naive_twin(length in 0usize..5000, place in 0usize..5000, value: u8) {
            let mut bytes = vec![0u8; length];
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
            prop_assert_eq!(is_zero(&bytes), is_zero_naive(&bytes));
        }
    }

    #[test]
    fn split_gives_back_all_pages() {
        let range = PageRange::new(Address::new(0x1000), 5);
        let (head, tail) = range.split_at(2);
        assert_eq!((head.pages(), tail.pages(), head.end()), (2, 3, tail.start()));
        let (all, none) = range.split_at(9);
        assert_eq!((all, none.pages()), (range, 0));
    }

    #[test]
    fn common_pages_lie_in_both() {
        let page = |number: u64, pages| PageRange::new(Address::new(number * 4096), pages);
        assert_eq!(page(1, 4).common(page(3, 9)), Some(page(3, 2)));
        assert_eq!(page(3, 9).common(page(1, 4)), Some(page(3, 2)));
        assert_eq!(page(1, 2).common(page(3, 1)), None);
    }

    #[test]
    fn unaligned_or_overflowing_ranges_are_refused() {
        assert!(PageRange::checked(Address::new(0x1001), 1).is_none());
        assert!(PageRange::checked(Address::new(!0xfff), 2).is_none());
        assert!(PageRange::checked(Address::new(0), u64::MAX).is_none());
    }

    #[test]
    fn neighbours_merge_and_gaps_stay() {
        let page = |number: u64, pages| PageRange::new(Address::new(number * 4096), pages);
        let mut ranges = vec![page(1, 2), page(3, 1), page(5, 1)];
        merge_ranges(&mut ranges);
        assert_eq!(ranges, [page(1, 3), page(5, 1)]);
    }
}
