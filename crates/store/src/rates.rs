//! Which encodings a level may use, and what is known of its speed and of what they come to (C1).

use standfast_core::codec::choice::{Allowance, Allowed, Choice};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What encoding by measurement may take of a processor, and what it may save up meanwhile: a checkpoint of gigabytes each
/// ten minutes can be compressed whole, one each second cannot.
const ALLOWANCE: Allowance = Allowance { share: 0.05, most: Duration::from_secs(10) };

/// Of less the time says more of the disk's ways than of its speed.
const TELLING_BYTES: u64 = 1 << 20;

/// How blocks may be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encodings {
    /// Used wherever they make a block much shorter: differences first.
    pub always: Allowed,
    /// Used where that pays.
    pub where_it_pays: Allowed,
}

impl Encodings {
    /// Those that are used whatever they cost: somebody waits.
    #[must_use]
    pub fn in_haste(self) -> Self {
        Self { where_it_pays: Allowed::default(), ..self }
    }
}

/// What is known of a level's speed and of the encodings, from one generation to the next.
#[derive(Debug)]
pub(crate) struct Rates {
    choice: Mutex<Choice>,
    clock: Instant,
    pending: Mutex<Pending>,
}

/// What has been written and not yet been synced.
#[derive(Debug, Default)]
struct Pending {
    bytes: u64,
    /// How long all threads together took to hand it on.
    handing: Duration,
}

/// Threads that encode and write at the same time.
pub(crate) fn writers() -> usize {
    /// Four checksum and copy faster than disks write, and the engine's reader needs a core too.
    const WRITERS_MAX: usize = 4;
    thread::available_parallelism().map_or(1, NonZeroUsize::get).clamp(1, WRITERS_MAX)
}

impl Default for Rates {
    fn default() -> Self {
        let choice = Mutex::new(Choice::new(ALLOWANCE, writers()));
        Self { choice, clock: Instant::now(), pending: Mutex::default() }
    }
}

impl Rates {
    /// So much was handed to the level, which took so long.
    pub(crate) fn handed(&self, bytes: u64, time: Duration) {
        let mut pending = lock(&self.pending);
        pending.bytes += bytes;
        pending.handing += time;
    }

    /// All of it has been synced, which took so long.
    pub(crate) fn synced(&self, time: Duration) {
        let Pending { bytes, handing } = std::mem::take(&mut *lock(&self.pending));
        if bytes >= TELLING_BYTES {
            let time = time + handing / writers() as u32;
            lock(&self.choice).written(usize::try_from(bytes).unwrap_or(usize::MAX), time);
        }
    }

    /// Time since the level was opened.
    pub(crate) fn age(&self) -> Duration {
        self.clock.elapsed()
    }

    pub(crate) fn choice(&self) -> MutexGuard<'_, Choice> {
        lock(&self.choice)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
