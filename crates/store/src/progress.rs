//! Progress of a long operation in bytes. A thread other than the worker reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of bytes, with their total if it is known.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Sets the total number of bytes.
    pub fn expect(&self, total_bytes: u64) {
        self.total.store(total_bytes, Ordering::Relaxed);
    }

    /// Counts bytes as done.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes done.
    pub fn done_bytes(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes; `None` if it is not known.
    pub fn total_bytes(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }
}
