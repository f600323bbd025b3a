//! Buffers for pages, used again and again: memory that the kernel has yet to populate is read into at a third of the
//! speed, and the program stands still meanwhile.

use standfast_core::PAGE_BYTES;
use standfast_format::PageBatch;
use std::sync::{Mutex, PoisonError};

/// Pages in a batch. 1 MiB is enough for the kernel to copy at full speed, and several fit a processor's cache.
const BATCH_PAGES: usize = 256;

/// Batches in flight at most: two being filled or lent, the others waiting for or with the writing threads.
pub(crate) const BATCHES_MAX: usize = 8;

/// Batches that lie ready for the next checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<PageBatch>>);

impl Pool {
    /// All batches that lie ready; they are brought back with [`Pool::put`].
    pub(crate) fn take(&self) -> Vec<PageBatch> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(&self, batches: impl IntoIterator<Item = PageBatch>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batches);
    }
}

/// A batch whose memory is populated.
pub(crate) fn new_batch() -> PageBatch {
    // Zeros would come from the kernel lazily; any other value has to be written.
    PageBatch { ranges: Vec::new(), bytes: vec![1; BATCH_PAGES * PAGE_BYTES] }
}

/// A batch at full length again. What was not cut off costs nothing.
pub(crate) fn emptied(mut batch: PageBatch) -> PageBatch {
    batch.ranges.clear();
    batch.bytes.resize(BATCH_PAGES * PAGE_BYTES, 0);
    batch
}
