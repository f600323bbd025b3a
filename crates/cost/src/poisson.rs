//! Failures that come independently at a constant rate: Vaidya's equations, as "Diskless Checkpointing" (section 9.1.1)
//! numbers them from (1) to (7).
//!
//! The equations follow the program from the moment when one checkpoint can be used to the moment when the next one can.
//! That is the interval and an overhead, `T + O`. After a failure it is the recovery, the work that was done while the
//! checkpoint was still being written, and the same again: `R + (L - O) + (T + O)`, until no failure comes in that time.

use crate::checkpoint_cost::CheckpointCost;
use crate::failure_rate::FailureRate;
use crate::search::zero_of;
use serde::Serialize;

/// Below this, a sum of the first terms is more precise than a difference of numbers of nearly the same size.
const SMALL: f64 = 1e-4;

/// The longest running time that is looked at for whether checkpoints pay: some 30,000 years, in seconds.
const BASE_MAX_SECONDS: f64 = 1e12;

/// A job under failures at a constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Poisson {
    /// Failures of the whole job.
    pub rate: FailureRate,
    /// What each checkpoint costs.
    pub cost: CheckpointCost,
    /// Time from a failure until a recovery can begin, in seconds. Zero if a spare machine is ready.
    pub repair_seconds: f64,
}

impl Poisson {
    /// Returns the best interval in seconds, by equation (1): the work between two checkpoints with which the job ends
    /// soonest. It depends on the overhead alone. Zero if checkpoints cost nothing; infinite if nothing fails.
    pub fn best_interval_seconds(&self) -> f64 {
        if self.rate.is_never() {
            return f64::INFINITY;
        }
        let overhead = self.rate.get() * self.cost.overhead_seconds();
        // With x = rate * interval, the equation is overhead + x + ln(1 - x) = 0. The left side falls from x = 0 to 1.
        zero_of(0.0, 1.0, |x| overhead + x_plus_ln_of_rest(x)) / self.rate.get()
    }

    /// Returns the expected time for an interval of work and its checkpoint, in seconds, by equations (2) and (6), for any
    /// interval. Infinite if failures come too fast for the job ever to end.
    pub fn expected_interval_seconds(&self, interval_seconds: f64) -> f64 {
        let after_failure = self.cost.hidden_seconds() + self.cost.recovery_seconds() + self.repair_seconds;
        self.expected_seconds(interval_seconds + self.cost.overhead_seconds(), after_failure)
    }

    /// Returns the overhead ratio by equation (3): how much longer the job is expected to run than without failures and
    /// checkpoints, as a fraction. Infinite if it would never end.
    pub fn overhead_ratio(&self, interval_seconds: f64) -> f64 {
        if interval_seconds.is_infinite() {
            // Without a checkpoint, a job without end never ends if anything fails.
            return if self.rate.is_never() { 0.0 } else { f64::INFINITY };
        }
        if interval_seconds <= 0.0 {
            return if self.cost.overhead_seconds() > 0.0 { f64::INFINITY } else { 0.0 };
        }
        (self.expected_interval_seconds(interval_seconds) / interval_seconds - 1.0).max(0.0)
    }

    /// Returns the expected running time with checkpoints by equation (4), in seconds, of a job that runs for
    /// `base_seconds` without failures and checkpoints.
    pub fn with_checkpoints_seconds(&self, base_seconds: f64, interval_seconds: f64) -> f64 {
        base_seconds * (1.0 + self.overhead_ratio(interval_seconds))
    }

    /// Returns the expected running time without checkpoints by equations (5) and (7), in seconds: after each failure the job
    /// starts from its beginning. Infinite if it would never end.
    pub fn without_checkpoints_seconds(&self, base_seconds: f64) -> f64 {
        self.expected_seconds(base_seconds, self.repair_seconds)
    }

    /// Returns the running time from which on checkpoints at this interval pay, in seconds: a shorter job is expected to end
    /// sooner without them (D §9.1.1). `None` if they never pay.
    pub fn pays_from_seconds(&self, interval_seconds: f64) -> Option<f64> {
        let loss =
            |base| self.with_checkpoints_seconds(base, interval_seconds) - self.without_checkpoints_seconds(base);
        let pays = |base: f64| !self.rate.is_never() && loss(base) < 0.0;
        pays(BASE_MAX_SECONDS).then(|| zero_of(0.0, BASE_MAX_SECONDS, |base| if pays(base) { -1.0 } else { 1.0 }))
    }

    /// Returns the largest overhead of a checkpoint, in seconds, with which the best interval still keeps the overhead ratio
    /// at or below `ratio`, all else unchanged. `None` if no overhead is small enough.
    pub fn overhead_for_ratio_seconds(&self, ratio: f64) -> Option<f64> {
        let hidden = self.cost.hidden_seconds();
        let ratio_at = |overhead: f64| {
            let cost = CheckpointCost::new(overhead, overhead + hidden, self.cost.recovery_seconds()).ok();
            cost.map_or(f64::INFINITY, |cost| {
                let model = Self { cost, ..*self };
                model.overhead_ratio(model.best_interval_seconds())
            })
        };
        let is_within = |overhead| ratio_at(overhead) <= ratio;
        // The smallest overhead that a checkpoint can have.
        let least = 1e-9;
        is_within(least)
            .then(|| zero_of(least, BASE_MAX_SECONDS, |overhead| if is_within(overhead) { 1.0 } else { -1.0 }))
    }

    /// Returns the failure rate at which the best interval has this overhead ratio: what a machine may do before
    /// checkpoints cost more than that. `None` if the ratio is not positive.
    pub fn rate_for_ratio(&self, ratio: f64) -> Option<FailureRate> {
        let of = |rate: f64| FailureRate::per_second(rate).unwrap_or(FailureRate::NEVER);
        let is_within = |rate: f64| {
            let model = Self { rate: of(rate), ..*self };
            model.overhead_ratio(model.best_interval_seconds()) <= ratio
        };
        // Rates are looked for in their logarithm, between one failure in 30 million years and a million in a second.
        let found = zero_of((1e-15_f64).ln(), (1e6_f64).ln(), |rate| if is_within(rate.exp()) { 1.0 } else { -1.0 });
        (ratio > 0.0).then(|| of(found.exp()))
    }

    /// Returns the expected time until no failure comes for `span`, if each failure adds `after_failure` to what must go
    /// well, in seconds.
    fn expected_seconds(&self, span: f64, after_failure: f64) -> f64 {
        let rate = self.rate.get();
        if self.rate.is_never() {
            return span;
        }
        // Not a number where zero meets infinity: nothing to do takes no time.
        if span <= 0.0 { 0.0 } else { (rate * after_failure).exp() * (rate * span).exp_m1() / rate }
    }
}

/// Returns `x + ln(1 - x)`.
fn x_plus_ln_of_rest(x: f64) -> f64 {
    if x < SMALL { -(x * x) * (1.0 / 2.0 + x / 3.0 + x * x / 4.0) } else { x + (-x).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(mean_time: f64, overhead: f64, latency: f64, recovery: f64) -> Poisson {
        let rate = FailureRate::of_mean_time(mean_time).expect("a time");
        let cost = CheckpointCost::new(overhead, latency, recovery).expect("a cost");
        Poisson { rate, cost, repair_seconds: 0.0 }
    }

    #[test]
    fn the_best_interval_solves_the_equation_and_is_the_best() {
        for (mean_time, overhead) in [(1e3, 1.0), (1e5, 0.001), (1e9, 10.0), (1e12, 1e-6), (60.0, 600.0)] {
            let model = model(mean_time, overhead, overhead * 3.0, overhead);
            let best = model.best_interval_seconds();
            let x = best / mean_time;
            let error = overhead / mean_time + x_plus_ln_of_rest(x);
            assert!(error.abs() <= 1e-6 * (overhead / mean_time), "{mean_time} {overhead}: {error}");
            for other in [best * 0.9, best * 1.1] {
                assert!(model.overhead_ratio(best) <= model.overhead_ratio(other) + 1e-12);
            }
        }
    }

    #[test]
    fn without_failures_the_best_checkpoint_is_none() {
        let model = Poisson { rate: FailureRate::NEVER, ..model(1.0, 2.0, 3.0, 4.0) };
        assert_eq!(model.best_interval_seconds(), f64::INFINITY);
        assert_eq!(model.overhead_ratio(f64::INFINITY), 0.0);
        assert_eq!(model.without_checkpoints_seconds(100.0), 100.0);
        assert_eq!(model.with_checkpoints_seconds(100.0, 10.0), 120.0);
        assert_eq!(model.pays_from_seconds(10.0), None);
    }

    #[test]
    fn no_result_is_nan() {
        for mean_time in [1e-9, 1.0, 1e15] {
            for overhead in [0.0, 1e-12, 1e12] {
                for interval in [0.0, 1e-12, 1.0, 1e15, f64::INFINITY] {
                    let model = model(mean_time, overhead, overhead, 1e9);
                    assert!(!model.overhead_ratio(interval).is_nan(), "{mean_time} {overhead} {interval}");
                    assert!(!model.best_interval_seconds().is_nan());
                    assert!(!model.without_checkpoints_seconds(interval.min(1e300)).is_nan());
                }
            }
        }
    }

    #[test]
    fn inverse_forms_lead_back() {
        let model = model(86_400.0, 3.0, 20.0, 30.0);
        let best = model.best_interval_seconds();
        let ratio = model.overhead_ratio(best);
        let overhead = model.overhead_for_ratio_seconds(ratio).expect("three seconds");
        assert!((overhead - 3.0).abs() < 1e-6, "{overhead}");
        let rate = model.rate_for_ratio(ratio).expect("once a day");
        assert!((rate.mean_time_seconds() / 86_400.0 - 1.0).abs() < 1e-6);
        let pays = model.pays_from_seconds(best).expect("in the end");
        assert!(model.with_checkpoints_seconds(pays * 1.01, best) < model.without_checkpoints_seconds(pays * 1.01));
        assert!(model.with_checkpoints_seconds(pays * 0.99, best) > model.without_checkpoints_seconds(pays * 0.99));
        assert_eq!(model.rate_for_ratio(0.0), None);
        assert_eq!(model.overhead_for_ratio_seconds(1e-9), None, "recovery alone costs more");
    }
}
