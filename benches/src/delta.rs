//! Word differences: their speed relative to memory, with so few changed words that deltas pay off.

use crate::figures::{Verdict, median, within};
use standfast_core::PAGE_BYTES;
use standfast_core::delta::{Encoder, Kernel, changes};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The size of a block of an image. Pages are processed in blocks while a cache holds them.
const BLOCK_BYTES: usize = 64 * PAGE_BYTES;
/// More than any cache can hold.
const BULK_BYTES: usize = 512 << 20;
/// One word in this many is changed.
const CHANGED_ONE_IN: usize = 100;
const BYTES_PER_SECOND_MIN: f64 = 8e9;
/// At least half the speed of copying.
const BOUND: f64 = 2.0;

/// Measures a block that a cache holds, in bytes per second, and memory that no cache holds, compared with copying it.
pub(crate) fn speed(repeats: usize) -> [Verdict; 2] {
    let before = noise(BULK_BYTES);
    let mut now = before.clone();
    let words = now.as_chunks_mut::<8>().0;
    scattered(words.len()).for_each(|word| words[word][3] ^= 1);
    let mut copy = noise(BULK_BYTES);
    let (mut blocks, mut passes, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeats {
        blocks.push(differences(&before[..BLOCK_BYTES], &now[..BLOCK_BYTES], BULK_BYTES / BLOCK_BYTES));
        passes.push(differences(&before, &now, 1));
        let begin = Instant::now();
        black_box(&mut copy).copy_from_slice(&now);
        copies.push(begin.elapsed());
    }
    let what = "word differences at 1 % changed words";
    let rate = BULK_BYTES as f64 / median(&blocks).as_secs_f64();
    let kernel = Kernel::default().name();
    let cached = Verdict {
        promise: format!("{what}, a block in cache: at least {} GB/s", BYTES_PER_SECOND_MIN / 1e9),
        measured: format!("{:.1} GB/s with {kernel}", rate / 1e9),
        holds: rate >= BYTES_PER_SECOND_MIN,
    };
    [cached, within(format!("{what} against copying the memory:"), &passes, &copies, BOUND)]
}

fn differences(before: &[u8], now: &[u8], times: usize) -> Duration {
    let mut encoder = Encoder::new();
    let begin = Instant::now();
    for _ in 0..times {
        for (before, now) in before.chunks(BLOCK_BYTES).zip(now.chunks(BLOCK_BYTES)) {
            black_box(encoder.encode(changes(before, now)));
        }
    }
    begin.elapsed()
}

/// Returns random places, on average one word in [`CHANGED_ONE_IN`].
fn scattered(words: usize) -> impl Iterator<Item = usize> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % words
    })
    .take(words / CHANGED_ONE_IN)
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.take(bytes / 8).flatten().collect()
}
