//! The checkpoints of a job under its supervisor: when one begins, and what is done about what came of it.

use super::Supervisor;
use crate::chains::tracking;
use crate::checkpoint::{Checkpointing, Failure, Order, Purpose, Taken};
use crate::control::Reply;
use crate::event::JobEvent;
use crate::options::JobOptions;
use crate::progress::Reports;
use crate::quoting::without_numbers;
use crate::requested_checkpoints::DISABLED_MAX;
use crate::schedule::Outcome as Attempt;
use standfast_engine::{Tracking, hold_child_signal};
use std::time::Instant;

impl Supervisor<'_, '_> {
    /// Starts a checkpoint if one is wanted and none is under way.
    pub(super) fn begin_checkpoint(&mut self, now: Instant) {
        let is_due = self.schedule.due().is_some_and(|due| due <= now);
        let is_put_off = self.disabled_since.is_some() && !is_due;
        let is_wanted = is_due || self.stop_wanted || self.here_asked || !self.asked.is_empty();
        if self.checkpointing.is_some() || self.stopped_behind.is_some() || !is_wanted || is_put_off {
            return;
        }
        let stops = self.stop_wanted || self.asked.iter().any(|(_, stop)| *stop);
        if stops {
            self.give_up_foreground_flush();
        } else if self.stands_still_for_flush() {
            // Until that is over, there is nothing new to save.
            return;
        }
        let purpose = if stops { Purpose::Stop } else { Purpose::Protect };
        self.served = self.asked.drain(..).map(|(client, _)| client).collect();
        self.here_asked = false;
        let order = Order {
            purpose,
            past: self.past,
            behind_success: self.schedule.advised(Attempt::Taken),
            behind_failure: self.schedule.advised(Attempt::Failed),
        };
        match Checkpointing::begin(self.post.destination.clone(), self.job.freezer(), order) {
            Ok(checkpointing) => {
                // Each stop of each task would wake us for nothing.
                hold_child_signal(true);
                self.checkpointing = Some(checkpointing);
                // The first one takes longest, and a program that is to stop is waited for.
                let is_awaited = purpose == Purpose::Stop || self.last_checkpoint.is_none();
                self.reports = is_awaited.then(|| Reports::begin(now));
            }
            Err(failure) => self.note_failure(&failure, purpose),
        }
    }

    /// Says how far the checkpoint under way has come, if that is due.
    pub(super) fn report_progress(&mut self, now: Instant) {
        if self.reports.as_mut().is_some_and(|reports| reports.take_due(now))
            && let Some(progress) = self.post.destination.progress()
        {
            self.say(&progress);
        }
    }

    /// Takes note of a checkpoint that has come to its end, waiting for that if need be.
    pub(super) fn end_checkpoint(&mut self) {
        let Some(checkpointing) = self.checkpointing.take() else { return };
        self.reports = None;
        hold_child_signal(self.is_traced());
        let purpose = checkpointing.purpose;
        match checkpointing.join() {
            Ok(taken) => self.note_taken(taken, purpose),
            Err(failure) => self.note_failure(&failure, purpose),
        }
        self.handle_stop();
    }

    pub(super) fn note_taken(&mut self, taken: Taken, purpose: Purpose) {
        let Taken {
            level,
            degraded,
            unsynced,
            report,
            outputs,
            untracked,
            uncloned,
            ignored_directives,
            broken,
            retention,
        } = taken;
        self.disabled_since = None;
        self.post.outputs = outputs;
        self.note_level(level, degraded, unsynced, report.generation);
        self.schedule.arm(Instant::now(), Attempt::Taken);
        self.last_checkpoint = Some(report);
        let JobOptions { incremental, track, .. } = self.post.options;
        self.past.note(&report, tracking(incremental, track) != Tracking::Off);
        self.say(&JobEvent::Taken(report));
        if self.last_failure.take().is_some() {
            self.say(&JobEvent::ProtectedAgain { generation: report.generation });
        }
        if let Err(error) = retention {
            self.warn(format!("cannot remove older checkpoints: {error}"));
        }
        if self.untracked != untracked {
            self.untracked.clone_from(&untracked);
            if let Some(reason) = untracked {
                self.say(&JobEvent::Untracked { reason });
            }
        }
        if self.uncloned != uncloned {
            self.uncloned.clone_from(&uncloned);
            if let Some(reason) = uncloned {
                self.say(&JobEvent::Uncloned { reason });
            }
        }
        if self.ignored_directives != ignored_directives {
            self.ignored_directives.clone_from(&ignored_directives);
            let told =
                |reason| format!("the program's memory directives are ignored, and all memory is saved: {reason}");
            ignored_directives.map(told).into_iter().for_each(|reason| self.warn(reason));
        }
        for promise in broken {
            self.say(&JobEvent::Broken { generation: report.generation, promise });
        }
        for news in self.job.freezer().listing_news() {
            self.say(&JobEvent::Listing(news));
        }
        self.begin_coalescing(level);
        if purpose == Purpose::Stop {
            self.stopped_behind = Some(report.generation);
            self.stop_wanted = false;
            // They are answered when the job can be restarted.
            self.stopped_for.append(&mut self.served);
        }
        self.answer_served(&Reply::Taken(report));
    }

    /// The program has disabled checkpoints: whoever wants one waits, within limits. Whether these hold.
    pub(super) fn put_off(&mut self, failure: &Failure, purpose: Purpose) -> bool {
        let now = Instant::now();
        let is_disabled = matches!(failure, Failure::Disabled);
        let since = *self.disabled_since.get_or_insert(now);
        if !is_disabled || now.duration_since(since) > DISABLED_MAX {
            self.disabled_since = None;
            return false;
        }
        let stop = purpose == Purpose::Stop;
        self.asked.extend(self.served.drain(..).map(|client| (client, stop)));
        self.schedule.put_off(now);
        true
    }

    pub(super) fn note_failure(&mut self, failure: &Failure, purpose: Purpose) {
        if self.put_off(failure, purpose) {
            return;
        }
        let attempt = match failure.stood_still() {
            Some(stood_still) => Attempt::StoodStill(stood_still),
            None if failure.is_passing() => Attempt::FailedInPassing,
            None => Attempt::Failed,
        };
        self.schedule.arm(Instant::now(), attempt);
        let reason = without_numbers(&failure.to_string());
        self.answer_served(&Reply::Failed { message: reason.clone() });
        if failure.is_end() {
            // The end itself is told by whoever notices it.
            self.stop_wanted = false;
            return;
        }
        if self.stop_wanted && purpose == Purpose::Stop {
            self.stop_wanted = false;
            self.say(&JobEvent::NotStopped { reason: reason.clone() });
        } else if self.last_failure.as_ref() != Some(&reason) {
            self.say(&JobEvent::NotTaken { reason: reason.clone() });
        }
        self.last_failure = Some(reason);
    }

    pub(super) fn answer_served(&mut self, reply: &Reply) {
        let served = std::mem::take(&mut self.served);
        if let Some(control) = &mut self.post.control {
            served.into_iter().for_each(|client| control.answer(client, reply));
        }
    }
}
