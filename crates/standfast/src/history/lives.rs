//! The lives of a job, from the lines of its history.

use super::measured::measured;
use super::{HistoryEntry, HistoryLine, LifeEnd};
use crate::report::{CheckpointReport, OverheadReport, RestartReport};
use serde::Serialize;
use signal_hook::consts::SIGKILL;
use standfast_core::PAGE_BYTES;
use standfast_cost::{Curve, CurveEstimate, FailureHistory, IntervalChooser, MeasuredCheckpoint};

/// Everything that is known of a job's past.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct JobHistory {
    /// Its lives, oldest first.
    pub lives: Vec<JobLife>,
}

/// A life of a job. Times are in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct JobLife {
    /// When it began.
    pub began_nanoseconds: u64,
    /// When it was last heard of: its end, if that was recorded.
    pub last_nanoseconds: u64,
    /// The restart with which it began; `None` if the program was started.
    pub restart: Option<RestartReport>,
    /// Its checkpoints in order.
    pub checkpoints: Vec<CheckpointReport>,
    /// Its flushes of checkpoints to the disk: the generation, and how long each took.
    pub flushes: Vec<FlushedReport>,
    /// Number of checkpoints that failed.
    pub failed_checkpoints: u64,
    /// How it ended, if that was recorded.
    pub end: Option<LifeEnd>,
}

/// A flush of a checkpoint to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlushedReport {
    /// Generation number of the checkpoint.
    pub generation: u64,
    /// Length of its image on the disk in bytes.
    pub file_bytes: u64,
    /// How long the flush took.
    pub nanoseconds: u64,
}

impl JobHistory {
    /// Reads the lines of a history. Lines that it does not understand are passed over.
    pub fn parse(text: &str) -> Self {
        let mut history = Self::default();
        history.add_lines(text);
        history
    }

    /// Adds the lines that were appended to a history.
    pub(crate) fn add_lines(&mut self, text: &str) {
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|line| self.add(line));
    }

    fn add(&mut self, line: HistoryLine) {
        let HistoryLine { at_nanoseconds: at, entry } = line;
        if matches!(entry, HistoryEntry::Began { .. }) || self.lives.is_empty() {
            // If the oldest lines are gone, what is left of a life counts as one.
            self.lives.push(JobLife { began_nanoseconds: at, ..JobLife::default() });
        }
        let life = self.lives.last_mut().expect("one has just been added");
        life.last_nanoseconds = life.last_nanoseconds.max(at);
        match entry {
            HistoryEntry::Began { restart } => life.restart = restart,
            HistoryEntry::Checkpoint(report) => life.checkpoints.push(report),
            HistoryEntry::CheckpointFailed { .. } => life.failed_checkpoints += 1,
            HistoryEntry::Flushed { generation, file_bytes, nanoseconds } => {
                life.flushes.push(FlushedReport { generation, file_bytes, nanoseconds });
            }
            HistoryEntry::Ended { end } => life.end = Some(end),
        }
    }

    /// Returns how often the job has failed. `is_running`: whether its last life still runs.
    pub fn failures(&self, is_running: bool) -> FailureHistory {
        let running = if is_running { self.lives.len().checked_sub(1) } else { None };
        let is_failure = |(at, life): &(usize, &JobLife)| Some(*at) != running && life.has_failed();
        FailureHistory {
            failures: u32::try_from(self.lives.iter().enumerate().filter(is_failure).count()).unwrap_or(u32::MAX),
            observed_seconds: self.lives.iter().map(JobLife::seconds).sum(),
        }
    }

    /// Returns a chooser that has learnt from all checkpoints and restarts.
    pub fn chooser(&self) -> IntervalChooser {
        let mut chooser = IntervalChooser::default();
        for life in &self.lives {
            life.restart.iter().for_each(|restart| chooser.note_restart(restart.nanoseconds as f64 / 1e9));
            life.measured().for_each(|measured| chooser.note_checkpoint(measured));
        }
        chooser
    }

    /// Returns what each checkpoint has cost.
    pub fn measured(&self) -> impl Iterator<Item = MeasuredCheckpoint> {
        self.lives.iter().flat_map(JobLife::measured)
    }

    /// Returns how many bytes change between two checkpoints; `None` as long as none builds upon another.
    pub fn changed_bytes(&self) -> Option<Curve> {
        let mut changed = CurveEstimate::default();
        for life in &self.lives {
            for (report, measured) in life.checkpoints.iter().zip(life.measured()) {
                if report.parent.is_some() {
                    changed.add(measured.work_seconds, (report.pages_read * PAGE_BYTES as u64) as f64);
                }
            }
        }
        changed.curve()
    }

    /// Returns how long the last flush to the disk took, in seconds; `None` if there was none.
    pub fn flush_seconds(&self) -> Option<f64> {
        let last = self.lives.iter().rev().find_map(|life| life.flushes.last())?;
        Some(last.nanoseconds as f64 / 1e9)
    }

    /// Returns how long the job has run, and what checkpoints and failures have cost it. `None` without a history.
    pub fn overhead(&self, is_running: bool) -> Option<OverheadReport> {
        if self.lives.is_empty() {
            return None;
        }
        let checkpoints = || self.lives.iter().flat_map(|life| &life.checkpoints);
        let overhead: u64 = checkpoints().map(CheckpointReport::overhead_nanoseconds).fold(0, u64::saturating_add);
        let restarts = self.lives.iter().filter_map(|life| life.restart.as_ref());
        Some(OverheadReport {
            running_seconds: total(self.lives.iter().map(JobLife::seconds)),
            checkpoints: checkpoints().count() as u64,
            checkpoint_seconds: overhead as f64 / 1e9,
            failures: self.failures(is_running).failures,
            restart_seconds: total(restarts.map(|restart| restart.nanoseconds as f64 / 1e9)),
            lost_seconds: self.lost_seconds(),
        })
    }

    /// Returns the work that was done again after restarts: what each life had done since the checkpoint from which the next
    /// one continued.
    fn lost_seconds(&self) -> f64 {
        let taken = |generation: u64, before: usize| {
            let earlier = self.lives[..before].iter().rev().flat_map(|life| life.checkpoints.iter().rev());
            earlier.into_iter().find(|report| report.generation == generation).map(|report| report.taken_nanoseconds)
        };
        let lost = |(at, life): (usize, &JobLife)| {
            let restart = life.restart.as_ref()?;
            let last = self.lives.get(at.checked_sub(1)?)?.last_nanoseconds;
            Some(last.saturating_sub(taken(restart.generation, at)?) as f64 / 1e9)
        };
        total(self.lives.iter().enumerate().filter_map(lost))
    }
}

impl JobLife {
    /// Returns how long it lasted, as far as it is known, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last_nanoseconds.saturating_sub(self.began_nanoseconds) as f64 / 1e9
    }

    fn measured(&self) -> impl Iterator<Item = MeasuredCheckpoint> {
        let mut since = self.began_nanoseconds;
        self.checkpoints.iter().map(move |report| {
            let measured = measured(report, since);
            since = report.taken_nanoseconds;
            measured
        })
    }

    /// Reports whether a failure ended it, if it has ended: nobody recorded its end, or SIGKILL came. That is how the kernel
    /// ends programs when memory runs out, and how machines go down. All other signals are the user's, a batch system's or the
    /// program's own.
    fn has_failed(&self) -> bool {
        matches!(self.end, None | Some(LifeEnd::Killed { signal: SIGKILL }))
    }
}

/// Adds seconds. The standard sum of none is -0.0, which would be printed.
fn total(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(0.0, |sum, seconds| sum + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(at_seconds: u64, entry: HistoryEntry) -> String {
        let line = HistoryLine { at_nanoseconds: at_seconds * SECOND, entry };
        serde_json::to_string(&line).expect("it is plain data")
    }

    fn began(at: u64, generation: Option<u64>) -> String {
        let restart =
            generation.map(|generation| RestartReport { generation, nanoseconds: 2 * SECOND, phases: Vec::new() });
        line(at, HistoryEntry::Began { restart })
    }

    fn checkpoint(at: u64, generation: u64) -> String {
        let report = CheckpointReport {
            generation,
            parent: generation.checked_sub(1).filter(|parent| *parent > 0),
            pages_read: 100 * generation,
            taken_nanoseconds: at * SECOND,
            pause_nanoseconds: SECOND,
            durable_nanoseconds: 5 * SECOND,
            ..CheckpointReport::default()
        };
        line(at + 5, HistoryEntry::Checkpoint(report))
    }

    fn ended(at: u64, end: LifeEnd) -> String {
        line(at, HistoryEntry::Ended { end })
    }

    fn parse(lines: &[String]) -> JobHistory {
        JobHistory::parse(&lines.join("\n"))
    }

    #[test]
    fn failures_are_what_nobody_wanted() {
        let lives = |ends: &[Option<LifeEnd>]| {
            let lines = ends.iter().zip(0..).flat_map(|(end, at)| {
                let begins = began(at * 100, None);
                let ends = end.map_or(checkpoint(at * 100 + 45, 1), |end| ended(at * 100 + 50, end));
                [begins, ends]
            });
            parse(&lines.collect::<Vec<_>>())
        };
        let killed = |signal| Some(LifeEnd::Killed { signal });
        let all = [None, killed(9), killed(15), killed(2), killed(11), killed(24), Some(LifeEnd::Stopped)];
        let history = lives(&all);
        assert_eq!(history.failures(false), FailureHistory { failures: 2, observed_seconds: 350.0 });
        let exited = Some(LifeEnd::Exited { status: 1 });
        assert_eq!(lives(&[exited, None]).failures(true).failures, 0, "the last life still runs");
        assert_eq!(lives(&[exited, None]).failures(false).failures, 1);
        assert_eq!(JobHistory::default().failures(false), FailureHistory::default());
    }

    #[test]
    fn the_overhead_is_that_of_checkpoints_restarts_and_lost_work() {
        let history = parse(&[
            began(0, None),
            checkpoint(60, 1),
            checkpoint(120, 2),
            line(170, HistoryEntry::failed("no room")),
            ended(180, LifeEnd::Killed { signal: 9 }),
            began(200, Some(2)),
            checkpoint(260, 3),
        ]);
        let overhead = history.overhead(true).expect("there is a history");
        assert_eq!((overhead.checkpoints, overhead.failures), (3, 1));
        assert_eq!(overhead.running_seconds, 180.0 + 65.0);
        assert_eq!((overhead.checkpoint_seconds, overhead.restart_seconds), (3.0, 2.0));
        assert_eq!(overhead.lost_seconds, 60.0, "from checkpoint 2 at 120 s to the end at 180 s");
        assert_eq!(history.lives[0].failed_checkpoints, 1);
        assert_eq!(JobHistory::default().overhead(false), None);
        let fresh = parse(&[began(0, None)]).overhead(true).expect("it has begun");
        assert!([fresh.restart_seconds, fresh.lost_seconds].into_iter().all(f64::is_sign_positive), "{fresh:?}");
    }

    #[test]
    fn the_chooser_has_learnt_from_the_past() {
        let history = parse(&[began(0, None), checkpoint(60, 1), checkpoint(120, 2), began(200, Some(2))]);
        let curves = history.chooser().curves().expect("two checkpoints");
        assert!((curves.overhead.at(60.0) - 1.0).abs() < 0.1);
        assert_eq!(curves.recovery_seconds, 2.0);
        let changed = history.changed_bytes().expect("the second builds upon the first");
        assert!((changed.at(59.0) / (200.0 * 4096.0) - 1.0).abs() < 1e-6, "{changed:?}");
        assert_eq!(parse(&[began(0, None), checkpoint(60, 1)]).changed_bytes(), None);
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        let text = format!("nonsense\n{}\n{{\"what\":\"new\",\"at_nanoseconds\":1}}\n\0\0", checkpoint(60, 1));
        let history = JobHistory::parse(&text);
        assert_eq!(history.lives.len(), 1, "what is left of a life whose beginning is gone");
        assert_eq!(history.lives[0].checkpoints.len(), 1);
    }
}
