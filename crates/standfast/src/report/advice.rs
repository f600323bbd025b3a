//! Advice on the interval of a job.

use serde::Serialize;

/// Which interval is best for a job, and what is expected with it. Times are in seconds; a number that is absent would be
/// infinite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceReport {
    /// What it is based on.
    pub inputs: Vec<AdviceInput>,
    /// Running time without failures and checkpoints.
    pub base_seconds: f64,
    /// Mean time between failures of the whole job.
    pub mean_time_seconds: Option<f64>,
    /// The equation, with its numbers.
    pub equation: String,
    /// The best interval.
    pub interval_seconds: f64,
    /// How much longer the job is expected to run with it, as a fraction.
    pub overhead_ratio: Option<f64>,
    /// Running time from which on checkpoints are worth it; `None` if they never are.
    pub pays_from_seconds: Option<f64>,
    /// Whether they are worth it for this job.
    pub is_worth: bool,
    /// The best interval and others; no checkpoints last.
    pub alternatives: Vec<AdvisedInterval>,
    /// The best schedule with a level in memory, if its cost is known.
    pub levels: Option<AdvisedLevels>,
    /// What checkpoints at the best interval ask of the disk; `None` if it is not known how much memory changes.
    pub disk: Option<AdvisedDisk>,
    /// The expected overhead ratio at many intervals.
    pub curve: Vec<AdvicePoint>,
    /// What each checkpoint of the job has cost, in seconds.
    pub measured: Vec<AdvicePoint>,
}

/// An input of the advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceInput {
    /// What it is.
    pub name: String,
    /// Its value; absent if it is infinite.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: InputUnit,
    /// How it is known.
    pub from: InputSource,
}

/// Unit of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputUnit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
}

/// How an input is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSource {
    /// The user has said it.
    Told,
    /// It was measured in this job.
    Measured,
    /// It is assumed of an ordinary machine.
    Assumed,
}

/// What is expected with an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedInterval {
    /// What distinguishes it.
    pub name: String,
    /// Time from the end of a checkpoint until the next one; `None` without checkpoints.
    pub interval_seconds: Option<f64>,
    /// How much longer the job is expected to run, as a fraction; absent if it would never end.
    pub overhead_ratio: Option<f64>,
    /// Expected running time; absent if it would never end.
    pub expected_seconds: Option<f64>,
    /// Standard error of that time, if it was simulated.
    pub standard_error_seconds: Option<f64>,
}

/// The best schedule with a level in memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedLevels {
    /// Time between two checkpoints in memory.
    pub interval_seconds: f64,
    /// Each checkpoint of this number is flushed to the disk.
    pub flush_every: u32,
    /// Share of the failures that checkpoints in memory survive.
    pub local_share: f64,
    /// How much longer the job is expected to run, as a fraction.
    pub overhead_ratio: Option<f64>,
}

/// What checkpoints of one node ask of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvisedDisk {
    /// Bytes that they write in a second on average, before compression.
    pub bytes_per_second: f64,
    /// Part of the time for which the disk writes them, if its speed is known.
    pub busy_share: Option<f64>,
    /// Shortest interval at which the disk suffices; `None` if its speed is not known, or if it never does.
    pub shortest_interval_seconds: Option<f64>,
}

/// A point of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvicePoint {
    /// Time between two checkpoints.
    pub interval_seconds: f64,
    /// The value there.
    pub value: f64,
}

impl AdviceInput {
    pub(crate) fn seconds(name: &str, seconds: f64, from: InputSource) -> Self {
        Self::of(name, seconds, InputUnit::Seconds, from)
    }

    pub(crate) fn bytes(name: &str, bytes: f64, from: InputSource) -> Self {
        Self::of(name, bytes, InputUnit::Bytes, from)
    }

    pub(crate) fn rate(name: &str, bytes: f64, from: InputSource) -> Self {
        Self::of(name, bytes, InputUnit::BytesPerSecond, from)
    }

    fn of(name: &str, value: f64, unit: InputUnit, from: InputSource) -> Self {
        Self { name: name.to_owned(), value: value.is_finite().then_some(value), unit, from }
    }
}
