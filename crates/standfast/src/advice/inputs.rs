//! What advice is based on: what the user says, then what was measured, then what is assumed of an ordinary machine.

use super::quantities::{ByteCount, ByteRate};
use super::recorded::recorded_gaps_seconds;
use crate::Error;
use crate::history::JobHistory;
use crate::report::{AdviceInput, InputSource};
use crate::settings::MeanTime;
use standfast_cost::{CostCurves, CostError, Curve, FailureMix, FailureModel, FailureRate, KnownRate};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Pause for a checkpoint of a small program.
const PAUSE_SECONDS: f64 = 0.005;

/// How fast memory is copied while the program is stopped, in bytes in a second.
const COPY_RATE: f64 = 4e9;

/// How fast a disk writes and reads, in bytes in a second: an ordinary SSD.
const DISK_RATE: f64 = 500e6;

/// Time to rebuild a job, besides reading its memory.
const REBUILD_SECONDS: f64 = 0.2;

/// Running time of a job that says nothing about it: a week.
const BASE_SECONDS: f64 = 7.0 * 86_400.0;

/// What a user says of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobDescriptionForAdvice {
    /// Memory that it uses, on each node.
    pub size: Option<ByteCount>,
    /// Memory that it changes in a second, on each node. If absent, all of it changes between two checkpoints.
    pub changes: Option<ByteRate>,
    /// How fast each node writes checkpoints.
    pub disk: Option<ByteRate>,
    /// Mean time between failures of one node.
    pub mtbf: MeanTime,
    /// Number of nodes.
    pub nodes: Option<NonZeroU32>,
    /// Shape of Weibull's distribution of the times between failures of a node, if they do not come at a constant rate.
    pub weibull: Option<f64>,
    /// File that lists the times of failures of the whole job. They take the place of the mean time.
    pub failures: Option<PathBuf>,
    /// Running time without failures and checkpoints.
    pub base: Option<Duration>,
    /// Time from a failure until a machine is there again.
    pub repair: Option<Duration>,
    /// Percentage of the failures that leave checkpoints in memory usable.
    pub local_percent: Option<f64>,
}

/// What advice is computed from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Inputs {
    /// Failures of the whole job.
    pub(super) known_rate: KnownRate,
    pub(super) costs: CostCurves,
    pub(super) repair_seconds: f64,
    pub(super) base_seconds: f64,
    pub(super) nodes: u32,
    /// Failures of one node, or those that were recorded of all.
    pub(super) failures: FailureModel,
    pub(super) mix: FailureMix,
    /// What it takes to flush a checkpoint to the disk; `None` if that is not known.
    pub(super) flush_seconds: Option<f64>,
    /// Bytes that change between two checkpoints, on each node.
    pub(super) changed: Option<Curve>,
    /// How fast the disk of a node writes.
    pub(super) disk_bytes_per_second: Option<f64>,
    listed: Vec<AdviceInput>,
}

/// What checkpoints cost, and why.
struct Costs {
    curves: CostCurves,
    flush_seconds: Option<f64>,
    changed: Option<Curve>,
    disk_bytes_per_second: Option<f64>,
}

impl Inputs {
    pub(super) fn gather(
        described: &JobDescriptionForAdvice,
        history: &JobHistory,
        is_running: bool,
    ) -> Result<Self, Error> {
        let mut listed = Vec::new();
        let Costs { curves: costs, flush_seconds, changed, disk_bytes_per_second } =
            costs(described, history, &mut listed)?;
        let nodes = described.nodes.map_or(1, NonZeroU32::get);
        let gaps_seconds = described.failures.as_deref().map(recorded_gaps_seconds).transpose()?;
        let told = match &gaps_seconds {
            Some(gaps) => {
                let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
                Some(FailureRate::of_mean_time(mean).map_err(Error::Impossible)?)
            }
            None => described.mtbf.rate().map(|rate| rate.of_nodes(nodes)),
        };
        let known_rate = KnownRate::of(told, history.failures(is_running), nodes);
        let from = match known_rate {
            KnownRate::Told { .. } => InputSource::Told,
            KnownRate::Observed { .. } => InputSource::Measured,
            KnownRate::Assumed { .. } => InputSource::Assumed,
        };
        listed.push(AdviceInput::seconds("mean time between failures", known_rate.rate().mean_time_seconds(), from));
        let base = told_or(&mut listed, "running time", described.base, BASE_SECONDS);
        let repair_seconds = told_or(&mut listed, "repair time", described.repair, 0.0);
        // No job that runs for no time can be late.
        let base_seconds = base.max(1.0);
        let mix = match described.local_percent {
            Some(percent) => FailureMix::new(percent / 100.0).map_err(|_| {
                let what = "the percentage of failures that memory survives";
                Error::Impossible(CostError { what, value: percent, must: "from 0 to 100" })
            })?,
            None => FailureMix::default(),
        };
        let of_node = FailureRate::per_second(known_rate.rate().get() / f64::from(nodes)).map_err(Error::Impossible)?;
        let failures = match (gaps_seconds, described.weibull) {
            (Some(gaps_seconds), _) => FailureModel::Recorded { gaps_seconds },
            (None, Some(shape)) if !of_node.is_never() => {
                FailureModel::Weibull { shape, mean_time_seconds: of_node.mean_time_seconds() }
            }
            _ => FailureModel::Poisson { rate: of_node },
        };
        Ok(Self {
            known_rate,
            costs,
            repair_seconds,
            base_seconds,
            nodes,
            failures,
            mix,
            flush_seconds,
            changed,
            disk_bytes_per_second,
            listed,
        })
    }

    /// Reports whether the job is simulated: where the equations do not cover it, and where many nodes may fail while it
    /// recovers.
    pub(super) fn is_simulated(&self) -> bool {
        self.nodes > 1 || !matches!(self.failures, FailureModel::Poisson { .. })
    }

    pub(super) fn listed(&self) -> Vec<AdviceInput> {
        self.listed.clone()
    }
}

fn told_or(listed: &mut Vec<AdviceInput>, name: &str, told: Option<Duration>, assumed: f64) -> f64 {
    let (seconds, from) = match told {
        Some(time) => (time.as_secs_f64(), InputSource::Told),
        None => (assumed, InputSource::Assumed),
    };
    listed.push(AdviceInput::seconds(name, seconds, from));
    seconds
}

/// Returns what checkpoints cost.
fn costs(
    described: &JobDescriptionForAdvice,
    history: &JobHistory,
    listed: &mut Vec<AdviceInput>,
) -> Result<Costs, Error> {
    let measured = history.chooser().curves();
    match (described.size, measured) {
        (None, Some(costs)) => {
            let minute = costs.at(60.0);
            let mut list = |name, seconds| listed.push(AdviceInput::seconds(name, seconds, InputSource::Measured));
            list("overhead of a checkpoint after a minute", minute.overhead_seconds());
            list("latency of a checkpoint after a minute", minute.latency_seconds());
            list("recovery time", minute.recovery_seconds());
            let changed = history.changed_bytes();
            listed.extend(changed.map(|changed| {
                AdviceInput::bytes("memory that changes in a minute", changed.at(60.0), InputSource::Measured)
            }));
            let flush_seconds = history.flush_seconds();
            Ok(Costs { curves: costs, flush_seconds, changed, disk_bytes_per_second: None })
        }
        (None, None) => Err(Error::NothingKnown),
        (Some(size), _) => {
            let size = size.get() as f64;
            listed.push(AdviceInput::bytes("memory", size, InputSource::Told));
            let changed = match described.changes {
                Some(rate) => {
                    listed.push(AdviceInput::rate("changed memory", rate.get() as f64, InputSource::Told));
                    Curve::growing(rate.get() as f64, size)
                }
                None => {
                    listed.push(AdviceInput::bytes("changed between two checkpoints", size, InputSource::Assumed));
                    Curve::constant(size)
                }
            };
            let (disk, from) = match described.disk {
                Some(rate) => (rate.get() as f64, InputSource::Told),
                None => (DISK_RATE, InputSource::Assumed),
            };
            listed.push(AdviceInput::rate("disk", disk, from));
            listed.push(AdviceInput::rate("copying memory", COPY_RATE, InputSource::Assumed));
            let curves = CostCurves {
                overhead: changed.scaled(PAUSE_SECONDS, 1.0 / COPY_RATE),
                latency: changed.scaled(PAUSE_SECONDS, 1.0 / COPY_RATE + 1.0 / disk),
                recovery_seconds: REBUILD_SECONDS + size / disk,
            };
            // A flush beside the program takes its processors a second time for what it copies.
            let flush_seconds = Some(size / COPY_RATE);
            Ok(Costs { curves, flush_seconds, changed: Some(changed), disk_bytes_per_second: Some(disk) })
        }
    }
}
