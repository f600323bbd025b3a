//! When a simulated job takes its checkpoints.

use crate::chooser::{IntervalChooser, MeasuredCheckpoint};
use crate::failure_rate::{FailureHistory, FailureRate, KnownRate};

/// Decides when the next checkpoint begins.
pub trait IntervalPolicy {
    /// Returns the time from the end of a checkpoint until the next one begins, in seconds; infinite for never. `now` is the
    /// time since the job began, in seconds.
    fn next_interval_seconds(&mut self, now: f64) -> f64;

    /// Hears of a checkpoint that has ended.
    fn note_checkpoint(&mut self, measured: MeasuredCheckpoint);

    /// Hears that the job has failed, and how long the restart took, in seconds.
    fn note_failure(&mut self, recovery_seconds: f64);
}

/// The same interval always, in seconds; infinite for no checkpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedInterval(pub f64);

impl IntervalPolicy for FixedInterval {
    fn next_interval_seconds(&mut self, _now: f64) -> f64 {
        self.0
    }

    fn note_checkpoint(&mut self, _measured: MeasuredCheckpoint) {}

    fn note_failure(&mut self, _recovery_seconds: f64) {}
}

/// What `--interval auto` does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AutomaticInterval {
    /// The rate of failures, if it was told.
    pub told: Option<FailureRate>,
    chooser: IntervalChooser,
    failures: u32,
}

impl AutomaticInterval {
    /// Makes a policy for a job of which nothing is known but the rate of its failures, if it was told.
    pub fn new(told: Option<FailureRate>) -> Self {
        Self { told, ..Self::default() }
    }
}

impl IntervalPolicy for AutomaticInterval {
    fn next_interval_seconds(&mut self, now: f64) -> f64 {
        let history = FailureHistory { failures: self.failures, observed_seconds: now };
        self.chooser.next_interval_seconds(KnownRate::of(self.told, history, 1).rate())
    }

    fn note_checkpoint(&mut self, measured: MeasuredCheckpoint) {
        self.chooser.note_checkpoint(measured);
    }

    fn note_failure(&mut self, recovery_seconds: f64) {
        self.failures += 1;
        self.chooser.note_restart(recovery_seconds);
    }
}
