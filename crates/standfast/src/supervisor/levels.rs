//! A supervisor's part in the levels: checkpoints in memory go on to the disk while the job runs, and what is in memory
//! only when it has ended is brought there or named.

use super::Supervisor;
use crate::event::JobEvent;
use crate::flush_mode::{Flush, FlushMode};
use crate::flushing::{Beginning, End, Ended, Flushing, Measured, sync_paths};
use crate::quoting::{InWords, without_numbers};
use crate::{Ending, GenerationNumber};
use standfast_engine::{Output, hold_child_signal};
use standfast_format::manifest::Manifest;
use standfast_store::{JobDirectory, Level};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Supervisor<'_, '_> {
    /// Takes note of where a checkpoint is.
    pub(super) fn note_level(&mut self, level: Level, degraded: Option<String>, unsynced: Vec<Output>, number: u64) {
        let Some(number) = GenerationNumber::new(number) else { return };
        match level {
            Level::Memory => self.flushes.taken_in_memory(number),
            Level::Directory => self.flushes.durable(number, Instant::now()),
        }
        self.unsynced = Some(Arc::new(unsynced)).filter(|_| level == Level::Memory);
        let degraded = degraded.map(|reason| without_numbers(&reason));
        if let Some(reason) = degraded.clone().filter(|reason| self.degraded.as_ref() != Some(reason)) {
            self.say(&JobEvent::NotInMemory { reason, is_selector: !self.post.memory_is_automatic });
            self.renew_memory();
        }
        self.degraded = degraded;
    }

    /// Makes another level in memory where the one that there was has been removed under us.
    fn renew_memory(&mut self) {
        let destination = &mut self.post.destination;
        let is_gone = destination.levels.memory.as_ref().is_some_and(|memory| !memory.path().exists());
        let recorded = destination.levels.directory.manifest().ok().and_then(|manifest| manifest.memory);
        let Some(recorded) = recorded.filter(|_| is_gone && self.flushing.is_none()) else { return };
        let place = PathBuf::from(std::ffi::OsStr::from_bytes(&recorded.place.0));
        if let Err(error) = destination.levels.make_memory(&destination.lease, &place) {
            self.warn(format!("checkpoints go to disk instead of memory: {error}"));
        }
    }

    /// Starts to bring a checkpoint from memory to the disk if one is due and none is on its way.
    pub(super) fn begin_flush(&mut self, now: Instant) {
        if self.flushing.is_some() || self.checkpointing.is_some() || self.post.destination.levels.memory.is_none() {
            return;
        }
        let Some(number) = self.flushes.take_due(now) else { return };
        let (asked, freezer) = (self.post.options.flush, self.job.freezer());
        let beginning = match self.flush_costs.flush_mode(asked) {
            FlushMode::Foreground => Beginning::Foreground(freezer),
            FlushMode::Background => {
                Beginning::Beside(freezer, Some(self.flush_costs).filter(|_| asked == Flush::Auto))
            }
        };
        let gentle_until = self.flushes.gentle_until(now);
        match Flushing::begin(&self.post.destination, number, self.unsynced.clone(), beginning, gentle_until) {
            Ok(flushing) => self.flushing = Some(flushing),
            Err(error) => self.note_flush_failure(InWords(&error).to_string()),
        }
        hold_child_signal(self.is_traced());
    }

    /// Whether the program stands still for a flush, or is about to.
    pub(super) fn stands_still_for_flush(&self) -> bool {
        self.flushing.as_ref().is_some_and(|flushing| flushing.flush_mode == FlushMode::Foreground)
    }

    /// Gives up a flush for which the program stands still, and waits until it may run on.
    pub(super) fn give_up_foreground_flush(&mut self) {
        if self.stands_still_for_flush() {
            self.flushing.iter().for_each(Flushing::cancel);
            self.end_flush();
        }
    }

    /// Takes note of a flush that has come to its end, waiting for that if need be.
    pub(super) fn end_flush(&mut self) {
        let Some(flushing) = self.flushing.take() else { return };
        let number = flushing.number;
        let Ended { end, measured } = flushing.join();
        hold_child_signal(self.is_traced());
        match measured {
            Measured::Nothing => {}
            Measured::Beside(beside) => self.flush_costs.learn_beside(&beside),
            Measured::Foreground(bytes, stood_still) => self.flush_costs.learn_foreground(bytes, stood_still),
            Measured::Unstoppable => self.flush_costs.note_unstoppable(),
        }
        match end {
            Ok(End::OnDisk(flushed)) => {
                self.flush_failure = None;
                self.flushes.flushed(number, Instant::now());
                if let Some(flushed) = flushed {
                    let (generation, file_bytes) = (flushed.number.get(), flushed.file_bytes);
                    self.say(&JobEvent::Flushed { generation, file_bytes });
                }
                self.begin_coalescing(Level::Directory);
            }
            Ok(End::GivenUp) => self.flushes.given_up(),
            Err(failure) => self.note_flush_failure(failure.to_string()),
        }
        self.handle_stop();
    }

    fn note_flush_failure(&mut self, reason: String) {
        self.flushes.failed(Instant::now());
        let reason = without_numbers(&reason);
        if self.flush_failure.as_ref() != Some(&reason) {
            self.warn(format!("cannot flush checkpoints from memory to disk; they stay in memory: {reason}"));
        }
        self.flush_failure = Some(reason);
    }

    /// The job has ended: brings its newest checkpoint to the disk unless it is not needed any more, and gives the memory
    /// back. Where that cannot be done in time, what is where is told.
    pub(super) fn settle_memory(&mut self, ending: Ending) {
        if self.post.destination.levels.memory.is_none() {
            return;
        }
        let is_done = matches!(ending, Ending::Exited { status: 0 });
        let grace = if is_done { Duration::ZERO } else { self.post.options.grace.get() };
        let deadline = Instant::now() + grace;
        if let Some(flushing) = self.flushing.take() {
            if is_done {
                flushing.cancel()
            } else {
                flushing.hurry()
            }
            if !is_done && flushing.join_within(grace, self.listener).is_none() {
                return self.tell_left_in_memory("the disk was too slow".to_owned());
            }
        }
        if !is_done && let Err(reason) = self.flush_newest(deadline) {
            return self.tell_left_in_memory(reason);
        }
        let destination = &mut self.post.destination;
        if let Err(error) = destination.levels.discard_memory(&destination.lease, !is_done) {
            self.warn(format!("cannot free the memory: {error}"));
        }
    }

    /// Brings the newest checkpoint to the disk, if it is in memory only.
    fn flush_newest(&mut self, deadline: Instant) -> Result<(), String> {
        let destination = &self.post.destination;
        let newest = |level_directory: &JobDirectory| level_directory.manifest().map(|it| newest_of(&it));
        let in_memory =
            destination.levels.memory.as_ref().map(newest).transpose().map_err(|error| error.to_string())?;
        let on_disk = newest(&destination.levels.directory).map_err(|error| error.to_string())?;
        let Some(number) = in_memory.flatten().filter(|number| Some(*number) > on_disk) else { return Ok(()) };
        if self.unsynced.is_none() {
            // It is the one that this life began with.
            sync_paths(&self.post.outputs).map_err(|error| InWords(&error).to_string())?;
        }
        // Without rests: the job waits for it.
        let now = Instant::now();
        let begun = Flushing::begin(destination, number, self.unsynced.clone(), Beginning::Ended, now);
        let flushing = begun.map_err(|error| InWords(&error).to_string())?;
        match flushing.join_within(deadline.saturating_duration_since(Instant::now()), self.listener) {
            Some(Ok(_)) => Ok(()),
            Some(Err(failure)) => Err(failure.to_string()),
            None => Err("the disk was too slow".to_owned()),
        }
    }

    fn tell_left_in_memory(&mut self, reason: String) {
        let levels = &self.post.destination.levels;
        let newest = |level_directory: &JobDirectory| level_directory.manifest().ok().and_then(|it| newest_of(&it));
        let Some(memory) = &levels.memory else { return };
        let (place, generation) = (memory.path().to_owned(), newest(memory).map(GenerationNumber::get));
        let on_disk = newest(&levels.directory).map(GenerationNumber::get);
        self.say(&JobEvent::LeftInMemory { place, generation, on_disk, reason: without_numbers(&reason) });
    }
}

/// The newest generation of the present life.
fn newest_of(manifest: &Manifest) -> Option<GenerationNumber> {
    manifest.generations.iter().rev().find(|it| !it.superseded).map(|it| it.number)
}
