//! Control of the terminal's foreground process group. The job leads a process group of its own in our session. While
//! the foreground proxy's group would be in the foreground, the job's group is instead, so that Ctrl-C reaches the job
//! alone. When Ctrl-Z has stopped the job, we take the terminal back and stop the proxy, so that the shell sees what it
//! expects. When the shell wakes the proxy, we give the terminal to the job again. Without a proxy we play its part
//! ourselves.

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
    /// The foreground proxy, which is the process that the shell knows.
    pub(crate) proxy: Option<ForegroundConnection>,
}

impl Foreground {
    /// Makes the foreground of a job whose main process is `leader`.
    pub(crate) fn of(leader: i32, proxy: Option<ForegroundConnection>) -> Self {
        Self { terminal: Terminal::controlling(), group: leader, proxy }
    }

    /// Makes the foreground of a job that has a terminal of its own.
    pub(crate) fn elsewhere(leader: i32, proxy: Option<ForegroundConnection>) -> Self {
        Self { terminal: None, group: leader, proxy }
    }

    /// Returns the process group that the shell knows.
    fn callers(&self) -> i32 {
        self.proxy.as_ref().map_or_else(own_group, ForegroundConnection::group)
    }

    /// Returns the terminal, if the shell has put us into the foreground.
    fn given(&self) -> Option<&Terminal> {
        self.terminal.as_ref().filter(|terminal| terminal.is_held_by(self.callers()))
    }

    /// Puts the job into the foreground, if we are there. A job that has left its group does not get the terminal.
    pub(crate) fn hand_on(&self) {
        if let Some(terminal) = self.given() {
            let _ = terminal.give_to(self.group);
        }
    }

    /// Puts the job into the foreground, and sends its group the signal that a key has caused.
    pub(crate) fn hand_on_with(&self, signal: i32) {
        self.hand_on();
        self.send(signal);
    }

    /// Takes the terminal back from a job that has ended or been stopped. Returns whether the job had it.
    pub(crate) fn take_back(&self) -> bool {
        let had = |terminal: &&Terminal| terminal.foreground().is_ok_and(|group| group == self.group);
        self.terminal.as_ref().filter(had).is_some_and(|terminal| terminal.give_to(self.callers()).is_ok())
    }

    /// Handles a stop of the job by job control. If a key of this terminal caused it, the foreground proxy stops as
    /// well. If the job wanted to use the terminal, which we have meanwhile, it gets the terminal.
    pub(crate) fn stop_along(&self) {
        if self.take_back() {
            match &self.proxy {
                // Nobody could wake process 1 of a container, nor could it be stopped.
                Some(proxy) if proxy.is_init() => self.go_on(),
                // The proxy passes its SIGCONT on to us.
                Some(proxy) => proxy.stop(),
                None => {
                    let _ = kill_process(getpid(), Signal::STOP);
                    self.go_on();
                }
            }
        } else if self.given().is_some() {
            self.go_on();
        }
    }

    /// Continues the job after we were woken, in the foreground if we are there.
    pub(crate) fn go_on(&self) {
        self.hand_on_with(SIGCONT);
    }

    /// Sends a signal to the job's group, if the group exists.
    fn send(&self, signal: i32) {
        if let (Some(group), Some(signal)) = (Pid::from_raw(self.group), Signal::from_named_raw(signal)) {
            let _ = kill_process_group(group, signal);
        }
    }
}
