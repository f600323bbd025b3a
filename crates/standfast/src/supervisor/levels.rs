//! The threads that flush checkpoints from memory to the disk. They begin when the machine says so, and their results
//! go to the machine. When the job has ended, checkpoints that are in memory only are flushed or reported.

use super::Supervisor;
use super::flushing::{Beginning, End, Ended, Flushing, Measured, sync_paths};
use super::machine::{Event, FlushOrder, FlushOutcome};
use crate::event::JobEvent;
use crate::quoting::{InWords, without_numbers};
use crate::settings::FlushMode;
use crate::{Ending, GenerationNumber};
use standfast_engine::hold_child_signal;
use standfast_format::manifest::{Generation, Manifest};
use standfast_store::JobDirectory;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

impl Supervisor<'_, '_> {
    /// Makes another level in memory if the present one has been removed from outside.
    pub(super) fn renew_memory(&mut self) {
        let destination = &mut self.setup.destination;
        let is_gone = destination.levels.memory.as_ref().is_some_and(|memory| !memory.path().exists());
        let recorded = destination.levels.directory.manifest().ok().and_then(|manifest| manifest.memory);
        let Some(recorded) = recorded.filter(|_| is_gone) else { return };
        let place = PathBuf::from(std::ffi::OsStr::from_bytes(&recorded.place.0));
        if let Err(error) = destination.levels.make_memory(&destination.lease, &place) {
            self.warn(format!("checkpoints go to disk instead of memory: {error}"));
        }
    }

    /// Begins to flush a checkpoint from memory to the disk.
    pub(super) fn begin_flush(&mut self, order: FlushOrder) {
        let FlushOrder { number, mode, costs, gentle_until } = order;
        let beginning = match mode {
            FlushMode::Foreground => Beginning::Foreground(self.job.freezer()),
            FlushMode::Background => Beginning::Beside(self.job.freezer(), costs),
        };
        match Flushing::begin(&self.setup.destination, number, self.unsynced.clone(), beginning, gentle_until) {
            Ok(flushing) => self.flushing = Some(flushing),
            Err(error) => {
                let (end, measured) = (Err(InWords(&error).to_string()), Measured::Nothing);
                self.on(Event::FlushEnded(FlushOutcome { end, measured }));
            }
        }
        hold_child_signal(self.is_traced());
    }

    /// Reports whether the program is stopped for a flush, or is about to be.
    pub(super) fn stands_still_for_flush(&self) -> bool {
        self.flushing.as_ref().is_some_and(|flushing| flushing.flush_mode == FlushMode::Foreground)
    }

    /// Abandons a flush for which the program is stopped, and waits until the program may continue.
    pub(super) fn give_up_foreground_flush(&mut self) {
        if self.stands_still_for_flush() {
            self.flushing.iter().for_each(Flushing::cancel);
            self.end_flush();
        }
    }

    /// Handles the end of a flush, after waiting for it if necessary.
    pub(super) fn end_flush(&mut self) {
        let Some(flushing) = self.flushing.take() else { return };
        let Ended { end, measured } = flushing.join();
        hold_child_signal(self.is_traced());
        let end = end.map_err(|failure| failure.to_string());
        if let Ok(End::OnDisk(Some(generation))) = &end {
            self.metrics.note_durable(generation.taken_nanoseconds);
        }
        self.on(Event::FlushEnded(FlushOutcome { end, measured }));
        self.handle_stop();
    }

    /// Flushes the newest checkpoint of a job that has ended to the disk, unless it is not needed any more, and frees
    /// the memory. If the time does not suffice, reports where the checkpoints are.
    pub(super) fn settle_memory(&mut self, ending: Ending) {
        if self.setup.destination.levels.memory.is_none() {
            return;
        }
        let is_done = self.is_finished || matches!(ending, Ending::Exited { status: 0 });
        let grace = if is_done { Duration::ZERO } else { self.setup.options.grace.get() };
        let deadline = Instant::now() + grace;
        if let Some(flushing) = self.flushing.take() {
            if is_done {
                flushing.cancel()
            } else {
                flushing.hurry()
            }
            if !is_done && flushing.join_within(grace, self.listener).is_none() {
                return self.report_left_in_memory("the disk was too slow".to_owned());
            }
        }
        if !is_done && let Err(reason) = self.flush_newest(deadline) {
            return self.report_left_in_memory(reason);
        }
        // All parts of a distributed job may have what is newer, and continue from that.
        if !is_done && self.newest_in_memory_only(|_| true).is_ok_and(|newest| newest.is_some()) {
            return;
        }
        let destination = &mut self.setup.destination;
        if let Err(error) = destination.levels.discard_memory(&destination.lease, !is_done) {
            self.warn(format!("cannot free the memory: {error}"));
        }
    }

    /// Returns the newest generation of this kind in memory, if the disk has none that is as new.
    fn newest_in_memory_only(
        &self,
        is_meant: impl Fn(&Generation) -> bool,
    ) -> Result<Option<GenerationNumber>, String> {
        let levels = &self.setup.destination.levels;
        let Some(memory) = &levels.memory else { return Ok(None) };
        let manifest = |level: &JobDirectory| level.manifest().map_err(|error| error.to_string());
        let (in_memory, on_disk) = (manifest(memory)?, newest_of(&manifest(&levels.directory)?));
        let newest = in_memory.generations.iter().rev().find(|it| !it.superseded && is_meant(it));
        Ok(newest.map(|it| it.number).filter(|number| Some(*number) > on_disk))
    }

    /// Flushes the newest checkpoint to the disk, if it is in memory only. A part flushes the newest one that all parts have.
    fn flush_newest(&mut self, deadline: Instant) -> Result<(), String> {
        let destination = &self.setup.destination;
        let is_meant = |it: &Generation| destination.part.as_ref().is_none_or(|part| part.is_for_disk(it.epoch));
        let Some(number) = self.newest_in_memory_only(is_meant)? else { return Ok(()) };
        if self.unsynced.is_none() {
            // It is the checkpoint that this life began with.
            sync_paths(&self.setup.outputs).map_err(|error| InWords(&error).to_string())?;
        }
        // Without rests, since the job waits for the flush.
        let now = Instant::now();
        let begun = Flushing::begin(destination, number, self.unsynced.clone(), Beginning::Ended, now);
        let flushing = begun.map_err(|error| InWords(&error).to_string())?;
        match flushing.join_within(deadline.saturating_duration_since(Instant::now()), self.listener) {
            Some(Ok(_)) => Ok(()),
            Some(Err(failure)) => Err(failure.to_string()),
            None => Err("the disk was too slow".to_owned()),
        }
    }

    fn report_left_in_memory(&mut self, reason: String) {
        let levels = &self.setup.destination.levels;
        let newest = |level_directory: &JobDirectory| level_directory.manifest().ok().and_then(|it| newest_of(&it));
        let Some(memory) = &levels.memory else { return };
        let (place, generation) = (memory.path().to_owned(), newest(memory).map(GenerationNumber::get));
        let on_disk = newest(&levels.directory).map(GenerationNumber::get);
        self.say(&JobEvent::LeftInMemory { place, generation, on_disk, reason: without_numbers(&reason) });
    }
}

/// Returns the newest generation of the present life.
fn newest_of(manifest: &Manifest) -> Option<GenerationNumber> {
    manifest.generations.iter().rev().find(|it| !it.superseded).map(|it| it.number)
}
