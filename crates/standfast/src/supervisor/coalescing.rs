//! The thread that coalesces checkpoints: begun as the machine says, and what came of it told to it.

use super::Supervisor;
use super::machine::Event;
use crate::coalesce::Coalescing;
use crate::quoting::InWords;
use crate::report::CoalescingReport;
use standfast_store::Level;

impl Supervisor<'_, '_> {
    /// The newest chain of a level; without one, as far as possible on the disk.
    pub(super) fn begin_coalescing(&mut self, level: Option<Level>) {
        let begun = match level {
            Some(level) => Coalescing::begin(&self.post.destination, level),
            None => Coalescing::at_once(&self.post.destination),
        };
        match begun {
            Ok(coalescing) => self.coalescing = Some(coalescing),
            Err(error) => {
                self.on(Event::CoalescingNotBegun(InWords(&error).to_string()));
            }
        }
    }

    /// Takes note of what was coalesced, waiting for that if need be.
    pub(super) fn end_coalescing(&mut self) {
        let Some(coalescing) = self.coalescing.take() else { return };
        self.on(Event::CoalescingEnded(coalescing.join().map(CoalescingReport::of)));
    }
}
