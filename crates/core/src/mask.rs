//! Masks of the words of a page: one bit for each word of four bytes, the finest unit that a checkpoint distinguishes.
//!
//! Words have four bytes here, not eight as in differences: programs exclude fields of their structures, many of which
//! have four bytes. One bit per byte would take an eighth of the page.

use crate::page::{PAGE_BYTES, Page};
use std::ops::Range;

/// Bytes in a word.
pub const MASK_WORD_BYTES: usize = 4;
/// Words in a page.
pub const MASK_WORDS: usize = PAGE_BYTES / MASK_WORD_BYTES;
/// Bytes of a mask.
pub const MASK_BYTES: usize = MASK_WORDS / 8;

const LANES: usize = MASK_WORDS / 64;

/// A set of words of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask([u64; LANES]);

impl Default for Mask {
    fn default() -> Self {
        Self::NONE
    }
}

impl Mask {
    /// The empty mask.
    pub const NONE: Self = Self([0; LANES]);

    /// Returns the mask of the words that are not zero.
    pub fn of_nonzero(page: &Page) -> Self {
        let mut mask = Self::NONE;
        for (lane, words) in mask.0.iter_mut().zip(page.as_chunks::<{ 64 * MASK_WORD_BYTES }>().0) {
            for (bit, word) in words.as_chunks::<MASK_WORD_BYTES>().0.iter().enumerate() {
                *lane |= u64::from(*word != [0; MASK_WORD_BYTES]) << bit;
            }
        }
        mask
    }

    /// Decodes a mask as stored in an image: bit `n` of byte `m` stands for word `8 m + n`.
    pub fn from_bytes(bytes: &[u8; MASK_BYTES]) -> Self {
        let mut mask = Self::NONE;
        mask.0.iter_mut().zip(bytes.as_chunks().0).for_each(|(lane, bytes)| *lane = u64::from_le_bytes(*bytes));
        mask
    }

    /// Encodes the mask; see [`Mask::from_bytes`].
    pub fn to_bytes(self) -> [u8; MASK_BYTES] {
        let mut bytes = [0; MASK_BYTES];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(bytes, lane)| *bytes = lane.to_le_bytes());
        bytes
    }

    /// Adds some words. Panics if the page does not have them.
    pub fn add(&mut self, words: Range<usize>) {
        assert!(words.end <= MASK_WORDS, "words of one page");
        let mut word = words.start;
        while word < words.end {
            let (lane, bit) = (word / 64, word % 64);
            let count = (64 - bit).min(words.end - word);
            self.0[lane] |= (u64::MAX >> (64 - count)) << bit;
            word += count;
        }
    }

    /// Returns the number of words.
    pub fn words(self) -> usize {
        self.0.iter().map(|lane| lane.count_ones() as usize).sum()
    }

    /// Reports whether the mask is empty.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Reports whether the other mask has all of these words.
    pub fn is_within(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(lane, other)| lane & !other == 0)
    }

    /// Returns the words of either mask.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] | other.0[lane]))
    }

    /// Returns all other words.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self(self.0.map(|lane| !lane))
    }

    /// Sets these words of a page to zero.
    pub fn clear(self, page: &mut Page) {
        let words = page.as_chunks_mut::<MASK_WORD_BYTES>().0;
        self.each(|word| words[word] = [0; MASK_WORD_BYTES]);
    }

    /// Copies these words out of a page, one after the other, and returns their length in bytes. Panics if `into` is
    /// too short.
    pub fn gather(self, page: &Page, into: &mut [u8]) -> usize {
        let room = into.as_chunks_mut::<MASK_WORD_BYTES>().0;
        let mut count = 0;
        for (bits, words) in self.0.into_iter().zip(page.as_chunks::<{ 64 * MASK_WORD_BYTES }>().0) {
            let words = words.as_chunks::<MASK_WORD_BYTES>().0;
            let own = &mut room[count..count + bits.count_ones() as usize];
            let mut left = bits;
            // The remainder proves that the index is below 64, which saves a check for each word.
            for word in &mut *own {
                *word = words[left.trailing_zeros() as usize % 64];
                left &= left - 1;
            }
            count += own.len();
        }
        count * MASK_WORD_BYTES
    }

    /// Writes gathered words back into a page. Panics if there are too few.
    pub fn scatter(self, gathered: &[u8], page: &mut Page) {
        let words = page.as_chunks_mut::<MASK_WORD_BYTES>().0;
        let mut gathered = gathered.as_chunks::<MASK_WORD_BYTES>().0.iter();
        self.each(|word| words[word] = *gathered.next().expect("as many words as were gathered"));
    }

    fn each(self, mut act: impl FnMut(usize)) {
        for (lane, bits) in self.0.into_iter().enumerate() {
            let mut left = bits;
            while left != 0 {
                act(lane * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn some_words() -> impl Strategy<Value = Vec<Range<usize>>> {
        let range = (0..=MASK_WORDS, 0..=MASK_WORDS).prop_map(|(one, two)| one.min(two)..one.max(two));
        prop::collection::vec(range, 0..4)
    }

    fn of(ranges: &[Range<usize>]) -> (Mask, BTreeSet<usize>) {
        let mut mask = Mask::NONE;
        ranges.iter().for_each(|range| mask.add(range.clone()));
        (mask, ranges.iter().flat_map(Clone::clone).collect())
    }

    proptest! {
        #[test]
        fn masks_agree_with_sets_of_words(one in some_words(), two in some_words(), seed: u8) {
            let ((left, naive_left), (right, naive_right)) = (of(&one), of(&two));
            prop_assert_eq!(left.words(), naive_left.len());
            prop_assert_eq!(left.is_empty(), naive_left.is_empty());
            prop_assert_eq!(left.is_within(right), naive_left.is_subset(&naive_right));
            prop_assert_eq!(left.union(right).words(), naive_left.union(&naive_right).count());
            prop_assert_eq!(left.inverse().words(), MASK_WORDS - naive_left.len());
            prop_assert_eq!(Mask::from_bytes(&left.to_bytes()), left);
            let page: Page = std::array::from_fn(|at| (at as u8).wrapping_mul(7).wrapping_add(seed) | 1);
            let mut room = [0; PAGE_BYTES];
            let bytes = left.gather(&page, &mut room);
            prop_assert_eq!(bytes, naive_left.len() * MASK_WORD_BYTES);
            let mut back = [0; PAGE_BYTES];
            left.scatter(&room[..bytes], &mut back);
            let mut masked = page;
            left.inverse().clear(&mut masked);
            prop_assert_eq!(back, masked);
            prop_assert_eq!(Mask::of_nonzero(&back), left);
            for (at, byte) in back.iter().enumerate() {
                prop_assert_eq!(*byte, if naive_left.contains(&(at / MASK_WORD_BYTES)) { page[at] } else { 0 });
            }
        }
    }
}
