//! How long a restart took.

use serde::{Deserialize, Serialize};

/// How long a restart took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartReport {
    /// Number of the checkpoint.
    pub generation: u64,
    /// Time from the beginning of the restart until the program ran.
    pub nanoseconds: u64,
    /// Its phases, in order.
    pub phases: Vec<PhaseReport>,
}

/// A phase of a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// What was done, in one word.
    pub name: String,
    /// How long it took.
    pub nanoseconds: u64,
}
