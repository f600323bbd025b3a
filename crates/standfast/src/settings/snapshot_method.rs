//! How the memory of a job is taken at a checkpoint, and why in that way: the words of the option, of reports and of JSON.

use super::option_kinds::words;
use serde::{Deserialize, Serialize};
use std::fmt;

words! {
    /// How memory is taken while the program stands still, with the names that the papers of 1995 and 1996 have as well.
    kept Snapshot, "is not a snapshot method",
    /// It is written as it is read; the program goes on when all has been handed to the file system (L5).
    Sequential = "sequential",
    /// It is copied and written when the program runs on, as far as half of the free memory goes.
    Copy = "copy" | "main-memory",
    /// It is read and written when the program runs on, from clones of its processes (L8).
    Fork = "fork" | "copy-on-write",
    /// It is read while the program runs, and what the program writes meanwhile is read again when it stands still (L8).
    Precopy = "precopy",
    /// That which costs the program least time, as earlier checkpoints and the memory at hand say.
    #[default]
    Auto = "auto",
}

/// How memory was taken.
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

/// Why it was taken so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was asked for.
    #[default]
    Asked,
    /// The program ends behind the checkpoint.
    Stop,
    /// It costs the program least.
    Cheapest,
    /// Others would cost less, and there is not the memory for them.
    Memory,
    /// What it takes was not known, or has been so long ago.
    Trial,
    /// A process could not be cloned.
    NoClone,
    /// The kernel does not note what the program writes.
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
