//! Signals to a supervisor, and the end of the foreground proxy.

use super::Supervisor;
use super::machine::Event;
use crate::signals::{Reaction, Sender, react};
use crate::terminal::ForegroundConnection;

impl Supervisor<'_, '_> {
    pub(super) fn handle_signals(&mut self) {
        self.job.reap_strays();
        self.handle_stop();
        for (signal, sender) in self.setup.signals.take(self.job.main_process().pid.get()) {
            self.handle_signal(signal, sender);
        }
    }

    /// Handles the signals that the foreground proxy has received as if the supervisor had received them. A proxy that
    /// was killed is a lost terminal: the job stays protected.
    pub(super) fn handle_foreground_proxy(&mut self) {
        match self.setup.context.foreground_proxy.as_ref().and_then(ForegroundConnection::take) {
            Some(signals) => signals.into_iter().for_each(|(signal, sender)| self.handle_signal(signal, sender)),
            None => self.be_alone(),
        }
    }

    pub(super) fn handle_signal(&mut self, signal: i32, sender: Sender) {
        match react(signal, sender, &self.setup.options.notice, self.machine.has_heard_stop()) {
            Reaction::Leave => {}
            Reaction::GoOn => self.foreground.go_on(),
            Reaction::HandOn => self.foreground.hand_on_with(signal),
            Reaction::Checkpoint => {
                self.on(Event::CheckpointAsked);
            }
            Reaction::CheckpointAndStop => {
                self.on(Event::StopAsked);
            }
            // This fails only if the program has ended, which the event loop notices.
            Reaction::PassOn => drop(self.job.signal(signal)),
        }
    }

    /// Handles a stop of the main process by job control. During a checkpoint the kernel reports such a stop only to
    /// the tracer.
    pub(super) fn handle_stop(&mut self) {
        if !self.is_traced() && self.job.has_stopped() {
            self.foreground.stop_along();
        }
    }
}
