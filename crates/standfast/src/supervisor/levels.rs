//! The threads that bring checkpoints from memory to the disk: begun as the machine says, and what came of them told to it. What
//! is in memory only when the job has ended is brought there or named.

use super::Supervisor;
use super::flushing::{Beginning, Ended, Flushing, Measured, sync_paths};
use super::machine::{Event, FlushOrder, FlushOutcome};
use crate::event::JobEvent;
use crate::quoting::{InWords, without_numbers};
use crate::settings::FlushMode;
use crate::{Ending, GenerationNumber};
use standfast_engine::hold_child_signal;
use standfast_format::manifest::Manifest;
use standfast_store::JobDirectory;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

impl Supervisor<'_, '_> {
    /// Makes another level in memory where the one that there was has been removed under us.
    pub(super) fn renew_memory(&mut self) {
        let destination = &mut self.post.destination;
        let is_gone = destination.levels.memory.as_ref().is_some_and(|memory| !memory.path().exists());
        let recorded = destination.levels.directory.manifest().ok().and_then(|manifest| manifest.memory);
        let Some(recorded) = recorded.filter(|_| is_gone) else { return };
        let place = PathBuf::from(std::ffi::OsStr::from_bytes(&recorded.place.0));
        if let Err(error) = destination.levels.make_memory(&destination.lease, &place) {
            self.warn(format!("checkpoints go to disk instead of memory: {error}"));
        }
    }

    /// Starts to bring a checkpoint from memory to the disk.
    pub(super) fn begin_flush(&mut self, order: FlushOrder) {
        let FlushOrder { number, mode, costs, gentle_until } = order;
        let beginning = match mode {
            FlushMode::Foreground => Beginning::Foreground(self.job.freezer()),
            FlushMode::Background => Beginning::Beside(self.job.freezer(), costs),
        };
        match Flushing::begin(&self.post.destination, number, self.unsynced.clone(), beginning, gentle_until) {
            Ok(flushing) => self.flushing = Some(flushing),
            Err(error) => {
                let (end, measured) = (Err(InWords(&error).to_string()), Measured::Nothing);
                self.on(Event::FlushEnded(FlushOutcome { end, measured }));
            }
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
        let Ended { end, measured } = flushing.join();
        hold_child_signal(self.is_traced());
        let end = end.map_err(|failure| failure.to_string());
        self.on(Event::FlushEnded(FlushOutcome { end, measured }));
        self.handle_stop();
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
