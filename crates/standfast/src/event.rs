//! Events that a supervisor reports while a job runs. They go to a listener: the facade itself never prints.

mod container_news;
mod deadline_news;
mod file_notes;
mod listing_news;
mod text;

use crate::report::{CheckpointReport, OverheadReport, RestartReport};
pub use container_news::ContainerNews;
pub use deadline_news::DeadlineNews;
use standfast_engine::{BrokenPromise, FileNote, JobIds, ListingNews};
use std::path::PathBuf;
use std::time::Duration;

/// Receives the events of a supervisor.
pub type Listener<'a> = dyn FnMut(&JobEvent) + 'a;

/// One event of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// The program runs as this process.
    Running {
        /// Process id of the program.
        pid: i32,
    },
    /// The job continues from a checkpoint.
    Continued {
        /// Time at which the checkpoint was taken, in nanoseconds since 1970.
        taken_nanoseconds: u64,
        /// Number of the checkpoint, and how long the restart took.
        restart: RestartReport,
    },
    /// The process ids under which the job continues.
    Ids {
        /// Kind of ids.
        ids: JobIds,
        /// Whether the job had such ids in its last life as well, so that they have been reported.
        is_known: bool,
    },
    /// A restarted job continues without something that affects no result.
    Without {
        /// What is missing, and why.
        remark: String,
    },
    /// A restart changed a file or its location.
    File(FileNote),
    /// A restart waits for an address.
    AddressAwaited {
        /// Address and port.
        address: String,
        /// Longest time that the restart still waits.
        rest: Duration,
    },
    /// A generation could not be used.
    Skipped {
        /// Number of the generation.
        generation: u64,
        /// Reason.
        reason: String,
    },
    /// There was a job to continue, but no checkpoint from which to continue it.
    StartedAfresh {
        /// Reason.
        reason: String,
    },
    /// A checkpoint is durable.
    Taken(CheckpointReport),
    /// A restart was rehearsed, and would have succeeded.
    Rehearsed {
        /// Generation from which it was rehearsed.
        generation: u64,
        /// Whether an earlier rehearsal of this life failed, which was reported.
        was_reported: bool,
    },
    /// A restart was rehearsed, and would have failed at present.
    NotRestartable {
        /// Cause of the failure.
        reason: String,
    },
    /// Checkpoints that build upon each other were coalesced.
    Coalesced {
        /// Generation that is full now.
        generation: u64,
        /// Length of its image in bytes.
        file_bytes: u64,
        /// Number of older generations that were removed.
        removed: u64,
    },
    /// A checkpoint in memory has been flushed to the disk.
    Flushed {
        /// Number of the checkpoint.
        generation: u64,
        /// Length of its image on the disk in bytes.
        file_bytes: u64,
    },
    /// Checkpoints go to the disk although memory was chosen.
    NotInMemory {
        /// Reason.
        reason: String,
        /// Whether the user named the memory.
        is_selector: bool,
    },
    /// The job has ended, and its newest checkpoint is in memory only.
    LeftInMemory {
        /// Directory of the level in memory.
        place: PathBuf,
        /// Number of the newest checkpoint in memory, if it is known.
        generation: Option<u64>,
        /// Number of the newest checkpoint on the disk, if there is one.
        on_disk: Option<u64>,
        /// Reason.
        reason: String,
    },
    /// Progress of long work.
    Progress {
        /// Work that is under way.
        work: LongWork,
        /// Bytes that are done.
        done_bytes: u64,
        /// Bytes in all, if known.
        total_bytes: Option<u64>,
        /// Whether a line is due: the first one comes after two seconds, and each later one after twice the previous time.
        /// The other events are for a bar.
        is_line: bool,
    },
    /// Long work of which progress was reported is done.
    ProgressEnded {
        /// The work.
        work: LongWork,
    },
    /// The level in memory is lost.
    MemoryLost {
        /// Reason.
        reason: String,
    },
    /// Changes are found the slow way.
    Untracked {
        /// Reason.
        reason: String,
    },
    /// Memory was copied instead of read from a clone.
    Uncloned {
        /// Reason.
        reason: String,
    },
    /// No checkpoint was taken; the program continues to run.
    NotTaken {
        /// Reason, and what to do.
        reason: String,
    },
    /// The program was examined, and in its present state it cannot be checkpointed.
    Unprotectable {
        /// Reason, and what to do.
        reason: String,
    },
    /// A checkpoint is durable again after failures.
    ProtectedAgain {
        /// Its generation number.
        generation: u64,
    },
    /// A signal asked to stop after a checkpoint, but the program continues to run.
    NotStopped {
        /// Reason, and what to do.
        reason: String,
    },
    /// The machine is about to be taken away: the program stops after a checkpoint.
    MachineNotice {
        /// What happens, and why.
        notice: String,
    },
    /// Whether stops end within their deadline has changed.
    Deadline(DeadlineNews),
    /// Memory has changed since the previous checkpoint although the program promised not to write to it.
    Broken {
        /// The checkpoint at which the change was found.
        generation: u64,
        /// Which memory changed, and who made the promise.
        promise: BrokenPromise,
    },
    /// News about files that the program does not hold open.
    Listing(ListingNews),
    /// Something other than a checkpoint went wrong.
    Trouble {
        /// What went wrong, why, and what to do.
        reason: String,
    },
    /// The main process has ended. The other processes continue and are still protected.
    GoesOn {
        /// Their process ids.
        processes: Vec<i32>,
    },
    /// The main process has ended. The other processes continue and are still protected, but nobody waits for them any
    /// more.
    InBackground {
        /// The job's directory.
        directory: PathBuf,
        /// Their process ids.
        processes: Vec<i32>,
        /// How the main process ended, if something interrupted it: `killed by SIGKILL`.
        interrupted: Option<String>,
    },
    /// The program has a terminal of its own, and no proxy waits for it.
    Detached {
        /// The job's directory.
        directory: PathBuf,
    },
    /// A new life waits until an earlier life of the job has ended.
    AwaitsExit {
        /// Process that is still exiting.
        pid: i32,
    },
    /// The lease was taken in another boot, of this machine or of one with the same name. The supervisor now watches
    /// whether its holder is alive.
    WatchesHeartbeat {
        /// The machine's name.
        host: String,
        /// How long that takes.
        time: Duration,
    },
    /// Nobody waits for the supervisor or listens to it any more.
    Alone {
        /// The job's directory.
        directory: PathBuf,
    },
    /// The terminal holder of the program is gone.
    TerminalLost,
    /// What a container, or a system with the same restrictions, means for the job.
    Container(ContainerNews),
    /// The main process has ended. Other processes continue, but are not protected any more.
    Leftovers {
        /// Their process ids.
        processes: Vec<i32>,
    },
    /// The job was stopped after a checkpoint.
    Stopped {
        /// The job's directory.
        directory: PathBuf,
        /// Number of the checkpoint.
        generation: u64,
    },
    /// The program was ended before it was done, and there is a checkpoint to go back to.
    Unfinished {
        /// The job's directory.
        directory: PathBuf,
        /// How it ended: `killed by SIGKILL`.
        end: String,
    },
    /// The program failed by itself, and there is a checkpoint to go back to.
    Failed {
        /// The job's directory.
        directory: PathBuf,
        /// How it ended: `ended with status 3`.
        end: String,
        /// Number of the newest checkpoint.
        generation: u64,
    },
    /// The program has finished, and its checkpoints were kept.
    Kept {
        /// The job's directory.
        directory: PathBuf,
        /// Number of checkpoints.
        checkpoints: u64,
        /// Their size in bytes.
        bytes: u64,
    },
    /// What the checkpoints of a job have cost, at the end of a life.
    Cost {
        /// Number of checkpoints in all of its lives.
        checkpoints: u64,
        /// Estimated time by which they made it run longer.
        overhead: Duration,
        /// Time for which it has run.
        running: Duration,
    },
    /// A restart was requested, but the program had finished.
    HasFinished {
        /// The job's directory.
        directory: PathBuf,
        /// Number of the newest checkpoint, if one is left.
        generation: Option<u64>,
    },
}

/// Work that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongWork {
    /// A checkpoint is written.
    Writing {
        /// Its generation number.
        generation: u64,
    },
    /// A job is restored from a checkpoint.
    Restoring {
        /// Its generation number.
        generation: u64,
    },
    /// A checkpoint is verified.
    Verifying {
        /// Its generation number.
        generation: u64,
    },
    /// A restart from a checkpoint is rehearsed.
    Rehearsing {
        /// Its generation number.
        generation: u64,
    },
    /// Core files are written from a checkpoint.
    WritingCore {
        /// Its generation number.
        generation: u64,
    },
    /// A checkpoint in memory is flushed to disk.
    Flushing {
        /// Its generation number.
        generation: u64,
    },
    /// A chain of checkpoints is coalesced.
    Coalescing,
}

/// Audience of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Users who asked for details.
    Detail,
    /// Users who did not ask for silence.
    Note,
    /// All users.
    Warning,
}

/// The overhead of a job that has run for less is not reported: it says little.
const TELLING_RUN: Duration = Duration::from_secs(60);

impl JobEvent {
    /// Returns the event of what checkpoints have cost, if that is worth a word.
    pub(crate) fn of_overhead(overhead: &OverheadReport) -> Option<Self> {
        let running = Duration::try_from_secs_f64(overhead.running_seconds).ok()?;
        let cost = Duration::try_from_secs_f64(overhead.checkpoint_seconds).ok()?;
        let is_telling = overhead.checkpoints > 0 && running >= TELLING_RUN;
        is_telling.then_some(Self::Cost { checkpoints: overhead.checkpoints, overhead: cost, running })
    }

    /// Returns who wants to see the event.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Running { .. } | Self::Continued { .. } | Self::Taken(_) | Self::Coalesced { .. } => Severity::Detail,
            Self::Rehearsed { was_reported: false, .. } => Severity::Detail,
            Self::Untracked { .. }
            | Self::ProgressEnded { .. }
            | Self::Alone { .. }
            | Self::Uncloned { .. }
            | Self::Flushed { .. }
            | Self::NotInMemory { is_selector: false, .. } => Severity::Detail,
            Self::Ids { ids: JobIds::New { reason: None }, .. }
            | Self::Ids { ids: JobIds::Old { .. }, is_known: true } => Severity::Detail,
            Self::Ids { .. }
            | Self::Without { .. }
            | Self::AddressAwaited { .. }
            | Self::File(_)
            | Self::ProtectedAgain { .. }
            | Self::Deadline(DeadlineNews::Met { .. })
            | Self::MachineNotice { .. }
            | Self::Rehearsed { .. }
            | Self::GoesOn { .. }
            | Self::InBackground { .. }
            | Self::Detached { .. }
            | Self::AwaitsExit { .. }
            | Self::WatchesHeartbeat { .. }
            | Self::Leftovers { .. }
            | Self::Container(ContainerNews::NoNamespaces { .. } | ContainerNews::EndsWithProgram { .. })
            | Self::Progress { .. }
            | Self::Stopped { .. }
            | Self::Unfinished { .. }
            | Self::Failed { .. }
            | Self::Kept { .. }
            | Self::Cost { .. }
            | Self::HasFinished { .. } => Severity::Note,
            Self::Skipped { .. }
            | Self::StartedAfresh { .. }
            | Self::NotTaken { .. }
            | Self::Unprotectable { .. }
            | Self::NotRestartable { .. }
            | Self::NotStopped { .. }
            | Self::Deadline(DeadlineNews::Unmet { .. })
            | Self::NotInMemory { is_selector: true, .. }
            | Self::LeftInMemory { .. }
            | Self::MemoryLost { .. }
            | Self::TerminalLost
            | Self::Container(ContainerNews::SupervisorKilled { .. })
            | Self::Broken { .. }
            | Self::Listing(_)
            | Self::Trouble { .. } => Severity::Warning,
        }
    }
}
