//! When the next epoch is due: after a fixed time, or after that which is best for what epochs cost and how often a job on so
//! many nodes fails.

use super::description::DistributedJob;
use crate::{Error, Interval, MeanTime};
use standfast_cost::{FailureHistory, FailureRate, IntervalChooser, KnownRate, MeasuredCheckpoint};
use std::fmt;
use std::time::{Duration, Instant};

/// When an epoch was taken, and what it has cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpochTimes {
    /// When all parts were asked for it.
    pub(super) begun: Instant,
    /// When it was durable on all nodes.
    pub(super) durable: Instant,
    /// By how much it has made the slowest part run longer.
    pub(super) overhead_nanoseconds: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct EpochIntervals {
    next: Option<Duration>,
    choice: Option<Choice>,
}

/// What the interval is chosen by.
#[derive(Debug)]
struct Choice {
    told: Option<FailureRate>,
    nodes: u32,
    began: Instant,
    /// When the last epoch was begun, or this life.
    since: Instant,
    is_first: bool,
    chooser: IntervalChooser,
}

impl EpochIntervals {
    /// Begins a life of the job.
    pub(super) fn of(job: &DistributedJob, now: Instant) -> Result<Self, Error> {
        let unreadable = |what: &str| Error::Declined(format!("the {what} of the job cannot be read"));
        let interval = job.interval.parse().map_err(|_| unreadable("interval"))?;
        let mtbf: MeanTime = job.mtbf.parse().map_err(|_| unreadable("mean time between failures"))?;
        let fixed = |next| Self { next, choice: None };
        Ok(match interval {
            Interval::Off => fixed(None),
            Interval::Every(time) => fixed(Some(time)),
            Interval::Auto => {
                let mut choice = Choice {
                    told: mtbf.rate(),
                    nodes: u32::try_from(job.nodes.len()).unwrap_or(u32::MAX),
                    began: now,
                    since: now,
                    is_first: true,
                    chooser: IntervalChooser::default(),
                };
                Self { next: Some(choice.next(now)), choice: Some(choice) }
            }
        })
    }

    /// Returns the time from the end of an epoch until the next one is due, unless none is.
    pub(super) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Learns from an epoch, and chooses the time until the next one.
    pub(super) fn note(&mut self, epoch: EpochTimes) {
        if let Some(choice) = &mut self.choice {
            choice.learn(epoch);
            self.next = Some(choice.next(epoch.durable));
        }
    }

    /// Takes no more epochs.
    pub(super) fn end(&mut self) {
        *self = Self { next: None, choice: None };
    }
}

impl Choice {
    fn learn(&mut self, epoch: EpochTimes) {
        let overhead_seconds = Duration::from_nanos(epoch.overhead_nanoseconds).as_secs_f64();
        let between = epoch.begun.saturating_duration_since(self.since).as_secs_f64();
        self.chooser.note_checkpoint(MeasuredCheckpoint {
            work_seconds: (between - overhead_seconds).max(0.0),
            overhead_seconds,
            latency_seconds: (epoch.durable - epoch.begun).as_secs_f64().max(overhead_seconds),
            is_full: self.is_first,
        });
        (self.since, self.is_first) = (epoch.begun, false);
    }

    fn next(&mut self, now: Instant) -> Duration {
        let lived = FailureHistory { failures: 0, observed_seconds: (now - self.began).as_secs_f64() };
        let rate = KnownRate::of(self.told, lived, self.nodes).rate();
        Duration::from_secs_f64(self.chooser.next_interval_seconds(rate))
    }
}

/// Says when the next epoch is due, if that was chosen.
impl fmt::Display for EpochIntervals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.next, &self.choice) {
            (Some(next), Some(_)) => write!(formatter, "; the next one in {:.1} s", next.as_secs_f64()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(nodes: usize, interval: &str, mtbf: &str) -> DistributedJob {
        let names = (0..nodes).map(|number| format!("node{number}")).collect();
        DistributedJob { interval: interval.into(), mtbf: mtbf.into(), ..DistributedJob::of_nodes(names, "ssh") }
    }

    /// Takes epochs that cost this much. Returns the mean of the last four intervals.
    fn settled(job: &DistributedJob, overhead: Duration) -> Duration {
        let mut now = Instant::now();
        let mut intervals = EpochIntervals::of(job, now).unwrap();
        let mut last = Vec::new();
        for _ in 0..40 {
            last.push(intervals.next().unwrap());
            let begun = now + intervals.next().unwrap();
            now = begun + overhead;
            intervals.note(EpochTimes { begun, durable: now, overhead_nanoseconds: overhead.as_nanos() as u64 });
        }
        last[36..].iter().sum::<Duration>() / 4
    }

    #[test]
    fn the_interval_follows_the_cost_of_epochs_the_failures_and_the_nodes() {
        let overhead = Duration::from_millis(100);
        let near = |found: Duration, seconds: f64| (0.5..2.0).contains(&(found.as_secs_f64() / seconds));
        // sqrt(2 * 0.1 s * 1 day) = 131 s.
        let day = settled(&job(4, "auto", "1day"), overhead);
        assert!(near(day, 131.0), "{day:?}");
        assert!(settled(&job(4, "auto", "1h"), overhead) < day / 3);
        assert!(settled(&job(4, "auto", "1day"), 20 * overhead) > day * 3);
        let assumed = settled(&job(16, "auto", "auto"), overhead);
        assert!(near(assumed, 131.0 / 4.0), "a failure of each node a day is assumed: {assumed:?}");
    }

    #[test]
    fn a_fixed_interval_stays_and_none_is_due_once_they_end() {
        let now = Instant::now();
        let mut intervals = EpochIntervals::of(&job(2, "10s", "auto"), now).unwrap();
        let seconds = Some(Duration::from_secs(10));
        assert_eq!((intervals.next(), intervals.to_string().as_str()), (seconds, ""));
        intervals.note(EpochTimes { begun: now, durable: now, overhead_nanoseconds: 1 });
        assert_eq!(intervals.next(), seconds);
        intervals.end();
        assert_eq!(intervals.next(), None);
        assert_eq!(EpochIntervals::of(&job(2, "off", "auto"), now).unwrap().next(), None);
        assert!(EpochIntervals::of(&job(2, "soon", "auto"), now).is_err());
    }

    #[test]
    fn a_chosen_interval_is_shown() {
        let intervals = EpochIntervals::of(&job(2, "auto", "never"), Instant::now()).unwrap();
        assert_eq!(intervals.to_string(), "; the next one in 30.0 s");
    }
}
