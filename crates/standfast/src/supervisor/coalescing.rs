//! The thread that coalesces checkpoints. It begins when the machine says so, and its result goes to the machine.

use super::Supervisor;
use super::machine::Event;
use crate::coalesce::Coalescing;
use crate::quoting::InWords;
use crate::report::CoalescingReport;
use standfast_store::Level;

impl Supervisor<'_, '_> {
    /// Begins to coalesce the newest chain of a level. Without a level, coalesces as much as possible on the disk.
    pub(super) fn begin_coalescing(&mut self, level: Option<Level>) {
        let begun = match level {
            Some(level) => Coalescing::begin(&self.setup.destination, level),
            None => Coalescing::at_once(&self.setup.destination),
        };
        match begun {
            Ok(coalescing) => self.coalescing = Some(coalescing),
            Err(error) => {
                self.on(Event::CoalescingNotBegun(InWords(&error).to_string()));
            }
        }
    }

    /// Handles the end of a coalescing, after waiting for it if necessary.
    pub(super) fn end_coalescing(&mut self) {
        let Some(coalescing) = self.coalescing.take() else { return };
        self.on(Event::CoalescingEnded(coalescing.join().map(CoalescingReport::of)));
    }
}
