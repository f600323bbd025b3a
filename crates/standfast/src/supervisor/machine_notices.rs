//! Notices that the machine is about to be taken away: the program stops after a checkpoint, as for a signal.

use super::Supervisor;
use super::machine::Event;
use crate::event::JobEvent;
use crate::watch::{Seen, Watcher};

impl Supervisor<'_, '_> {
    /// Begins to watch for a notice, if the user wants that.
    pub(super) fn begin_to_watch(&mut self) {
        let Some(watched) = self.setup.context.machine.watch_notice.clone() else { return };
        match Watcher::begin(watched) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self.warn(format!("cannot watch for notices of this machine: {error}")),
        }
    }

    /// Handles what the watcher has seen.
    pub(super) fn handle_machine_notices(&mut self) {
        let seen = self.watcher.as_mut().map(Watcher::take).unwrap_or_default();
        for seen in seen {
            match seen {
                Seen::Notice(notice) => {
                    // There is one, and then nothing more to watch.
                    self.watcher = None;
                    self.say(&JobEvent::MachineNotice { notice: format!("stopping after a checkpoint: {notice}") });
                    self.on(Event::StopAsked);
                }
                Seen::Nothing { reason } => self.warn(format!(
                    "cannot see whether this machine is about to be taken away, and will look again: {reason}"
                )),
            }
        }
    }
}
