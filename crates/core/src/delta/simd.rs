//! The difference of a page with AVX2 and AVX-512. The plain code in `kernel` is the reference implementation.
//!
//! # Safety
//! Two things could go wrong, and this module prevents both. *Instructions that the processor does not have*: each
//! kernel is a method of a value that only `detect` creates, after checking the processor. *Writing beyond the slot*:
//! vectors are stored whole although only their first words count. When the vector at word `at` is processed, at most
//! `at` words have been written. The store therefore ends at or before `at` + one vector, which is within the room of
//! one page.
#![allow(unsafe_code, reason = "vector instructions; see Safety")]

use super::kernel::SLOT_BYTES;
use super::{BITMAP_BYTES, Change, PAGE_BYTES, WORD_BYTES};
use std::arch::x86_64::{
    __m256i, _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
    _mm256_permutevar8x32_epi32, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
    _mm512_loadu_si512, _mm512_maskz_compress_epi64, _mm512_storeu_si512, _mm512_test_epi64_mask, _mm512_xor_si512,
};

/// Proof that the processor has AVX2 and POPCNT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")).then_some(Self(()))
    }

    pub(super) fn difference(self, change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
        // SAFETY: `self` exists, so `detect` has found AVX2 and POPCNT.
        unsafe { difference_256(change, slot) }
    }
}

/// Proof that the processor has AVX-512 Foundation and POPCNT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt")).then_some(Self(()))
    }

    pub(super) fn difference(self, change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
        // SAFETY: `self` exists, so `detect` has found AVX-512F and POPCNT.
        unsafe { difference_512(change, slot) }
    }
}

/// Words in a vector of 256 bits.
const LANES_256: usize = 4;
/// Words in a vector of 512 bits.
const LANES_512: usize = 8;

/// For each set of changed words, the permutation of half words that moves them to the front.
static TO_THE_FRONT: [[u32; 2 * LANES_256]; 1 << LANES_256] = to_the_front();

const fn to_the_front() -> [[u32; 2 * LANES_256]; 1 << LANES_256] {
    let mut table = [[0; 2 * LANES_256]; 1 << LANES_256];
    let mut set = 0;
    while set < table.len() {
        let (mut lane, mut place) = (0, 0);
        while lane < LANES_256 {
            if set >> lane & 1 == 1 {
                table[set][place] = 2 * lane as u32;
                table[set][place + 1] = 2 * lane as u32 + 1;
                place += 2;
            }
            lane += 1;
        }
        set += 1;
    }
    table
}

#[target_feature(enable = "avx2,popcnt")]
fn difference_256(change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
    const STEP: usize = LANES_256 * WORD_BYTES;
    let (bitmap, words) = slot.split_at_mut(BITMAP_BYTES);
    let words: &mut [u8; PAGE_BYTES] = words.try_into().expect("behind the bitmap a page has room");
    let mut count = 0;
    for (index, byte) in bitmap.iter_mut().enumerate() {
        let mut sets = 0;
        for half in 0..2 {
            let at = (2 * index + half) * STEP;
            // SAFETY: `at` + one vector is at most PAGE_BYTES, the length of both; loads need no alignment.
            let (before, now): (__m256i, __m256i) = unsafe {
                (
                    _mm256_loadu_si256(change.before.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(change.now.as_ptr().add(at).cast()),
                )
            };
            let changed = _mm256_xor_si256(before, now);
            if _mm256_testz_si256(changed, changed) == 1 {
                continue;
            }
            let same = _mm256_cmpeq_epi64(changed, _mm256_setzero_si256());
            let set = !_mm256_movemask_pd(_mm256_castsi256_pd(same)) as usize & 0b1111;
            // SAFETY: an entry of the table has the 32 bytes of a vector; loads need no alignment.
            let order = unsafe { _mm256_loadu_si256(TO_THE_FRONT[set].as_ptr().cast()) };
            let packed = _mm256_permutevar8x32_epi32(changed, order);
            // SAFETY: no more words were written than were processed, so this ends at or before `at` + one vector, and
            // thus within the page (see above); stores need no alignment.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(count * WORD_BYTES).cast(), packed) };
            count += set.count_ones() as usize;
            sets |= set << (half * LANES_256);
        }
        *byte = sets as u8;
    }
    count
}

#[target_feature(enable = "avx512f,popcnt")]
fn difference_512(change: Change<'_>, slot: &mut [u8; SLOT_BYTES]) -> usize {
    const STEP: usize = LANES_512 * WORD_BYTES;
    let (bitmap, words) = slot.split_at_mut(BITMAP_BYTES);
    let words: &mut [u8; PAGE_BYTES] = words.try_into().expect("behind the bitmap a page has room");
    let mut count = 0;
    for (index, byte) in bitmap.iter_mut().enumerate() {
        let at = index * STEP;
        // SAFETY: `at` + one vector is at most PAGE_BYTES, the length of both; loads need no alignment.
        let (before, now) = unsafe {
            (
                _mm512_loadu_si512(change.before.as_ptr().add(at).cast()),
                _mm512_loadu_si512(change.now.as_ptr().add(at).cast()),
            )
        };
        let changed = _mm512_xor_si512(before, now);
        let set = _mm512_test_epi64_mask(changed, changed);
        *byte = set;
        if set == 0 {
            continue;
        }
        // The words are packed in a register and stored whole, since a packing store takes a hundred cycles on some
        // processors.
        let packed = _mm512_maskz_compress_epi64(set, changed);
        // SAFETY: no more words were written than were processed, so this ends at or before `at` + one vector, and thus
        // within the page (see above); stores need no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().add(count * WORD_BYTES).cast(), packed) };
        count += set.count_ones() as usize;
    }
    count
}
