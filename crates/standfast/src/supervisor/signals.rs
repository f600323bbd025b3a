//! Signals to a supervisor, and the ends of those who wait in front of it.

use super::Supervisor;
use super::machine::Event;
use crate::signals::{Reaction, Sender, react};
use crate::terminal::ForegroundConnection;

impl Supervisor<'_, '_> {
    pub(super) fn handle_signals(&mut self) {
        self.job.reap_strays();
        self.handle_stop();
        for (signal, sender) in self.post.signals.take(self.job.main_process().pid) {
            self.handle_signal(signal, sender);
        }
    }

    /// What the front has got counts as if we had got it. One that was killed is a terminal that was lost: the job is
    /// protected on.
    pub(super) fn handle_front(&mut self) {
        match self.post.context.front.as_ref().and_then(ForegroundConnection::take) {
            Some(signals) => signals.into_iter().for_each(|(signal, sender)| self.handle_signal(signal, sender)),
            None => self.be_alone(),
        }
    }

    pub(super) fn handle_signal(&mut self, signal: i32, sender: Sender) {
        match react(signal, sender, self.machine.has_heard_stop()) {
            Reaction::Leave => {}
            Reaction::GoOn => self.foreground.go_on(),
            Reaction::HandOn => self.foreground.hand_on_with(signal),
            Reaction::CheckpointAndStop => {
                self.on(Event::StopAsked);
            }
            // The only way this fails is that the program has ended, which is noticed by itself.
            Reaction::PassOn => drop(self.job.signal(signal)),
        }
    }

    /// Job control may have stopped the main process. Under a checkpoint the kernel tells nobody but that.
    pub(super) fn handle_stop(&mut self) {
        if !self.is_traced() && self.job.has_stopped() {
            self.foreground.stop_along();
        }
    }
}
