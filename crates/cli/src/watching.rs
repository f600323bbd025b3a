//! `status --watch`: the state of a job, again and again. On a terminal it is drawn in place; elsewhere each change is a line.
//!
//! Nothing of the terminal is changed, so nothing has to be put back: Ctrl-C ends the command as any other.

use crate::output::write_out;
use crate::tables;
use rustix::termios::tcgetwinsize;
use standfast::report::{CheckpointReport, DistributedReport, EpochReport, JobPhase, JobStatus, StatusReport};
use standfast::{DistributedWatch, JobHistory, StatusWatch, printable};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Clears the screen. That is done once; then lines replace each other.
const CLEARED: &[u8] = b"\x1b[2J";

/// Width and height of a terminal that does not say them.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// Signs for the eight heights of a column.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Width of the names before the columns.
const NAME_WIDTH: usize = 12;

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    columns: usize,
    rows: usize,
}

/// Watches a job until it has ended.
pub(crate) fn watch(directory: PathBuf) -> anyhow::Result<ExitCode> {
    let mut watch = StatusWatch::new(directory);
    let is_drawn = io::stdout().is_terminal();
    if is_drawn {
        write_out(CLEARED)?;
    }
    let mut reported = None;
    loop {
        let status = watch.look()?;
        if is_drawn {
            write_out(screen(&status, watch.history(), size()).as_bytes())?;
        } else {
            report_change(&status, &mut reported)?;
        }
        if !matches!(status.state, JobStatus::Running | JobStatus::Unprotected | JobStatus::Elsewhere) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Does the same with a job of several nodes.
pub(crate) fn watch_distributed(directory: &Path) -> anyhow::Result<ExitCode> {
    let mut watch = DistributedWatch::new(directory)?;
    let is_drawn = io::stdout().is_terminal();
    if is_drawn {
        write_out(CLEARED)?;
    }
    let mut reported = None;
    loop {
        let report = watch.look()?;
        if is_drawn {
            write_out(placed(shown(&tables::distributed::status(&report)), size()).as_bytes())?;
        } else {
            write_out(changes(&report, reported.as_ref()).as_bytes())?;
        }
        if !matches!(report.phase, JobPhase::Running | JobPhase::Unprotected | JobPhase::Elsewhere) {
            return Ok(ExitCode::SUCCESS);
        }
        reported = Some(report);
        std::thread::sleep(PAUSE);
    }
}

/// Returns a line for each thing that has changed since the last look at a job of several nodes.
fn changes(now: &DistributedReport, before: Option<&DistributedReport>) -> String {
    let mut text = String::new();
    if before.map(|before| before.phase) != Some(now.phase) {
        let _ = writeln!(text, "{}", now.phase);
    }
    let known = before.and_then(|before| before.epochs.last()).map(|last| last.epoch);
    let is_new = |epoch: &&EpochReport| known.is_none_or(|known| epoch.epoch > known);
    let new = now.epochs.iter().filter(is_new);
    // Those before the first look are old.
    for epoch in new.skip(if before.is_none() { now.epochs.len().saturating_sub(1) } else { 0 }) {
        let _ = writeln!(text, "{}", tables::distributed::epoch(epoch));
    }
    if let Some(why) = now.given_up.as_ref().filter(|_| before.map(|before| &before.given_up) != Some(&now.given_up)) {
        let _ = writeln!(text, "failed: {}", printable(why));
    }
    text
}

/// Returns the size of the terminal.
fn size() -> Size {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => USUAL,
    }
}

/// Returns what replaces the screen: the pauses and sizes of the last checkpoints as columns, and the state.
fn screen(status: &StatusReport, history: &JobHistory, size: Size) -> String {
    let mut lines: Vec<String> = columns(history, size.columns);
    lines.extend(shown(&tables::status(status)));
    placed(lines, size)
}

/// Returns the lines of a text for a terminal.
fn shown(text: &str) -> Vec<String> {
    text.lines().map(|line| printable(line).into_owned()).collect()
}

/// Returns these lines in the place of those that are on the screen.
fn placed(lines: Vec<String>, size: Size) -> String {
    let mut text = "\x1b[H".to_owned();
    // The last line stays free, so that the terminal does not scroll.
    for line in lines.iter().take(size.rows.saturating_sub(1)) {
        let _ = write!(text, "{}\x1b[K\r\n", cut(line, size.columns));
    }
    text + "\x1b[J"
}

/// Returns the pauses and sizes of the last checkpoints, as many as there is room for, newest last.
fn columns(history: &JobHistory, width: usize) -> Vec<String> {
    let all: Vec<&CheckpointReport> = history.lives.iter().flat_map(|life| &life.checkpoints).collect();
    let last = &all[all.len().saturating_sub(width.saturating_sub(NAME_WIDTH))..];
    if last.is_empty() {
        return Vec::new();
    }
    let values = |of: fn(&CheckpointReport) -> u64| last.iter().map(|report| of(report)).collect::<Vec<_>>();
    let rows = |name: &str, values: &[u64], shown: fn(u64) -> String| {
        let most = values.iter().copied().max().unwrap_or_default();
        [format!("{name:<NAME_WIDTH$}{}", sparkline(values)), format!("{:<NAME_WIDTH$}at most {}", "", shown(most))]
    };
    let pauses = rows("pauses", &values(|report| report.pause_nanoseconds), tables::nanoseconds);
    let sizes = rows("sizes", &values(|report| report.file_bytes), tables::size);
    pauses.into_iter().chain(sizes).chain([String::new()]).collect()
}

/// Draws values as columns, the largest as high as a line.
fn sparkline(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or_default().max(1);
    let height = |value: &u64| {
        let share = *value as f64 / most as f64;
        HEIGHTS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(height).collect()
}

/// Cuts a line to a width. Signs that are two columns wide occur in names of files only, where the terminal cuts.
fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// What was reported of a job.
#[derive(Debug, Clone, PartialEq)]
struct Reported {
    state: JobStatus,
    generation: Option<u64>,
    failure: Option<String>,
}

/// Prints a line for each thing that has changed since the last look.
fn report_change(status: &StatusReport, reported: &mut Option<Reported>) -> anyhow::Result<()> {
    let last = status.live.as_ref().and_then(|live| live.last_checkpoint.as_ref());
    let failure = status.live.as_ref().and_then(|live| live.last_failure.clone());
    let now = Reported { state: status.state, generation: last.map(|last| last.generation), failure };
    let before = reported.replace(now.clone());
    let mut text = String::new();
    if before.as_ref().map(|before| before.state) != Some(now.state) {
        let _ = writeln!(text, "{}", printable(&tables::job_state(status)));
    }
    if let Some(last) = last.filter(|_| before.as_ref().and_then(|before| before.generation) != now.generation) {
        let _ = writeln!(text, "{}", tables::checkpoint(last));
    }
    let known = before.and_then(|before| before.failure);
    if let Some(failure) = now.failure.filter(|failure| known.as_ref() != Some(failure)) {
        let _ = writeln!(text, "failed: {}", printable(&failure));
    }
    write_out(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_high_as_their_values() {
        assert_eq!(sparkline(&[0, 50, 100]), "▁▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn lines_are_cut_to_the_terminal() {
        assert_eq!(cut("checkpoint", 10), "checkpoint");
        assert_eq!(cut("checkpoints", 10), "checkpoin…");
        assert_eq!(cut("ab", 1), "…");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn changes_of_a_job_of_several_nodes_are_lines() {
        let epoch = |number| EpochReport {
            epoch: number,
            age_seconds: 1.0,
            generations: vec![number],
            bytes: 4096,
            pause_nanoseconds: 2_000_000,
            is_in_doubt: false,
            is_on_disk: true,
        };
        let first = DistributedReport {
            directory: "/job".into(),
            command: vec!["./solver".to_owned()],
            phase: JobPhase::Running,
            coordinator: None,
            given_up: None,
            nodes: Vec::new(),
            epochs: vec![epoch(1), epoch(2)],
        };
        let line = |number| format!("epoch {number}: pause 2.0 ms, 4.0 KiB\n");
        assert_eq!(changes(&first, None), format!("running\n{}", line(2)), "older ones are no news");
        assert_eq!(changes(&first, Some(&first)), "");
        let later = DistributedReport {
            phase: JobPhase::Finished,
            given_up: Some("a\u{7}reason".to_owned()),
            epochs: vec![epoch(3), epoch(4)],
            ..first.clone()
        };
        let said = changes(&later, Some(&first));
        assert_eq!(said, format!("finished\n{}{}failed: a\\x07reason\n", line(3), line(4)));
    }

    #[test]
    fn the_newest_checkpoints_are_drawn_as_far_as_there_is_room() {
        let checkpoint = |at: u64| {
            let generation =
                format!("\"generation\":{at},\"tasks\":1,\"parent\":null,\"pages_scanned\":1,\"pages_read\":1");
            let sizes = format!("\"pages_stored\":1,\"file_bytes\":{},\"taken_nanoseconds\":{at}", at * 1000);
            let times = "\"pause_nanoseconds\":1000000,\"scanning_nanoseconds\":1,\"durable_nanoseconds\":1";
            format!("{{\"at_nanoseconds\":{at},\"what\":\"checkpoint\",{generation},{sizes},{times}}}\n")
        };
        let history = JobHistory::parse(&(1..=100).map(checkpoint).collect::<String>());
        let drawn = columns(&history, 20);
        assert_eq!(drawn[0], "pauses      ████████");
        assert_eq!(drawn[1], "            at most 1.0 ms");
        assert_eq!(drawn[2].chars().count(), 20);
        assert_eq!(columns(&history, 200)[2].chars().count(), 112, "there are no more");
        assert_eq!(columns(&history, 5).len(), 0, "there is no room");
        assert_eq!(columns(&JobHistory::default(), 80).len(), 0);
    }
}
