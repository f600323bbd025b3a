//! The time between checkpoints, where it is left to the supervisor: the best one for how often the job fails and for what
//! its checkpoints cost.

use crate::history::measured;
use crate::report::{CheckpointReport, ChosenInterval, MeanTimeSource};
use standfast_cost::{FailureHistory, FailureRate, IntervalChooser, KnownRate};
use std::time::{Duration, Instant};

/// What the choice begins with.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::supervisor) struct PastIntervals {
    /// The rate of failures, if it was told.
    pub(in crate::supervisor) told: Option<FailureRate>,
    /// The failures of earlier lives.
    pub(in crate::supervisor) failures: FailureHistory,
    /// What earlier checkpoints have taught.
    pub(in crate::supervisor) chooser: IntervalChooser,
    /// When this life began, in nanoseconds since 1970.
    pub(in crate::supervisor) began_nanoseconds: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Intervals {
    past: PastIntervals,
    began: Instant,
    /// When the last checkpoint was taken, or the life began, in nanoseconds since 1970.
    since_nanoseconds: u64,
    chosen: Duration,
}

impl Intervals {
    pub(super) fn new(mut past: PastIntervals, now: Instant) -> Self {
        let rate = KnownRate::of(past.told, past.failures, 1).rate();
        let chosen = Duration::from_secs_f64(past.chooser.next_interval_seconds(rate));
        Self { since_nanoseconds: past.began_nanoseconds, past, began: now, chosen }
    }

    /// Returns the time from the end of the last checkpoint until the next one is due.
    pub(super) fn chosen(&self) -> Duration {
        self.chosen
    }

    /// Learns from a checkpoint, and chooses the time until the next one.
    pub(super) fn note(&mut self, report: &CheckpointReport, now: Instant) -> Duration {
        self.past.chooser.note_checkpoint(measured(report, self.since_nanoseconds));
        self.since_nanoseconds = report.taken_nanoseconds;
        let rate = self.rate(now).rate();
        self.chosen = Duration::from_secs_f64(self.past.chooser.next_interval_seconds(rate));
        self.chosen
    }

    /// Returns what is chosen, and why.
    pub(super) fn report(&self, now: Instant) -> ChosenInterval {
        let known = self.rate(now);
        let mean_time = known.rate().mean_time_seconds();
        let ratio = self.past.chooser.best(known.rate()).map(|best| best.overhead_ratio);
        ChosenInterval {
            seconds: self.chosen.as_secs_f64(),
            mean_time_seconds: mean_time.is_finite().then_some(mean_time),
            known: match known {
                KnownRate::Told { .. } => MeanTimeSource::Told,
                KnownRate::Observed { .. } => MeanTimeSource::Observed,
                KnownRate::Assumed { .. } => MeanTimeSource::Assumed,
            },
            overhead_ratio: ratio.filter(|ratio| ratio.is_finite()),
        }
    }

    fn rate(&self, now: Instant) -> KnownRate {
        let FailureHistory { failures, observed_seconds } = self.past.failures;
        let observed_seconds = observed_seconds + now.saturating_duration_since(self.began).as_secs_f64();
        KnownRate::of(self.past.told, FailureHistory { failures, observed_seconds }, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Takes checkpoints that pause the program for this time, at the chosen intervals. Returns the mean of the last four.
    fn settled(past: PastIntervals, pause_milliseconds: u64) -> Duration {
        let mut now = Instant::now();
        let mut intervals = Intervals::new(past, now);
        let (mut taken, mut last) = (0, Vec::new());
        for generation in 1..=40 {
            last.push(intervals.chosen());
            now += intervals.chosen();
            taken += intervals.chosen().as_nanos() as u64;
            let report = CheckpointReport {
                generation,
                parent: (generation > 1).then(|| generation - 1),
                taken_nanoseconds: taken,
                pause_nanoseconds: pause_milliseconds * SECOND / 1000,
                durable_nanoseconds: pause_milliseconds * SECOND / 1000,
                ..CheckpointReport::default()
            };
            intervals.note(&report, now);
        }
        last[36..].iter().sum::<Duration>() / 4
    }

    #[test]
    fn the_interval_follows_what_checkpoints_cost_and_how_often_the_job_fails() {
        let told = |seconds| PastIntervals {
            told: Some(FailureRate::of_mean_time(seconds).expect("a time")),
            ..PastIntervals::default()
        };
        let near = |found: Duration, seconds: f64| (0.5..2.0).contains(&(found.as_secs_f64() / seconds));
        // sqrt(2 * 0.1 s * 1 day) = 131 s.
        let day = settled(told(86_400.0), 100);
        assert!(near(day, 131.0), "{day:?}");
        assert!(settled(told(3600.0), 100) < day / 3);
        assert!(settled(told(86_400.0), 2000) > day * 3);
        assert!(near(settled(PastIntervals::default(), 100), 131.0), "a day is assumed");
        let never = PastIntervals { told: Some(FailureRate::NEVER), ..PastIntervals::default() };
        assert!(settled(never, 100) > Duration::from_secs(3600));
    }

    #[test]
    fn the_report_says_how_the_rate_is_known() {
        let now = Instant::now();
        let known = |past| Intervals::new(past, now).report(now).known;
        assert_eq!(known(PastIntervals::default()), MeanTimeSource::Assumed);
        let failures = FailureHistory { failures: 2, observed_seconds: 7200.0 };
        assert_eq!(known(PastIntervals { failures, ..PastIntervals::default() }), MeanTimeSource::Observed);
        let never = PastIntervals { told: Some(FailureRate::NEVER), ..PastIntervals::default() };
        let report = Intervals::new(never, now).report(now);
        assert_eq!((report.known, report.mean_time_seconds), (MeanTimeSource::Told, None));
    }
}
