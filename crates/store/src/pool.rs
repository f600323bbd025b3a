//! Reusable page buffers. Reading into memory that the kernel has not yet populated takes three times as long, while
//! the program is stopped.

use standfast_core::PAGE_BYTES;
use standfast_format::PageBatch;
use std::sync::{Mutex, PoisonError};

/// Pages in a batch. 1 MiB is enough for the kernel to copy at full speed, and several batches fit a processor's cache.
const BATCH_PAGES: usize = 256;

/// Maximum number of batches in flight with [`Writing::AtOnce`] and up to four writing threads.
const BATCHES_MAX: usize = 8;

/// How many more batches than writing threads are in flight: two are being filled or lent, and two wait for a thread.
const BATCHES_WAITING: usize = 4;

/// Batches that exist from the start, so that a small program finds populated buffers.
const BATCHES_READY: usize = 2;

/// One spare batch for this many, since the program runs on until it is stopped. A batch that has to be created while
/// the program is stopped costs a millisecond; filling one costs a tenth of that.
const SPARE_SHARE: usize = 8;

/// When pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writing {
    /// Immediately: a few buffers suffice.
    #[default]
    AtOnce,
    /// Held in memory until [`crate::Prepared::release`], up to `bytes_max`; then written with low priority.
    Held {
        /// Limit of the memory that holds pages.
        bytes_max: u64,
        /// Expected need of that memory, if known: it is populated before the program stops.
        bytes_expected: u64,
    },
}

/// Batches that are ready for the next checkpoint: as many as the last one used.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<PageBatch>>);

impl Pool {
    /// Takes all ready batches, with room for slightly more than the last use or the expected need. [`Pool::put`]
    /// returns them.
    pub(crate) fn take(&self, writing: Writing) -> Vec<PageBatch> {
        let mut ready = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let wanted = match writing {
            Writing::AtOnce => BATCHES_READY,
            Writing::Held { bytes_expected, .. } => {
                let expected = batches_of(bytes_expected).saturating_add(BATCHES_READY);
                ready.len().max(expected).saturating_add(ready.len().max(expected) / SPARE_SHARE)
            }
        };
        let most = batches_max(writing, 0);
        ready.truncate(most);
        while ready.len() < wanted.min(most) {
            ready.push(new_batch());
        }
        ready
    }

    /// Takes batches back. The checkpoint used `used` of them; the next one may use one more.
    pub(crate) fn put(&self, mut batches: Vec<PageBatch>, used: usize) {
        batches.truncate((used + 1).max(BATCHES_READY));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = batches;
    }
}

/// Returns how many batches may be in flight with this number of writing threads.
pub(crate) fn batches_max(writing: Writing, writers: u32) -> usize {
    let at_once = BATCHES_MAX.max(writers as usize + BATCHES_WAITING);
    match writing {
        Writing::AtOnce => at_once,
        Writing::Held { bytes_max, .. } => batches_of(bytes_max).max(at_once),
    }
}

fn batches_of(bytes: u64) -> usize {
    usize::try_from(bytes / (BATCH_PAGES * PAGE_BYTES) as u64).unwrap_or(usize::MAX)
}

/// Creates a batch with populated memory.
pub(crate) fn new_batch() -> PageBatch {
    // The kernel supplies zeros lazily; any other value has to be written.
    PageBatch { bytes: vec![1; BATCH_PAGES * PAGE_BYTES], ..PageBatch::default() }
}

/// Restores a batch to its full length. Bytes that were not cut off cost nothing.
pub(crate) fn emptied(mut batch: PageBatch) -> PageBatch {
    batch.ranges.clear();
    batch.masked_pages = None;
    batch.bytes.resize(BATCH_PAGES * PAGE_BYTES, 0);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_as_many_batches_as_the_last_checkpoint_used() {
        let pool = Pool::default();
        let held = |bytes_expected| Writing::Held { bytes_max: 64 << 20, bytes_expected };
        assert_eq!(pool.take(held(0)).len(), BATCHES_READY);
        pool.put((0..40).map(|_| new_batch()).collect(), 40);
        assert_eq!(pool.take(held(0)).len(), 45, "an eighth more");
        assert_eq!(pool.take(held(30 << 20)).len(), 36, "what is expected, and a few more");
        assert_eq!(pool.take(held(100 << 20)).len(), 64, "no more than there is room for");
        pool.put((0..50).map(|_| new_batch()).collect(), 3);
        assert_eq!(pool.take(Writing::AtOnce).len(), 4);
        pool.put((0..50).map(|_| new_batch()).collect(), 50);
        assert_eq!(pool.take(Writing::AtOnce).len(), BATCHES_MAX);
        assert_eq!(batches_max(Writing::Held { bytes_max: 0, bytes_expected: 0 }, 4), BATCHES_MAX);
        assert_eq!(batches_max(Writing::AtOnce, 16), 20);
    }
}
