//! `advise`: which interval is best for a job, and what is expected with it and with others. The job has a history, or it is
//! only described.

mod inputs;
mod quantities;
mod recorded;

pub use inputs::JobDescriptionForAdvice;
pub use quantities::{ByteCount, ByteRate};

use crate::Error;
use crate::history::{JobHistory, read_history};
use crate::queries::phase;
use crate::report::{AdvicePoint, AdviceReport, AdvisedDisk, AdvisedInterval, AdvisedLevels, JobPhase};
use crate::settings::{JobOptions, MeanTime};
use inputs::Inputs;
use standfast_cost::{
    BestInterval, CheckpointCost, CostPhase, FixedInterval, NodeFailures, Poisson, SimulatedJob, TwoLevels,
    best_interval, daly_interval_seconds, mean_bytes_per_second, shortest_interval_seconds, simulate,
    young_interval_seconds,
};
use standfast_store::JobDirectory;
use std::path::PathBuf;

/// Shortest and longest interval that is advised, in seconds. The longest is a month.
const LEAST_SECONDS: f64 = 1.0;
const MOST_SECONDS: f64 = 30.0 * 86_400.0;

/// The interval of a run that says nothing, in seconds.
const DEFAULT_SECONDS: f64 = 600.0;

/// Runs of a simulated job. The expected time of a job with three failures is then known to 3 %.
const RUNS: u32 = 200;

/// Most failures and checkpoints of all simulated runs of one interval: some seconds of work.
const EVENTS_MAX: f64 = 2e7;

/// Number of points of the plot.
const POINTS: u32 = 48;

/// What to advise about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdviceRequest {
    /// The job's directory, if it has a history.
    pub directory: Option<PathBuf>,
    /// What the user says of the job. It takes precedence over the history.
    pub described: JobDescriptionForAdvice,
}

/// Advises on the interval of a job.
///
/// # Errors
/// If there is no such job, if nothing is known of it, or if what is said of it is impossible.
pub fn advise(request: &AdviceRequest) -> Result<AdviceReport, Error> {
    let mut described = request.described.clone();
    let (history, is_running) = match &request.directory {
        None => (JobHistory::default(), false),
        Some(directory) => {
            let opened = JobDirectory::look(directory).map_err(|error| Error::of_store(directory, error))?;
            let manifest = opened.manifest().map_err(|error| Error::of_store(directory, error))?;
            if described.mtbf == MeanTime::Auto {
                // What was said of the job when it was started.
                described.mtbf = JobOptions::from_record(manifest.options).mtbf;
            }
            (read_history(&opened), phase(directory)? == JobPhase::Running)
        }
    };
    let inputs = Inputs::gather(&described, &history, is_running)?;
    Advice { inputs: &inputs, history: &history }.report()
}

/// An expected running time.
struct Expected {
    seconds: f64,
    /// How far it may be off, if it was simulated.
    standard_error_seconds: Option<f64>,
}

impl Expected {
    fn exactly(seconds: f64) -> Self {
        Self { seconds, standard_error_seconds: None }
    }
}

/// Advice in the making.
struct Advice<'a> {
    inputs: &'a Inputs,
    history: &'a JobHistory,
}

impl Advice<'_> {
    fn report(&self) -> Result<AdviceReport, Error> {
        let Inputs { costs, repair_seconds, base_seconds, .. } = *self.inputs;
        let rate = self.inputs.known_rate.rate();
        let best = best_interval(rate, costs, repair_seconds, LEAST_SECONDS..=MOST_SECONDS);
        let model = best.model;
        let without = self.without()?;
        let mut alternatives = vec![self.interval("best", best.interval_seconds)?];
        let overhead = model.cost.overhead_seconds();
        // These are times of work; an interval leaves out what the program works while a checkpoint is written.
        let hidden = model.cost.hidden_seconds();
        let named = [
            ("by Young's formula", young_interval_seconds(rate, overhead) - hidden),
            ("by Daly's formula", daly_interval_seconds(rate, overhead) - hidden),
            ("three times as often", best.interval_seconds / 3.0),
            ("a third as often", best.interval_seconds * 3.0),
            ("default", DEFAULT_SECONDS),
        ];
        for (name, seconds) in named {
            if seconds.is_finite() && seconds >= LEAST_SECONDS {
                alternatives.push(self.interval(name, seconds)?);
            }
        }
        alternatives.push(without);
        Ok(AdviceReport {
            inputs: self.inputs.listed(),
            base_seconds,
            mean_time_seconds: finite(rate.mean_time_seconds()),
            equation: equation(&best),
            interval_seconds: best.interval_seconds,
            overhead_ratio: finite(best.overhead_ratio),
            pays_from_seconds: model.pays_from_seconds(best.work_seconds),
            is_worth: self.is_worth(&alternatives),
            alternatives,
            levels: self.levels(&best),
            disk: self.disk(&best),
            curve: self.curve(),
            measured: self.measured(),
        })
    }

    /// Reports whether the best interval is expected to end the job sooner than no checkpoints.
    fn is_worth(&self, alternatives: &[AdvisedInterval]) -> bool {
        let expected = |it: &AdvisedInterval| it.expected_seconds.unwrap_or(f64::INFINITY);
        let without = alternatives.last().map_or(f64::INFINITY, expected);
        alternatives.first().is_some_and(|best| expected(best) < without)
    }

    /// Returns what is expected with an interval.
    fn interval(&self, name: &str, interval_seconds: f64) -> Result<AdvisedInterval, Error> {
        if self.inputs.is_simulated() {
            return Ok(self.advised(name, Some(interval_seconds), self.simulated(interval_seconds)?));
        }
        let model = self.model_at(interval_seconds);
        let work_seconds = interval_seconds + model.cost.hidden_seconds();
        let expected = model.with_checkpoints_seconds(self.inputs.base_seconds, work_seconds);
        Ok(self.advised(name, Some(interval_seconds), Expected::exactly(expected)))
    }

    /// Returns what is expected without checkpoints.
    fn without(&self) -> Result<AdvisedInterval, Error> {
        let expected = match self.inputs.is_simulated() {
            true => self.simulated(f64::INFINITY)?,
            false => {
                let model = self.model_at(MOST_SECONDS);
                Expected::exactly(model.without_checkpoints_seconds(self.inputs.base_seconds))
            }
        };
        Ok(self.advised("no checkpoints", None, expected))
    }

    fn advised(&self, name: &str, interval_seconds: Option<f64>, expected: Expected) -> AdvisedInterval {
        AdvisedInterval {
            name: name.to_owned(),
            interval_seconds,
            overhead_ratio: finite(expected.seconds / self.inputs.base_seconds - 1.0),
            expected_seconds: finite(expected.seconds),
            standard_error_seconds: expected.standard_error_seconds.and_then(finite),
        }
    }

    fn model_at(&self, interval_seconds: f64) -> Poisson {
        let Inputs { costs, repair_seconds, .. } = *self.inputs;
        let rate = self.inputs.known_rate.rate();
        Poisson { rate, cost: costs.at(interval_seconds), repair_seconds }
    }

    /// Returns the mean running time of the simulated job with an interval.
    fn simulated(&self, interval_seconds: f64) -> Result<Expected, Error> {
        let Inputs { costs, repair_seconds, base_seconds, ref failures, nodes, .. } = *self.inputs;
        let job = SimulatedJob {
            base_seconds,
            phases: vec![CostPhase { until_seconds: f64::INFINITY, costs }],
            flushes: None,
            failures: NodeFailures { model: failures.clone(), nodes },
            repair_seconds,
        };
        let failures = self.inputs.known_rate.rate().get() * base_seconds;
        let events = base_seconds / interval_seconds + failures + 1.0;
        let runs = (EVENTS_MAX / events).clamp(5.0, f64::from(RUNS)) as u32;
        let times = simulate(&job, runs, 1, || FixedInterval(interval_seconds)).map_err(Error::Impossible)?;
        Ok(Expected { seconds: times.mean_seconds, standard_error_seconds: Some(times.standard_error_seconds) })
    }

    /// Returns how often a checkpoint in memory is worth a flush to the disk.
    fn levels(&self, best: &BestInterval) -> Option<AdvisedLevels> {
        let local = best.model.cost;
        let flush = self.inputs.flush_seconds?;
        let cost =
            |overhead: f64, latency: f64, recovery| CheckpointCost::new(overhead, latency.max(overhead), recovery);
        let levels = TwoLevels {
            rate: best.model.rate,
            mix: self.inputs.mix,
            local: cost(local.overhead_seconds(), local.overhead_seconds(), local.recovery_seconds()).ok()?,
            global: cost(local.overhead_seconds() + flush, flush, local.recovery_seconds()).ok()?,
            repair_seconds: best.model.repair_seconds,
        };
        let schedule = levels.best_schedule();
        if levels.rate.is_never() || schedule.global_every < 1.5 {
            // Each checkpoint may as well go to the disk at once.
            return None;
        }
        let interval_seconds = schedule.interval_seconds.clamp(LEAST_SECONDS, MOST_SECONDS);
        Some(AdvisedLevels {
            interval_seconds,
            flush_every: schedule.global_every.round().clamp(1.0, f64::from(u32::MAX)) as u32,
            local_share: self.inputs.mix.local_share(),
            overhead_ratio: finite(levels.overhead_ratio(schedule)),
        })
    }

    /// Returns what checkpoints at the best interval ask of the disk.
    fn disk(&self, best: &BestInterval) -> Option<AdvisedDisk> {
        let changed = self.inputs.changed?;
        let bytes_per_second = mean_bytes_per_second(changed, best.work_seconds);
        let speed = self.inputs.disk_bytes_per_second;
        Some(AdvisedDisk {
            bytes_per_second,
            busy_share: speed.map(|speed| bytes_per_second / speed).and_then(finite),
            shortest_interval_seconds: speed.and_then(|speed| shortest_interval_seconds(changed, speed)),
        })
    }

    /// Returns the expected overhead ratio at intervals around all that is advised.
    fn curve(&self) -> Vec<AdvicePoint> {
        let (low, high) = (LEAST_SECONDS, self.inputs.base_seconds.clamp(LEAST_SECONDS * 10.0, MOST_SECONDS));
        let step = (high / low).ln() / f64::from(POINTS - 1);
        let point = |at: u32| {
            let interval_seconds = low * (step * f64::from(at)).exp();
            let model = self.model_at(interval_seconds);
            let ratio = model.overhead_ratio(interval_seconds + model.cost.hidden_seconds());
            ratio.is_finite().then_some(AdvicePoint { interval_seconds, value: ratio })
        };
        (0..POINTS).filter_map(point).collect()
    }

    /// Returns what each checkpoint has cost, at the time since the one before.
    fn measured(&self) -> Vec<AdvicePoint> {
        let points = self
            .history
            .measured()
            .map(|it| AdvicePoint { interval_seconds: it.work_seconds, value: it.overhead_seconds });
        points.filter(|point| point.interval_seconds > 0.0).collect()
    }
}

/// Returns the number, if it is one that can be shown.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Names the equation, with its numbers.
fn equation(best: &BestInterval) -> String {
    let Poisson { rate, cost, .. } = best.model;
    if rate.is_never() {
        return "nothing fails: every checkpoint only costs time".to_owned();
    }
    format!(
        "e^(R (T + O)) (1 - R T) = 1 (Vaidya 1997) for R = {:.3e} failures a second and O = {:.3} s, with O and the latency \
         L = {:.3} s as they are after T = {:.1} s of work",
        rate.get(),
        cost.overhead_seconds(),
        cost.latency_seconds(),
        best.work_seconds,
    )
}

#[cfg(test)]
mod tests;
