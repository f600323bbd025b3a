//! What a checkpoint costs.

use crate::curve::Curve;
use crate::error::{CostError, not_negative};
use serde::Serialize;

/// What one checkpoint costs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CheckpointCost {
    overhead_seconds: f64,
    latency_seconds: f64,
    recovery_seconds: f64,
}

impl CheckpointCost {
    /// Makes a cost. The overhead is what the checkpoint adds to the running time of the program. The latency is the time
    /// from its beginning until a restart can use it. The recovery is the time from a failure until the program runs
    /// again, without repairs.
    ///
    /// # Errors
    /// A time is negative or not finite, or the latency is shorter than the overhead.
    pub fn new(overhead: f64, latency: f64, recovery: f64) -> Result<Self, CostError> {
        let overhead_seconds = not_negative("the overhead of a checkpoint", overhead)?;
        let latency_seconds = not_negative("the latency of a checkpoint", latency)?;
        if latency_seconds < overhead_seconds {
            let must = "at least the overhead, which is a part of it";
            return Err(CostError { what: "the latency of a checkpoint", value: latency, must });
        }
        let recovery_seconds = not_negative("the recovery time", recovery)?;
        Ok(Self { overhead_seconds, latency_seconds, recovery_seconds })
    }

    /// Returns what it adds to the running time, in seconds.
    pub fn overhead_seconds(self) -> f64 {
        self.overhead_seconds
    }

    /// Returns the time until a restart can use it, in seconds.
    pub fn latency_seconds(self) -> f64 {
        self.latency_seconds
    }

    /// Returns the time from a failure until the program runs again, in seconds.
    pub fn recovery_seconds(self) -> f64 {
        self.recovery_seconds
    }

    /// Returns the part of the latency in which the program runs, in seconds.
    pub fn hidden_seconds(self) -> f64 {
        self.latency_seconds - self.overhead_seconds
    }
}

/// What checkpoints cost that save only what has changed: the more time between them, the more each has to save.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostCurves {
    /// Overhead in seconds.
    pub overhead: Curve,
    /// Latency in seconds.
    pub latency: Curve,
    /// Recovery time in seconds. It reads all that the job has, however often checkpoints are taken.
    pub recovery_seconds: f64,
}

impl CostCurves {
    /// Makes the curves of checkpoints that cost the same at each interval.
    pub fn constant(cost: CheckpointCost) -> Self {
        Self {
            overhead: Curve::constant(cost.overhead_seconds),
            latency: Curve::constant(cost.latency_seconds),
            recovery_seconds: cost.recovery_seconds,
        }
    }

    /// Returns the cost of a checkpoint after this time of work.
    pub fn at(self, interval_seconds: f64) -> CheckpointCost {
        let overhead_seconds = self.overhead.at(interval_seconds);
        CheckpointCost {
            overhead_seconds,
            // Fitted curves may cross where neither was measured.
            latency_seconds: self.latency.at(interval_seconds).max(overhead_seconds),
            recovery_seconds: self.recovery_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_costs_are_refused() {
        assert!(CheckpointCost::new(-1.0, 1.0, 1.0).is_err());
        assert!(CheckpointCost::new(1.0, f64::NAN, 1.0).is_err());
        assert!(CheckpointCost::new(1.0, 1.0, f64::INFINITY).is_err());
        let refused = CheckpointCost::new(2.0, 1.0, 1.0).expect_err("less than the overhead").to_string();
        let expected =
            "the latency of a checkpoint cannot be 1: it must be at least the overhead, which is a part of it";
        assert_eq!(refused, expected);
    }
}
