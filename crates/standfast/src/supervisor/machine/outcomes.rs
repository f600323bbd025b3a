//! Consequences of the end of a checkpoint, a flush or a coalescing: answers, reports, and what begins next.

use super::conditions::Condition;
use super::{CheckpointRequest, Effect, Machine, Running, Stop};
use crate::GenerationNumber;
use crate::checkpoint::{Failure, Purpose, Shortfall, Shortfalls};
use crate::control::{ClientId, Reply};
use crate::event::JobEvent;
use crate::quoting::without_numbers;
use crate::report::{CheckpointReport, CoalescingReport};
use crate::settings::FlushMode;
use crate::supervisor::flushing::{End, Measured};
use crate::supervisor::schedule::AttemptEnd;
use standfast_engine::{BrokenPromise, ListingNews};
use standfast_store::Level;
use std::time::{Duration, Instant};

/// Time for which a program may disable checkpoints before that is reported to the user as a failure.
const DISABLED_MAX: Duration = Duration::from_secs(30);

/// A committed checkpoint.
#[derive(Debug)]
pub(in crate::supervisor) struct TakenFacts {
    pub(in crate::supervisor) report: CheckpointReport,
    /// Level that holds it.
    pub(in crate::supervisor) level: Level,
    /// Whether it may be flushed to the disk. That of a part may not, if others do not flush theirs.
    pub(in crate::supervisor) may_be_flushed: bool,
    /// What it lacks.
    pub(in crate::supervisor) shortfalls: Shortfalls,
    /// Promises that the program has broken.
    pub(in crate::supervisor) broken: Vec<BrokenPromise>,
    /// News about files that the job does not have open.
    pub(in crate::supervisor) listing: Vec<ListingNews>,
    /// Whether older generations could be removed, or why not.
    pub(in crate::supervisor) retention: Result<(), String>,
    /// Whether the program promises not to change some memory.
    pub(in crate::supervisor) has_promises: bool,
}

#[cfg(test)]
impl TakenFacts {
    /// Returns a checkpoint of which nothing else is to be said.
    pub(super) fn imagined(generation: u64, level: Level) -> Self {
        Self {
            report: CheckpointReport { generation, ..CheckpointReport::default() },
            level,
            may_be_flushed: true,
            shortfalls: Shortfalls::default(),
            broken: Vec::new(),
            listing: Vec::new(),
            retention: Ok(()),
            has_promises: false,
        }
    }
}

/// A checkpoint that failed.
#[derive(Debug)]
pub(in crate::supervisor) struct Failed {
    pub(in crate::supervisor) reason: String,
    /// What the failure means for the next attempt.
    pub(in crate::supervisor) attempt: AttemptEnd,
    /// Whether the program has disabled checkpoints for now.
    pub(in crate::supervisor) is_disabled: bool,
    /// Whether the program has ended.
    pub(in crate::supervisor) is_end: bool,
}

impl Failed {
    pub(in crate::supervisor) fn of(failure: &Failure) -> Self {
        Self {
            reason: without_numbers(&failure.to_string()),
            attempt: match failure.stood_still() {
                Some(stood_still) => AttemptEnd::StoodStill(stood_still),
                None if failure.is_passing() => AttemptEnd::FailedInPassing,
                None => AttemptEnd::Failed,
            },
            is_disabled: matches!(failure, Failure::Disabled),
            is_end: failure.is_end(),
        }
    }
}

/// Result of a flush, and its cost to the program.
#[derive(Debug)]
pub(in crate::supervisor) struct FlushOutcome {
    pub(in crate::supervisor) end: Result<End, String>,
    pub(in crate::supervisor) measured: Measured,
}

impl Machine {
    pub(super) fn end_checkpoint(
        &mut self,
        outcome: Result<TakenFacts, Failed>,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(running) = self.checkpoint.take() else { return };
        match outcome {
            Ok(taken) => self.note_taken(taken, running, now, effects),
            Err(failed) => self.note_failure(failed, running, now, effects),
        }
    }

    fn note_taken(&mut self, taken: TakenFacts, running: Running, now: Instant, effects: &mut Vec<Effect>) {
        let TakenFacts { report, level, mut shortfalls, .. } = taken;
        let generation = report.generation;
        self.disabled_since = None;
        self.has_promises = taken.has_promises;
        if taken.may_be_flushed || level == Level::Directory {
            self.note_level(level, generation, now);
        }
        if let Some(ratio) = &mut self.flush_ratio {
            ratio.note_checkpoint(&report);
        }
        self.note_shortfall(Shortfall::NotInMemory, shortfalls.remove(&Shortfall::NotInMemory), effects);
        if let Some(intervals) = &mut self.intervals {
            self.schedule.set_interval(intervals.note(&report, now));
        }
        self.schedule.arm(now, AttemptEnd::Taken);
        self.last_checkpoint = Some(report);
        self.past.note(&report, self.settings.is_tracking);
        self.stops.note(&report, self.settings.is_tracking, now);
        let mut say = |event| effects.push(Effect::Say(event));
        say(JobEvent::Taken(report));
        self.note_protected(generation, now, effects);
        let mut say = |event| effects.push(Effect::Say(event));
        if self.reported.end(Condition::NotTaken) {
            say(JobEvent::ProtectedAgain { generation });
        }
        if let Err(error) = taken.retention {
            say(JobEvent::Trouble { reason: format!("cannot remove older checkpoints: {error}") });
        }
        for shortfall in [Shortfall::Untracked, Shortfall::Uncloned, Shortfall::DirectivesIgnored] {
            self.note_shortfall(shortfall, shortfalls.remove(&shortfall), effects);
        }
        if running.purpose != Purpose::Stop {
            self.keep_deadline(now, effects);
        }
        let mut say = |event| effects.push(Effect::Say(event));
        taken.broken.into_iter().for_each(|promise| say(JobEvent::Broken { generation, promise }));
        taken.listing.into_iter().for_each(|news| say(JobEvent::Listing(news)));
        self.coalesce(level, effects);
        match running.purpose {
            Purpose::Protect => {
                self.rehearse(now, effects);
                answer(running.served, &Reply::Taken(report), effects);
            }
            Purpose::Stop => {
                self.stop = Stop::After(generation);
                self.stopped_for.extend(running.served);
            }
        }
    }

    /// Records which level has a checkpoint.
    fn note_level(&mut self, level: Level, generation: u64, now: Instant) {
        let Some(number) = GenerationNumber::new(generation) else { return };
        match level {
            Level::Memory => self.flushes.taken_in_memory(number),
            Level::Directory => self.flushes.durable(number, now),
        }
    }

    /// Notes a shortfall of a checkpoint, or that it has none of this kind. A shortfall is reported when it begins and
    /// when its reason changes.
    fn note_shortfall(&mut self, shortfall: Shortfall, reason: Option<String>, effects: &mut Vec<Effect>) {
        let Some(reason) = self.reported.note(Condition::Lacking(shortfall), reason) else { return };
        effects.push(Effect::Say(match shortfall {
            Shortfall::NotInMemory => JobEvent::NotInMemory { reason, is_selector: !self.settings.memory_is_automatic },
            Shortfall::Untracked => JobEvent::Untracked { reason },
            Shortfall::Uncloned => JobEvent::Uncloned { reason },
            Shortfall::DirectivesIgnored => JobEvent::Trouble {
                reason: format!("the program's memory directives are ignored, and all memory is saved: {reason}"),
            },
        }));
        if shortfall == Shortfall::NotInMemory && self.flush.is_none() {
            effects.push(Effect::RenewMemory);
        }
    }

    fn note_failure(&mut self, failed: Failed, running: Running, now: Instant, effects: &mut Vec<Effect>) {
        let Running { purpose, served } = running;
        if self.is_to_wait(&failed, now) {
            self.asked.extend(served.into_iter().map(|client| CheckpointRequest { client, purpose }));
            self.schedule.put_off(now);
            return;
        }
        self.schedule.arm(now, failed.attempt);
        answer(served, &Reply::Failed { message: failed.reason.clone() }, effects);
        let stop_failed = self.stop == Stop::Wanted && (failed.is_end || purpose == Purpose::Stop);
        if stop_failed {
            self.stop = Stop::Failed;
        }
        if failed.is_end {
            // The event loop reports the end of the program.
            return;
        }
        let news = self.reported.note(Condition::NotTaken, Some(failed.reason.clone()));
        if stop_failed {
            effects.push(Effect::Say(JobEvent::NotStopped { reason: failed.reason }));
        } else if let Some(reason) = news {
            effects.push(Effect::Say(JobEvent::NotTaken { reason }));
        }
    }

    /// Reports whether the program has disabled checkpoints, so that clients have to wait, within limits.
    fn is_to_wait(&mut self, failed: &Failed, now: Instant) -> bool {
        let since = *self.disabled_since.get_or_insert(now);
        let waits = failed.is_disabled && now.saturating_duration_since(since) <= DISABLED_MAX;
        if !waits {
            self.disabled_since = None;
        }
        waits
    }

    pub(super) fn end_flush(&mut self, outcome: FlushOutcome, now: Instant, effects: &mut Vec<Effect>) {
        let Some(flush) = self.flush.take() else { return };
        match outcome.measured {
            Measured::Nothing => {}
            Measured::Beside(beside) => self.flush_costs.learn_beside(&beside),
            Measured::Foreground(bytes, stood_still) => self.flush_costs.learn_foreground(bytes, stood_still),
            Measured::Unstoppable => self.flush_costs.note_unstoppable(),
        }
        match outcome.end {
            Ok(End::OnDisk(flushed)) => {
                self.reported.end(Condition::NotFlushed);
                self.flushes.flushed(flush.number, now);
                if let Some(flushed) = flushed {
                    let (generation, file_bytes) = (flushed.number.get(), flushed.file_bytes);
                    self.learn_flush_ratio(flush.mode, file_bytes);
                    effects.push(Effect::Say(JobEvent::Flushed { generation, file_bytes }));
                }
                self.coalesce(Level::Directory, effects);
            }
            Ok(End::Abandoned) => self.flushes.abandoned(),
            Err(reason) => {
                self.flushes.failed(now);
                if let Some(reason) = self.reported.note(Condition::NotFlushed, Some(without_numbers(&reason))) {
                    let reason = format!("cannot flush checkpoints from memory to disk; they stay in memory: {reason}");
                    effects.push(Effect::Say(JobEvent::Trouble { reason }));
                }
            }
        }
    }

    /// Learns what a flush has cost, if the number of checkpoints for each flush is left to the supervisor.
    fn learn_flush_ratio(&mut self, mode: FlushMode, file_bytes: u64) {
        if let (Some(ratio), Some(seconds)) = (&mut self.flush_ratio, self.flush_costs.seconds(mode, file_bytes)) {
            ratio.note_flush(seconds);
            ratio.every().into_iter().for_each(|every| self.flushes.set_every(every));
        }
    }

    pub(super) fn end_coalescing(&mut self, outcome: Result<CoalescingReport, String>, effects: &mut Vec<Effect>) {
        let Some(served) = self.coalescing.take() else { return };
        match outcome {
            Ok(report) => {
                answer(served, &Reply::Coalesced(report), effects);
                if let CoalescingReport { generation: Some(generation), file_bytes, removed } = report {
                    effects.push(Effect::Say(JobEvent::Coalesced { generation, file_bytes, removed }));
                }
            }
            Err(reason) => {
                let reason = without_numbers(&reason);
                answer(served, &Reply::Failed { message: reason.clone() }, effects);
                let reason = format!("cannot coalesce checkpoints, which stay as they are: {reason}");
                effects.push(Effect::Say(JobEvent::Trouble { reason }));
            }
        }
    }

    pub(super) fn miss_coalescing(&mut self, reason: String, effects: &mut Vec<Effect>) {
        let Some(served) = self.coalescing.take() else { return };
        if served.is_empty() {
            let reason = format!("cannot start a thread to coalesce checkpoints: {reason}");
            effects.push(Effect::Say(JobEvent::Trouble { reason }));
        }
        answer(served, &Reply::Failed { message: reason }, effects);
    }
}

pub(super) fn answer(clients: Vec<ClientId>, reply: &Reply, effects: &mut Vec<Effect>) {
    effects.extend(clients.into_iter().map(|client| Effect::Answer(client, reply.clone())));
}
