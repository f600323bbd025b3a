//! The encodings that a level may use, its measured speed, and the measured yield of each encoding (C1).

use standfast_core::codec::choice::{Allowance, Allowed, Choice};
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The share of a processor that measured encoding may use, and the time that it may accumulate meanwhile. A checkpoint
/// of gigabytes every ten minutes can be compressed whole; one every second cannot.
const ALLOWANCE: Allowance = Allowance { share: 0.05, most: Duration::from_secs(10) };

/// The minimum number of bytes worth measuring. The time for fewer reflects the disk's peculiarities, not its speed.
const TELLING_BYTES: u64 = 1 << 20;

/// The encodings that blocks may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encodings {
    /// Encodings used wherever they make a block much shorter; differences come first.
    pub always: Allowed,
    /// Encodings used where they pay off.
    pub where_it_pays: Allowed,
}

impl Encodings {
    /// Returns only the encodings that are used regardless of cost, because somebody waits.
    #[must_use]
    pub fn in_haste(self) -> Self {
        Self { where_it_pays: Allowed::default(), ..self }
    }
}

/// Knowledge of a level's speed and its encodings, carried from one generation to the next.
#[derive(Debug)]
pub(crate) struct Rates {
    choice: Mutex<Choice>,
    clock: Instant,
    pending: Mutex<Pending>,
    writers: AtomicU32,
}

/// Bytes that have been written but not yet synced.
#[derive(Debug, Default)]
struct Pending {
    bytes: u64,
    /// Time that all threads together took to write them.
    handing: Duration,
}

/// Returns how many threads encode and write at the same time if nobody chooses a number.
fn usual_writers() -> u32 {
    /// Four threads checksum and copy faster than disks write, and the engine's reader needs a core too.
    const WRITERS_MAX: usize = 4;
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(WRITERS_MAX) as u32
}

impl Default for Rates {
    fn default() -> Self {
        let writers = usual_writers();
        let choice = Mutex::new(Choice::new(ALLOWANCE, writers));
        Self { choice, clock: Instant::now(), pending: Mutex::default(), writers: AtomicU32::new(writers) }
    }
}

impl Rates {
    /// Records that `bytes` were written to the level, which took `time`.
    pub(crate) fn handed(&self, bytes: u64, time: Duration) {
        let mut pending = lock(&self.pending);
        pending.bytes += bytes;
        pending.handing += time;
    }

    /// Records that all pending bytes were synced, which took `time`.
    pub(crate) fn synced(&self, time: Duration) {
        let Pending { bytes, handing } = std::mem::take(&mut *lock(&self.pending));
        if bytes >= TELLING_BYTES {
            let time = time + handing / self.writers();
            lock(&self.choice).written(usize::try_from(bytes).unwrap_or(usize::MAX), time);
        }
    }

    /// Returns the number of threads that encode and write at the same time.
    pub(crate) fn writers(&self) -> u32 {
        self.writers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_writers(&self, writers: NonZeroU32) {
        self.writers.store(writers.get(), Ordering::Relaxed);
        self.choice().set_threads(writers.get());
    }

    /// Returns the time since the level was opened.
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
