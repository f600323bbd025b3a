//! Looks at the size of the job from time to time, if a deadline depends on it.

use super::Supervisor;
use super::machine::Event;
use std::time::{Duration, Instant};

/// Time between two looks. A program may grow by some gigabytes meanwhile, and a look reads a line for each process.
const LOOKS: Duration = Duration::from_secs(2);

impl Supervisor<'_, '_> {
    /// Looks at the size of the job, if that is due.
    pub(super) fn look_at_size(&mut self, now: Instant) {
        if self.size_due.is_some_and(|due| due <= now) {
            self.size_due = Some(now + LOOKS);
            self.note_size();
        }
    }

    /// Sends the size of the job to the machine.
    pub(super) fn note_size(&mut self) {
        let (_, resident_bytes) = self.job.freezer().size();
        self.on(Event::Sized { resident_bytes });
    }
}
