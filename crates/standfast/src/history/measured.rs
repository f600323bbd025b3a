//! What a checkpoint has cost, in the form that the choice of the interval learns from.

use crate::report::CheckpointReport;
use standfast_cost::MeasuredCheckpoint;
use std::time::Duration;

/// Returns what a checkpoint has cost, if the one before it was taken, or the life began, at `since_nanoseconds` after 1970.
pub(crate) fn measured(report: &CheckpointReport, since_nanoseconds: u64) -> MeasuredCheckpoint {
    let seconds = |nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64();
    let overhead_seconds = seconds(report.overhead_nanoseconds());
    let since = seconds(report.taken_nanoseconds.saturating_sub(since_nanoseconds));
    MeasuredCheckpoint {
        work_seconds: (since - overhead_seconds).max(0.0),
        overhead_seconds,
        latency_seconds: seconds(report.durable_nanoseconds).max(overhead_seconds),
        is_full: report.parent.is_none(),
    }
}

impl CheckpointReport {
    /// Returns the estimated time by which the checkpoint made the program run longer: the pause, the first writes to pages
    /// that are tracked, and processor time beside the program, as far as all processors share it.
    pub fn overhead_nanoseconds(&self) -> u64 {
        self.pause_nanoseconds
            .saturating_add(self.first_writes_nanoseconds)
            .saturating_add(self.processor_nanoseconds / self.processors.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overhead_is_all_that_the_program_loses() {
        let report = CheckpointReport {
            taken_nanoseconds: 61_000_000_000,
            pause_nanoseconds: 500_000_000,
            first_writes_nanoseconds: 100_000_000,
            processor_nanoseconds: 800_000_000,
            processors: 2,
            durable_nanoseconds: 3_000_000_000,
            ..CheckpointReport::default()
        };
        let measured = measured(&report, 1_000_000_000);
        assert!((measured.overhead_seconds - 1.0).abs() < 1e-9);
        assert!((measured.work_seconds - 59.0).abs() < 1e-9);
        assert!((measured.latency_seconds - 3.0).abs() < 1e-9);
        assert!(measured.is_full);
        let clock_set_back = super::measured(&report, 90_000_000_000);
        assert_eq!(clock_set_back.work_seconds, 0.0);
    }
}
