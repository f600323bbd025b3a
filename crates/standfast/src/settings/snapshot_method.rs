//! How a checkpoint captured the memory of a job, and why in that way: the words of reports and of JSON.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How memory was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// See [`Snapshot::Sequential`](super::Snapshot::Sequential).
    #[default]
    Sequential,
    /// See [`Snapshot::Copy`](super::Snapshot::Copy).
    Copy,
    /// See [`Snapshot::Fork`](super::Snapshot::Fork).
    Fork,
    /// See [`Snapshot::Precopy`](super::Snapshot::Precopy).
    Precopy,
}

/// Why the method was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The user asked for it.
    #[default]
    Asked,
    /// The program ends after the checkpoint.
    Stop,
    /// It costs the program least.
    Cheapest,
    /// Other methods would cost less, but there is not enough memory for them.
    Memory,
    /// Its cost was not known, or was measured too long ago.
    Trial,
    /// A process could not be cloned.
    NoClone,
    /// The kernel does not track what the program writes.
    Untracked,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Copy => "copy",
            Self::Fork => "fork",
            Self::Precopy => "precopy",
        })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "as requested",
            Self::Stop => "because the program stops after it",
            Self::Cheapest => "expected to cost the program least",
            Self::Trial => "to measure its cost",
            Self::Memory => "because cheaper methods need more memory",
            Self::NoClone => "because a process could not be cloned",
            Self::Untracked => "because the kernel does not track the program's writes",
        })
    }
}
