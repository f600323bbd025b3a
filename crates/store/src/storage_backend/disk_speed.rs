//! A disk of a certain speed, to test deadlines on. Only a build with the feature `planted-faults` has it, and writes no
//! faster than STANDFAST_DISK_BYTES_PER_SECOND says.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

const VARIABLE: &str = "STANDFAST_DISK_BYTES_PER_SECOND";

/// Waits as long as the disk would take for this number of bytes, after those of other threads.
pub(super) fn wait_for(bytes: usize) {
    /// When the disk has written everything.
    static FREE: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(speed) = env::var(VARIABLE).ok().and_then(|text| text.parse::<f64>().ok()) else { return };
    let now = Instant::now();
    let end = {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = free.map_or(now, |free| free.max(now));
        *free.insert(begin + Duration::from_secs_f64(bytes as f64 / speed))
    };
    thread::sleep(end.saturating_duration_since(now));
}
