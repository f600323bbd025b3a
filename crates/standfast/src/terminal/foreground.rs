//! The terminal's keys. The job leads a process group of its own in our session; while the front's group would have the
//! keys, the job's has them: Ctrl-C goes to the job alone. When Ctrl-Z has stopped the job we take the keys back and stop
//! the front, so that the shell sees what it expects; when the shell wakes it, we hand them on again. Without a front we
//! take its part ourselves.

use super::foreground_proxy::ForegroundConnection;

use rustix::process::Pid;
use rustix::process::{Signal, getpid, kill_process, kill_process_group};
use signal_hook::consts::signal::SIGCONT;
use standfast_engine::{Terminal, own_group};

/// The controlling terminal, and the job's process group as we see it.
#[derive(Debug)]
pub(crate) struct Foreground {
    terminal: Option<Terminal>,
    group: i32,
    /// Whom the shell knows.
    pub(crate) front: Option<ForegroundConnection>,
}

impl Foreground {
    /// Of a job whose main process is `leader`.
    pub(crate) fn of(leader: i32, front: Option<ForegroundConnection>) -> Self {
        Self { terminal: Terminal::controlling(), group: leader, front }
    }

    /// Of a job that has a terminal of its own.
    pub(crate) fn elsewhere(leader: i32, front: Option<ForegroundConnection>) -> Self {
        Self { terminal: None, group: leader, front }
    }

    /// The process group that the shell knows.
    fn callers(&self) -> i32 {
        self.front.as_ref().map_or_else(own_group, ForegroundConnection::group)
    }

    /// The terminal, if the shell has given its keys to us.
    fn given(&self) -> Option<&Terminal> {
        self.terminal.as_ref().filter(|terminal| terminal.is_held_by(self.callers()))
    }

    /// Gives the keys to the job, if they come to us. A job that has left its group gets none.
    pub(crate) fn hand_on(&self) {
        if let Some(terminal) = self.given() {
            let _ = terminal.give_to(self.group);
        }
    }

    /// Gives the keys to the job, and to its group the signal that one of them has caused.
    pub(crate) fn hand_on_with(&self, signal: i32) {
        self.hand_on();
        self.send(signal);
    }

    /// Takes the keys back from a job that has ended or been stopped; whether it had them.
    pub(crate) fn take_back(&self) -> bool {
        let had = |terminal: &&Terminal| terminal.foreground().is_ok_and(|group| group == self.group);
        self.terminal.as_ref().filter(had).is_some_and(|terminal| terminal.give_to(self.callers()).is_ok())
    }

    /// Job control has stopped the job: if that was a key of this terminal the front stops as well. If it wanted to use the
    /// terminal, which we have got meanwhile, it shall have it.
    pub(crate) fn stop_along(&self) {
        if self.take_back() {
            match &self.front {
                // Its SIGCONT is handed on to us.
                Some(front) => front.stop(),
                None => {
                    let _ = kill_process(getpid(), Signal::STOP);
                    self.go_on();
                }
            }
        } else if self.given().is_some() {
            self.go_on();
        }
    }

    /// Somebody has woken us: the job goes on, with the keys if we have got them.
    pub(crate) fn go_on(&self) {
        self.hand_on_with(SIGCONT);
    }

    /// A group that is not there any more, or not yet, gets none.
    fn send(&self, signal: i32) {
        if let (Some(group), Some(signal)) = (Pid::from_raw(self.group), Signal::from_named_raw(signal)) {
            let _ = kill_process_group(group, signal);
        }
    }
}
