//! One run of a simulated job.

use super::failures::Failures;
use super::{FlushPlan, IntervalPolicy, SimulatedJob};
use crate::chooser::MeasuredCheckpoint;

/// A run that takes this many times as long as it would without failures is given up.
const TIMES_AS_LONG_MAX: f64 = 1000.0;

/// Failures and checkpoints after which a run is given up: more than any real one has.
const EVENTS_MAX: u32 = 20_000_000;

/// A run under way.
pub(super) struct Run<'a> {
    job: &'a SimulatedJob,
    failures: Failures,
    /// Draws which failures local checkpoints survive.
    random: fastrand::Rng,
    /// Seconds since the job began.
    now: f64,
    next_failure: f64,
    /// Work that is done, in seconds.
    work: f64,
    /// Work that the newest usable checkpoint holds.
    saved: f64,
    /// Work that the newest flushed checkpoint holds.
    flushed: f64,
    flush: Option<Flush>,
    since_flush: u32,
    counts: RunEnd,
}

/// A flush under way.
#[derive(Clone, Copy)]
struct Flush {
    work: f64,
    usable_at: f64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunEnd {
    /// When; `None` if it was given up.
    pub(super) end_seconds: Option<f64>,
    pub(super) failures: u32,
    pub(super) checkpoints: u32,
}

/// What became of a span of time.
#[derive(PartialEq)]
enum Span {
    /// It has passed.
    Passed,
    /// A failure came.
    Failed,
    /// The work was done.
    Done,
}

impl<'a> Run<'a> {
    pub(super) fn new(job: &'a SimulatedJob, mut failures: Failures, random: fastrand::Rng) -> Self {
        let next_failure = failures.next_after(0.0);
        Self {
            job,
            failures,
            random,
            now: 0.0,
            next_failure,
            work: 0.0,
            saved: 0.0,
            flushed: 0.0,
            flush: None,
            since_flush: 0,
            counts: RunEnd::default(),
        }
    }

    /// Runs until the work is done, or until that has become hopeless.
    pub(super) fn run(mut self, policy: &mut impl IntervalPolicy) -> RunEnd {
        let end_max = self.job.base_seconds * TIMES_AS_LONG_MAX;
        while self.now < end_max && self.counts.failures.saturating_add(self.counts.checkpoints) < EVENTS_MAX {
            match self.interval_and_checkpoint(policy) {
                Span::Done => return RunEnd { end_seconds: Some(self.now), ..self.counts },
                Span::Passed => {}
                Span::Failed => {
                    let failed_at = self.now;
                    self.recover();
                    policy.note_failure(self.now - failed_at);
                }
            }
        }
        self.counts
    }

    /// Works for an interval, and takes a checkpoint.
    fn interval_and_checkpoint(&mut self, policy: &mut impl IntervalPolicy) -> Span {
        let before = self.work;
        let interval = policy.next_interval_seconds(self.now);
        let worked = self.work_for(interval);
        if worked != Span::Passed {
            return worked;
        }
        self.counts.checkpoints += 1;
        let cost = self.job.costs_at(self.work).at(interval);
        let held = self.work;
        let stopped = self.pass(cost.overhead_seconds(), false);
        if stopped != Span::Passed {
            return stopped;
        }
        let written = self.work_for(cost.hidden_seconds());
        if written != Span::Passed {
            return written;
        }
        self.saved = held;
        policy.note_checkpoint(MeasuredCheckpoint {
            work_seconds: self.work - before,
            overhead_seconds: cost.overhead_seconds(),
            latency_seconds: cost.latency_seconds(),
            is_full: self.counts.checkpoints == 1,
        });
        self.begin_flush()
    }

    /// Begins to flush the checkpoint that has just become usable, if it is its turn.
    fn begin_flush(&mut self) -> Span {
        let Some(FlushPlan { every, overhead_seconds, latency_seconds, .. }) = self.job.flushes else {
            return Span::Passed;
        };
        self.since_flush += 1;
        self.end_flush();
        if self.since_flush < every || self.flush.is_some() {
            return Span::Passed;
        }
        self.since_flush = 0;
        self.flush = Some(Flush { work: self.saved, usable_at: self.now + latency_seconds });
        self.pass(overhead_seconds, false)
    }

    /// Notes the flush under way as usable, if it is by now.
    fn end_flush(&mut self) {
        if let Some(flush) = self.flush.filter(|flush| flush.usable_at <= self.now) {
            self.flushed = flush.work;
            self.flush = None;
        }
    }

    /// Goes back to a checkpoint after a failure. Further failures during that begin it again.
    fn recover(&mut self) {
        loop {
            self.counts.failures += 1;
            self.end_flush();
            self.flush = None;
            let (share, recovery_seconds) = match self.job.flushes {
                Some(flushes) => (flushes.mix.local_share(), flushes.recovery_seconds),
                None => (0.0, self.job.costs_at(self.saved).recovery_seconds),
            };
            let is_local = self.job.flushes.is_some() && self.random.f64() < share;
            if self.job.flushes.is_some() && !is_local {
                self.saved = self.flushed;
            }
            self.work = self.saved;
            let downtime = if is_local {
                self.job.costs_at(self.saved).recovery_seconds
            } else {
                self.job.repair_seconds + recovery_seconds
            };
            let is_hopeless =
                self.now > self.job.base_seconds * TIMES_AS_LONG_MAX || self.counts.failures >= EVENTS_MAX;
            if is_hopeless || self.pass(downtime, false) != Span::Failed {
                return;
            }
        }
    }

    fn work_for(&mut self, seconds: f64) -> Span {
        self.pass(seconds, true)
    }

    /// Lets time pass, with or without work, until a failure comes or all work is done.
    fn pass(&mut self, seconds: f64, is_work: bool) -> Span {
        let rest = self.job.base_seconds - self.work;
        let ends = is_work && rest <= seconds;
        let span = if ends { rest } else { seconds };
        if self.next_failure < self.now + span {
            self.now = self.next_failure;
            self.next_failure = self.failures.next_after(self.now);
            return Span::Failed;
        }
        self.now += span;
        self.work += if is_work { span } else { 0.0 };
        if ends { Span::Done } else { Span::Passed }
    }
}
