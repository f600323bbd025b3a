//! Metrics of a job in Prometheus' text format, in a file that collectors of node exporters read. It is replaced by a rename,
//! so that readers see it whole.

use super::Supervisor;
use super::machine::TakenFacts;
use crate::report::LiveReport;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two writes, if nothing happens meanwhile. Collectors look each 15 to 60 seconds.
const EVERY: Duration = Duration::from_secs(15);

/// The file, and what it counts.
#[derive(Debug)]
pub(super) struct Metrics {
    path: Option<PathBuf>,
    due: Instant,
    /// What tells the job from others of the machine.
    labels: String,
    /// Whether the last write failed, which was reported.
    has_failed: bool,
    tally: Tally,
}

/// What has happened in this life.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Tally {
    checkpoints: u64,
    failed: u64,
    pause_nanoseconds: u64,
    overhead_nanoseconds: u64,
    bytes: u64,
    /// When the newest checkpoint on the disk was taken, in nanoseconds since 1970.
    durable_nanoseconds: Option<u64>,
}

impl Metrics {
    pub(super) fn new(path: Option<PathBuf>, directory: &Path, now: Instant) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self { path, due: now, labels: labels(&directory), has_failed: false, tally: Tally::default() }
    }

    /// Returns when the file is written next; `None` if never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.path.as_ref().map(|_| self.due)
    }

    /// Counts a checkpoint that has ended, if it was one.
    pub(super) fn note(&mut self, outcome: Result<&TakenFacts, ()>, now: Instant) {
        self.due = now;
        let tally = &mut self.tally;
        match outcome {
            Ok(TakenFacts { report, .. }) => {
                tally.checkpoints += 1;
                tally.pause_nanoseconds = tally.pause_nanoseconds.saturating_add(report.pause_nanoseconds);
                tally.overhead_nanoseconds = tally.overhead_nanoseconds.saturating_add(report.overhead_nanoseconds());
                tally.bytes = tally.bytes.saturating_add(report.file_bytes);
                if !report.is_in_memory {
                    tally.durable_nanoseconds = Some(report.taken_nanoseconds);
                }
            }
            Err(()) => tally.failed += 1,
        }
    }

    /// Notes when a checkpoint was taken that is on the disk now.
    pub(super) fn note_durable(&mut self, taken_nanoseconds: u64) {
        self.tally.durable_nanoseconds = self.tally.durable_nanoseconds.max(Some(taken_nanoseconds));
    }
}

impl Supervisor<'_, '_> {
    /// Writes the file, if it is wanted and due. Reports an error once, until it could be written again.
    pub(super) fn write_metrics(&mut self, now: Instant) {
        let Some(path) = self.metrics.path.clone().filter(|_| self.metrics.due <= now) else { return };
        self.metrics.due = now + EVERY;
        let report = self.machine.report(std::process::id() as i32, self.job.main_process().pid.get(), now);
        let text = text(&self.metrics.labels, &report, &self.metrics.tally, SystemTime::now());
        match (replace(&path, text.as_bytes()), self.metrics.has_failed) {
            (Ok(()), _) => self.metrics.has_failed = false,
            (Err(error), false) => {
                self.metrics.has_failed = true;
                self.warn(format!("cannot write metrics to {}, and will try again: {error}", path.display()));
            }
            (Err(_), true) => {}
        }
    }

    /// Removes the file when the life has ended: what it says is no longer true.
    pub(super) fn end_metrics(&self) {
        self.metrics.path.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Replaces a file as a whole.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    // Collectors read names that end in .prom.
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = std::fs::write(&temporary, content).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Returns the labels that tell the job from others of the machine.
fn labels(directory: &Path) -> String {
    let escaped = directory.to_string_lossy().replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{{directory=\"{escaped}\"}}")
}

/// Returns the metrics as text.
fn text(labels: &str, report: &LiveReport, tally: &Tally, now: SystemTime) -> String {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let last = report.last_checkpoint.as_ref();
    let stops = report.last_failure.is_some();
    let metrics = [
        Metric::counter("checkpoints_total", "Checkpoints that were taken.", Some(tally.checkpoints as f64)),
        Metric::counter("checkpoint_failures_total", "Checkpoints that failed.", Some(tally.failed as f64)),
        Metric::counter(
            "checkpoint_pause_seconds_total",
            "Time for which checkpoints stopped the program.",
            Some(seconds(tally.pause_nanoseconds)),
        ),
        Metric::counter(
            "checkpoint_overhead_seconds_total",
            "Estimated time by which checkpoints made the program run longer.",
            Some(seconds(tally.overhead_nanoseconds)),
        ),
        Metric::counter("checkpoint_bytes_total", "Bytes of all checkpoints.", Some(tally.bytes as f64)),
        Metric::gauge(
            "last_checkpoint_timestamp_seconds",
            "When the last checkpoint was taken.",
            last.map(|last| seconds(last.taken_nanoseconds)),
        ),
        Metric::gauge(
            "last_durable_checkpoint_timestamp_seconds",
            "When the newest checkpoint on the disk was taken.",
            tally.durable_nanoseconds.map(seconds),
        ),
        Metric::gauge(
            "last_checkpoint_pause_seconds",
            "How long the last checkpoint stopped the program.",
            last.map(|last| seconds(last.pause_nanoseconds)),
        ),
        Metric::gauge(
            "last_checkpoint_bytes",
            "Bytes of the last checkpoint.",
            last.map(|last| last.file_bytes as f64),
        ),
        Metric::gauge(
            "next_checkpoint_timestamp_seconds",
            "When the next checkpoint is due.",
            report.next_due_seconds.map(|due| now + due),
        ),
        Metric::gauge("checkpoints_fail", "1 if the last checkpoint failed.", Some(f64::from(u8::from(stops)))),
        Metric::gauge("updated_timestamp_seconds", "When these metrics were written.", Some(now)),
    ];
    let mut text = String::new();
    metrics.iter().for_each(|metric| metric.write(&mut text, labels));
    text
}

/// A number with a name.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// `None` if there is nothing to say yet.
    value: Option<f64>,
}

impl Metric {
    fn counter(name: &'static str, help: &'static str, value: Option<f64>) -> Self {
        Self { name, kind: "counter", help, value }
    }

    fn gauge(name: &'static str, help: &'static str, value: Option<f64>) -> Self {
        Self { name, kind: "gauge", help, value }
    }

    fn write(&self, text: &mut String, labels: &str) {
        let Self { name, kind, help, value } = self;
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP standfast_{name} {help}\n# TYPE standfast_{name} {kind}");
            let _ = writeln!(text, "standfast_{name}{labels} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CheckpointReport;

    fn report() -> LiveReport {
        LiveReport {
            supervisor_pid: 1,
            program_pid: 2,
            is_checkpointing: false,
            is_coalescing: false,
            flush: None,
            disabled_seconds: None,
            next_due_seconds: Some(30.0),
            chosen_interval: None,
            last_checkpoint: Some(CheckpointReport {
                taken_nanoseconds: 1_700_000_000_500_000_000,
                pause_nanoseconds: 8_000_000,
                file_bytes: 4096,
                ..CheckpointReport::default()
            }),
            last_failure: None,
            rehearsal: None,
            stop: None,
            restart: None,
        }
    }

    #[test]
    fn metrics_are_lines_that_prometheus_reads() {
        let tally = Tally { checkpoints: 3, pause_nanoseconds: 24_000_000, ..Tally::default() };
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_100);
        let text = text(&labels(Path::new("/a \"b\"/c\\d\ne")), &report(), &tally, now);
        let labelled =
            |name: &str, value: &str| format!("\nstandfast_{name}{{directory=\"/a \\\"b\\\"/c\\\\d\\ne\"}} {value}\n");
        assert!(text.contains(&labelled("checkpoints_total", "3")), "{text}");
        assert!(text.contains(&labelled("checkpoint_pause_seconds_total", "0.024")), "{text}");
        assert!(text.contains(&labelled("last_checkpoint_timestamp_seconds", "1700000000.5")), "{text}");
        assert!(text.contains(&labelled("next_checkpoint_timestamp_seconds", "1700000130")), "{text}");
        assert!(!text.contains("last_durable"), "nothing is durable yet");
        let (mut help, mut kinds, mut values) = (0, 0, 0);
        for line in text.lines() {
            match line.split(' ').next() {
                Some("#") if line.starts_with("# HELP ") => help += 1,
                Some("#") => kinds += 1,
                _ => values += 1,
            }
        }
        assert_eq!((help, kinds), (values, values));
        assert!(text.lines().all(|line| !line.contains("NaN") && !line.contains("inf")));
    }

    #[test]
    fn the_file_is_replaced_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job.prom");
        replace(&path, b"one\n").unwrap();
        replace(&path, b"two\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two\n");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(replace(&place.path().join("none/job.prom"), b"").is_err());
        assert!(replace(place.path(), b"").is_err(), "a directory");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
