//! Errors of requests, sorted by what a user can do about them. Each says what failed and why, then, on lines of their
//! own, what the user can do (`hint: ...`).

use crate::control::ControlError;
use crate::quoting::{ForShell, InWords};
use standfast_cost::CostError;
use standfast_engine::EngineError;
use standfast_format::core_file::NoCoreFile;
use standfast_store::StoreError;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Reason why a request failed. A program that was running continues to run after each of these errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory holds a job that can be continued.
    #[error(
        "{dir} holds an unfinished job\nhint: continue it: standfast restart {dir} (or add --resume to this command)\nhint: discard it and start from the beginning: add --fresh\nhint: keep both: choose another directory with -d",
        dir = ForShell(.0)
    )]
    Unfinished(PathBuf),
    /// `--resume` was given, but the unfinished job has another command line.
    #[error(
        "{dir} holds an unfinished job of another command line ({found})\nhint: continue that one: standfast restart {dir}\nhint: discard it and start this one: add --fresh\nhint: keep both: choose another directory with -d",
        dir = ForShell(.directory)
    )]
    OtherJob {
        /// The job's directory.
        directory: PathBuf,
        /// Command line of the job in that directory.
        found: String,
    },
    /// Another process supervises the job at this moment.
    #[error(
        "the job in {dir} is supervised by process {pid} on {host}\nhint: wait until it ends, or stop it after a checkpoint: standfast checkpoint --stop {dir}",
        dir = ForShell(.directory)
    )]
    Supervised {
        /// The job's directory.
        directory: PathBuf,
        /// Process id of the supervisor.
        pid: i32,
        /// Host of the supervisor.
        host: String,
    },
    /// The supervisor died, but the program still runs.
    #[error(
        "the program of {dir} still runs as process {pid}, although its supervisor is gone\nhint: save it once more: standfast checkpoint {dir} (with --stop it ends there and can be restarted)\nhint: end it as it is: kill {pid}",
        dir = ForShell(.directory)
    )]
    StillRuns {
        /// The job's directory.
        directory: PathBuf,
        /// Process id of the program.
        pid: i32,
    },
    /// A process of an earlier life has outlived its supervisor and its main process.
    #[error(
        "process {pid} ({name}) of an earlier life of {dir} still runs, and a restart would compute beside it\nhint: end it: kill {pid}",
        dir = ForShell(.directory)
    )]
    Survives {
        /// The job's directory.
        directory: PathBuf,
        /// The process.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// There is neither a supervisor to ask nor a program to examine.
    #[error("nothing runs in {dir}\nhint: continue its job: standfast restart {dir}", dir = ForShell(.0))]
    NothingRuns(PathBuf),
    /// The checkpoints of a job were to be removed, but the job has not finished.
    #[error(
        "{dir} holds an unfinished job, whose checkpoints a restart needs\nhint: continue it: standfast restart {dir}\nhint: remove it: standfast clean --unfinished {dir}",
        dir = ForShell(.0)
    )]
    NotFinished(PathBuf),
    /// The kernel lacks calls on which runs and restarts depend.
    #[error(
        "Linux {0} is too old: Standfast needs 5.10 or later\nhint: nothing was started; without standfast the program runs as usual, unprotected"
    )]
    KernelTooOld(String),
    /// A program was to run in the background of a container that would end at once.
    #[error(
        "--detach is not possible as process 1 of a container, which would end at once\nhint: leave --detach out, and let the container itself run in the background (docker run --detach)"
    )]
    DetachedInit,
    /// The program could not be started.
    #[error("cannot start {}: {}", .program.display(), InWords(.source))]
    NotStarted {
        /// Name of the program as the user wrote it.
        program: OsString,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The job ended, and the kernel did not report how.
    #[error("the program ended but its exit status is unknown; check its results")]
    EndUnknown,
    /// A signal ended a wait before the program ran.
    #[error("interrupted by {} while waiting; the job is unchanged", signal_name(*.signal))]
    CalledOff {
        /// Signal that ended the wait.
        signal: i32,
        /// Exit status of the command: that of a stopped job if the signal was a notice to stop.
        exit_status: u8,
    },
    /// Advice was asked for about a job of which nothing is known.
    #[error(
        "nothing is known of the job: it has no history of checkpoints\nhint: name the directory of a job that has taken some, or describe the job: --size 10G --changes 50M/s"
    )]
    NothingKnown,
    /// What was said of a job or a machine is impossible.
    #[error("{0}")]
    Impossible(CostError),
    /// A file that lists failures cannot be used.
    #[error(
        "{path}: {why}\nhint: write the time of one failure on each line, as 2026-01-31T12:00:00Z or in seconds",
        path = .path.display()
    )]
    FailuresUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such process in a checkpoint.
    #[error("checkpoint {generation} holds no process {pid}, but {}\nhint: see what they are: standfast inspect {dir} {generation}", list(.others), dir = ForShell(.directory))]
    NoSuchProcess {
        /// The job's directory.
        directory: PathBuf,
        /// Number of the checkpoint.
        generation: u64,
        /// Process id that was asked for.
        pid: i32,
        /// Process ids that there are.
        others: Vec<i32>,
    },
    /// A process of a checkpoint cannot be written as a core file.
    #[error("cannot write a core file of process {pid} of checkpoint {generation}: {source}")]
    NoCoreFile {
        /// Process id in the checkpoint.
        pid: i32,
        /// Number of the checkpoint.
        generation: u64,
        /// Cause of the failure.
        source: NoCoreFile,
    },
    /// A file that was to be written exists.
    #[error("{path} already exists\nhint: replace it: add --overwrite\nhint: keep it: choose another name with -o", path = ForShell(.0))]
    OutputExists(PathBuf),
    /// A file could not be written.
    #[error("cannot write {path}: {}\nhint: choose another place with -o", InWords(.source), path = ForShell(.path))]
    Output {
        /// The file.
        path: PathBuf,
        /// Error that the system returned.
        source: io::Error,
    },
    /// A part of a distributed job would be handled without the others.
    #[error("{} is one part of a distributed job, and belongs together with the others\nhint: name the directory of the whole job", ForShell(.0))]
    LonePart(PathBuf),
    /// The supervisor could not carry out a request. Holds its own words.
    #[error("{0}")]
    Declined(String),
    /// The supervisor did not answer.
    #[error("the supervisor of {dir} could not be asked: {source}\nhint: see standfast status {dir}", dir = ForShell(.directory))]
    Unanswered {
        /// The job's directory.
        directory: PathBuf,
        /// Cause of the failure.
        source: UnansweredReason,
    },
    /// An error of the job's directory or its contents.
    #[error(transparent)]
    Store(StoreError),
    /// An error of the job's processes.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An error of what the processes of a group keep.
    #[error(transparent)]
    Group(#[from] standfast_member::MemberError),
    /// The system refused an operation of the supervisor that should have worked.
    #[error("cannot {action}: {}", InWords(.source))]
    System {
        /// Operation that failed.
        action: &'static str,
        /// Error that the system returned.
        source: io::Error,
    },
}

impl Error {
    /// Converts an error of the store about the job in `directory`, and adds the remedies that only the facade knows.
    pub(crate) fn of_store(directory: &std::path::Path, error: StoreError) -> Self {
        let directory = directory.to_owned();
        match error {
            StoreError::Supervised(holder) => {
                Self::Supervised { directory, pid: holder.supervisor.pid, host: holder.host }
            }
            StoreError::ProgramStillRuns { pid } => Self::StillRuns { directory, pid },
            StoreError::NothingToAdopt => Self::NothingRuns(directory),
            other => Self::Store(other),
        }
    }

    /// Returns a function for `map_err` that reports the system's refusal of `action`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}

/// Most process ids in a message.
const PIDS_SHOWN: usize = 8;

fn list(pids: &[i32]) -> String {
    let shown: Vec<_> = pids.iter().take(PIDS_SHOWN).map(i32::to_string).collect();
    format!("{}{}", shown.join(", "), if pids.len() > PIDS_SHOWN { ", ..." } else { "" })
}

fn signal_name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}

/// Reason why a supervisor did not answer, in words.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct UnansweredReason(#[from] ControlError);

#[cfg(test)]
mod tests {
    use super::*;

    /// After a change: `INSTA_UPDATE=always cargo test -p standfast`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        let directory = || PathBuf::from("/work/heat.standfast");
        let denied = || io::Error::from_raw_os_error(13);
        let errors = [
            Error::Unfinished(directory()),
            Error::OtherJob { directory: directory(), found: "./cool 7".to_owned() },
            Error::Supervised { directory: directory(), pid: 7, host: "node1".to_owned() },
            Error::StillRuns { directory: directory(), pid: 8 },
            Error::Survives { directory: directory(), pid: 9, name: "server".to_owned() },
            Error::NothingRuns(directory()),
            Error::FailuresUnusable { path: "failures.txt".into(), why: "it lists less than two failures".to_owned() },
            Error::NotFinished(directory()),
            Error::KernelTooOld("4.18".to_owned()),
            Error::DetachedInit,
            Error::NotStarted { program: "./heat".into(), source: denied() },
            Error::EndUnknown,
            Error::CalledOff { signal: 2, exit_status: 1 },
            Error::NoSuchProcess { directory: directory(), generation: 3, pid: 4, others: vec![12, 13] },
            Error::NoCoreFile { pid: 4, generation: 3, source: NoCoreFile::Ended },
            Error::OutputExists("core.heat.12".into()),
            Error::LonePart("heat.standfast/part-1/job".into()),
            Error::Output { path: "core.heat.12".into(), source: denied() },
            Error::System { action: "find the working directory", source: denied() },
        ];
        // By default the path would be that of the module `snapshots`.
        insta::with_settings!({ snapshot_path => "texts" }, {
            insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n\n"));
        });
    }
}
