//! What a supervisor has to say while a job runs. It is said to a listener: the facade itself never prints.

use crate::quoting::ForShell;
use crate::report::CheckpointReport;
use bytesize::ByteSize;
use standfast_engine::{BrokenPromise, FileNote, JobIds, ListingNews, NotSaved};
use standfast_store::TAIL_BYTES_MAX;
use std::fmt;
use std::path::{Path, PathBuf};
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
    Ids(JobIds),
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
    /// The level in memory cannot be had any more.
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
            Self::Ids(JobIds::New { reason: None }) => Severity::Detail,
            Self::Ids(_)
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

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { pid } => write!(f, "the program runs as process {pid}"),
            Self::Continued { generation, .. } => write!(f, "continued from checkpoint {generation}"),
            Self::Ids(ids) => f.write_str(&consequences(ids)),
            Self::Without { remark } => f.write_str(remark),
            Self::AddressAwaited { address, rest } => write!(
                f,
                "waiting for port {address}, up to {} s: a connection of the previous life, or another program, still holds it",
                rest.as_secs_f64().ceil()
            ),
            Self::File(note) => write_file_note(f, note),
            Self::Skipped { generation, reason } => write!(f, "checkpoint {generation} cannot be used: {reason}"),
            Self::StartedAfresh { reason } => write!(f, "started from the beginning: {reason}"),
            Self::Taken(report) => write_taken(f, report),
            Self::Coalesced { generation, file_bytes, removed } => {
                write!(f, "coalesced into checkpoint {generation}: {file_bytes} bytes, {removed} older ones gone")
            }
            Self::Flushed { generation, file_bytes } => {
                write!(f, "checkpoint {generation} flushed to disk: {file_bytes} bytes")
            }
            Self::NotInMemory { reason, .. } => {
                write!(f, "checkpoints go to disk instead of memory: {reason}")
            }
            Self::LeftInMemory { place, generation, on_disk, reason } => {
                let which = |number: &Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
                write!(
                    f,
                    "the newest checkpoint ({}) is only in memory, in {}, and would be lost with it; the newest on disk: {} ({reason})",
                    which(generation),
                    ForShell(place),
                    which(on_disk)
                )
            }
            Self::MemoryLost { reason } => {
                write!(f, "checkpoints in memory are lost; those on disk are used: {reason}")
            }
            Self::Untracked { reason } => write!(
                f,
                "the kernel cannot report which pages the program writes ({reason}): --track auto compares checksums instead, which lengthens the pause"
            ),
            Self::Uncloned { reason } => {
                write!(f, "a process could not be cloned ({reason}): its memory was copied during the pause")
            }
            Self::NotTaken { reason } => write!(f, "checkpoint failed, the program continues: {reason}"),
            Self::Unprotectable { reason } => {
                write!(f, "the program cannot be checkpointed in its present state: {reason}")
            }
            Self::ProtectedAgain { generation } => write!(f, "checkpoints work again: {generation} is durable"),
            Self::NotStopped { reason } => {
                write!(
                    f,
                    "not stopped, because the checkpoint failed: {reason}. The next SIGTERM is passed to the program"
                )
            }
            Self::Broken { generation, promise } => write_broken(f, *generation, promise),
            Self::Listing(news) => write_listing_news(f, news),
            Self::Trouble { reason } => f.write_str(reason),
            Self::GoesOn { processes } => {
                write!(f, "the program exited; its remaining processes stay supervised: {}", list(processes))
            }
            Self::InBackground { directory, processes, interrupted: Some(end) } => write!(
                f,
                "program {end}; its remaining {} stay supervised, without further checkpoints; see: standfast status {directory}. When they have exited, continue with: standfast restart {directory}",
                list(processes),
                directory = ForShell(directory)
            ),
            Self::InBackground { directory, processes, interrupted: None } => write!(
                f,
                "the program exited; its remaining processes stay supervised in the background: {}; see: standfast status {}",
                list(processes),
                ForShell(directory)
            ),
            Self::Detached { directory } => {
                write!(f, "the program runs in the background; its terminal: standfast attach {}", ForShell(directory))
            }
            Self::AwaitsExit { pid } => {
                write!(f, "waiting for the previous run of this job to end: process {pid} is still exiting")
            }
            Self::WatchesHeartbeat { host, time } => write!(
                f,
                "the job was supervised before this machine was started, or is supervised on another one that is named {host} as well: watching its heartbeat for {} s to tell which",
                time.as_secs()
            ),
            Self::Alone { .. } => f.write_str("nothing waits for the program here any more"),
            Self::TerminalLost => {
                f.write_str("the process that held the program's terminal is gone: the program gets SIGHUP")
            }
            Self::Leftovers { processes } => write!(
                f,
                "the program exited; no longer supervised: {} (standfast run --wait supervises them until they exit)",
                list(processes)
            ),
            Self::Stopped { directory, generation } => {
                write!(
                    f,
                    "stopped after checkpoint {generation}; continue with: standfast restart {}",
                    ForShell(directory)
                )
            }
            Self::Unfinished { directory, end } => {
                write!(f, "program {end}; continue it with: standfast restart {}", ForShell(directory))
            }
            Self::Failed { directory, end, generation } => write!(
                f,
                "program {end}, through an error of its own. From checkpoint {generation} it will fail again unless the cause lies outside the program; remove it first, then: standfast restart {}",
                ForShell(directory)
            ),
            Self::Kept { directory, checkpoints, bytes } => write!(
                f,
                "program finished; {} ({}) in {}; remove with: standfast clean {}",
                if *checkpoints == 1 {
                    "1 checkpoint is left".to_owned()
                } else {
                    format!("{checkpoints} checkpoints are left")
                },
                ByteSize::b(*bytes),
                directory.display(),
                ForShell(directory)
            ),
            Self::HasFinished { directory, generation } => {
                let directory = ForShell(directory);
                write!(f, "nothing to restart: the program of {directory} has finished with status 0")?;
                match generation {
                    Some(number) => write!(
                        f,
                        "; to repeat it from its last checkpoint: standfast restart {directory} --at {number}"
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Processes by their ids, the first few.
fn list(processes: &[i32]) -> String {
    const SHOWN: usize = 8;
    let ids: Vec<String> = processes.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if processes.len() > SHOWN { ", ..." } else { "" };
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    format!("{} {noun} ({}{more})", processes.len(), ids.join(", "))
}

/// What a program and its user see of its ids after a restart.
fn consequences(ids: &JobIds) -> String {
    match ids {
        JobIds::Old { of_user } => {
            let of_user =
                if *of_user { ", files of other users belong to nobody, set-uid programs do not work" } else { "" };
            format!(
                "it has its old process ids, in its own namespaces: it sees only its own processes{of_user}; a \
pid file that it wrote is not valid outside its namespace"
            )
        }
        JobIds::New { reason: None } => "it has new process ids, as requested".to_owned(),
        JobIds::New { reason: Some(reason) } => {
            format!("it has new process ids, because namespaces are not available here ({reason})")
        }
    }
}

fn write_file_note(f: &mut fmt::Formatter<'_>, note: &FileNote) -> fmt::Result {
    match note {
        FileNote::CutBack { path, bytes, kept, is_whole } => {
            write!(
                f,
                "cut {bytes} bytes off {}, written since the checkpoint; kept in {}",
                ForShell(path),
                ForShell(kept)
            )?;
            if *bytes > TAIL_BYTES_MAX && !is_whole {
                write!(f, " as far as the first {TAIL_BYTES_MAX}")
            } else {
                Ok(())
            }
        }
        FileNote::SetAside { path, kept } => write!(
            f,
            "{} was created after the checkpoint and has been moved to {}: the program will write it again",
            ForShell(path),
            ForShell(kept)
        ),
        FileNote::Replaced { path, kept } => write!(
            f,
            "{} was changed after the checkpoint and has been restored; the changed version is kept in {}",
            ForShell(path),
            ForShell(kept)
        ),
        FileNote::MoreKept { count, place } => write!(
            f,
            "and {} more, created or changed after the checkpoint; kept in {}",
            counted(*count, "file"),
            ForShell(place)
        ),
        FileNote::FilesPutBack { path, changed } => {
            write!(f, "put back {} in {} as at the checkpoint", counted(*changed, "file"), ForShell(path))
        }
        FileNote::LinkRemoved { path, target } => write!(
            f,
            "removed the link {} to {}, which was made after the checkpoint",
            ForShell(path),
            ForShell(target)
        ),
        FileNote::ChangedUnsaved { paths } => write!(
            f,
            "{} changed or removed after the checkpoint, which did not save them, such as {}: check whether the program still needs \
them",
            counted(paths.len(), "file"),
            shown(paths)
        ),
        FileNote::Stay { paths } => write!(
            f,
            "left {} alone, created after the checkpoint, such as {}. If the program appends to such files their lines are \
doubled: a restart with --files rollback moves them away, and a run with --save-folder auto has each restart do so",
            counted(paths.len(), "file"),
            shown(paths)
        ),
        FileNote::SavedBinary { versions, path, kept } => write!(
            f,
            "{} is a different file now{}: the program continues with the saved copy, {}",
            ForShell(path),
            versions.as_ref().map_or(", or gone".to_owned(), |versions| format!(" ({versions})")),
            ForShell(kept)
        ),
        FileNote::CopiedBack { path, from } => write!(
            f,
            "{} is there again as it was at the checkpoint: copied from {}, its name since",
            ForShell(path),
            ForShell(from)
        ),
        FileNote::PutBack { path } => {
            write!(f, "{} holds again what it held at the checkpoint, as saved with it", ForShell(path))
        }
        FileNote::FolderPutBack { path, changed, removed } => write!(
            f,
            "folder {} holds again what it held at the checkpoint: {changed} files put back, {removed} removed that had come since",
            ForShell(path)
        ),
        FileNote::StreamElsewhere { stream, from, to, why } => write!(
            f,
            "{} continues in {}, not in {}: {why}; that file keeps what was written since the checkpoint",
            stream_name(*stream),
            stream_target(to),
            ForShell(from)
        ),
        FileNote::StreamMoved { stream, from, to } => write!(
            f,
            "{} continues in {}, like that of this command, and no longer in {}",
            stream_name(*stream),
            ForShell(to),
            ForShell(from)
        ),
        FileNote::StreamStays { stream, path, own } => {
            let own = stream_target(own);
            let name = stream_name(*stream);
            write!(
                f,
                "{name} of the program continues in {}, not in {own}; to have it there: standfast restart --redirect",
                ForShell(path)
            )
        }
    }
}

/// Where a stream of this command goes.
fn stream_target(path: &Path) -> String {
    match path.to_str() {
        Some(pipe) if pipe.starts_with("pipe:") => "the pipe of this command".to_owned(),
        _ => ForShell(path).to_string(),
    }
}

fn stream_name(stream: i32) -> &'static str {
    if stream == 2 { "standard error" } else { "standard output" }
}

/// The first of many paths.
fn shown(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = paths.iter().take(SHOWN).map(|path| ForShell(path).to_string()).collect();
    shown.join(", ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn write_not_saved(f: &mut fmt::Formatter<'_>, path: &Path, why: NotSaved) -> fmt::Result {
    let path = ForShell(path);
    match why {
        NotSaved::TooMuch => write!(
            f,
            "{path} holds too much for --save-folder auto: what the program writes there is not saved. If that is in a \
directory of the job's own, name it: --save-folder {path}; for temporary files, set TMPDIR to such a directory"
        ),
        NotSaved::Elsewhere => write!(
            f,
            "{path} lies on another machine: --save-folder auto does not save what the program writes there. To have it \
saved: --save-folder {path}"
        ),
        NotSaved::Shared => write!(
            f,
            "{path} is also used by others: of the files there, --save-folder auto puts back those whose names the program \
knows. Run the program in a directory of its own"
        ),
        NotSaved::TooLong => write!(
            f,
            "{path} is too long for --save-folder auto (64 MiB at most) and is not saved. To have it saved, name its \
directory with --save-folder"
        ),
        NotSaved::Linked => write!(f, "{path} has several names (hard links): --save-folder auto does not save it"),
        NotSaved::Unreadable => write!(f, "{path} cannot be read: --save-folder auto does not save it"),
    }
}

fn write_listing_news(f: &mut fmt::Formatter<'_>, news: &ListingNews) -> fmt::Result {
    match news {
        ListingNews::Grows { path } => write!(
            f,
            "{} existed before the program was started and is being appended to. A restart cannot tell who has written what, \
and asks for --files rollback, which cuts it back, or keep. To have it put back instead, run with --save-folder",
            ForShell(path)
        ),
        ListingNews::Database { paths } => write!(
            f,
            "{} belong to an SQLite database that is too large to be saved by itself. A restart will be refused once the \
program has written to it after the checkpoint. Run it with --save-files=SIZE, or --save-folder auto",
            paths.iter().map(|path| ForShell(path).to_string()).collect::<Vec<_>>().join(", ")
        ),
        ListingNews::ClosedDatabase { path } => write!(
            f,
            "{} is an SQLite database that programs of the job open and close again, and checkpoints do not save it. A restart \
will be refused once it has been written to after the checkpoint. Run it with --save-folder auto",
            ForShell(path)
        ),
        ListingNews::Gone { path } => write!(
            f,
            "{} was open for writing at the last checkpoint, and has been removed or replaced since. A restart from a \
checkpoint in the middle of writing such a file is refused. Run it with --save-folder auto, or --save-files=SIZE",
            ForShell(path)
        ),
        ListingNews::HandedOn { path } => write!(
            f,
            "programs of the job hand files to each other by name, such as {}, and checkpoints do not save these. A restart \
fails where one has been removed since. Run it with --save-folder auto, which saves them",
            ForShell(path)
        ),
        ListingNews::NotSaved { path, why } => write_not_saved(f, path, *why),
        ListingNews::TooMuch { path } => write!(
            f,
            "{} holds too many files to be listed with each checkpoint. What the program appends there to files that it does \
not hold open may be written twice after a restart. Run it in a directory of its own, or with --save-folder",
            ForShell(path)
        ),
    }
}

fn write_broken(f: &mut fmt::Formatter<'_>, generation: u64, promise: &BrokenPromise) -> fmt::Result {
    let BrokenPromise { pid, region: (start, end), changed, excluded_by } = promise;
    write!(
        f,
        "at checkpoint {generation}, read-only memory of process {pid} is not what it was at the checkpoint before: at \
{changed}, of the region from {start} to {end}, excluded by {}",
        if excluded_by.is_empty() {
            "a call that is too long ago to be known".to_owned()
        } else {
            excluded_by.join(", ")
        }
    )
}

fn write_taken(f: &mut fmt::Formatter<'_>, report: &CheckpointReport) -> fmt::Result {
    let milliseconds = |nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64() * 1e3;
    write!(
        f,
        "checkpoint {}: {} of {} pages, {} bytes, paused {:.1} ms, {} after {:.1} ms",
        report.generation,
        report.pages_stored,
        report.pages_scanned,
        report.file_bytes,
        milliseconds(report.pause_nanoseconds),
        if report.is_in_memory { "in memory" } else { "safe" },
        milliseconds(report.durable_nanoseconds)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_unfinished_program_comes_with_the_command_that_continues_it() {
        let event = JobEvent::Unfinished { directory: "my job".into(), end: "killed by SIGKILL".into() };
        assert_eq!(event.to_string(), "program killed by SIGKILL; continue it with: standfast restart 'my job'");
    }
}
