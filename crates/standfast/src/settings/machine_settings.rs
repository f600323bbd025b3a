//! What concerns the machine of a life and not the job, so that no manifest keeps it.

use crate::watch::WatchNotice;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the machine on which a life runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineSettings {
    /// What is watched for a notice that this machine is about to be taken away.
    pub watch_notice: Option<WatchNotice>,
    /// The file to which metrics are written.
    pub metrics: Option<PathBuf>,
    /// Who is notified if checkpoints fail for long.
    pub notify: Option<Notify>,
}

/// A command that notifies somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// The command of the shell.
    pub command: String,
    /// Time without a checkpoint after which it is run.
    pub after: Duration,
}
