//! The best interval if a checkpoint costs more the longer the last one is ago.

use crate::checkpoint_cost::CostCurves;
use crate::failure_rate::FailureRate;
use crate::poisson::Poisson;
use crate::search::smallest_of;
use serde::Serialize;
use std::ops::RangeInclusive;

/// The best interval, and what is expected with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestInterval {
    /// Work between the beginnings of two checkpoints, in seconds.
    pub work_seconds: f64,
    /// Time from the end of a checkpoint until the next one begins, in seconds: what the option `--interval` means. The
    /// program also works while a checkpoint is being written.
    pub interval_seconds: f64,
    /// The model with the cost at this interval.
    pub model: Poisson,
    /// How much longer the job is expected to run than without failures and checkpoints, as a fraction.
    pub overhead_ratio: f64,
}

/// Returns the best interval of which `--interval` lies within `interval_seconds`, all of which are positive.
pub fn best_interval(
    rate: FailureRate,
    curves: CostCurves,
    repair_seconds: f64,
    interval_seconds: RangeInclusive<f64>,
) -> BestInterval {
    let at = |interval_seconds: f64| {
        // The work done while a checkpoint is written depends on its cost, and that on the work. Two steps are near enough:
        // curves rise slower than the interval.
        let mut cost = curves.at(interval_seconds);
        cost = curves.at(interval_seconds + cost.hidden_seconds());
        let model = Poisson { rate, cost, repair_seconds };
        let work_seconds = interval_seconds + cost.hidden_seconds();
        BestInterval { work_seconds, interval_seconds, model, overhead_ratio: model.overhead_ratio(work_seconds) }
    };
    at(smallest_of(*interval_seconds.start(), *interval_seconds.end(), |interval| at(interval).overhead_ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointCost, Curve};

    const RANGE: RangeInclusive<f64> = 0.01..=1e6;

    fn day() -> FailureRate {
        FailureRate::of_mean_time(86_400.0).expect("a day")
    }

    #[test]
    fn at_a_constant_cost_it_is_vaidyas() {
        let cost = CheckpointCost::new(2.0, 12.0, 5.0).expect("a cost");
        let best = best_interval(day(), CostCurves::constant(cost), 0.0, RANGE);
        assert!((best.work_seconds / best.model.best_interval_seconds() - 1.0).abs() < 1e-3);
        assert!((best.interval_seconds - (best.work_seconds - 10.0)).abs() < 1e-9, "it works while 10 s are written");
    }

    /// A cost in proportion to the time is the same in sum at every interval, so that only the fixed part counts.
    #[test]
    fn a_stream_is_saved_more_often_than_the_same_memory() {
        let curves = |exponent| CostCurves {
            overhead: Curve::through(600.0, 2.0, exponent),
            latency: Curve::through(600.0, 2.0, exponent),
            recovery_seconds: 5.0,
        };
        let same = best_interval(day(), curves(0.0), 0.0, RANGE);
        let stream = best_interval(day(), curves(0.9), 0.0, RANGE);
        assert!(stream.interval_seconds < same.interval_seconds / 2.0);
        assert_eq!(best_interval(day(), curves(1.0), 0.0, RANGE).interval_seconds.round(), RANGE.start().round());
    }

    #[test]
    fn without_failures_it_is_the_longest() {
        let cost = CheckpointCost::new(2.0, 12.0, 5.0).expect("a cost");
        let best = best_interval(FailureRate::NEVER, CostCurves::constant(cost), 0.0, 1.0..=3600.0);
        assert!(best.interval_seconds > 3599.0);
    }
}
