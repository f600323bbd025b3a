//! How far a long piece of work has come, in bytes; read from another thread than the one that does the work.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of bytes and, where it is known, their number in the end.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Sets the number of bytes in all.
    pub fn expect(&self, total_bytes: u64) {
        self.total.store(total_bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are done.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that are done.
    pub fn done_bytes(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes in all; `None` where that is not known.
    pub fn total_bytes(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }
}
