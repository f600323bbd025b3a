//! What checkpoints and failures cost a job, and the interval that follows from that.

use super::span;
use standfast::report::{ChosenInterval, MeanTimeSource, OverheadReport};
use std::time::Duration;

/// Describes what checkpoints and failures have cost so far; `None` before the first checkpoint.
pub(crate) fn overhead(report: &OverheadReport) -> Option<String> {
    if report.checkpoints == 0 {
        return None;
    }
    let running = time(report.running_seconds);
    let checkpoints = match report.checkpoints {
        1 => "1 checkpoint".to_owned(),
        number => format!("{number} checkpoints"),
    };
    let mut text = format!("about {} of {running} for {checkpoints}", percent(report.checkpoint_share()));
    if report.failures > 0 {
        let failures =
            if report.failures == 1 { "1 failure".to_owned() } else { format!("{} failures", report.failures) };
        let lost = time(report.lost_seconds);
        let restarts = time(report.restart_seconds);
        text += &format!("; {failures}: {lost} of work done again, {restarts} for restarts");
    }
    Some(text)
}

/// Describes the interval that is chosen, and why.
pub(super) fn interval(chosen: &ChosenInterval) -> String {
    let every = time(chosen.seconds);
    let rate = match chosen.mean_time_seconds {
        Some(seconds) => format!("a failure each {}", time(seconds)),
        None => "no failures".to_owned(),
    };
    let known = match chosen.known {
        MeanTimeSource::Told => "as --mtbf says",
        MeanTimeSource::Observed => "as it has failed so far",
        MeanTimeSource::Assumed => "assumed",
    };
    format!("automatic: every {every}, for {rate}, {known}")
}

/// Formats a time in seconds: days with whole hours, hours with whole minutes.
pub(crate) fn time(seconds: f64) -> String {
    match seconds / 86_400.0 {
        days if days >= 365_250.0 => return "thousands of years".to_owned(),
        days if days >= 730.0 => return format!("{:.0} years", days / 365.25),
        days if days >= 100.0 => return format!("{days:.0} days"),
        _ => {}
    }
    let step = match seconds {
        days if days >= 86_400.0 => 3600.0,
        hours if hours >= 3600.0 => 60.0,
        minutes if minutes >= 10.0 => 1.0,
        _ => 0.0,
    };
    let rounded = if step > 0.0 { (seconds / step).round() * step } else { seconds };
    Duration::try_from_secs_f64(rounded).map_or_else(|_| "no time".to_owned(), span)
}

/// Formats a fraction: two digits below ten percent, and a factor where percent say little.
pub(crate) fn percent(fraction: f64) -> String {
    match fraction {
        small if small < 0.00005 => "0 %".to_owned(),
        small if small < 0.1 => format!("{:.2} %", small * 100.0),
        some if some < 10.0 => format!("{:.0} %", some * 100.0),
        many if many < 1e6 => format!("{many:.0} times"),
        _ => "a million times and more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_are_short() {
        let shown = [0.0, 0.00123, 0.0345, 0.5, 3.0, 40.0, 1e9].map(percent);
        let expected = ["0 %", "0.12 %", "3.45 %", "50 %", "300 %", "40 times", "a million times and more"];
        assert_eq!(shown, expected);
        let shown = [0.25, 5.04, 90.4, 4000.0, 90_000.0, 2e7, 1e9, 1e13].map(time);
        let expected =
            ["250.0 ms", "5.0 s", "1m 30s", "1h 7m", "1day 1h", "231 days", "32 years", "thousands of years"];
        assert_eq!(shown, expected);
        assert_eq!(time(f64::INFINITY), "thousands of years");
    }

    #[test]
    fn the_overhead_is_shown_once_there_is_a_checkpoint() {
        let report = OverheadReport {
            running_seconds: 3600.0,
            checkpoints: 0,
            checkpoint_seconds: 0.0,
            failures: 0,
            restart_seconds: 0.0,
            lost_seconds: 0.0,
        };
        assert_eq!(overhead(&report), None);
        let some = OverheadReport { checkpoints: 6, checkpoint_seconds: 18.0, ..report };
        assert_eq!(overhead(&some).as_deref(), Some("about 0.50 % of 1h for 6 checkpoints"));
        let failed = OverheadReport { failures: 2, lost_seconds: 95.0, restart_seconds: 1.25, ..some };
        let text = "about 0.50 % of 1h for 6 checkpoints; 2 failures: 1m 35s of work done again, 1.2 s for restarts";
        assert_eq!(overhead(&failed).as_deref(), Some(text));
    }

    #[test]
    fn an_automatic_interval_says_what_it_is_for() {
        let chosen = ChosenInterval {
            seconds: 93.5,
            mean_time_seconds: Some(86_400.0),
            known: MeanTimeSource::Assumed,
            overhead_ratio: None,
        };
        assert_eq!(interval(&chosen), "automatic: every 1m 34s, for a failure each 1day, assumed");
        let never = ChosenInterval { mean_time_seconds: None, known: MeanTimeSource::Told, ..chosen };
        assert_eq!(interval(&never), "automatic: every 1m 34s, for no failures, as --mtbf says");
    }
}
