//! Chooses the interval while a job runs. It learns from each checkpoint what checkpoints cost at which interval.
//!
//! The expected time hardly changes near the best interval: 40 % beside it cost some 6 % of the overhead. So the chooser
//! takes turns around the best interval that it knows, and learns from that how the cost grows with the time. Else it could
//! never tell a program that writes a stream from one that writes the same memory.

use crate::checkpoint_cost::CostCurves;
use crate::choice::{BestInterval, best_interval};
use crate::curve::CurveEstimate;
use crate::failure_rate::FailureRate;
use crate::young_daly::young_interval_seconds;

/// Longest interval before anything was measured, in seconds. A checkpoint in the first minute also shows whether the
/// program can be protected at all.
const FIRST_SECONDS: f64 = 30.0;

/// Overhead of a checkpoint of which nothing is known, in seconds.
const EXPECTED_OVERHEAD_SECONDS: f64 = 0.05;

/// An interval is at most this many times the last one, so that one cheap checkpoint does not leave a program alone for
/// hours.
const GROWTH_MAX: f64 = 4.0;

/// Shortest interval that is chosen, in seconds.
const LEAST_SECONDS: f64 = 1.0;

/// Longest interval that is chosen, in seconds. Even without failures, somebody may want to go back.
const MOST_SECONDS: f64 = 4.0 * 3600.0;

/// Factors of the best interval, in turns.
const TURNS: [f64; 4] = [1.0, 0.7, 1.0, 1.4];

/// What a checkpoint has cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredCheckpoint {
    /// Work since the beginning of the last one, in seconds.
    pub work_seconds: f64,
    /// What it added to the running time, in seconds.
    pub overhead_seconds: f64,
    /// Time from its beginning until a restart could use it, in seconds.
    pub latency_seconds: f64,
    /// Whether it saved everything, not only changes.
    pub is_full: bool,
}

/// See the module documentation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IntervalChooser {
    overhead: CurveEstimate,
    latency: CurveEstimate,
    /// What a full checkpoint takes: a restart reads as much as it writes.
    full_seconds: Option<f64>,
    is_last_full: bool,
    /// A restart that was measured.
    recovery_seconds: Option<f64>,
    turn: usize,
    last_seconds: Option<f64>,
}

impl IntervalChooser {
    /// Learns from a checkpoint.
    pub fn note_checkpoint(&mut self, measured: MeasuredCheckpoint) {
        let MeasuredCheckpoint { work_seconds, overhead_seconds, latency_seconds, is_full } = measured;
        if is_full {
            self.full_seconds = Some(latency_seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        }
        // A full one among others, such as the first after a restart, says nothing about those that build upon it.
        let is_usual = !is_full || self.is_last_full || self.overhead.curve().is_none();
        self.is_last_full = is_full;
        if is_usual {
            self.overhead.add(work_seconds, overhead_seconds);
            self.latency.add(work_seconds, latency_seconds);
        }
    }

    /// Learns how long a restart took, in seconds.
    pub fn note_restart(&mut self, seconds: f64) {
        self.recovery_seconds = Some(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    }

    /// Returns what checkpoints cost, as far as it is known: `None` before the first one.
    pub fn curves(&self) -> Option<CostCurves> {
        let (overhead, latency) = (self.overhead.curve()?, self.latency.curve()?);
        let recovery_seconds = self.recovery_seconds.or(self.full_seconds).unwrap_or_default();
        Some(CostCurves { overhead, latency, recovery_seconds })
    }

    /// Returns the best interval for this rate of failures; `None` before the first checkpoint.
    pub fn best(&self, rate: FailureRate) -> Option<BestInterval> {
        Some(best_interval(rate, self.curves()?, 0.0, LEAST_SECONDS..=MOST_SECONDS))
    }

    /// Returns the time from the end of a checkpoint until the next one is to begin, in seconds, and takes its turn.
    pub fn next_interval_seconds(&mut self, rate: FailureRate) -> f64 {
        let expected = || young_interval_seconds(rate, EXPECTED_OVERHEAD_SECONDS);
        let best = self.best(rate).map_or_else(expected, |best| best.interval_seconds);
        let most = self.last_seconds.map_or(FIRST_SECONDS, |last| last * GROWTH_MAX);
        let turn = TURNS[self.turn % TURNS.len()];
        self.turn = self.turn.wrapping_add(1);
        let interval = (best * turn).min(most).clamp(LEAST_SECONDS, MOST_SECONDS);
        self.last_seconds = Some(interval);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointCost, Curve};

    /// Runs checkpoints that cost what `curves` say, and returns the last four intervals.
    fn intervals_of(curves: CostCurves, rate: FailureRate, checkpoints: u32) -> Vec<f64> {
        let mut chooser = IntervalChooser::default();
        let mut intervals = Vec::new();
        for number in 0..checkpoints {
            let interval = chooser.next_interval_seconds(rate);
            intervals.push(interval);
            let cost = curves.at(interval);
            chooser.note_checkpoint(MeasuredCheckpoint {
                work_seconds: interval + cost.hidden_seconds(),
                overhead_seconds: cost.overhead_seconds(),
                latency_seconds: cost.latency_seconds(),
                is_full: number == 0,
            });
        }
        intervals.split_off(intervals.len() - 4)
    }

    fn day() -> FailureRate {
        FailureRate::of_mean_time(86_400.0).expect("a day")
    }

    #[test]
    fn it_settles_around_the_best_interval() {
        for exponent in [0.0, 0.4, 0.8] {
            let curves = CostCurves {
                overhead: Curve::through(60.0, 0.5, exponent),
                latency: Curve::through(60.0, 4.0, exponent),
                recovery_seconds: 4.0,
            };
            let best = best_interval(day(), curves, 0.0, LEAST_SECONDS..=MOST_SECONDS).interval_seconds;
            let mean = intervals_of(curves, day(), 40).iter().sum::<f64>() / 4.0;
            assert!((0.6..1.6).contains(&(mean / best)), "{exponent}: {mean} of {best}");
        }
    }

    #[test]
    fn it_begins_within_the_first_minute_and_never_leaps() {
        let cost = CheckpointCost::new(60.0, 60.0, 60.0).expect("a cost");
        let mut chooser = IntervalChooser::default();
        assert_eq!(chooser.next_interval_seconds(day()), FIRST_SECONDS);
        let mut last = FIRST_SECONDS;
        for _ in 0..10 {
            chooser.note_checkpoint(MeasuredCheckpoint {
                work_seconds: last,
                overhead_seconds: cost.overhead_seconds(),
                latency_seconds: cost.latency_seconds(),
                is_full: false,
            });
            let next = chooser.next_interval_seconds(day());
            assert!(next <= last * GROWTH_MAX);
            last = next;
        }
        assert!(last > 1000.0);
    }

    /// Where each checkpoint is full, as without `--incremental`, each counts. One among others does not.
    #[test]
    fn full_checkpoints_count_where_all_are() {
        let learnt = |checkpoints: &[(f64, bool)]| {
            let mut chooser = IntervalChooser::default();
            for (seconds, is_full) in checkpoints {
                chooser.note_checkpoint(MeasuredCheckpoint {
                    work_seconds: 60.0,
                    overhead_seconds: *seconds,
                    latency_seconds: *seconds,
                    is_full: *is_full,
                });
            }
            chooser.curves().expect("some checkpoints").overhead.at(60.0)
        };
        assert!(learnt(&[(1.0, true), (5.0, true), (5.0, true)]) > 4.0);
        let usual = learnt(&[(9.0, true), (1.0, false), (1.0, false), (9.0, true), (1.0, false)]);
        assert!((usual - 1.0).abs() < 1e-9, "{usual}");
    }

    #[test]
    fn what_was_measured_badly_is_passed_over() {
        let mut chooser = IntervalChooser::default();
        let measured =
            MeasuredCheckpoint { work_seconds: 9.0, overhead_seconds: 1.0, latency_seconds: 2.0, is_full: false };
        chooser.note_checkpoint(measured);
        chooser.note_restart(f64::NAN);
        assert_eq!(chooser.curves().expect("one checkpoint").recovery_seconds, 0.0);
        assert!(chooser.next_interval_seconds(FailureRate::NEVER) >= LEAST_SECONDS);
        let often = FailureRate::of_mean_time(10.0).expect("a time");
        assert_eq!(
            IntervalChooser::default().next_interval_seconds(often),
            LEAST_SECONDS,
            "it does not wait half a minute"
        );
    }
}
