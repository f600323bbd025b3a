//! What is known about a job's memory, from one checkpoint to the next.

use crate::attributes::Scans;
use crate::track::Tracks;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known about a job's memory.
#[derive(Debug, Default)]
pub(crate) struct JobMemory {
    /// What programs have told the kernel about their memory.
    pub(crate) scans: Scans,
    /// Tracked address spaces.
    tracks: Mutex<Tracks>,
}

impl JobMemory {
    pub(crate) fn tracks(&self) -> MutexGuard<'_, Tracks> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
