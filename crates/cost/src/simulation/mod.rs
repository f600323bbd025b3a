//! A job under failures, step by step: for what the equations do not cover. That is failures that are not independent,
//! costs that change, two levels, many nodes, and an interval that is chosen while the job runs.
//!
//! A checkpoint stops the program for its overhead, and can be used when its latency is over. The next interval begins
//! then, as in a supervisor. After a failure the job goes back to the newest checkpoint that could be used, which takes the
//! repair and the recovery. Failures come during these as well.

mod failures;
mod policy;
mod run;

pub use failures::{FailureModel, NodeFailures};
pub use policy::{AutomaticInterval, FixedInterval, IntervalPolicy};

use crate::checkpoint_cost::CostCurves;
use crate::error::{CostError, not_negative, positive};
use crate::levels::FailureMix;
use failures::Failures;
use run::Run;
use serde::Serialize;

/// A job to be simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedJob {
    /// Time that it runs without failures and checkpoints, in seconds.
    pub base_seconds: f64,
    /// Its phases in order. The last one lasts until the end.
    pub phases: Vec<CostPhase>,
    /// A second level, which survives all failures. Without one, each checkpoint does.
    pub flushes: Option<FlushPlan>,
    /// What fails, and how often.
    pub failures: NodeFailures,
    /// Time from a failure that local checkpoints do not survive until a recovery can begin, in seconds.
    pub repair_seconds: f64,
}

/// A part of a job in which checkpoints cost the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostPhase {
    /// Work after which it ends, in seconds since the beginning of the job.
    pub until_seconds: f64,
    /// What its checkpoints cost.
    pub costs: CostCurves,
}

/// Flushes of local checkpoints to a level that survives all failures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlushPlan {
    /// Each checkpoint of this number is flushed, if no flush is under way.
    pub every: u32,
    /// What a flush adds to the running time, in seconds.
    pub overhead_seconds: f64,
    /// Time from the beginning of the flush until a restart can use it, in seconds.
    pub latency_seconds: f64,
    /// Recovery time from it, in seconds.
    pub recovery_seconds: f64,
    /// Failures that leave local checkpoints usable.
    pub mix: FailureMix,
}

/// Running times of a simulated job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedTimes {
    /// Mean of the running times in seconds; infinite if a run did not end within a thousand times its time without failures.
    pub mean_seconds: f64,
    /// Standard error of the mean in seconds.
    pub standard_error_seconds: f64,
    /// Mean number of failures in a run.
    pub failures: f64,
    /// Mean number of checkpoints that were begun in a run.
    pub checkpoints: f64,
    /// Runs that did not end.
    pub unfinished: u32,
}

/// Simulates `runs` runs of a job, each with a policy that `policy` makes for it. Equal seeds give equal results.
///
/// # Errors
/// The job cannot exist: a time is negative or not finite, or there is no phase.
pub fn simulate<P: IntervalPolicy>(
    job: &SimulatedJob,
    runs: u32,
    seed: u64,
    mut policy: impl FnMut() -> P,
) -> Result<SimulatedTimes, CostError> {
    job.check()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ends = Vec::new();
    let (mut failures, mut checkpoints, mut unfinished) = (0.0, 0.0, 0);
    for _ in 0..runs {
        let mut policy = policy();
        let run = Run::new(job, Failures::new(&job.failures, random.fork()), random.fork()).run(&mut policy);
        failures += f64::from(run.failures);
        checkpoints += f64::from(run.checkpoints);
        match run.end_seconds {
            Some(seconds) => ends.push(seconds),
            None => unfinished += 1,
        }
    }
    let (mean, standard_error_seconds) = mean_and_error(&ends);
    let mean_seconds = if unfinished > 0 || runs == 0 { f64::INFINITY } else { mean };
    let count = f64::from(runs.max(1));
    Ok(SimulatedTimes {
        mean_seconds,
        standard_error_seconds,
        failures: failures / count,
        checkpoints: checkpoints / count,
        unfinished,
    })
}

impl SimulatedJob {
    fn check(&self) -> Result<(), CostError> {
        positive("the running time", self.base_seconds)?;
        not_negative("the repair time", self.repair_seconds)?;
        positive("the number of phases", self.phases.len() as f64)?;
        if let Some(flushes) = &self.flushes {
            positive("the number of checkpoints for each flush", f64::from(flushes.every))?;
            not_negative("the overhead of a flush", flushes.overhead_seconds)?;
            not_negative("the latency of a flush", flushes.latency_seconds)?;
            not_negative("the recovery time", flushes.recovery_seconds)?;
        }
        self.failures.check()
    }

    /// Returns what checkpoints cost when this much work is done.
    fn costs_at(&self, work_seconds: f64) -> CostCurves {
        let phase = self.phases.iter().find(|phase| work_seconds < phase.until_seconds);
        phase.or(self.phases.last()).expect("checked: a job has a phase").costs
    }
}

/// Returns the mean, and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (variance / count.max(1.0)).sqrt())
}

#[cfg(test)]
mod tests;
