//! Facts about a job of several nodes.

use super::{InspectionReport, JobPhase};
use serde::Serialize;
use std::path::PathBuf;

/// A job of several nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistributedReport {
    /// The job's directory.
    pub directory: PathBuf,
    /// Its command.
    pub command: Vec<String>,
    /// The state of the whole: that of the part where the command runs, or unprotected if nobody takes checkpoints of it.
    pub phase: JobPhase,
    /// Its coordinator, by process id and host; `None` if no command steers it.
    pub coordinator: Option<String>,
    /// Why the last checkpoint was given up, if it was.
    pub given_up: Option<String>,
    /// Its nodes; the command runs on the first one.
    pub nodes: Vec<NodeReport>,
    /// The checkpoints of all parts, oldest first.
    pub epochs: Vec<EpochReport>,
}

/// A node of such a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub node: String,
    /// The state of its part.
    pub phase: JobPhase,
    /// Number of checkpoints of its part, complete or not.
    pub checkpoints: u64,
    /// Their length in bytes.
    pub bytes: u64,
}

/// A checkpoint of all parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochReport {
    /// Its number.
    pub epoch: u64,
    /// Its age, by the clock of the first node.
    pub age_seconds: f64,
    /// The generation of each part, in the order of the nodes.
    pub generations: Vec<u64>,
    /// Length of all images in bytes.
    pub bytes: u64,
    /// The longest time for which a part was frozen.
    pub pause_nanoseconds: u64,
    /// Whether the command failed soon after it: a restart passes over it.
    pub is_in_doubt: bool,
    /// Whether all nodes have it on disk. Otherwise it is lost with the memory of a node.
    pub is_on_disk: bool,
}

/// What the image of a node holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeInspection {
    /// Its name.
    pub node: String,
    /// The number of the checkpoint of all nodes that the image belongs to.
    pub epoch: u64,
    /// The image.
    pub image: InspectionReport,
}

/// What the checkpoints of a node are worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeVerification {
    /// Its name.
    pub node: String,
    /// How many are as they were written.
    pub good: usize,
    /// What is wrong with each of the others.
    pub damage: Vec<String>,
}
