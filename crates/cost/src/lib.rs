//! What checkpoints cost, and what they save: the equations of the papers, and a simulator for what has no equation. Pure:
//! times, rates and random seeds are arguments.
//!
//! ```text
//! failure_rate      how often the job fails: told, observed or assumed
//! checkpoint_cost   overhead, latency and recovery time of a checkpoint
//! poisson           Vaidya's equations: the best interval, and the expected running time
//! young_daly        Young's and Daly's approximations of the best interval
//! levels            two levels: how often to flush to the one that survives more
//! increments        overhead of sequential, incremental and compressed checkpoints
//! curve             a quantity that grows with the interval, fitted to what was measured
//! choice            the best interval if costs grow with the interval
//! chooser           the same while a job runs: learns from each checkpoint
//! simulation        a job under failures of any distribution
//! ```
//!
//! Times are in seconds, sizes in bytes, rates per second. A result is never NaN. It is infinite where a job would never
//! end, and the documentation says so.
//!
//! ```
//! use standfast_cost::{CheckpointCost, FailureRate, Poisson};
//!
//! // One failure a day, and a checkpoint that costs the program two seconds.
//! let rate = FailureRate::of_mean_time(86_400.0)?;
//! let cost = CheckpointCost::new(2.0, 10.0, 15.0)?;
//! let model = Poisson { rate, cost, repair_seconds: 0.0 };
//! let interval = model.best_interval_seconds();
//! assert!((580.0..590.0).contains(&interval));
//! assert!(model.overhead_ratio(interval) < 0.01);
//! # Ok::<(), standfast_cost::CostError>(())
//! ```
#![forbid(unsafe_code)]

mod bandwidth;
mod checkpoint_cost;
mod choice;
mod chooser;
mod curve;
mod error;
mod failure_rate;
mod increments;
mod levels;
mod poisson;
mod search;
mod simulation;
mod young_daly;

pub use bandwidth::{mean_bytes_per_second, shortest_interval_seconds};
pub use checkpoint_cost::{CheckpointCost, CostCurves};
pub use choice::{BestInterval, best_interval};
pub use chooser::{IntervalChooser, MeasuredCheckpoint};
pub use curve::{Curve, CurveEstimate};
pub use error::CostError;
pub use failure_rate::{ASSUMED_MEAN_TIME_SECONDS, FailureHistory, FailureRate, KnownRate, RateEstimate};
pub use increments::{CheckpointSizes, DeviceRates, OnlineSizes, compression_pays};
pub use levels::{FailureMix, LevelSchedule, TwoLevels};
pub use poisson::Poisson;
pub use simulation::{
    AutomaticInterval, CostPhase, FailureModel, FixedInterval, FlushPlan, IntervalPolicy, NodeFailures, SimulatedJob,
    SimulatedTimes, simulate,
};
pub use young_daly::{daly_interval_seconds, young_interval_seconds};
