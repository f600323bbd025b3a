//! The threads that take checkpoints. They begin when the machine says so, and their results go to the machine.

use super::Supervisor;
use super::machine::{Event, Failed, TakenFacts};
use crate::checkpoint::{Checkpointing, Order, Purpose, Taken};
use crate::progress::Reports;
use standfast_engine::hold_child_signal;
use standfast_store::Level;
use std::sync::Arc;
use std::time::Instant;

impl Supervisor<'_, '_> {
    pub(super) fn begin_checkpoint(&mut self, order: Order) {
        match Checkpointing::begin(self.setup.destination.clone(), self.job.freezer(), order) {
            Ok(checkpointing) => {
                // Each stop of each task would wake us for nothing.
                hold_child_signal(true);
                self.checkpointing = Some(checkpointing);
                // The first checkpoint takes longest, and a user waits for a program that is to stop.
                let is_awaited = order.purpose == Purpose::Stop || !self.machine.has_taken();
                self.reports = is_awaited.then(|| Reports::begin(Instant::now()));
            }
            Err(failure) => {
                self.on(Event::CheckpointEnded(Err(Failed::of(&failure))));
            }
        }
    }

    /// Reports the progress of the checkpoint under way, if that is due.
    pub(super) fn report_progress(&mut self, now: Instant) {
        if self.reports.as_mut().is_some_and(|reports| reports.take_due(now))
            && let Some(progress) = self.setup.destination.progress()
        {
            self.say(&progress);
        }
    }

    /// Handles the end of a checkpoint, after waiting for it if necessary.
    pub(super) fn end_checkpoint(&mut self) {
        let Some(checkpointing) = self.checkpointing.take() else { return };
        self.reports = None;
        hold_child_signal(self.is_traced());
        self.setup.destination.part.iter().for_each(|part| part.end_cut());
        let outcome = checkpointing.join().map(|taken| self.keep(taken)).map_err(|failure| Failed::of(&failure));
        self.note_in_history(&outcome);
        match &outcome {
            Err(failed) if failed.is_disabled || failed.is_end => {}
            outcome => self.metrics.note(outcome.as_ref().map_err(drop), Instant::now()),
        }
        self.on(Event::CheckpointEnded(outcome));
        self.handle_stop();
    }

    /// Keeps the files that must be made durable, and recorded at the end. The rest goes to the machine.
    fn keep(&mut self, taken: Taken) -> TakenFacts {
        self.setup.outputs = taken.outputs;
        self.unsynced = Some(Arc::new(taken.unsynced)).filter(|_| taken.level == Level::Memory);
        let freezer = self.job.freezer();
        TakenFacts {
            report: taken.report,
            level: taken.level,
            may_be_flushed: self.setup.destination.part.as_ref().is_none_or(|part| part.is_to_flush()),
            shortfalls: taken.shortfalls,
            broken: taken.broken,
            listing: freezer.listing_news(),
            retention: taken.retention.map_err(|error| error.to_string()),
            has_promises: freezer.has_promises(),
        }
    }
}
