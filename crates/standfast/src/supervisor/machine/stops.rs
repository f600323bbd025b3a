//! Estimates how long a stop would take now, and how often checkpoints must be taken so that a stop at any moment ends
//! in time. Both follow from the checkpoints of this life, and err on the long side. The module is pure.
//!
//! A stop that comes while a checkpoint is under way waits for it. At worst, the stop comes when a checkpoint begins:
//!
//! ```text
//! last checkpoint        a checkpoint begins, the stop comes       the stop's own begins            stopped
//!   |--- interval: what is written is saved next ---|--- cost of that ---|--- cost of what is written meanwhile ---|
//! ```

use crate::report::{CheckpointReport, StopReport};
use standfast_core::PAGE_BYTES;
use standfast_core::estimate::{Estimate, Weight};
use std::time::{Duration, Instant};

/// Part of the deadline that the estimate may use. The rest is for what no estimate knows: a busy disk, other jobs.
const BUDGET: f64 = 0.8;
/// Time for everything but the checkpoint: the processes end, the manifest is written.
const WINDING_UP: f64 = 0.1;
/// Least interval between checkpoints that a deadline brings about.
const INTERVAL_MIN: f64 = 1.0;
/// Least bytes from which a speed follows.
const TELLING_BYTES: f64 = (4 << 20) as f64;
/// Seconds for each byte on a disk of 100 MB/s, until the job's own is known.
const BYTE: f64 = 1e-8;
/// An interval that needs no limit.
const INTERVAL_MAX: f64 = 24.0 * 3600.0;
/// Steps in which the longest interval is looked for.
const STEPS: u32 = 40;

/// What is known of the stops of this life.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stops {
    costs: Costs,
    last: Option<Saved>,
    /// Bytes of the job in memory now, if that has been looked at.
    resident: Option<f64>,
    /// How many times the deadline a stop would take, as a power of two, when that was last reported.
    reported: Option<u32>,
}

/// Costs of checkpoints.
#[derive(Debug, Clone, Copy, Default)]
struct Costs {
    /// Seconds for a checkpoint with hardly any contents.
    fixed: Estimate,
    /// Further seconds for each byte that is written.
    byte: Estimate,
    /// Bytes that are written for each byte that has changed.
    stored: Estimate,
}

/// The last checkpoint.
#[derive(Debug, Clone, Copy)]
struct Saved {
    at: Instant,
    /// Bytes of the job.
    held: f64,
    /// Bytes that had changed after `seconds`, if that is known.
    changed: Option<(f64, f64)>,
}

/// Whether a stop at any moment ends in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// It does, if the next checkpoint comes after this time at the latest.
    Met(Option<Duration>),
    /// It is not known how fast the program changes its memory. A checkpoint after this time would tell.
    Unknown(Duration),
    /// It does not: it may take this long.
    Unmet(Duration),
}

impl Costs {
    fn learn(&mut self, changed: f64, written: f64, seconds: f64) {
        if written < TELLING_BYTES {
            self.fixed.add_cautiously(seconds, Weight::FREQUENT);
            return;
        }
        let beyond = (seconds - self.fixed_seconds()).max(0.0);
        self.byte.add_cautiously(beyond / written, Weight::FREQUENT);
        if changed >= TELLING_BYTES {
            self.stored.add_cautiously(written / changed, Weight::FREQUENT);
        }
    }

    /// Returns the seconds that a checkpoint takes for which this number of bytes has changed.
    fn of(&self, changed: f64) -> f64 {
        let written = changed * self.stored.value().unwrap_or(1.0);
        self.fixed_seconds() + written * self.byte.value().unwrap_or(BYTE)
    }

    fn fixed_seconds(&self) -> f64 {
        self.fixed.value().unwrap_or_default()
    }
}

impl Saved {
    /// Returns how many bytes the program is expected to change in `seconds`.
    fn changed_in(&self, seconds: f64) -> f64 {
        let Some((changed, after)) = self.changed else { return self.held };
        if after <= 0.0 || changed >= self.held {
            return self.held;
        }
        // In less time, as if pages were written at random, some of them often; in more, as if each were another one.
        let share = if seconds <= after {
            1.0 - (1.0 - changed / self.held).powf(seconds / after)
        } else {
            changed / self.held * seconds / after
        };
        self.held * share.min(1.0)
    }
}

impl Stops {
    /// Learns from a checkpoint. `tells_changes`: whether a checkpoint that saves everything does so because most of it
    /// has changed.
    pub(super) fn note(&mut self, report: &CheckpointReport, tells_changes: bool, now: Instant) {
        let bytes = |pages: u64| (pages * PAGE_BYTES as u64) as f64;
        let (changed, held) = (bytes(report.pages_read), bytes(report.pages_scanned));
        let seconds = Duration::from_nanos(report.durable_nanoseconds).as_secs_f64();
        self.costs.learn(changed, report.file_bytes as f64, seconds);
        let since = self.last.map(|last| now.saturating_duration_since(last.at).as_secs_f64());
        let is_known = report.parent.is_some() || tells_changes;
        let changed = since.filter(|_| is_known).map(|since| (changed, since));
        self.last = Some(Saved { at: now, held, changed });
        self.resident = None;
    }

    /// Records how many bytes the job has in memory.
    pub(super) fn note_size(&mut self, resident_bytes: u64) {
        self.resident = Some(resident_bytes as f64);
    }

    /// Returns how many bytes the job has grown by since the last checkpoint.
    fn growth(&self, last: &Saved) -> f64 {
        self.resident.map_or(0.0, |resident| (resident - last.held).max(0.0))
    }

    /// Returns how long a stop takes that comes when a checkpoint begins `seconds` after the last one.
    fn worst(&self, last: &Saved, seconds: f64) -> f64 {
        let first = self.costs.of(last.changed_in(seconds) + self.growth(last));
        first + self.costs.of(last.changed_in(first)) + WINDING_UP
    }

    /// Judges whether a stop at any moment ends within `deadline`; `None` before the first checkpoint.
    pub(super) fn verdict(&self, deadline: Duration) -> Option<Verdict> {
        let last = self.last.as_ref()?;
        let budget = deadline.as_secs_f64() * BUDGET;
        let least = INTERVAL_MIN.max(self.costs.of(last.changed_in(INTERVAL_MIN)));
        let fits = |seconds: f64| self.worst(last, seconds) <= budget;
        if !fits(least) {
            // What had changed after a long time tells little about a short one.
            let is_telling = last.changed.is_some_and(|(_, after)| after <= 2.0 * least);
            return Some(if is_telling {
                Verdict::Unmet(Duration::from_secs_f64(self.worst(last, least)))
            } else {
                Verdict::Unknown(Duration::from_secs_f64(least))
            });
        }
        if fits(INTERVAL_MAX) {
            return Some(Verdict::Met(None));
        }
        let (mut fitting, mut step) = (least, least);
        for _ in 0..STEPS {
            if fits(fitting + step) {
                (fitting, step) = (fitting + step, step * 2.0);
            } else {
                step /= 2.0;
            }
        }
        Some(Verdict::Met(Some(Duration::from_secs_f64(fitting))))
    }

    /// Reports whether a checkpoint is due at `now` because the program has grown.
    pub(super) fn is_outgrown(&self, deadline: Duration, now: Instant) -> bool {
        let Some(last) = &self.last else { return false };
        let since = now.saturating_duration_since(last.at).as_secs_f64();
        since >= INTERVAL_MIN
            && self.growth(last) >= TELLING_BYTES
            && self.worst(last, since) > deadline.as_secs_f64() * BUDGET
    }

    /// Returns whether the user is to get a report that a stop takes `needed`: at first, and each time it has doubled.
    pub(super) fn is_news(&mut self, needed: Duration, deadline: Duration) -> bool {
        let times = needed.as_secs_f64() / deadline.as_secs_f64().max(f64::MIN_POSITIVE);
        let doublings = times.max(1.0).log2() as u32;
        let is_news = self.reported.is_none_or(|reported| doublings > reported);
        if is_news {
            self.reported = Some(doublings);
        }
        is_news
    }

    /// Records that stops end in time. Returns whether the contrary had been reported.
    pub(super) fn end_news(&mut self) -> bool {
        self.reported.take().is_some()
    }

    /// Returns what a stop would take now; `None` before the first checkpoint.
    pub(super) fn report(
        &self,
        deadline: Option<Duration>,
        is_checkpointing: bool,
        now: Instant,
    ) -> Option<StopReport> {
        let last = self.last.as_ref()?;
        let since = now.saturating_duration_since(last.at).as_secs_f64();
        let seconds = match is_checkpointing {
            true => self.worst(last, since),
            false => self.costs.of(last.changed_in(since) + self.growth(last)) + WINDING_UP,
        };
        let is_met = deadline.and_then(|deadline| self.verdict(deadline)).and_then(|verdict| match verdict {
            Verdict::Met(_) => Some(true),
            Verdict::Unmet(_) => Some(false),
            // As long as that is looked for again, the last answer stands.
            Verdict::Unknown(_) => self.reported.map(|_| false),
        });
        Some(StopReport { seconds, deadline_seconds: deadline.map(|it| it.as_secs_f64()), is_met })
    }
}

#[cfg(test)]
mod tests;
