//! The two loops over a page: finding the words that differ, and restoring them. The first has a form for each kind of
//! processor.
//!
//! Pages arrive at memory speed, so the first loop must not take longer than reading them: it compares 64 bytes at once
//! and skips equal ones. The second touches only what changed, so plain code is enough.

use super::simd::{Avx2, Avx512};
use super::{BITMAP_BYTES, Change, Page, WORD_BYTES};
use crate::PAGE_BYTES;

/// Bytes that [`Kernel::difference`] may write: the bitmap and room for every word.
pub(super) const SLOT_BYTES: usize = BITMAP_BYTES + PAGE_BYTES;

/// Words in one byte of the bitmap.
const GROUP: usize = 8;

/// The method of finding differences. All methods give the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(Way);

#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Avx2(Avx2),
    Avx512(Avx512),
}

impl Kernel {
    /// Returns the kernels that this processor can run, the fastest last. The first is plain code, which runs
    /// everywhere.
    pub fn available() -> impl Iterator<Item = Self> {
        let ways = [Some(Way::Plain), Avx2::detect().map(Way::Avx2), Avx512::detect().map(Way::Avx512)];
        ways.into_iter().flatten().map(Self)
    }

    /// Returns its name, for people.
    pub fn name(self) -> &'static str {
        match self.0 {
            Way::Plain => "plain",
            Way::Avx2(_) => "AVX2",
            Way::Avx512(_) => "AVX-512",
        }
    }

    /// Writes the bitmap and after it the changed words, as before XOR now. Returns their number. The rest of the slot
    /// is then meaningless.
    pub(super) fn difference(self, change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
        match self.0 {
            Way::Plain => difference(change, slot),
            Way::Avx2(processor) => processor.difference(change, slot),
            Way::Avx512(processor) => processor.difference(change, slot),
        }
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::available().last().expect("plain code runs everywhere")
    }
}

/// Avoids a branch for each word: every word is written, and the next one overwrites it if it was zero.
fn difference(change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
    let (bitmap, words) = slot.split_at_mut(BITMAP_BYTES);
    let words = words.as_chunks_mut::<WORD_BYTES>().0;
    let groups = change.before.as_chunks::<{ GROUP * WORD_BYTES }>().0.iter().zip(change.now.as_chunks().0);
    let mut count = 0;
    for ((before, now), byte) in groups.zip(bitmap) {
        *byte = 0;
        if before == now {
            continue;
        }
        for (index, (before, now)) in before.as_chunks().0.iter().zip(now.as_chunks().0).enumerate() {
            let changed = u64::from_le_bytes(*before) ^ u64::from_le_bytes(*now);
            words[count] = changed.to_le_bytes();
            *byte |= u8::from(changed != 0) << index;
            count += usize::from(changed != 0);
        }
    }
    count
}

/// Applies changed words to a before-image, and returns how many there were. Panics if the bitmap has more than
/// `words`.
pub(super) fn apply(bitmap: &[u8; BITMAP_BYTES], words: &[[u8; WORD_BYTES]], page: &mut Page) -> usize {
    let mut rest = words;
    for (byte, group) in bitmap.iter().zip(page.as_chunks_mut::<{ GROUP * WORD_BYTES }>().0) {
        let (now, after) = rest.split_at(byte.count_ones() as usize);
        let group = group.as_chunks_mut::<WORD_BYTES>().0;
        if *byte == u8::MAX {
            group.iter_mut().zip(now).for_each(|(word, changed)| add(word, changed));
        } else {
            let mut left = *byte;
            for changed in now {
                add(&mut group[left.trailing_zeros() as usize], changed);
                left &= left - 1;
            }
        }
        rest = after;
    }
    words.len() - rest.len()
}

fn add(word: &mut [u8; WORD_BYTES], changed: &[u8; WORD_BYTES]) {
    *word = (u64::from_le_bytes(*word) ^ u64::from_le_bytes(*changed)).to_le_bytes();
}
