//! What is recorded of a distributed job, beside the checkpoints of its parts: its nodes and its command, in the job's
//! directory; and for each part what its server needs, in the directory of the part.

use super::agent_protocol::PartCommand;
use crate::settings::{DurableEvery, FlushEvery};
use crate::{Error, Interval, MeanTime, OptionChoices};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use standfast_parts::PartsEpoch;
use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File in the job's directory.
const JOB_FILE: &str = "distributed.json";
/// Files in the directory of a part.
const PART_FILE: &str = "part.json";
const SECRET_FILE: &str = "secret";
const NODES_FILE: &str = "nodes";
const ADDRESS_FILE: &str = "address";
const OUTPUT_FILE: &str = "output";
const ERRORS_FILE: &str = "errors";
const HOSTS_FILE: &str = "hosts";
const SHELL_FILE: &str = "rsh";

/// A distributed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DistributedJob {
    /// Its nodes. The command runs on the first one.
    pub(super) nodes: Vec<String>,
    /// The command and its arguments.
    pub(super) command: Vec<String>,
    /// The command that reaches a node.
    pub(super) agent: String,
    /// When checkpoints are taken, and how often the job fails, as the options say it.
    pub(super) interval: String,
    pub(super) mtbf: String,
    /// How long the parts may be frozen for a checkpoint, in milliseconds.
    pub(super) pause_limit_milliseconds: u64,
    /// Which checkpoints in memory are flushed to the disk, if there is a level in memory.
    pub(super) flushes: Option<FlushRule>,
    /// Epochs after which the command soon failed. A restart passes over them.
    pub(super) in_doubt: Vec<PartsEpoch>,
}

/// Which checkpoints in memory are flushed to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlushRule {
    /// Every Nth.
    pub(super) every: NonZeroU32,
    /// The longest time, in milliseconds, that the newest one on disk may lag behind.
    pub(super) durable_every_milliseconds: u64,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartDescription {
    /// The name of its node.
    pub(super) node: String,
    /// Where the command runs.
    pub(super) working_directory: PathBuf,
    /// The command, if it is the first part.
    pub(super) command: Option<PartCommand>,
}

impl Default for FlushRule {
    fn default() -> Self {
        Self {
            every: FlushEvery::default().at_first(),
            durable_every_milliseconds: milliseconds(DurableEvery::default()),
        }
    }
}

impl FlushRule {
    fn with(self, options: &OptionChoices) -> Self {
        Self {
            every: options.flush_every.map_or(self.every, FlushEvery::at_first),
            durable_every_milliseconds: options.durable_every.map_or(self.durable_every_milliseconds, milliseconds),
        }
    }
}

fn milliseconds(time: DurableEvery) -> u64 {
    time.get().as_millis() as u64
}

impl DistributedJob {
    /// Returns the job with these options, as far as they are the coordinator's.
    pub(super) fn with(self, options: &OptionChoices) -> Self {
        let flushes = match &options.memory {
            Some(memory) => memory.place().map(|_| self.flushes.unwrap_or_default()),
            None => self.flushes,
        };
        Self {
            interval: options.interval.as_ref().map_or(self.interval, ToString::to_string),
            mtbf: options.mtbf.as_ref().map_or(self.mtbf, ToString::to_string),
            flushes: flushes.map(|rule| rule.with(options)),
            ..self
        }
    }

    /// Returns a job that has nodes only.
    pub(super) fn of_nodes(nodes: Vec<String>, agent: &str) -> Self {
        Self {
            nodes,
            command: Vec::new(),
            agent: agent.to_owned(),
            interval: Interval::Off.to_string(),
            mtbf: MeanTime::default().to_string(),
            pause_limit_milliseconds: 0,
            flushes: None,
            in_doubt: Vec::new(),
        }
    }

    /// Reports whether a directory is that of a distributed job.
    pub(super) fn is_at(directory: &Path) -> bool {
        directory.join(JOB_FILE).exists()
    }

    pub(super) fn load(directory: &Path) -> Result<Self, Error> {
        load(&directory.join(JOB_FILE))
    }

    pub(super) fn save(&self, directory: &Path) -> Result<(), Error> {
        save(&directory.join(JOB_FILE), self)
    }

    /// Removes what is recorded of it.
    pub(super) fn forget(directory: &Path) -> Result<(), Error> {
        fs::remove_file(directory.join(JOB_FILE)).map_err(Error::system("remove a file of the distributed job"))
    }
}

/// The directory of a part, and the files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartDirectory(PathBuf);

impl PartDirectory {
    /// Returns that of a part, by its position.
    pub(super) fn of(job: &Path, index: usize) -> Self {
        Self(job.join(format!("part-{index}")))
    }

    pub(super) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, for this user only.
    pub(super) fn make(&self) -> Result<(), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(Error::system("make the directory of a part"))
    }

    /// The job's own directory, with its checkpoints.
    pub(super) fn job(&self) -> PathBuf {
        self.0.join("job")
    }

    pub(super) fn description(&self) -> Result<PartDescription, Error> {
        load(&self.0.join(PART_FILE))
    }

    pub(super) fn describe(&self, description: &PartDescription) -> Result<(), Error> {
        save(&self.0.join(PART_FILE), description)
    }

    pub(super) fn secret(&self) -> PathBuf {
        self.0.join(SECRET_FILE)
    }

    /// The nodes of the job and the addresses of their servers, as `standfast_remote` reads them.
    pub(super) fn nodes(&self) -> PathBuf {
        self.0.join(NODES_FILE)
    }

    /// The address of this part's server.
    pub(super) fn address(&self) -> PathBuf {
        self.0.join(ADDRESS_FILE)
    }

    /// The names of the nodes, for launchers.
    pub(super) fn hosts(&self) -> PathBuf {
        self.0.join(HOSTS_FILE)
    }

    /// The remote shell of launchers.
    pub(super) fn shell(&self) -> PathBuf {
        self.0.join(SHELL_FILE)
    }

    pub(super) fn output(&self) -> PathBuf {
        self.0.join(OUTPUT_FILE)
    }

    pub(super) fn errors(&self) -> PathBuf {
        self.0.join(ERRORS_FILE)
    }
}

/// Writes a file whole, or not at all.
pub(super) fn write(path: &Path, mode: u32, contents: &[u8]) -> Result<(), Error> {
    let beside = path.with_extension("new");
    let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside);
    let written = written.and_then(|mut file| file.write_all(contents).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&beside, path)).map_err(Error::system("write a file of the distributed job"))
}

pub(super) fn load<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let read = fs::read(path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    read.map_err(Error::system("read a file of the distributed job"))
}

pub(super) fn save(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write(path, 0o600, &serde_json::to_vec_pretty(value).expect("it is plain data"))
}
