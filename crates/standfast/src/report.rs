//! Facts about a job and its checkpoints, for people and programs to read. Plain data; what a field means and its unit
//! stand in its name, since these names are also those of the command's JSON.

use crate::settings::{FlushReport, JobOptions, Method, Why};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A checkpoint that has become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
pub struct CheckpointReport {
    /// Its generation.
    pub generation: u64,
    /// Threads that stood still.
    pub tasks: u64,
    /// Processes that they belong to.
    #[serde(default)]
    pub processes: u64,
    /// The generation that it builds upon; none for a full one.
    pub parent: Option<u64>,
    /// Pages of the program that hold something.
    pub pages_scanned: u64,
    /// Those of them that were read, since they had changed or may have.
    pub pages_read: u64,
    /// Pages that stand in the image.
    pub pages_stored: u64,
    /// Huge pages of the program that are small ones since they were tracked, and have not been made huge again.
    #[serde(default)]
    pub huge_pages_split: u64,
    /// First writes of the program to tracked pages since the checkpoint before.
    #[serde(default)]
    pub first_writes: u64,
    /// What these took, by what one takes in the supervisor's own memory.
    #[serde(default)]
    pub first_writes_nanoseconds: u64,
    /// Length of the image.
    pub file_bytes: u64,
    /// When it was taken, in nanoseconds since 1970.
    pub taken_nanoseconds: u64,
    /// How long the program stood still.
    pub pause_nanoseconds: u64,
    /// How much of that it took to find out what it holds and what has changed.
    pub scanning_nanoseconds: u64,
    /// From the start of the checkpoint until it counted: durable on the disk, or complete in memory.
    pub durable_nanoseconds: u64,
    /// How memory was taken.
    #[serde(default)]
    pub method: Method,
    /// Why it was taken so.
    #[serde(default)]
    pub why: Why,
    /// How long the program was expected to stand still, where that was known.
    #[serde(default)]
    pub expected_pause_nanoseconds: Option<u64>,
    /// Whether it is in memory, and on the disk only when it has been flushed.
    #[serde(default)]
    pub is_in_memory: bool,
}

/// What became of checkpoints that build upon each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoalescingReport {
    /// The generation that is full now; none where there was nothing to coalesce.
    pub generation: Option<u64>,
    /// Length of its image.
    pub file_bytes: u64,
    /// Older generations that have gone for that.
    pub removed: u64,
}

/// What was removed of a job, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CleaningReport {
    /// The job's directory.
    pub directory: PathBuf,
    /// Whether nothing was removed in truth.
    pub is_dry_run: bool,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes that this gives back.
    pub bytes: u64,
    /// Names in the directory that are none of Standfast's; it stays because of them.
    pub left: Vec<String>,
}

/// What only a live supervisor knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveReport {
    /// The supervisor.
    pub supervisor_pid: i32,
    /// The job's main process.
    pub program_pid: i32,
    /// Whether a checkpoint is being taken at this moment.
    pub is_checkpointing: bool,
    /// Whether checkpoints are being coalesced at this moment.
    #[serde(default)]
    pub is_coalescing: bool,
    /// Where checkpoints in memory are brought to the disk, and why, where there is a level in memory.
    #[serde(default)]
    pub flush: Option<FlushReport>,
    /// Since when the program has kept checkpoints from being taken; `None` where it does not.
    #[serde(default)]
    pub disabled_seconds: Option<f64>,
    /// Time until the next checkpoint; `None` if none is planned.
    pub next_due_seconds: Option<f64>,
    /// The last checkpoint of this life.
    pub last_checkpoint: Option<CheckpointReport>,
    /// Why the last attempt failed, if it did.
    pub last_failure: Option<String>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum JobStatus {
    /// It runs and is protected.
    Running,
    /// It runs, its supervisor died: no checkpoints are taken.
    Unprotected,
    /// Somebody holds it whom this machine cannot see: another host or container.
    Elsewhere,
    /// It ran and is gone, with nobody left to note how.
    Crashed,
    /// A signal killed it.
    Killed {
        /// Which.
        signal: i32,
    },
    /// It was stopped on request, after a checkpoint.
    Stopped,
    /// It ended by itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
}

/// One generation as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GenerationReport {
    /// Its number.
    pub generation: u64,
    /// The generation that it builds upon; none for a full one.
    pub parent: Option<u64>,
    /// When it was taken, in nanoseconds since 1970.
    pub taken_nanoseconds: u64,
    /// How long the program stood still.
    pub pause_nanoseconds: u64,
    /// Pages that stand in the image.
    pub pages_stored: u64,
    /// Pages that are those of the generation that it builds upon.
    pub pages_inherited: u64,
    /// Length of the image.
    pub file_bytes: u64,
    /// Whether the job was later restarted from an earlier one.
    pub is_superseded: bool,
    /// Whether it is in memory: there it survives the program and its supervisor.
    pub is_in_memory: bool,
    /// Whether it is in the job's directory: there it survives what that file system does.
    pub is_on_disk: bool,
    /// Identity of the image.
    pub root: String,
}

/// A job directory at a glance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusReport {
    /// The newest checkpoint that survives a crash of the machine, if there is one.
    pub durable: Option<DurableReport>,
    /// Where it is.
    pub directory: PathBuf,
    /// The job's identity.
    pub job: String,
    /// What was run.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it was started.
    pub working_directory: String,
    /// When it was started, in nanoseconds since 1970.
    pub started_nanoseconds: u64,
    /// How it stands.
    pub state: JobStatus,
    /// Its main process, where it runs on this machine.
    pub program_pid: Option<i32>,
    /// How it is protected.
    pub options: JobOptions,
    /// What the supervisor says, if there is one.
    pub live: Option<LiveReport>,
    /// Its generations, ascending.
    pub generations: Vec<GenerationReport>,
    /// The level in memory, if it has one.
    pub memory: Option<MemoryLevelReport>,
}

/// The newest checkpoint on disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DurableReport {
    /// Its number.
    pub generation: u64,
    /// Seconds since it was taken: the work that would be lost now.
    pub age_seconds: f64,
}

/// A level in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryLevelReport {
    /// Where it is; nowhere where it cannot be had.
    pub place: Option<PathBuf>,
    /// Why it cannot be had.
    pub missing: Option<String>,
}

/// What the verification of one generation found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// The generation.
    pub generation: u64,
    /// Whether this is the one in memory.
    pub is_in_memory: bool,
    /// Length of its image.
    pub file_bytes: u64,
    /// What is wrong with it; `None` where every byte is as it was written.
    pub damage: Option<String>,
}

/// What an image holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InspectionReport {
    /// The generation, as in the manifest.
    pub generation: GenerationReport,
    /// The machine it was taken on.
    pub machine: MachineReport,
    /// Its processes.
    pub processes: Vec<ProcessReport>,
    /// Pipes within the job and the bytes that wait in each.
    pub pipes_bytes_waiting: Vec<u64>,
    /// Shared memory and files in memory.
    pub objects: Vec<ObjectReport>,
}

/// A memory object of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectReport {
    /// What it is.
    pub what: String,
    /// Its length.
    pub bytes: u64,
    /// How much of it the image holds; the rest is zeros.
    pub stored_bytes: u64,
}

/// The machine on which a checkpoint was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// Architecture.
    pub architecture: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Host name.
    pub host: String,
}

/// One process of an image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessReport {
    /// Its process id.
    pub pid: i32,
    /// The file it executes.
    pub executable: String,
    /// Its command line.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub working_directory: String,
    /// Its threads.
    pub threads: Vec<ThreadReport>,
    /// Its memory.
    pub memory: MemoryReport,
    /// Its descriptors.
    pub descriptors: Vec<DescriptorReport>,
    /// Signals that wait for the process as a whole.
    pub pending_signals: Vec<u8>,
}

/// One thread of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadReport {
    /// Its thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Signals that wait for it.
    pub pending_signals: Vec<u8>,
}

/// The memory of a process in an image, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Mappings of all kinds.
    pub mappings: u64,
    /// Bytes that they reserve.
    pub mapped_bytes: u64,
    /// Mappings of no file.
    pub anonymous_mappings: u64,
    /// Private mappings of files.
    pub file_mappings: u64,
    /// Bytes of pages that stand in the image.
    pub stored_bytes: u64,
    /// Bytes of cleared pages over files, of which only the place is noted.
    pub zero_bytes: u64,
}

/// One descriptor of a process in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescriptorReport {
    /// Its number.
    pub number: i32,
    /// What it is: `file /tmp/out at 4096 of 8192 bytes`.
    pub what: String,
    /// Whether exec closes it.
    pub close_on_exec: bool,
}
