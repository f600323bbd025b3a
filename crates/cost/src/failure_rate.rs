//! How often a job fails: as told, as observed, or assumed.

use crate::error::{CostError, not_negative, positive};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Gamma};

/// Mean time between failures of a node of which nothing is known: a day.
pub const ASSUMED_MEAN_TIME_SECONDS: f64 = 86_400.0;

/// Failures in a second, on average. Zero if there are none.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct FailureRate(f64);

impl FailureRate {
    /// The rate of what never fails.
    pub const NEVER: Self = Self(0.0);

    /// Makes a rate of failures in a second.
    ///
    /// # Errors
    /// It is negative or not finite.
    pub fn per_second(failures: f64) -> Result<Self, CostError> {
        not_negative("the rate of failures", failures).map(Self)
    }

    /// Makes the rate of a mean time between failures (MTBF).
    ///
    /// # Errors
    /// The time is not positive or not finite, or so short that the rate is no number.
    pub fn of_mean_time(seconds: f64) -> Result<Self, CostError> {
        positive("the mean time between failures", seconds)?;
        Self::per_second(1.0 / seconds)
    }

    /// Returns the rate of a job that fails if any of `nodes` equal nodes fails.
    #[must_use]
    pub fn of_nodes(self, nodes: u32) -> Self {
        Self(self.0 * f64::from(nodes))
    }

    /// Returns this share of the failures, from 0 to 1.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self(self.0 * share.clamp(0.0, 1.0))
    }

    /// Returns the failures in a second.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the mean time between failures in seconds; infinite if there are none.
    pub fn mean_time_seconds(self) -> f64 {
        1.0 / self.0
    }

    /// Reports whether there are no failures.
    pub fn is_never(self) -> bool {
        self.0 == 0.0
    }
}

/// Failures that were observed. Only what the job did not want counts: its own exit, a stop on request and a time limit
/// are none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FailureHistory {
    /// Number of failures.
    pub failures: u32,
    /// Time in which they happened.
    pub observed_seconds: f64,
}

/// A rate that was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateEstimate {
    /// The estimate.
    pub rate: FailureRate,
    /// The rate is between these with a probability of 90 %.
    pub low: FailureRate,
    /// See `low`.
    pub high: FailureRate,
}

impl FailureHistory {
    /// Estimates the rate: `(k + 1/2) / T` for `k` failures in the time `T`, which is the mean of the rate's distribution if
    /// nothing else is known of it (Jeffreys' prior). So no failure in a long time is knowledge as well.
    ///
    /// Returns `None` if nothing was observed, and as long as no failure was and the estimate is above that of a node of
    /// which nothing is known: a job that has run for a minute does not fail each two minutes.
    pub fn estimate(self) -> Option<RateEstimate> {
        let seconds = positive("the observed time", self.observed_seconds).ok()?;
        let shape = f64::from(self.failures) + 0.5;
        let rate = FailureRate::per_second(shape / seconds).ok()?;
        if self.failures == 0 && rate.mean_time_seconds() < ASSUMED_MEAN_TIME_SECONDS {
            return None;
        }
        let distribution = Gamma::new(shape, 1.0).ok()?;
        let quantile = |share| FailureRate::per_second(distribution.inverse_cdf(share) / seconds).ok();
        Some(RateEstimate { rate, low: quantile(0.05)?, high: quantile(0.95)? })
    }
}

/// What is known of the rate of failures of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum KnownRate {
    /// It was told.
    Told {
        /// The rate.
        rate: FailureRate,
    },
    /// It follows from the failures that the job had.
    Observed {
        /// The estimate.
        estimate: RateEstimate,
        /// What was observed.
        history: FailureHistory,
    },
    /// It is assumed: a failure of each node a day.
    Assumed {
        /// The rate.
        rate: FailureRate,
    },
}

impl KnownRate {
    /// Returns what is known of a job on `nodes` nodes: what was told, or else what was observed, or else what is assumed.
    pub fn of(told: Option<FailureRate>, history: FailureHistory, nodes: u32) -> Self {
        let assumed = FailureRate(f64::from(nodes) / ASSUMED_MEAN_TIME_SECONDS);
        match (told, history.estimate()) {
            (Some(rate), _) => Self::Told { rate },
            (None, Some(estimate)) => Self::Observed { estimate, history },
            (None, None) => Self::Assumed { rate: assumed },
        }
    }

    /// Returns the rate.
    pub fn rate(self) -> FailureRate {
        match self {
            Self::Told { rate } | Self::Assumed { rate } => rate,
            Self::Observed { estimate, .. } => estimate.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantiles are half those of the chi-squared distribution with `2 k + 1` degrees of freedom, as tables have them.
    #[test]
    fn an_observed_rate_has_its_interval() {
        let day = 86_400.0;
        for (failures, low, high) in [(0, 0.00393, 3.841), (1, 0.352, 7.815), (2, 1.145, 11.070), (5, 4.575, 19.675)] {
            let history = FailureHistory { failures, observed_seconds: 10.0 * day };
            let estimate = history.estimate().expect("ten days");
            let days = |rate: FailureRate| rate.get() * 10.0 * day;
            assert!((days(estimate.rate) - f64::from(failures) - 0.5).abs() < 1e-9);
            assert!((days(estimate.low) * 2.0 / low - 1.0).abs() < 0.003, "{failures}: {}", days(estimate.low));
            assert!((days(estimate.high) * 2.0 / high - 1.0).abs() < 0.003, "{failures}: {}", days(estimate.high));
        }
    }

    #[test]
    fn a_short_time_without_failures_is_no_knowledge() {
        let history = |failures, observed_seconds| FailureHistory { failures, observed_seconds };
        assert_eq!(history(0, 0.0).estimate(), None);
        assert_eq!(history(0, f64::NAN).estimate(), None);
        assert_eq!(history(1, -5.0).estimate(), None);
        assert_eq!(history(0, 3600.0).estimate(), None);
        assert!(history(0, 50_000.0).estimate().is_some());
        assert!(history(1, 3600.0).estimate().is_some());
    }

    #[test]
    fn impossible_rates_are_refused() {
        assert!(FailureRate::of_mean_time(0.0).is_err());
        assert!(FailureRate::of_mean_time(f64::INFINITY).is_err());
        assert!(FailureRate::of_mean_time(1e-320).is_err(), "its rate is infinite");
        assert!(FailureRate::per_second(-1.0).is_err());
        assert_eq!(FailureRate::NEVER.mean_time_seconds(), f64::INFINITY);
    }
}
