//! Ring 2: a task under ptrace, from seize to detach.
//!
//! When a traced program is killed, its main thread does not show its end before all other threads have been reaped, and
//! as their tracer that is our business: whoever waits for one task must not sleep over the deaths of others.
//!
//! A tracer is a *thread*. If it ends, for whatever reason, the kernel lets go of all its tasks: that, and not code of
//! ours, is the last safety net of every checkpoint.

use crate::sys::{process, ptrace};
use crate::{Registers, TaskError, WaitStatus, proc};
use std::time::Duration;

/// Why a task stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// We asked it to, or it is a new one, or job control stopped it.
    Asked,
    /// Entry to or exit from a system call.
    Syscall,
    /// A signal is about to be delivered.
    Signal(i32),
    /// A ptrace event, by its `PTRACE_EVENT_` number.
    Event(i32),
}

/// What keeps a task from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standstill {
    /// We do; it was running.
    OurDoing,
    /// Job control had stopped all of its process, with this signal. It stays stopped when we let go.
    JobControl {
        /// SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
        signal: i32,
    },
}

impl Standstill {
    /// That of a task whose stop names this signal.
    fn by(signal: i32) -> Self {
        if signal == libc::SIGTRAP { Self::OurDoing } else { Self::JobControl { signal } }
    }
}

/// Between two looks for news of one task while there is only news of others.
const SLEEP: Duration = Duration::from_micros(100);

/// A task that this thread traces.
#[derive(Debug)]
pub struct Task {
    process: i32,
    tid: i32,
    /// Whether it is known to be the only one of its process.
    is_alone: bool,
}

impl Task {
    /// Seizes a task of a process with the given `PTRACE_O_` options. It goes on running.
    ///
    /// # Errors
    /// When it is gone, or may not be traced.
    pub fn seize(process: i32, tid: i32, options: i32) -> Result<Self, TaskError> {
        ptrace::seize(tid, options).map_err(|error| TaskError::of(tid, "seizing", error))?;
        Ok(Self { process, tid, is_alone: false })
    }

    /// A task that a seized one has just created and that the kernel has attached to us by itself.
    pub fn attached_by_clone(process: i32, tid: i32) -> Self {
        Self { process, tid, is_alone: false }
    }

    /// Says that there is no other task in its process, and will not be: waiting for it costs less then.
    pub fn is_alone(&mut self) {
        self.is_alone = true;
    }

    /// Its id as this process sees it.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// The process that it belongs to, as this process sees it.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// Asks it to stop; [`Task::poll_stop`] tells when it has.
    ///
    /// # Errors
    /// When it is gone.
    pub fn interrupt(&self) -> Result<(), TaskError> {
        ptrace::interrupt(self.tid).map_err(|error| self.error("interrupting", error))
    }

    /// Whether the stop that [`Task::interrupt`] asked for, or the first one of a task that was attached to us when it
    /// was made, has come; does not wait for it. Signals that come first are passed on.
    ///
    /// # Errors
    /// When it ends.
    pub fn poll_stop(&self) -> Result<Option<Standstill>, TaskError> {
        while let Some(status) = self.look(libc::WNOHANG)? {
            match self.stop_of(status)? {
                Stop::Asked => return Ok(Some(Standstill::by(status.signal()))),
                Stop::Signal(signal) => self.resume_to_stop(signal)?,
                Stop::Syscall | Stop::Event(_) => self.resume_to_stop(0)?,
            }
        }
        Ok(None)
    }

    /// As [`Task::poll_stop`], for one of which no news has come for long: it may stand in the very stop that was asked for,
    /// and the news of that have gone to somebody who did not know it for ours.
    ///
    /// # Errors
    /// When it ends.
    pub fn poll_silent_stop(&self) -> Result<Option<Standstill>, TaskError> {
        // Asked first: it does not leave the stop by itself, so that news of it, had they not gone, would still be there.
        let cause = ptrace::stop_cause(self.tid).ok();
        let signal = cause.filter(|(_, code)| code >> 8 == libc::PTRACE_EVENT_STOP).map(|(signal, _)| signal);
        let standing = signal.map(Standstill::by);
        Ok(self.poll_stop()?.or(standing))
    }

    /// Lets it run on from another stop than the one that was asked for. Asks again: whichever stop comes first, the kernel
    /// forgets then that one was asked for (a fork that was past its look for signals, once in some thousand times).
    fn resume_to_stop(&self, signal: i32) -> Result<(), TaskError> {
        self.interrupt()?;
        self.resume(signal)
    }

    /// Waits, however long it takes, for the next stop of whichever kind.
    ///
    /// # Errors
    /// When it ends.
    pub fn wait(&self) -> Result<Stop, TaskError> {
        if self.is_alone || self.tid != self.process {
            // Whose end shows at once.
            return match self.look(0)? {
                Some(status) => self.stop_of(status),
                None => unreachable!("this wait does not end without news"),
            };
        }
        loop {
            // Any news of a task of this thread. It is not taken: what is not for us is there again the next time.
            let _ = process::wait_for_news();
            if let Some(status) = self.look(libc::WNOHANG)? {
                return self.stop_of(status);
            }
            if !self.reap_dead_siblings() {
                std::thread::sleep(SLEEP);
            }
        }
    }

    /// Takes the news of the deaths of other threads of the same process; whether there was any. The main thread's own
    /// death stays for whoever asks for its status.
    pub fn reap_dead_siblings(&self) -> bool {
        let others = proc::numbers(self.process, "task").unwrap_or_default();
        let others = others.into_iter().filter(|tid| *tid != self.tid && *tid != self.process);
        // Nobody asks for the status of a thread.
        others.filter(|tid| process::has_ended(*tid) && process::wait(*tid, libc::WNOHANG).is_ok()).count() > 0
    }

    fn look(&self, flags: i32) -> Result<Option<WaitStatus>, TaskError> {
        match process::wait(self.tid, flags) {
            Ok(status) => Ok(status.map(WaitStatus)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                Err(TaskError::Ended { tid: self.tid, status: None })
            }
            Err(error) => Err(self.error("waiting for a stop", error)),
        }
    }

    fn stop_of(&self, status: WaitStatus) -> Result<Stop, TaskError> {
        if status.has_ended() {
            return Err(TaskError::Ended { tid: self.tid, status: Some(status) });
        }
        Ok(match (status.event(), status.signal()) {
            (libc::PTRACE_EVENT_STOP, _) => Stop::Asked,
            (0, signal) if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
            (0, signal) => Stop::Signal(signal),
            (event, _) => Stop::Event(event),
        })
    }

    /// Lets it run on, with a signal if not 0.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resume(&self, signal: i32) -> Result<(), TaskError> {
        ptrace::resume(self.tid, signal).map_err(|error| self.error("resuming", error))
    }

    /// Lets it run to the next entry to or exit from a system call, with a signal if not 0.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resume_to_syscall(&self, signal: i32) -> Result<(), TaskError> {
        ptrace::resume_to_syscall(self.tid, signal).map_err(|error| self.error("resuming", error))
    }

    /// Lets go of it.
    ///
    /// # Errors
    /// When it is gone.
    pub fn detach(&self) -> Result<(), TaskError> {
        ptrace::detach(self.tid).map_err(|error| self.error("letting go", error))
    }

    /// Changes the `PTRACE_O_` options.
    ///
    /// # Errors
    /// When it is gone.
    pub fn set_options(&self, options: i32) -> Result<(), TaskError> {
        ptrace::set_options(self.tid, options).map_err(|error| self.error("setting options", error))
    }

    /// The id of the task that this one has just created.
    ///
    /// # Errors
    /// When it is gone.
    pub fn event_message(&self) -> Result<u64, TaskError> {
        ptrace::event_message(self.tid).map_err(|error| self.error("asking for the event", error))
    }

    /// General registers.
    ///
    /// # Errors
    /// When it is gone.
    pub fn registers(&self) -> Result<Registers, TaskError> {
        ptrace::registers(self.tid).map(Registers).map_err(|error| self.error("reading registers", error))
    }

    /// Sets the general registers.
    ///
    /// # Errors
    /// When it is gone.
    pub fn set_registers(&self, registers: &Registers) -> Result<(), TaskError> {
        ptrace::set_registers(self.tid, &registers.0).map_err(|error| self.error("setting registers", error))
    }

    /// Floating point and vector registers.
    ///
    /// # Errors
    /// When it is gone.
    pub fn extended_registers(&self) -> Result<Vec<u8>, TaskError> {
        ptrace::extended_registers(self.tid).map_err(|error| self.error("reading vector registers", error))
    }

    /// Sets floating point and vector registers.
    ///
    /// # Errors
    /// When it is gone, or this processor lacks a feature.
    pub fn set_extended_registers(&self, bytes: &[u8]) -> Result<(), TaskError> {
        ptrace::set_extended_registers(self.tid, bytes).map_err(|error| self.error("setting vector registers", error))
    }

    /// Blocked signals.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal_mask(&self) -> Result<u64, TaskError> {
        ptrace::signal_mask(self.tid).map_err(|error| self.error("reading the signal mask", error))
    }

    /// Sets the blocked signals.
    ///
    /// # Errors
    /// When it is gone.
    pub fn set_signal_mask(&self, mask: u64) -> Result<(), TaskError> {
        ptrace::set_signal_mask(self.tid, mask).map_err(|error| self.error("setting the signal mask", error))
    }

    /// Pending signals, in order, as the kernel's `siginfo_t`.
    ///
    /// # Errors
    /// When it is gone.
    pub fn pending_signals(&self, queue: ptrace::Queue) -> Result<Vec<[u8; 128]>, TaskError> {
        ptrace::pending_signals(self.tid, queue).map_err(|error| self.error("reading pending signals", error))
    }

    /// Restartable sequences.
    ///
    /// # Errors
    /// When it is gone.
    pub fn rseq_configuration(&self) -> Result<ptrace::RseqConfiguration, TaskError> {
        ptrace::rseq_configuration(self.tid).map_err(|error| self.error("asking for restartable sequences", error))
    }

    /// Writes one word, also into code.
    ///
    /// # Errors
    /// When it is gone or nothing is mapped there.
    pub fn poke(&self, address: u64, word: u64) -> Result<(), TaskError> {
        ptrace::poke(self.tid, address, word).map_err(|error| self.error("writing a word", error))
    }

    fn error(&self, action: &'static str, source: std::io::Error) -> TaskError {
        TaskError::of(self.tid, action, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stop_whose_news_somebody_else_has_taken_is_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let task = Task::seize(pid, pid, 0).unwrap();
        assert_eq!(task.poll_silent_stop().unwrap(), None, "it runs");
        task.interrupt().unwrap();
        assert!(process::wait(pid, 0).unwrap().is_some());
        assert_eq!(task.poll_stop().unwrap(), None);
        assert_eq!(task.poll_silent_stop().unwrap(), Some(Standstill::OurDoing));
        task.detach().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
