//! Texts of events for users: a sentence or two each.

use super::file_notes::write_file_note;
use super::listing_news::write_listing_news;
use super::{JobEvent, LongWork};
use crate::quoting::ForShell;
use crate::report::{CheckpointReport, PhaseReport, RestartReport};
use bytesize::ByteSize;
use humantime::format_duration;
use standfast_engine::{BrokenPromise, JobIds};
use std::fmt;
use std::path::Path;
use std::time::Duration;

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { pid } => write!(f, "the program runs as process {pid}"),
            Self::Continued { restart, .. } => write_continued(f, restart),
            Self::Ids { ids, .. } => f.write_str(&consequences(ids)),
            Self::Without { remark: text } | Self::Trouble { reason: text } | Self::MachineNotice { notice: text } => {
                f.write_str(text)
            }
            Self::AddressAwaited { address, rest } => write_address_awaited(f, address, *rest),
            Self::File(note) => write_file_note(f, note),
            Self::Skipped { generation, reason } => write!(f, "checkpoint {generation} cannot be used: {reason}"),
            Self::StartedAfresh { reason } => write!(f, "started from the beginning: {reason}"),
            Self::Taken(report) => write_taken(f, report),
            Self::Coalesced { generation, file_bytes, removed } => {
                write_coalesced(f, *generation, *file_bytes, *removed)
            }
            Self::Rehearsed { generation, was_reported } => f.write_str(&rehearsed(*generation, *was_reported)),
            Self::NotRestartable { reason } => write!(f, "a restart would fail at present: {reason}"),
            Self::Flushed { generation, file_bytes } => write_flushed(f, *generation, *file_bytes),
            Self::NotInMemory { reason, .. } => write!(f, "checkpoints go to disk instead of memory: {reason}"),
            Self::LeftInMemory { place, generation, on_disk, reason } => {
                write_left_in_memory(f, place, *generation, *on_disk, reason)
            }
            Self::Progress { work, done_bytes, total_bytes, .. } => {
                write!(f, "{work}: ")?;
                write_progress(f, *done_bytes, *total_bytes)
            }
            Self::ProgressEnded { work } => write!(f, "{work}: done"),
            Self::MemoryLost { reason } => write_memory_lost(f, reason),
            Self::Untracked { reason } => write_untracked(f, reason),
            Self::Uncloned { reason } => write_uncloned(f, reason),
            Self::NotTaken { reason } => write!(f, "checkpoint failed, the program continues: {reason}"),
            Self::Unprotectable { reason } => write_unprotectable(f, reason),
            Self::ProtectedAgain { generation } => write!(f, "checkpoints work again: {generation} is durable"),
            Self::NotStopped { reason } => write_not_stopped(f, reason),
            Self::Deadline(news) => news.fmt(f),
            Self::Broken { generation, promise } => write_broken(f, *generation, promise),
            Self::Listing(news) => write_listing_news(f, news),
            Self::GoesOn { processes } => write_goes_on(f, processes),
            Self::InBackground { directory, processes, interrupted } => {
                write_in_background(f, directory, processes, interrupted.as_deref())
            }
            Self::Detached { directory } => write_detached(f, directory),
            Self::AwaitsExit { pid } => write_awaits_exit(f, *pid),
            Self::WatchesHeartbeat { host, time } => write_watches_heartbeat(f, host, *time),
            Self::Alone { .. } => f.write_str("the program now runs without this command"),
            Self::TerminalLost => {
                f.write_str("the process that held the program's terminal is gone: the program gets SIGHUP")
            }
            Self::Leftovers { processes } => write_leftovers(f, processes),
            Self::Container(news) => news.fmt(f),
            Self::Stopped { directory, generation } => write_stopped(f, directory, *generation),
            Self::Unfinished { directory, end } => write_unfinished(f, directory, end),
            Self::Failed { directory, end, generation } => write_failed(f, directory, end, *generation),
            Self::Kept { directory, checkpoints, bytes } => write_kept(f, directory, *checkpoints, *bytes),
            Self::Cost { checkpoints, overhead, running } => write_cost(f, *checkpoints, *overhead, *running),
            Self::HasFinished { directory, generation } => write_finished(f, directory, *generation),
        }
    }
}

fn write_continued(f: &mut fmt::Formatter<'_>, restart: &RestartReport) -> fmt::Result {
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let phase = |phase: &PhaseReport| format!("{} {:.1}", phase.name, milliseconds(phase.nanoseconds));
    let phases: Vec<_> = restart.phases.iter().map(phase).collect();
    write!(
        f,
        "continued from checkpoint {} after {:.1} ms: {}",
        restart.generation,
        milliseconds(restart.nanoseconds),
        phases.join(", ")
    )
}

fn write_coalesced(f: &mut fmt::Formatter<'_>, generation: u64, file_bytes: u64, removed: u64) -> fmt::Result {
    write!(f, "coalesced into checkpoint {generation}: {file_bytes} bytes, {removed} older ones gone")
}

fn write_flushed(f: &mut fmt::Formatter<'_>, generation: u64, file_bytes: u64) -> fmt::Result {
    write!(f, "checkpoint {generation} flushed to disk: {file_bytes} bytes")
}

fn rehearsed(generation: u64, was_reported: bool) -> String {
    match was_reported {
        true => format!("a restart would succeed again: checkpoint {generation} was rehearsed"),
        false => format!("a restart from checkpoint {generation} was rehearsed, and would succeed"),
    }
}

impl fmt::Display for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writing { generation } => write!(f, "writing checkpoint {generation}"),
            Self::Restoring { generation } => write!(f, "restoring checkpoint {generation}"),
            Self::Verifying { generation } => write!(f, "verifying checkpoint {generation}"),
            Self::Rehearsing { generation } => write!(f, "rehearsing a restart from checkpoint {generation}"),
            Self::WritingCore { generation } => write!(f, "reading checkpoint {generation} for core files"),
            Self::Flushing { generation } => write!(f, "flushing checkpoint {generation} to disk"),
            Self::Coalescing => f.write_str("coalescing checkpoints"),
        }
    }
}

fn write_progress(f: &mut fmt::Formatter<'_>, done_bytes: u64, total_bytes: Option<u64>) -> fmt::Result {
    match total_bytes {
        Some(total) => write!(f, "{} of {}", ByteSize::b(done_bytes.min(total)), ByteSize::b(total)),
        None => write!(f, "{} so far", ByteSize::b(done_bytes)),
    }
}

fn write_left_in_memory(
    f: &mut fmt::Formatter<'_>,
    place: &Path,
    newest: Option<u64>,
    on_disk: Option<u64>,
    reason: &str,
) -> fmt::Result {
    let which = |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
    write!(
        f,
        "the newest checkpoint ({}) is only in memory, in {}, and would be lost with it (newest on disk: {}): {reason}",
        which(newest),
        ForShell(place),
        which(on_disk)
    )
}

fn write_memory_lost(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(f, "checkpoints in memory are lost; those on disk are used: {reason}")
}

fn write_goes_on(f: &mut fmt::Formatter<'_>, processes: &[i32]) -> fmt::Result {
    write!(f, "the program exited; its remaining processes stay supervised: {}", list(processes))
}

fn write_in_background(
    f: &mut fmt::Formatter<'_>,
    directory: &Path,
    processes: &[i32],
    interrupted: Option<&str>,
) -> fmt::Result {
    let (directory, remaining) = (ForShell(directory), list(processes));
    match interrupted {
        Some(end) => write!(
            f,
            "program {end}; its remaining {remaining} stay supervised, without further checkpoints\nhint: see standfast status {directory}; when they have exited, continue with: standfast restart {directory}"
        ),
        None => write!(
            f,
            "the program exited; its remaining processes stay supervised in the background: {remaining}\nhint: see standfast status {directory}"
        ),
    }
}

fn write_detached(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(f, "the program runs in the background; its terminal: standfast attach {}", ForShell(directory))
}

fn write_awaits_exit(f: &mut fmt::Formatter<'_>, pid: i32) -> fmt::Result {
    write!(f, "waiting for the previous run of this job to end: process {pid} is still exiting")
}

fn write_stopped(f: &mut fmt::Formatter<'_>, directory: &Path, generation: u64) -> fmt::Result {
    write!(f, "stopped after checkpoint {generation}; continue with: standfast restart {}", ForShell(directory))
}

fn write_unfinished(f: &mut fmt::Formatter<'_>, directory: &Path, end: &str) -> fmt::Result {
    write!(f, "program {end}; continue it with: standfast restart {}", ForShell(directory))
}

fn write_kept(f: &mut fmt::Formatter<'_>, directory: &Path, checkpoints: u64, bytes: u64) -> fmt::Result {
    let left = match checkpoints {
        1 => "1 checkpoint is left".to_owned(),
        _ => format!("{checkpoints} checkpoints are left"),
    };
    write!(
        f,
        "program finished; {left} ({}) in {}; remove with: standfast clean {}",
        ByteSize::b(bytes),
        directory.display(),
        ForShell(directory)
    )
}

fn write_cost(f: &mut fmt::Formatter<'_>, checkpoints: u64, overhead: Duration, running: Duration) -> fmt::Result {
    let checkpoints = match checkpoints {
        1 => "1 checkpoint".to_owned(),
        number => format!("{number} checkpoints"),
    };
    let share = overhead.as_secs_f64() / running.as_secs_f64() * 100.0;
    let running = format_duration(Duration::from_secs(running.as_secs()));
    write!(f, "{checkpoints} took about {share:.2} % of the running time ({running})")
}

fn write_finished(f: &mut fmt::Formatter<'_>, directory: &Path, generation: Option<u64>) -> fmt::Result {
    let directory = ForShell(directory);
    write!(f, "nothing to restart: the program of {directory} has finished with status 0")?;
    match generation {
        Some(number) => {
            write!(f, "; to repeat it from its last checkpoint: standfast restart {directory} --at {number}")
        }
        None => Ok(()),
    }
}

fn write_address_awaited(f: &mut fmt::Formatter<'_>, address: &str, rest: Duration) -> fmt::Result {
    let seconds = rest.as_secs_f64().ceil();
    write!(
        f,
        "waiting for port {address}, up to {seconds} s: a connection of the previous life, or another program, still holds it"
    )
}

fn write_watches_heartbeat(f: &mut fmt::Formatter<'_>, host: &str, time: Duration) -> fmt::Result {
    let seconds = time.as_secs();
    write!(
        f,
        "the job was supervised before this machine was booted, or is supervised on another machine that is also named {host}: watching its heartbeat for {seconds} s"
    )
}

fn write_failed(f: &mut fmt::Formatter<'_>, directory: &Path, end: &str, generation: u64) -> fmt::Result {
    write!(
        f,
        "program {end}, through an error of its own. A restart from checkpoint {generation} fails again unless the cause lies outside the program\nhint: remove the cause, then: standfast restart {}",
        ForShell(directory)
    )
}

fn write_untracked(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(
        f,
        "the kernel cannot report which pages the program writes ({reason}): --track auto compares checksums instead, which lengthens the pause"
    )
}

fn write_uncloned(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(f, "a process could not be cloned ({reason}): its memory was copied during the pause")
}

fn write_unprotectable(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(f, "the program cannot be checkpointed in its present state: {reason}")
}

fn write_not_stopped(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(f, "not stopped, and the next such signal is passed to the program, because the checkpoint failed: {reason}")
}

fn write_leftovers(f: &mut fmt::Formatter<'_>, processes: &[i32]) -> fmt::Result {
    let processes = list(processes);
    write!(
        f,
        "the program exited; no longer supervised: {processes} (standfast run --wait supervises them until they exit)"
    )
}

/// Lists the first few processes by their ids.
pub(super) fn list(processes: &[i32]) -> String {
    const SHOWN: usize = 8;
    let ids: Vec<String> = processes.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if processes.len() > SHOWN { ", ..." } else { "" };
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    format!("{} {noun} ({}{more})", processes.len(), ids.join(", "))
}

/// Describes what a program and its user see of the ids after a restart.
fn consequences(ids: &JobIds) -> String {
    match ids {
        JobIds::Old { of_user } => {
            let of_user = if *of_user {
                ", files of other users appear to belong to nobody, set-uid programs do not work"
            } else {
                ""
            };
            format!(
                "the program has its old process ids, in its own namespaces: it sees only its own processes{of_user}; a \
                 pid file that it wrote is not valid outside its namespace"
            )
        }
        JobIds::New { reason: None } => "the program has new process ids, as requested".to_owned(),
        JobIds::New { reason: Some(reason) } => {
            format!("the program has new process ids, because namespaces are not available here ({reason})")
        }
    }
}

fn write_broken(f: &mut fmt::Formatter<'_>, generation: u64, promise: &BrokenPromise) -> fmt::Result {
    let BrokenPromise { pid, region: (start, end), changed, excluded_by } = promise;
    write!(
        f,
        "at checkpoint {generation}, read-only memory of process {pid} has changed since the previous one: at {changed}, in the region from {start} to {end}, excluded by {}",
        if excluded_by.is_empty() {
            "a call that was too long ago to be known".to_owned()
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
    use crate::report::OverheadReport;

    #[test]
    fn an_unfinished_program_is_reported_with_the_restart_command() {
        let event = JobEvent::Unfinished { directory: "my job".into(), end: "killed by SIGKILL".into() };
        assert_eq!(event.to_string(), "program killed by SIGKILL; continue it with: standfast restart 'my job'");
    }

    #[test]
    fn the_cost_of_checkpoints_is_reported_after_a_run_of_some_length() {
        let overhead = |running_seconds, checkpoints| OverheadReport {
            running_seconds,
            checkpoints,
            checkpoint_seconds: 1.5,
            failures: 0,
            restart_seconds: 0.0,
            lost_seconds: 0.0,
        };
        let told =
            |running, checkpoints| JobEvent::of_overhead(&overhead(running, checkpoints)).map(|it| it.to_string());
        assert_eq!(told(300.7, 6).as_deref(), Some("6 checkpoints took about 0.50 % of the running time (5m)"));
        assert_eq!(told(59.0, 6), None);
        assert_eq!(told(300.0, 0), None);
        assert_eq!(told(f64::NAN, 6), None);
    }
}
