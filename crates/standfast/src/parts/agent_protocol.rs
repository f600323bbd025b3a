//! What the coordinator and the agent of a node say to each other, over the streams of the command that reaches the node: a
//! JSON object a line.

use crate::doctor::Finding;
use crate::report::JobPhase;
use serde::{Deserialize, Serialize};
use standfast_parts::{CutOrder, FromPart, PartsEpoch, SealedEpoch, ToPart};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The version of this command. That of a node must be the same.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the coordinator says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AgentRequest {
    /// Which part the agent speaks for. It comes first.
    Part(PartPlace),
    /// Begin the part.
    Begin {
        /// The job's secret, in hexadecimal digits.
        secret: String,
        /// Protection options, as words of a command line.
        options: Vec<String>,
        /// Where its commands run.
        working_directory: PathBuf,
        /// Where checkpoints in memory go, if a directory was named.
        memory: Option<PathBuf>,
        /// The command of the job, for the first part.
        command: Option<PartCommand>,
    },
    /// Can the servers of all nodes be reached from this one?
    Reach(Vec<SocketAddr>),
    /// The servers of all nodes. The command begins then.
    Nodes(Vec<(String, SocketAddr)>),
    /// Take the part's checkpoint of an epoch.
    Cut(CutOrder),
    /// For the cut or restart under way.
    Say(ToPart),
    /// Does the part run, and which epochs has it sealed?
    Look {
        /// Whether to wait first for what is about to end, since the part is to be continued.
        awaits_end: bool,
    },
    /// Follow a part that runs already.
    Follow,
    /// Continue the part together with the others.
    Restart {
        /// From this generation.
        generation: u64,
        /// See [`standfast_engine::RestartToken`].
        token: [u8; 16],
        /// Options, as words of a command line.
        options: Vec<String>,
    },
    /// End all processes of the part.
    End {
        /// Whether the command has succeeded: nothing in memory is needed any more.
        is_finished: bool,
    },
    /// Find out what the node supports.
    Examine,
    /// Verify every byte of the part's checkpoints.
    Verify,
    /// Remove the part, or only say what would be removed. It does not run.
    Remove {
        /// Whether nothing is to be removed.
        is_dry_run: bool,
    },
}

/// The command of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartCommand {
    /// The command and its arguments.
    pub(super) words: Vec<String>,
    /// The environment in which it was typed.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// Which part of which job an agent speaks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartPlace {
    /// The job's directory.
    pub(super) directory: PathBuf,
    /// The position of the part.
    pub(super) index: usize,
    /// The name of its node.
    pub(super) node: String,
    /// The version of the coordinator.
    pub(super) version: String,
}

/// What an agent says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AgentReport {
    /// The agent speaks for the part.
    Here,
    /// The server of the part waits for commands.
    Ready {
        /// Its address.
        server: SocketAddr,
    },
    /// The servers of all nodes can be reached.
    Reached,
    /// From the part, in a cut or a restart.
    Part {
        /// The random number of the cut, or nothing for a restart: something may come late, when the next cut is under way.
        cut: Option<u64>,
        /// What it says.
        said: FromPart,
    },
    /// What the part has on disk, if it has a level in memory as well.
    OnDisk(Vec<PartsEpoch>),
    /// What there is of the part.
    Found(FoundPart),
    /// What the node supports.
    Examined(Vec<Finding>),
    /// What its checkpoints are worth: what is wrong with each that is damaged.
    Verified {
        /// How many are good.
        good: usize,
        /// Why others are not.
        damage: Vec<String>,
    },
    /// What was removed, or would be.
    Removed {
        /// How many checkpoints.
        checkpoints: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// What the program has printed since.
    Output {
        /// Whether it is an error.
        is_error: bool,
        /// Bytes, in hexadecimal digits.
        bytes: String,
    },
    /// The supervisor of the part is gone, and its processes run on without checkpoints.
    Unprotected,
    /// The part has ended.
    Ended {
        /// The exit status of its main process, if it has exited.
        status: Option<i32>,
    },
    /// The agent could not do what it was asked for.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// What an agent finds of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FoundPart {
    /// The state of its job.
    pub(super) phase: JobPhase,
    /// Its checkpoints.
    pub(super) epochs: Vec<RecordedEpoch>,
}

impl FoundPart {
    /// Returns its checkpoints on disk.
    pub(super) fn on_disk(&self) -> impl Iterator<Item = &RecordedEpoch> {
        self.epochs.iter().filter(|it| it.is_on_disk)
    }

    /// Reports whether its processes run.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, JobPhase::Running | JobPhase::Unprotected | JobPhase::Elsewhere)
    }
}

/// A checkpoint of a part.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RecordedEpoch {
    pub(super) epoch: PartsEpoch,
    pub(super) generation: u64,
    /// How old it is, by the clock of its node.
    pub(super) age_milliseconds: u64,
    /// Length of its file.
    pub(super) bytes: u64,
    /// How long the part was frozen for it.
    pub(super) pause_nanoseconds: u64,
    /// Whether it is on disk, not only in the memory of its node.
    pub(super) is_on_disk: bool,
}

impl From<RecordedEpoch> for SealedEpoch {
    fn from(recorded: RecordedEpoch) -> Self {
        Self { epoch: recorded.epoch, generation: recorded.generation }
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that hexadecimal digits stand for.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_as_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("zz"), None);
    }
}
