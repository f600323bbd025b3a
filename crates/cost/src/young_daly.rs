//! The approximations of the best interval that most systems use. They stand beside [`crate::Poisson`] for comparison.

use crate::failure_rate::FailureRate;

/// Returns Young's interval (1974), the first order: `sqrt(2 O M)` for the overhead `O` and the mean time between failures
/// `M`, in seconds. Infinite if nothing fails.
pub fn young_interval_seconds(rate: FailureRate, overhead_seconds: f64) -> f64 {
    // Zero overhead with an infinite time would be no number.
    if rate.is_never() { f64::INFINITY } else { (2.0 * overhead_seconds / rate.get()).sqrt() }
}

/// Returns Daly's interval (2006), of a higher order, in seconds: at most the mean time between failures. Infinite if
/// nothing fails.
pub fn daly_interval_seconds(rate: FailureRate, overhead_seconds: f64) -> f64 {
    if rate.is_never() {
        return f64::INFINITY;
    }
    let mean_time = rate.mean_time_seconds();
    if overhead_seconds >= 2.0 * mean_time {
        return mean_time;
    }
    let share = overhead_seconds / (2.0 * mean_time);
    young_interval_seconds(rate, overhead_seconds) * (1.0 + share.sqrt() / 3.0 + share / 9.0) - overhead_seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointCost, Poisson};

    #[test]
    fn approximations_are_near_the_solution_if_failures_are_rare() {
        let rate = FailureRate::of_mean_time(86_400.0).expect("a day");
        for (overhead, young_error, daly_error) in [(0.1, 1e-3, 1e-5), (10.0, 1e-2, 1e-4), (600.0, 5e-2, 2e-3)] {
            let cost = CheckpointCost::new(overhead, overhead, 0.0).expect("a cost");
            let best = Poisson { rate, cost, repair_seconds: 0.0 }.best_interval_seconds();
            assert!((young_interval_seconds(rate, overhead) / best - 1.0).abs() < young_error * 1.5, "{overhead}");
            assert!((daly_interval_seconds(rate, overhead) / best - 1.0).abs() < daly_error, "{overhead}");
        }
        assert_eq!(daly_interval_seconds(rate, 1e6), 86_400.0);
        assert_eq!(young_interval_seconds(FailureRate::NEVER, 0.0), f64::INFINITY);
    }
}
