//! What a supervisor has to say while a job runs. It is said to a listener: the facade itself never prints.

mod file_notes;
mod listing_news;
mod text;

use crate::report::CheckpointReport;
use standfast_engine::{BrokenPromise, FileNote, JobIds, ListingNews};
use std::path::PathBuf;
use std::time::Duration;

/// Hears what a supervisor has to say.
pub type Listener<'a> = dyn FnMut(&JobEvent) + 'a;

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// The program runs, as this process.
    Running {
        /// The process.
        pid: i32,
    },
    /// The job goes on from a checkpoint.
    Continued {
        /// Which.
        generation: u64,
        /// When that was taken, in nanoseconds since 1970.
        taken_nanoseconds: u64,
    },
    /// Under which process ids the job goes on.
    Ids {
        /// Which.
        ids: JobIds,
        /// Whether the job had them in its last life as well, so that it has been said.
        is_known: bool,
    },
    /// A restarted job goes on without something on which no result depends.
    Without {
        /// What, and why.
        remark: String,
    },
    /// Something was done about a file.
    File(FileNote),
    /// A restart waits for an address.
    AddressAwaited {
        /// Address and port.
        address: String,
        /// For how long at most.
        rest: Duration,
    },
    /// A generation could not be used.
    Skipped {
        /// Which.
        generation: u64,
        /// Why.
        reason: String,
    },
    /// There was a job to continue and no checkpoint of it to continue from.
    StartedAfresh {
        /// Why.
        reason: String,
    },
    /// A checkpoint is durable.
    Taken(CheckpointReport),
    /// Checkpoints that build upon each other were coalesced.
    Coalesced {
        /// The one that is full now.
        generation: u64,
        /// Length of its image.
        file_bytes: u64,
        /// How many older ones have gone for that.
        removed: u64,
    },
    /// A checkpoint in memory is on the disk as well.
    Flushed {
        /// Which.
        generation: u64,
        /// Length of its image on the disk.
        file_bytes: u64,
    },
    /// Checkpoints that were to go to memory go to the disk.
    NotInMemory {
        /// Why.
        reason: String,
        /// Whether the user named the memory.
        is_selector: bool,
    },
    /// The job has ended, and its newest checkpoint is in memory only.
    LeftInMemory {
        /// Where.
        place: PathBuf,
        /// Which, if that can be told.
        generation: Option<u64>,
        /// The newest on the disk, if there is one.
        on_disk: Option<u64>,
        /// Why.
        reason: String,
    },
    /// Long work is under way.
    Progress {
        /// What is done.
        work: LongWork,
        /// Bytes that are done.
        done_bytes: u64,
        /// Bytes in all, where that is known.
        total_bytes: Option<u64>,
    },
    /// The level in memory is lost.
    MemoryLost {
        /// Why.
        reason: String,
    },
    /// What has changed is found out the slow way.
    Untracked {
        /// Why.
        reason: String,
    },
    /// Memory was copied that was to be read from a clone.
    Uncloned {
        /// Why.
        reason: String,
    },
    /// No checkpoint was taken; the program runs on.
    NotTaken {
        /// Why, and what to do.
        reason: String,
    },
    /// The program was looked at, and no checkpoint could be taken of it as it is.
    Unprotectable {
        /// Why, and what to do.
        reason: String,
    },
    /// After failures a checkpoint is durable again.
    ProtectedAgain {
        /// Its generation.
        generation: u64,
    },
    /// SIGTERM asked for a checkpoint and an end; the program runs on.
    NotStopped {
        /// Why, and what to do.
        reason: String,
    },
    /// The program has promised not to write to memory that has changed since the checkpoint before.
    Broken {
        /// The checkpoint at which that was found.
        generation: u64,
        /// Which memory, and who has promised.
        promise: BrokenPromise,
    },
    /// Something has come to light about files that the program does not hold open.
    Listing(ListingNews),
    /// Something beside the checkpoints went wrong.
    Trouble {
        /// What, why, and what to do.
        reason: String,
    },
    /// The main process has ended, and the others go on, still protected.
    GoesOn {
        /// Their process ids.
        processes: Vec<i32>,
    },
    /// The main process has ended, and the others go on, still protected, though nobody waits for them any more.
    InBackground {
        /// The job's directory.
        directory: PathBuf,
        /// Their process ids.
        processes: Vec<i32>,
        /// How the main process ended, if something interrupted it: `killed by SIGKILL`.
        interrupted: Option<String>,
    },
    /// The program has a terminal of its own, and nobody is to wait for it.
    Detached {
        /// The job's directory.
        directory: PathBuf,
    },
    /// An earlier life of the job is about to end, and is waited for.
    AwaitsExit {
        /// The process that is not through yet.
        pid: i32,
    },
    /// The lease was taken in another boot, of this machine or of one of the same name: whether its holder lives is watched.
    WatchesHeartbeat {
        /// The machine's name.
        host: String,
        /// How long that takes.
        time: Duration,
    },
    /// Nobody waits for us any more, or hears us.
    Alone {
        /// The job's directory.
        directory: PathBuf,
    },
    /// Whoever held the program's terminal is gone.
    TerminalLost,
    /// The main process has ended, and others go on, not protected any more.
    Leftovers {
        /// Their process ids.
        processes: Vec<i32>,
    },
    /// The job was stopped after a checkpoint.
    Stopped {
        /// Its directory.
        directory: PathBuf,
        /// The checkpoint.
        generation: u64,
    },
    /// Something ended the program before it was done, and there is a checkpoint to go back to.
    Unfinished {
        /// Its directory.
        directory: PathBuf,
        /// How it ended: `killed by SIGKILL`.
        end: String,
    },
    /// The program failed by itself, and there is a checkpoint to go back to.
    Failed {
        /// Its directory.
        directory: PathBuf,
        /// How it ended: `ended with status 3`.
        end: String,
        /// The newest checkpoint.
        generation: u64,
    },
    /// The program has finished, and its checkpoints stay.
    Kept {
        /// Its directory.
        directory: PathBuf,
        /// How many there are.
        checkpoints: u64,
        /// How many bytes they hold.
        bytes: u64,
    },
    /// A restart was asked for, and the program had finished.
    HasFinished {
        /// Its directory.
        directory: PathBuf,
        /// The newest checkpoint, if there is one left.
        generation: Option<u64>,
    },
}

/// Work that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongWork {
    /// A checkpoint is written.
    Writing {
        /// Its number.
        generation: u64,
    },
    /// A job is restored from a checkpoint.
    Restoring {
        /// Its number.
        generation: u64,
    },
    /// A checkpoint is verified.
    Verifying {
        /// Its number.
        generation: u64,
    },
    /// A checkpoint in memory is flushed to disk.
    Flushing {
        /// Its number.
        generation: u64,
    },
}

/// Who wants to hear a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Who asked for details.
    Detail,
    /// Everybody who did not ask for silence.
    Note,
    /// Everybody.
    Warning,
}

impl JobEvent {
    /// Who wants to hear it.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Running { .. } | Self::Continued { .. } | Self::Taken(_) | Self::Coalesced { .. } => Severity::Detail,
            Self::Untracked { .. }
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
            | Self::GoesOn { .. }
            | Self::InBackground { .. }
            | Self::Detached { .. }
            | Self::AwaitsExit { .. }
            | Self::WatchesHeartbeat { .. }
            | Self::Leftovers { .. }
            | Self::Progress { .. }
            | Self::Stopped { .. }
            | Self::Unfinished { .. }
            | Self::Failed { .. }
            | Self::Kept { .. }
            | Self::HasFinished { .. } => Severity::Note,
            Self::Skipped { .. }
            | Self::StartedAfresh { .. }
            | Self::NotTaken { .. }
            | Self::Unprotectable { .. }
            | Self::NotStopped { .. }
            | Self::NotInMemory { is_selector: true, .. }
            | Self::LeftInMemory { .. }
            | Self::MemoryLost { .. }
            | Self::TerminalLost
            | Self::Broken { .. }
            | Self::Listing(_)
            | Self::Trouble { .. } => Severity::Warning,
        }
    }
}
