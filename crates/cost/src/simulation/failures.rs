//! When a simulated machine fails.

use crate::error::{CostError, positive};
use crate::failure_rate::FailureRate;
use statrs::function::gamma::gamma;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Mean lifetimes for which nodes have run before the job begins, so that they are neither all new nor all old.
const RUNNING_SINCE: f64 = 10.0;

/// How one node fails.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureModel {
    /// Independently, at a constant rate.
    Poisson {
        /// Failures of one node.
        rate: FailureRate,
    },
    /// At a rate that falls with the age of the node (a shape below 1) or rises (above 1). Real machines have shapes of 0.7
    /// to 0.8.
    Weibull {
        /// Shape.
        shape: f64,
        /// Mean time from one failure of a node to the next, in seconds.
        mean_time_seconds: f64,
    },
    /// As was recorded of the whole job, from a random failure on, again and again.
    Recorded {
        /// Times between failures, in seconds.
        gaps_seconds: Vec<f64>,
    },
}

/// A job that fails if any of its nodes does.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFailures {
    /// How one node fails.
    pub model: FailureModel,
    /// Number of nodes. What was recorded is already of all of them.
    pub nodes: u32,
}

impl NodeFailures {
    pub(super) fn check(&self) -> Result<(), CostError> {
        positive("the number of nodes", f64::from(self.nodes))?;
        match &self.model {
            FailureModel::Poisson { .. } => {}
            FailureModel::Weibull { shape, mean_time_seconds } => {
                // Below 0.01, one lifetime in a million has the whole mean.
                if !(0.01..=100.0).contains(shape) {
                    return Err(CostError { what: "the shape", value: *shape, must: "from 0.01 to 100" });
                }
                positive("the mean time between failures", *mean_time_seconds)?;
            }
            FailureModel::Recorded { gaps_seconds } => {
                positive("the number of recorded failures", gaps_seconds.len() as f64)?;
                for gap in gaps_seconds {
                    positive("the time between two failures", *gap)?;
                }
            }
        }
        Ok(())
    }
}

/// The failures of one run.
pub(super) enum Failures {
    Poisson { rate: FailureRate, random: fastrand::Rng },
    Weibull { lifetimes: Lifetimes, due: BinaryHeap<Reverse<Moment>>, random: fastrand::Rng },
    Recorded { gaps_seconds: Vec<f64>, next: usize },
}

/// A time in seconds since the job began.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Moment(f64);

impl Eq for Moment {}

#[expect(clippy::derive_ord_xor_partial_ord, reason = "times are never NaN, so that both orders are the same")]
impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Lifetimes by Weibull's distribution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetimes {
    shape: f64,
    scale_seconds: f64,
}

impl Lifetimes {
    fn draw(self, random: &mut fastrand::Rng) -> f64 {
        self.scale_seconds * (-uniform(random).ln()).powf(1.0 / self.shape)
    }
}

impl Failures {
    pub(super) fn new(failures: &NodeFailures, mut random: fastrand::Rng) -> Self {
        match &failures.model {
            FailureModel::Poisson { rate } => Self::Poisson { rate: rate.of_nodes(failures.nodes), random },
            FailureModel::Weibull { shape, mean_time_seconds } => {
                let lifetimes =
                    Lifetimes { shape: *shape, scale_seconds: mean_time_seconds / gamma(1.0 + 1.0 / shape) };
                let due = (0..failures.nodes).map(|_| {
                    let mut at = -RUNNING_SINCE * mean_time_seconds * uniform(&mut random);
                    while at <= 0.0 {
                        at += lifetimes.draw(&mut random);
                    }
                    Reverse(Moment(at))
                });
                let due = due.collect();
                Self::Weibull { lifetimes, due, random }
            }
            FailureModel::Recorded { gaps_seconds } => {
                Self::Recorded { gaps_seconds: gaps_seconds.clone(), next: random.usize(..gaps_seconds.len()) }
            }
        }
    }

    /// Returns when the next failure comes after the one at `last`; infinite if none does.
    pub(super) fn next_after(&mut self, last: f64) -> f64 {
        match self {
            Self::Poisson { rate, .. } if rate.is_never() => f64::INFINITY,
            Self::Poisson { rate, random } => last - uniform(random).ln() / rate.get(),
            Self::Weibull { lifetimes, due, random } => {
                let Some(Reverse(Moment(at))) = due.pop() else { return f64::INFINITY };
                due.push(Reverse(Moment(at + lifetimes.draw(random))));
                at
            }
            Self::Recorded { gaps_seconds, next } => {
                let gap = gaps_seconds[*next % gaps_seconds.len()];
                *next += 1;
                last + gap
            }
        }
    }
}

/// Returns a number above 0 and below 1, of which there is a logarithm.
fn uniform(random: &mut fastrand::Rng) -> f64 {
    random.f64().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_gap(model: FailureModel, nodes: u32) -> f64 {
        let failures = NodeFailures { model, nodes };
        failures.check().expect("a machine");
        let mut failures = Failures::new(&failures, fastrand::Rng::with_seed(7));
        let last = (0..20_000).fold(0.0, |last, _| failures.next_after(last));
        last / 20_000.0
    }

    #[test]
    fn failures_come_as_often_as_they_should() {
        let rate = FailureRate::of_mean_time(1000.0).expect("a time");
        assert!((mean_gap(FailureModel::Poisson { rate }, 10) / 100.0 - 1.0).abs() < 0.03);
        for shape in [0.7, 1.0, 3.0] {
            let model = FailureModel::Weibull { shape, mean_time_seconds: 1000.0 };
            assert!((mean_gap(model, 10) / 100.0 - 1.0).abs() < 0.05, "{shape}");
        }
        let recorded = FailureModel::Recorded { gaps_seconds: vec![1.0, 2.0, 3.0, 4.0] };
        assert!((mean_gap(recorded, 1) - 2.5).abs() < 0.01);
        assert_eq!(mean_gap(FailureModel::Poisson { rate: FailureRate::NEVER }, 3), f64::INFINITY);
    }

    #[test]
    fn impossible_failures_are_refused() {
        let check = |model, nodes| NodeFailures { model, nodes }.check();
        assert!(check(FailureModel::Poisson { rate: FailureRate::NEVER }, 0).is_err());
        for shape in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(check(FailureModel::Weibull { shape, mean_time_seconds: 1.0 }, 1).is_err());
        }
        assert!(check(FailureModel::Recorded { gaps_seconds: Vec::new() }, 1).is_err());
        assert!(check(FailureModel::Recorded { gaps_seconds: vec![1.0, 0.0] }, 1).is_err());
    }
}
