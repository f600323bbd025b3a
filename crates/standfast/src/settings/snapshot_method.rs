//! How a checkpoint captures the memory of a job, and why in that way: the words of the option, of reports and of JSON.

use super::option_kinds::words;
use serde::{Deserialize, Serialize};
use std::fmt;

words! {
    /// How memory is captured while the program is frozen. Some names are also those of the papers of 1995 and 1996.
    kept Snapshot, "is not a snapshot method",
    /// Memory is written as it is read. The program continues after all of it has been handed to the file system (L5).
    Sequential = "sequential",
    /// Memory is copied, up to half of the free memory, and written after the program continues.
    Copy = "copy" | "main-memory",
    /// Memory is read from clones of the processes and written after the program continues (L8).
    Fork = "fork" | "copy-on-write",
    /// Memory is read while the program runs. Pages that the program writes meanwhile are read again while it is frozen
    /// (L8).
    Precopy = "precopy",
    /// The method that costs the program least time, judging by earlier checkpoints and the available memory.
    #[default]
    Auto = "auto",
}

/// How memory was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// See [`Snapshot::Sequential`].
    #[default]
    Sequential,
    /// See [`Snapshot::Copy`].
    Copy,
    /// See [`Snapshot::Fork`].
    Fork,
    /// See [`Snapshot::Precopy`].
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
