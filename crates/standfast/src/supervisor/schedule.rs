//! Decides when the next checkpoint is due. The module is pure: the present time is an argument.

use crate::settings::{Interval, MinInterval};
use standfast_engine::Advised;
use std::time::{Duration, Instant};

/// Interval between attempts while a program has disabled checkpoints, in case it does not report that it has enabled
/// them.
const DISABLED_LOOKS: Duration = Duration::from_secs(1);

/// Time until a checkpoint that failed for a passing reason is tried again. It doubles at each further failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// A program that was stopped in vain runs this many times as long before the next attempt. It is then stopped for 0.5
/// % of the time. So in any minute it loses less than the 600 ms that would be 1 %, even if one attempt falls at either
/// end.
const RUNS_BETWEEN: u32 = 200;

/// The checkpoint timer of a job. It is armed when the job starts and again after each checkpoint (L4), so that a slow
/// disk stretches the time between checkpoints and never lets them pile up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    interval: Interval,
    min_interval: MinInterval,
    due: Option<Instant>,
    /// Earliest time at which the program's own requests are honoured; `None` for never.
    honoured: Option<Instant>,
    retry: Duration,
}

/// How a checkpoint ended, as far as it matters to the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The checkpoint is durable.
    Taken,
    /// It failed for a reason that may soon be gone.
    FailedInPassing,
    /// It failed for such a reason after the program had been stopped for this time.
    StoodStill(Duration),
    /// It failed for a lasting reason.
    Failed,
}

impl Schedule {
    /// Makes a timer that is armed at `now`. With [`Interval::Auto`] it waits for [`Schedule::set_interval`].
    pub(crate) fn new(interval: Interval, min_interval: MinInterval, now: Instant) -> Self {
        let mut schedule = Self { interval, min_interval, due: None, honoured: None, retry: RETRY_FIRST };
        schedule.arm(now, AttemptEnd::Taken);
        schedule
    }

    /// Sets the time between checkpoints, from the next time on that the timer is armed.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval = Interval::Every(interval);
    }

    /// Returns when the next checkpoint is due; `None` if never.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns how long the program's own requests are still ignored; `None` for ever.
    pub(crate) fn honoured_in(&self, now: Instant) -> Option<Duration> {
        self.honoured.map(|honoured| honoured.saturating_duration_since(now))
    }

    /// Returns what is reported to programs about the time after a checkpoint that is about to end like this.
    pub(crate) fn advised(&self, outcome: AttemptEnd, now: Instant) -> Advised {
        let mut after = self.clone();
        after.arm(now, outcome);
        let wait = |until: Option<Instant>| until.map(|until| until.saturating_duration_since(now));
        Advised { due_in: wait(after.honoured), next_in: wait(after.due) }
    }

    /// Puts the checkpoint off because the program has disabled checkpoints at `now`.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.due = Some(now + DISABLED_LOOKS);
    }

    /// Makes a checkpoint due that was put off.
    pub(crate) fn hasten(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Makes the next checkpoint due at `until` at the latest.
    pub(crate) fn shorten(&mut self, until: Instant) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }

    /// Arms the timer again at `now`, when a checkpoint has ended, no matter who asked for it.
    pub(crate) fn arm(&mut self, now: Instant, outcome: AttemptEnd) {
        let pause = match outcome {
            AttemptEnd::Taken => Duration::ZERO,
            // A program that asks in a loop must not fail in a loop.
            AttemptEnd::FailedInPassing | AttemptEnd::Failed => RETRY_FIRST,
            AttemptEnd::StoodStill(stood_still) => RETRY_FIRST.max(stood_still.saturating_mul(RUNS_BETWEEN)),
        };
        self.honoured = match self.min_interval {
            MinInterval::Never => None,
            MinInterval::After(least) => Some(now + least.max(pause)),
        };
        // A checkpoint that was put off may have been requested although periodic checkpoints are off.
        self.due = None;
        let Interval::Every(interval) = self.interval else { return };
        let wait = match outcome {
            AttemptEnd::FailedInPassing => self.retry.min(interval),
            AttemptEnd::StoodStill(stood_still) => {
                self.retry.min(interval).max(stood_still.saturating_mul(RUNS_BETWEEN))
            }
            AttemptEnd::Taken | AttemptEnd::Failed => interval,
        };
        self.retry = match outcome {
            AttemptEnd::FailedInPassing | AttemptEnd::StoodStill(_) => {
                self.retry.saturating_mul(2).min(interval.max(RETRY_FIRST))
            }
            AttemptEnd::Taken | AttemptEnd::Failed => RETRY_FIRST,
        };
        self.due = Some(now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(interval: Duration, outcomes: &[AttemptEnd]) -> Vec<u64> {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Every(interval), MinInterval::default(), now);
        outcomes
            .iter()
            .map(|outcome| {
                schedule.arm(now, *outcome);
                (schedule.due().expect("an interval was given") - now).as_secs()
            })
            .collect()
    }

    #[test]
    fn a_passing_blocker_is_tried_again_after_1_2_4_seconds_up_to_the_interval() {
        let interval = Duration::from_secs(10);
        assert_eq!(waits(interval, &[AttemptEnd::FailedInPassing; 6]), [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn failed_attempts_pause_the_program_for_under_1_percent() {
        for milliseconds in [0, 1, 200, 10_000] {
            let stood_still = Duration::from_millis(milliseconds);
            for interval in [Duration::from_millis(10), Duration::from_secs(1), Duration::from_secs(3600)] {
                let mut now = Instant::now();
                let begun = now;
                let mut schedule = Schedule::new(Interval::Every(interval), MinInterval::default(), now);
                let mut stopped = Duration::ZERO;
                for _ in 0..20 {
                    now = schedule.due().expect("an interval was given") + stood_still;
                    stopped += stood_still;
                    schedule.arm(now, AttemptEnd::StoodStill(stood_still));
                    assert!(schedule.honoured_in(now) >= Some(stood_still * 200));
                }
                let all = schedule.due().expect("an interval was given") - begun;
                assert!(stopped * 200 <= all, "{stopped:?} of {all:?} at {interval:?}");
            }
        }
    }

    #[test]
    fn after_success_retries_begin_again() {
        use AttemptEnd::{FailedInPassing as Passing, Taken};
        assert_eq!(waits(Duration::from_secs(60), &[Passing, Passing, Taken, Passing]), [1, 2, 60, 1]);
    }

    #[test]
    fn a_lasting_failure_waits_for_the_interval() {
        assert_eq!(waits(Duration::from_secs(60), &[AttemptEnd::Failed]), [60]);
    }

    #[test]
    fn a_retry_never_waits_longer_than_the_interval() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Every(Duration::from_millis(200)), MinInterval::default(), now);
        schedule.arm(now, AttemptEnd::FailedInPassing);
        assert_eq!(schedule.due(), Some(now + Duration::from_millis(200)));
    }

    #[test]
    fn off_is_never_due() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Interval::Off, MinInterval::default(), now);
        assert_eq!(schedule.due(), None);
        schedule.arm(now, AttemptEnd::FailedInPassing);
        assert_eq!(schedule.due(), None);
    }
    #[test]
    fn requests_are_honoured_after_the_minimum_interval() {
        let now = Instant::now();
        let least = |seconds| MinInterval::After(Duration::from_secs(seconds));
        let after = |min_interval, outcome| {
            let mut schedule = Schedule::new(Interval::Off, min_interval, now);
            schedule.arm(now, outcome);
            schedule.honoured_in(now).map(|wait| wait.as_secs())
        };
        assert_eq!(after(least(5), AttemptEnd::Taken), Some(5));
        assert_eq!(after(least(0), AttemptEnd::Taken), Some(0));
        assert_eq!(after(least(0), AttemptEnd::Failed), Some(1), "not in a loop");
        assert_eq!(after(MinInterval::Never, AttemptEnd::Taken), None);
        assert_eq!(Schedule::new(Interval::Off, least(5), now).honoured_in(now), Some(Duration::from_secs(5)));
    }

    #[test]
    fn the_time_of_the_next_checkpoint_is_reported_to_the_program() {
        let minute = Duration::from_secs(60);
        let now = Instant::now();
        let schedule = Schedule::new(Interval::Every(minute), MinInterval::Never, now);
        let advised = schedule.advised(AttemptEnd::Taken, now);
        assert_eq!(advised, Advised { due_in: None, next_in: Some(minute) });
    }
}
