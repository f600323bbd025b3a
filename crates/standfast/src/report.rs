//! Facts about a job and its checkpoints, for people and programs. All types are plain data. Field names say what a
//! value means and its unit, since they are also the names in the command's JSON.

mod advice;
mod distributed;
mod overhead;
mod restart;

use crate::Ending;
use crate::settings::{FlushReport, JobOptions, Method, Why};
pub use advice::{
    AdviceInput, AdvicePoint, AdviceReport, AdvisedDisk, AdvisedInterval, AdvisedLevels, InputSource, InputUnit,
};
pub use distributed::{DistributedReport, EpochReport, NodeInspection, NodeReport, NodeVerification};
pub use overhead::{ChosenInterval, MeanTimeSource, OverheadReport};
pub use restart::{PhaseReport, RestartReport};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A checkpoint that has become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
pub struct CheckpointReport {
    /// Its generation number.
    pub generation: u64,
    /// Number of threads that were frozen.
    pub tasks: u64,
    /// Number of processes to which they belong.
    #[serde(default)]
    pub processes: u64,
    /// Generation upon which it builds; `None` for a full one.
    pub parent: Option<u64>,
    /// Pages of the program with contents.
    pub pages_scanned: u64,
    /// Pages among them that were read, since they had changed or may have.
    pub pages_read: u64,
    /// Pages in the image.
    pub pages_stored: u64,
    /// Huge pages of the program that tracking has split and that have not been made huge again.
    #[serde(default)]
    pub huge_pages_split: u64,
    /// First writes of the program to tracked pages since the previous checkpoint.
    #[serde(default)]
    pub first_writes: u64,
    /// Estimated time of these writes, from the time of one such write in the supervisor's own memory.
    #[serde(default)]
    pub first_writes_nanoseconds: u64,
    /// Length of the image in bytes.
    pub file_bytes: u64,
    /// Time at which it was taken, in nanoseconds since 1970.
    pub taken_nanoseconds: u64,
    /// Time for which the program was frozen.
    pub pause_nanoseconds: u64,
    /// Part of that time for finding out what the program holds and what has changed.
    pub scanning_nanoseconds: u64,
    /// Time from the start of the checkpoint until it was durable on the disk, or complete in memory.
    pub durable_nanoseconds: u64,
    /// Processor time that it took while the program was not frozen.
    #[serde(default)]
    pub processor_nanoseconds: u64,
    /// Number of the machine's processors.
    #[serde(default)]
    pub processors: u64,
    /// How memory was captured.
    #[serde(default)]
    pub method: Method,
    /// Why that method was chosen.
    #[serde(default)]
    pub why: Why,
    /// Expected time for which the program would be frozen, if it was known.
    #[serde(default)]
    pub expected_pause_nanoseconds: Option<u64>,
    /// Whether it is in memory. It gets to the disk only by a flush.
    #[serde(default)]
    pub is_in_memory: bool,
}

/// Result of coalescing checkpoints that build upon each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoalescingReport {
    /// Generation that is full now; `None` if there was nothing to coalesce.
    pub generation: Option<u64>,
    /// Length of its image in bytes.
    pub file_bytes: u64,
    /// Number of older generations that were removed.
    pub removed: u64,
}

/// What was or would be removed of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CleaningReport {
    /// The job's directory.
    pub directory: PathBuf,
    /// Whether nothing was actually removed.
    pub is_dry_run: bool,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Bytes that this frees.
    pub bytes: u64,
    /// Names in the directory that are not Standfast's. The directory stays because of them.
    pub left: Vec<String>,
}

/// Facts that only a live supervisor knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveReport {
    /// Process id of the supervisor.
    pub supervisor_pid: i32,
    /// Process id of the job's main process.
    pub program_pid: i32,
    /// Whether a checkpoint is being taken at this moment.
    pub is_checkpointing: bool,
    /// Whether checkpoints are being coalesced at this moment.
    #[serde(default)]
    pub is_coalescing: bool,
    /// Where checkpoints in memory are flushed to the disk, and why. `None` without a level in memory.
    #[serde(default)]
    pub flush: Option<FlushReport>,
    /// Time for which the program has kept checkpoints disabled; `None` if they are enabled.
    #[serde(default)]
    pub disabled_seconds: Option<f64>,
    /// Time until the next checkpoint; `None` if none is planned.
    pub next_due_seconds: Option<f64>,
    /// The interval, if it is chosen for the job.
    #[serde(default)]
    pub chosen_interval: Option<ChosenInterval>,
    /// The last checkpoint of this life.
    pub last_checkpoint: Option<CheckpointReport>,
    /// Why the last attempt failed, if it did.
    pub last_failure: Option<String>,
    /// The last rehearsal of a restart in this life.
    #[serde(default)]
    pub rehearsal: Option<LastRehearsal>,
    /// What a stop would take now; `None` before the first checkpoint of this life.
    #[serde(default)]
    pub stop: Option<StopReport>,
    /// The restart with which this life began; `None` if the program was started.
    #[serde(default)]
    pub restart: Option<RestartReport>,
}

/// What it would take to stop the program after a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopReport {
    /// Estimated seconds for a stop that is asked for now.
    pub seconds: f64,
    /// Seconds within which a stop must end; `None` without a deadline.
    pub deadline_seconds: Option<f64>,
    /// Whether a stop at any moment ends in time; `None` without a deadline, or as long as that is not known.
    pub is_met: Option<bool>,
}

/// Outcome of the last rehearsal of a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastRehearsal {
    /// A restart would have succeeded.
    Passed(RehearsalReport),
    /// A restart would have failed, or could not be rehearsed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum JobStatus {
    /// It runs and is protected.
    Running,
    /// It runs, but its supervisor died: no checkpoints are taken.
    Unprotected,
    /// Its holder is not visible from this machine: it is on another host or in another container.
    Elsewhere,
    /// It ran and is gone, and how it ended was not recorded.
    Crashed,
    /// A signal killed it.
    Killed {
        /// Number of the signal.
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

/// State of a job in one word, for scripts that decide whether it is to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// There is no job.
    None,
    /// It runs and is protected.
    Running,
    /// It runs without a supervisor.
    Unprotected,
    /// It may run on another host or in another container.
    Elsewhere,
    /// It is gone, and how it ended was not recorded.
    Crashed,
    /// A signal from outside killed it.
    Killed,
    /// It was stopped on request, after a checkpoint.
    Stopped,
    /// It ended by an error of its own: a status other than 0, or a signal that it caused.
    Failed,
    /// It ended by itself with status 0.
    Finished,
}

impl JobPhase {
    /// Returns the phase of a job in this state.
    pub fn of(state: JobStatus) -> Self {
        match state {
            JobStatus::Running => Self::Running,
            JobStatus::Unprotected => Self::Unprotected,
            JobStatus::Elsewhere => Self::Elsewhere,
            JobStatus::Crashed => Self::Crashed,
            JobStatus::Stopped => Self::Stopped,
            JobStatus::Exited { status: 0 } => Self::Finished,
            JobStatus::Exited { .. } => Self::Failed,
            JobStatus::Killed { signal } if (Ending::Killed { signal }).is_own_failure() => Self::Failed,
            JobStatus::Killed { .. } => Self::Killed,
        }
    }
}

impl fmt::Display for JobPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Running => "running",
            Self::Unprotected => "unprotected",
            Self::Elsewhere => "elsewhere",
            Self::Crashed => "crashed",
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Finished => "finished",
        })
    }
}

/// One generation of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GenerationReport {
    /// Its generation number.
    pub generation: u64,
    /// Generation upon which it builds; `None` for a full one.
    pub parent: Option<u64>,
    /// Time at which it was taken, in nanoseconds since 1970.
    pub taken_nanoseconds: u64,
    /// Time for which the program was frozen.
    pub pause_nanoseconds: u64,
    /// Pages in the image.
    pub pages_stored: u64,
    /// Pages that it shares with the generation upon which it builds.
    pub pages_inherited: u64,
    /// Length of the image in bytes.
    pub file_bytes: u64,
    /// Whether the job was later restarted from an earlier generation.
    pub is_superseded: bool,
    /// Whether it is in memory, where it survives the end of the program and its supervisor.
    pub is_in_memory: bool,
    /// Whether it is in the job's directory, where it survives whatever that file system survives.
    pub is_on_disk: bool,
    /// Identity of the image.
    pub root: String,
}

/// Summary of a job directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusReport {
    /// The newest checkpoint that survives a crash of the machine, if there is one.
    pub durable: Option<DurableReport>,
    /// The job's directory.
    pub directory: PathBuf,
    /// The job's identity.
    pub job: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Working directory in which it was started.
    pub working_directory: String,
    /// Time at which it was started, in nanoseconds since 1970.
    pub started_nanoseconds: u64,
    /// State of the job.
    pub state: JobStatus,
    /// The same in one word.
    pub phase: JobPhase,
    /// Process id of its main process, if it runs on this machine.
    pub program_pid: Option<i32>,
    /// How it is protected.
    pub options: JobOptions,
    /// What checkpoints and failures have cost it; `None` if that was not recorded.
    pub overhead: Option<OverheadReport>,
    /// Report of the supervisor, if there is one.
    pub live: Option<LiveReport>,
    /// Its generations, in ascending order.
    pub generations: Vec<GenerationReport>,
    /// The level in memory, if it has one.
    pub memory: Option<MemoryLevelReport>,
}

/// The newest checkpoint on disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DurableReport {
    /// Its generation number.
    pub generation: u64,
    /// Seconds since it was taken: the work that would be lost now.
    pub age_seconds: f64,
}

/// A level in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryLevelReport {
    /// Its directory; `None` if it is not available.
    pub place: Option<PathBuf>,
    /// Why it is not available.
    pub missing: Option<String>,
}

/// Result of the verification of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// Its generation number.
    pub generation: u64,
    /// Whether this is the one in memory.
    pub is_in_memory: bool,
    /// Length of its image in bytes.
    pub file_bytes: u64,
    /// What is wrong with it; `None` if every byte is as it was written.
    pub damage: Option<String>,
}

/// Result of the rehearsal of a restart. All that a restart checks before it builds anything is in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RehearsalReport {
    /// The generation number of the checkpoint.
    pub generation: u64,
    /// Why the job was not rebuilt; `None` if it was, and equalled the checkpoint.
    pub not_rebuilt: Option<String>,
    /// What the rebuilt job lacked, since somebody would have noticed it.
    pub left_out: Vec<String>,
    /// What a restarted job would lack, though no result depends on it.
    pub notes: Vec<String>,
}

/// The core files that were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoreFilesReport {
    /// The generation number of the checkpoint.
    pub generation: u64,
    /// The files, one for each process.
    pub files: Vec<CoreFileReport>,
}

/// A core file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoreFileReport {
    /// Its path.
    pub path: PathBuf,
    /// Process id in the checkpoint.
    pub pid: i32,
    /// The file that the process executes, or its copy if it has changed since.
    pub executable: String,
    /// Number of its threads.
    pub threads: u64,
    /// Length of the core file in bytes.
    pub bytes: u64,
    /// Bytes that it takes on the disk, without the holes in it.
    pub disk_bytes: u64,
    /// Mapped files that are no longer as they were at the checkpoint.
    pub changed: Vec<ChangedFileReport>,
}

/// A mapped file that has changed since the checkpoint, or may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFileReport {
    /// Its path.
    pub path: String,
    /// The copy in the job's directory, which the core file names instead. Without one, a debugger cannot read what the
    /// program had not changed itself.
    pub copy: Option<PathBuf>,
}

/// What an image holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InspectionReport {
    /// The generation, as in the manifest.
    pub generation: GenerationReport,
    /// Machine on which it was taken.
    pub machine: MachineReport,
    /// Its processes.
    pub processes: Vec<ProcessReport>,
    /// Bytes that wait in each pipe within the job.
    pub pipes_bytes_waiting: Vec<u64>,
    /// Shared memory and files in memory.
    pub objects: Vec<ObjectReport>,
}

/// A memory object of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectReport {
    /// Description of the object.
    pub what: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of it that the image holds; the rest is zeros.
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
    /// Pending signals of the process as a whole.
    pub pending_signals: Vec<u8>,
}

/// One thread of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadReport {
    /// Its thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Pending signals of the thread.
    pub pending_signals: Vec<u8>,
}

/// Summary of a process's memory in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Mappings of all kinds.
    pub mappings: u64,
    /// Bytes that they reserve.
    pub mapped_bytes: u64,
    /// Mappings without a file.
    pub anonymous_mappings: u64,
    /// Private mappings of files.
    pub file_mappings: u64,
    /// Bytes of pages in the image.
    pub stored_bytes: u64,
    /// Bytes of cleared pages over files, of which only the place is recorded.
    pub zero_bytes: u64,
}

/// One descriptor of a process in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescriptorReport {
    /// Its number.
    pub number: i32,
    /// Description of the descriptor: `file /tmp/out at 4096 of 8192 bytes`.
    pub what: String,
    /// Whether exec closes it.
    pub close_on_exec: bool,
}
