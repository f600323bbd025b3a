//! Ring 2: a task under ptrace, from seize to detach.
//!
//! When a traced program is killed, its main thread does not report its end before all other threads have been reaped.
//! As their tracer we must reap them, so a wait for one task must not block while others die.
//!
//! A tracer is a *thread*. If it ends, for whatever reason, the kernel detaches all its tasks. That, and not our code,
//! is the last safety net of every checkpoint.

use crate::sys::{process, ptrace};
use crate::{Pid, Registers, TaskError, Tid, WaitStatus, proc};
use std::time::Duration;

/// The reason why a task is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// We asked for it, or the task is new, or job control stopped it.
    Asked,
    /// Entry to or exit from a system call.
    Syscall,
    /// A signal is about to be delivered.
    Signal(i32),
    /// A ptrace event, by its `PTRACE_EVENT_` number.
    Event(i32),
}

/// The cause that keeps a task from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standstill {
    /// We stopped it; it was running.
    OurDoing,
    /// Job control had stopped its whole process with this signal. The process stays stopped when we detach.
    JobControl {
        /// SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
        signal: i32,
    },
}

impl Standstill {
    /// Returns the cause of a stop that names this signal.
    fn by(signal: i32) -> Self {
        if signal == libc::SIGTRAP { Self::OurDoing } else { Self::JobControl { signal } }
    }
}

/// Pause between two polls for news of one task while there is only news of others.
const SLEEP: Duration = Duration::from_micros(100);

/// A task that this thread traces.
#[derive(Debug)]
pub struct Task {
    process: Pid,
    tid: Tid,
    /// Whether it is known to be the only task of its process.
    is_alone: bool,
}

impl Task {
    /// Seizes a task of a process with the given `PTRACE_O_` options. The task keeps running.
    ///
    /// # Errors
    /// When it is gone, or may not be traced.
    pub fn seize(process: Pid, tid: Tid, options: i32) -> Result<Self, TaskError> {
        ptrace::seize(tid, options).map_err(|error| TaskError::of(tid, "seizing", error))?;
        Ok(Self { process, tid, is_alone: false })
    }

    /// Wraps a task that a seized one has just created, and that the kernel has attached to us.
    pub fn attached_by_clone(process: Pid, tid: Tid) -> Self {
        Self { process, tid, is_alone: false }
    }

    /// Declares that its process has and will have no other task, which makes waits cheaper.
    pub fn is_alone(&mut self) {
        self.is_alone = true;
    }

    /// Returns its id as this process sees it.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Returns its process, as this process sees it.
    pub fn process(&self) -> Pid {
        self.process
    }

    /// Reports whether it is the main thread of its process.
    fn is_main(&self) -> bool {
        self.tid == self.process.main_thread()
    }

    /// Asks the task to stop; [`Task::poll_stop`] reports when it has.
    ///
    /// # Errors
    /// When it is gone.
    pub fn interrupt(&self) -> Result<(), TaskError> {
        ptrace::interrupt(self.tid).map_err(|error| self.error("interrupting", error))
    }

    /// Reports, without waiting, whether the task has reached the stop that [`Task::interrupt`] asked for, or the first
    /// stop of a task that was attached to us when it was made. Passes on signals that come first.
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

    /// Does the same as [`Task::poll_stop`], for a task that has sent no news for long. It may already be in the
    /// requested stop, if the news of that went to a caller that did not recognise it as ours.
    ///
    /// # Errors
    /// When it ends.
    pub fn poll_silent_stop(&self) -> Result<Option<Standstill>, TaskError> {
        // This comes first: the task does not leave the stop by itself, so news that has not been taken would still be
        // there.
        let cause = ptrace::stop_cause(self.tid).ok();
        let signal = cause.filter(|(_, code)| code >> 8 == libc::PTRACE_EVENT_STOP).map(|(signal, _)| signal);
        let standing = signal.map(Standstill::by);
        Ok(self.poll_stop()?.or(standing))
    }

    /// Resumes the task from a stop other than the requested one. Requests the stop again, since at any stop the kernel
    /// forgets that one was requested (a fork that was past its check for signals, once in some thousand times).
    fn resume_to_stop(&self, signal: i32) -> Result<(), TaskError> {
        self.interrupt()?;
        self.resume(signal)
    }

    /// Waits, without a time limit, for the next stop of any kind.
    ///
    /// # Errors
    /// When it ends.
    pub fn wait(&self) -> Result<Stop, TaskError> {
        if self.is_alone || !self.is_main() {
            // The end of such a task is reported at once.
            return match self.look(0)? {
                Some(status) => self.stop_of(status),
                None => unreachable!("this wait does not end without news"),
            };
        }
        loop {
            // Wait for news of any task of this thread without consuming it: news of other tasks is there again the
            // next time.
            let _ = process::wait_for_news();
            if let Some(status) = self.look(libc::WNOHANG)? {
                return self.stop_of(status);
            }
            if !self.reap_dead_siblings() {
                std::thread::sleep(SLEEP);
            }
        }
    }

    /// Reaps other dead threads of the same process. Returns whether there were any. The status of the main thread is
    /// left for others.
    pub fn reap_dead_siblings(&self) -> bool {
        let main = self.process.main_thread();
        let others = proc::threads(self.process).unwrap_or_default();
        let others = others.into_iter().filter(|tid| *tid != self.tid && *tid != main);
        // Nothing else needs the status of a thread.
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

    /// Resumes the task, with a signal if not 0.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resume(&self, signal: i32) -> Result<(), TaskError> {
        ptrace::resume(self.tid, signal).map_err(|error| self.error("resuming", error))
    }

    /// Resumes the task until the next entry to or exit from a system call, with a signal if not 0.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resume_to_syscall(&self, signal: i32) -> Result<(), TaskError> {
        ptrace::resume_to_syscall(self.tid, signal).map_err(|error| self.error("resuming", error))
    }

    /// Detaches the task.
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

    /// Returns the id of the task that this one has just created.
    ///
    /// # Errors
    /// When it is gone.
    pub fn event_message(&self) -> Result<u64, TaskError> {
        ptrace::event_message(self.tid).map_err(|error| self.error("asking for the event", error))
    }

    /// Returns the general registers.
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

    /// Returns the floating point and vector registers.
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

    /// Returns the blocked signals.
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

    /// Returns the pending signals, in order, as the kernel's `siginfo_t`.
    ///
    /// # Errors
    /// When it is gone.
    pub fn pending_signals(&self, queue: ptrace::Queue) -> Result<Vec<[u8; 128]>, TaskError> {
        ptrace::pending_signals(self.tid, queue).map_err(|error| self.error("reading pending signals", error))
    }

    /// Returns the configuration of restartable sequences, or `None` if the kernel does not tell it (before Linux 5.13).
    ///
    /// # Errors
    /// When it is gone.
    pub fn rseq_configuration(&self) -> Result<Option<ptrace::RseqConfiguration>, TaskError> {
        ptrace::rseq_configuration(self.tid).map_err(|error| self.error("asking for restartable sequences", error))
    }

    /// Reports whether the kernel may deliver its system calls to itself instead of making them (syscall user dispatch).
    ///
    /// # Errors
    /// When it is gone.
    pub fn dispatches_calls(&self) -> Result<bool, TaskError> {
        ptrace::dispatches_calls(self.tid).map_err(|error| self.error("asking for syscall user dispatch", error))
    }

    /// Writes one word, even into code.
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
    fn a_stop_already_reaped_by_another_waiter_is_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id() as i32);
        let main = pid.main_thread();
        let task = Task::seize(pid, main, 0).unwrap();
        assert_eq!(task.poll_silent_stop().unwrap(), None, "it runs");
        task.interrupt().unwrap();
        assert!(process::wait(main, 0).unwrap().is_some());
        assert_eq!(task.poll_stop().unwrap(), None);
        assert_eq!(task.poll_silent_stop().unwrap(), Some(Standstill::OurDoing));
        task.detach().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
