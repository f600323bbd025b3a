//! The history of a job: what happened to it in all of its lives. Each life appends lines of JSON to a file in the job's
//! directory. From them follow how often the job fails, what checkpoints cost, and how much work was lost.

mod lives;
mod measured;

pub use lives::{FlushedReport, JobHistory, JobLife};
pub(crate) use measured::measured;

use crate::Ending;
use crate::report::{CheckpointReport, RestartReport};
use serde::{Deserialize, Serialize};
use standfast_store::{JobDirectory, Lease};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most characters of a reason that are kept.
const REASON_MAX: usize = 300;

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum HistoryEntry {
    /// A life began.
    Began {
        /// The restart; `None` if the program was started.
        restart: Option<RestartReport>,
    },
    /// A checkpoint was taken.
    Checkpoint(CheckpointReport),
    /// A checkpoint failed. The program continued to run.
    CheckpointFailed {
        /// Why.
        reason: String,
    },
    /// A checkpoint in memory was flushed to the disk.
    Flushed {
        /// Its generation number.
        generation: u64,
        /// Length of its image on the disk in bytes.
        file_bytes: u64,
        /// How long the flush took.
        nanoseconds: u64,
    },
    /// The life ended. If nobody was left to record that, there is no such entry.
    Ended {
        /// How.
        end: LifeEnd,
    },
}

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum LifeEnd {
    /// By itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// By a signal.
    Killed {
        /// Number of the signal.
        signal: i32,
    },
    /// By request, after a checkpoint.
    Stopped,
}

impl From<Ending> for LifeEnd {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited { status } => Self::Exited { status },
            Ending::Killed { signal } => Self::Killed { signal },
            Ending::Stopped { .. } => Self::Stopped,
        }
    }
}

/// An entry, and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct HistoryLine {
    /// Nanoseconds since 1970.
    at_nanoseconds: u64,
    #[serde(flatten)]
    entry: HistoryEntry,
}

impl HistoryEntry {
    /// Makes the entry of a checkpoint that failed.
    pub(crate) fn failed(reason: &str) -> Self {
        Self::CheckpointFailed { reason: reason.chars().take(REASON_MAX).collect() }
    }

    /// Appends the entry to the history of the job. No restart depends on it, so an error is not reported: where nothing can
    /// be written, checkpoints fail as well, and say why.
    pub(crate) fn append(self, directory: &JobDirectory, lease: &Lease) {
        let line = HistoryLine { at_nanoseconds: nanoseconds_since_1970(), entry: self };
        if let Ok(line) = serde_json::to_string(&line) {
            let _ = directory.append_history(lease, &line);
        }
    }
}

/// Returns the present time in nanoseconds since 1970.
pub(crate) fn nanoseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the history of a job. Without one, or if it cannot be read, it is empty.
pub(crate) fn read_history(directory: &JobDirectory) -> JobHistory {
    JobHistory::parse(&directory.history().unwrap_or_default())
}
