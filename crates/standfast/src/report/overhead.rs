//! What checkpoints and failures cost a job, and the interval that follows from that.

use serde::{Deserialize, Serialize};

/// How long a job has run, and what of that was not its own work. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OverheadReport {
    /// Time for which its lives have run together.
    pub running_seconds: f64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Estimated time by which the checkpoints made it run longer.
    pub checkpoint_seconds: f64,
    /// Number of failures. The program's own exit and stops on request are none.
    pub failures: u32,
    /// Time for its restarts.
    pub restart_seconds: f64,
    /// Work that was done again after restarts.
    pub lost_seconds: f64,
}

impl OverheadReport {
    /// Returns the part of the running time that checkpoints took, as a fraction.
    pub fn checkpoint_share(&self) -> f64 {
        if self.running_seconds > 0.0 { (self.checkpoint_seconds / self.running_seconds).min(1.0) } else { 0.0 }
    }
}

/// The interval that is chosen for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChosenInterval {
    /// Time from the end of a checkpoint until the next one begins, in seconds.
    pub seconds: f64,
    /// Mean time between failures for which it is the best, in seconds; `None` if nothing fails.
    pub mean_time_seconds: Option<f64>,
    /// How the mean time is known.
    pub known: MeanTimeSource,
    /// Expected overhead of checkpoints and failures, as a fraction of the running time; `None` before the first checkpoint.
    pub overhead_ratio: Option<f64>,
}

/// How the mean time between failures is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeanTimeSource {
    /// `--mtbf` says it.
    Told,
    /// It follows from the job's own failures.
    Observed,
    /// Nothing is known: one failure of each node a day is assumed.
    Assumed,
}
