//! Runs the user's command that notifies somebody.

use super::Supervisor;
use crate::background::Background;
use crate::shell_command::run_in_shell;
use std::ffi::OsString;

impl Supervisor<'_, '_> {
    /// Runs the command in a thread of its own: it may take long, or for ever. Nobody waits for it.
    pub(super) fn notify(&mut self, is_protected: bool, reason: String) {
        let Some(notify) = self.setup.context.machine.notify.clone() else { return };
        let directory = &self.setup.context.directory;
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        let work = move || {
            let state = OsString::from(if is_protected { "protected" } else { "unprotected" });
            let reason = OsString::from(reason);
            let environment = [
                ("STANDFAST_NOTIFY_STATE", state.as_os_str()),
                ("STANDFAST_NOTIFY_REASON", reason.as_os_str()),
                ("STANDFAST_NOTIFY_JOB", directory.as_os_str()),
            ];
            // Whether it worked is the command's own concern: its output went nowhere.
            let _ = run_in_shell(&notify.command, &environment);
        };
        if let Err(error) = Background::begin("notify", work) {
            self.warn(format!("cannot start a thread for --notify: {error}"));
        }
    }
}
