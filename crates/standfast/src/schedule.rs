//! When the next checkpoint is due. Pure: the present moment comes in as an argument.

use crate::options::Interval;
use std::time::{Duration, Instant};

/// How soon a checkpoint that failed for a passing reason is tried again; doubled at each further failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The timer of a job: armed when the job starts and again after each checkpoint (L4), so that a slow disk stretches the
/// time between checkpoints and never lets them pile up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    interval: Interval,
    due: Option<Instant>,
    retry: Duration,
}

/// How a checkpoint ended, as far as the timer cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is durable.
    Taken,
    /// It failed for a reason that may be gone in a moment.
    FailedInPassing,
    /// It failed for a reason that stays.
    Failed,
}

impl Schedule {
    /// Armed at `now`.
    pub(crate) fn new(interval: Interval, now: Instant) -> Self {
        let mut schedule = Self { interval, due: None, retry: RETRY_FIRST };
        schedule.arm(now, Outcome::Taken);
        schedule
    }

    /// When the next checkpoint is due; `None` if never.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Armed again at `now`, when a checkpoint has ended, whoever had asked for it.
    pub(crate) fn arm(&mut self, now: Instant, outcome: Outcome) {
        let Interval::Every(interval) = self.interval else { return };
        let wait = match outcome {
            Outcome::FailedInPassing => self.retry.min(interval),
            Outcome::Taken | Outcome::Failed => interval,
        };
        self.retry = match outcome {
            Outcome::FailedInPassing => self.retry.saturating_mul(2).min(interval.max(RETRY_FIRST)),
            Outcome::Taken | Outcome::Failed => RETRY_FIRST,
        };
        self.due = Some(now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(interval: Duration, outcomes: &[Outcome]) -> Vec<u64> {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Every(interval), now);
        outcomes
            .iter()
            .map(|outcome| {
                schedule.arm(now, *outcome);
                (schedule.due().expect("an interval was given") - now).as_secs()
            })
            .collect()
    }

    #[test]
    fn a_passing_obstacle_is_tried_again_after_1_2_4_seconds_up_to_the_interval() {
        let interval = Duration::from_secs(10);
        assert_eq!(waits(interval, &[Outcome::FailedInPassing; 6]), [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn after_success_retries_begin_anew() {
        use Outcome::{FailedInPassing as Passing, Taken};
        assert_eq!(waits(Duration::from_secs(60), &[Passing, Passing, Taken, Passing]), [1, 2, 60, 1]);
    }

    #[test]
    fn a_lasting_failure_waits_for_the_interval() {
        assert_eq!(waits(Duration::from_secs(60), &[Outcome::Failed]), [60]);
    }

    #[test]
    fn a_retry_never_waits_longer_than_the_interval() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Every(Duration::from_millis(200)), now);
        schedule.arm(now, Outcome::FailedInPassing);
        assert_eq!(schedule.due(), Some(now + Duration::from_millis(200)));
    }

    #[test]
    fn off_is_never_due() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Off, now);
        assert_eq!(schedule.due(), None);
        schedule.arm(now, Outcome::FailedInPassing);
        assert_eq!(schedule.due(), None);
    }
}
