//! Rehearsals of restarts, in processes of their own. One begins when the machine says so, and its result goes to the
//! machine.

use super::Supervisor;
use super::machine::Event;
use crate::quoting::InWords;
use crate::rehearsal::Rehearsing;

impl Supervisor<'_, '_> {
    /// Begins to rehearse a restart from the newest checkpoint.
    pub(super) fn begin_rehearsal(&mut self) {
        match Rehearsing::begin(&self.setup.context.directory) {
            Ok(rehearsing) => self.rehearsing = Some(rehearsing),
            Err(error) => {
                let reason = format!("it could not be rehearsed: {}", InWords(&error));
                self.on(Event::RehearsalEnded(Some(Err(reason))));
            }
        }
    }

    /// Handles the end of a rehearsal, after waiting for it if necessary.
    pub(super) fn end_rehearsal(&mut self) {
        let Some(rehearsing) = self.rehearsing.take() else { return };
        self.on(Event::RehearsalEnded(rehearsing.join()));
    }
}
