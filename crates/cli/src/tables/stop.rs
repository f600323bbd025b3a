//! What a stop would take, as text for people.

use super::span;
use standfast::report::StopReport;
use std::time::Duration;

/// Describes what a stop would take now, and whether it ends in time.
pub(super) fn stop(report: &StopReport) -> String {
    let now = format!("would take about {:.1} s now", report.seconds);
    let Some(deadline) = report.deadline_seconds else { return now };
    let deadline = span(Duration::from_secs_f64(deadline));
    match report.is_met {
        Some(true) => format!("{now}; at any moment it ends within the deadline of {deadline}"),
        Some(false) => format!("{now}; it may take longer than the deadline of {deadline}"),
        None => format!("{now}; whether the deadline of {deadline} can be met is not known yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_described_with_its_deadline() {
        let told = |is_met| stop(&StopReport { seconds: 1.25, deadline_seconds: Some(30.0), is_met });
        assert_eq!(told(Some(true)), "would take about 1.2 s now; at any moment it ends within the deadline of 30s");
        assert!(told(Some(false)).contains("longer than") && told(None).contains("not known yet"));
        let without = StopReport { seconds: 0.31, deadline_seconds: None, is_met: None };
        assert_eq!(stop(&without), "would take about 0.3 s now");
    }
}
