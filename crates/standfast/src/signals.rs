//! Handling of the signals that the supervisor receives: a pure policy, and the inbox that collects them.
//!
//! The program leads a process group of its own in the supervisor's session. Usually that group is in the foreground,
//! and gets the signals of the terminal (Ctrl-C, a hangup, a resized window). If our group is in the foreground (a
//! shell has brought its job there without telling us), we pass such signals and the terminal on to the program's
//! group. A signal that a process sends to the supervisor is passed on to the program, unless `--notice` gives it
//! another meaning. SIGCONT wakes the job with us.

use crate::settings::{NoticeMeaning, SignalNotices};
use rustix::fd::{AsFd, BorrowedFd};
use signal_hook::consts::signal::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGQUIT, SIGTERM, SIGTSTP, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGWINCH, SIGXCPU,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use standfast_linux::proc::Status;
use std::os::unix::net::UnixStream;

/// Signals with a name that are passed on to the program. SIGPIPE is not among them, since it results from a process's
/// own writes. Nor is SIGCHLD.
const PASSED_ON: [i32; 11] =
    [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGWINCH, SIGURG, SIGIO, SIGXCPU];

/// Signals without a name that programs can use freely (from `SIGRTMIN`, above the C library's own two).
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// Sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, as for a key on the terminal: only our group received it.
    Kernel,
    /// Another process: only the supervisor received it.
    Process,
    /// The program itself, which takes the supervisor for its parent shell.
    Program,
}

/// Reaction to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing, since it is not for the program.
    Leave,
    /// Send it to the program's group, and put that group into the foreground.
    HandOn,
    /// Send it to the program.
    PassOn,
    /// Wake the job.
    GoOn,
    /// Take a checkpoint.
    Checkpoint,
    /// Take a checkpoint, stop the program, end with the status for that.
    CheckpointAndStop,
}

/// Decides how to react to a signal. A notice holds whoever sends the signal. `stop_heard` says whether an earlier one
/// asked for a stop: the next is passed on, since the program has not stopped.
pub(crate) fn react(signal: i32, sender: Sender, notices: &SignalNotices, stop_heard: bool) -> Reaction {
    match notices.meaning(signal) {
        Some(NoticeMeaning::Stop) if !stop_heard => Reaction::CheckpointAndStop,
        Some(NoticeMeaning::Stop | NoticeMeaning::Pass) => Reaction::PassOn,
        Some(NoticeMeaning::Checkpoint) => Reaction::Checkpoint,
        Some(NoticeMeaning::Ignore) => Reaction::Leave,
        None => react_without_notice(signal, sender),
    }
}

fn react_without_notice(signal: i32, sender: Sender) -> Reaction {
    match (signal, sender) {
        (SIGCHLD, _) => Reaction::Leave,
        // The sender may be a shell (`fg`), or a process that knows only us.
        (SIGCONT, Sender::Kernel | Sender::Process) => Reaction::GoOn,
        (SIGTSTP, Sender::Kernel | Sender::Process) => Reaction::HandOn,
        (SIGINT | SIGQUIT | SIGHUP | SIGWINCH, Sender::Kernel) => Reaction::HandOn,
        // If we sent it back, it would hit a program that only reports to its parent.
        (_, Sender::Kernel | Sender::Program) => Reaction::Leave,
        (_, Sender::Process) => Reaction::PassOn,
    }
}

/// Collects the signals of this process. Once it exists, none of them ends the process any more.
#[derive(Debug)]
pub(crate) struct SignalInbox {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
}

impl SignalInbox {
    /// Takes over all signals of the policy except those that are ignored. A program run under `nohup` must inherit
    /// that, and nobody wants these signals here either.
    pub(crate) fn open() -> std::io::Result<Self> {
        let ignored = Status::parse(&std::fs::read("/proc/self/status")?).ignored;
        let is_honoured = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
        // A process of the job that has lost its parent may end, which we then must handle.
        let signals =
            PASSED_ON.into_iter().chain([SIGTERM, SIGCHLD, SIGCONT, SIGTSTP]).chain(REAL_TIME).filter(is_honoured);
        let (read, write) = UnixStream::pair()?;
        Ok(Self { delivery: SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)? })
    }

    /// Returns the signals that came since the last call, with their senders. `program` is the job's main process.
    pub(crate) fn take(&mut self, program: i32) -> Vec<(i32, Sender)> {
        let sender = |origin: &Origin| match &origin.process {
            _ if origin.cause == Cause::Kernel => Sender::Kernel,
            Some(process) if process.pid == program => Sender::Program,
            _ => Sender::Process,
        };
        self.delivery.pending().map(|origin| (origin.signal, sender(&origin))).collect()
    }
}

impl AsFd for SignalInbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SignalNotice;

    #[test]
    fn terminal_signals_are_forwarded_to_the_programs_group() {
        for signal in [SIGINT, SIGQUIT, SIGWINCH, SIGHUP, SIGTSTP] {
            assert_eq!(react(signal, Sender::Kernel, &SignalNotices::default(), false), Reaction::HandOn);
        }
    }

    #[test]
    fn signals_from_other_processes_are_forwarded() {
        for signal in PASSED_ON.into_iter().chain(REAL_TIME) {
            assert_eq!(react(signal, Sender::Process, &SignalNotices::default(), false), Reaction::PassOn);
        }
    }

    #[test]
    fn sigcont_continues_the_job() {
        for sender in [Sender::Kernel, Sender::Process] {
            assert_eq!(react(SIGCONT, sender, &SignalNotices::default(), false), Reaction::GoOn);
        }
        assert_eq!(react(SIGCONT, Sender::Program, &SignalNotices::default(), false), Reaction::Leave);
    }

    #[test]
    fn signals_from_the_program_are_not_sent_back_to_it() {
        assert_eq!(react(SIGUSR1, Sender::Program, &SignalNotices::default(), false), Reaction::Leave);
    }

    #[test]
    fn the_first_sigterm_asks_for_a_checkpoint_and_later_ones_are_passed_on() {
        for sender in [Sender::Kernel, Sender::Process] {
            assert_eq!(react(SIGTERM, sender, &SignalNotices::default(), false), Reaction::CheckpointAndStop);
            assert_eq!(react(SIGTERM, sender, &SignalNotices::default(), true), Reaction::PassOn);
        }
    }

    #[test]
    fn notices_say_what_signals_mean() {
        let notices = [
            SignalNotice::new(SIGUSR1, NoticeMeaning::Checkpoint),
            SignalNotice::new(SIGUSR2, NoticeMeaning::Stop),
            SignalNotice::new(SIGTERM, NoticeMeaning::Pass),
            SignalNotice::new(SIGHUP, NoticeMeaning::Ignore),
        ];
        let notices = SignalNotices::from(notices.to_vec());
        let reactions = [
            (SIGUSR1, Reaction::Checkpoint),
            (SIGUSR2, Reaction::CheckpointAndStop),
            (SIGTERM, Reaction::PassOn),
            (SIGHUP, Reaction::Leave),
            (SIGINT, Reaction::PassOn),
        ];
        for (signal, reaction) in reactions {
            assert_eq!(react(signal, Sender::Process, &notices, false), reaction, "{signal}");
        }
        assert_eq!(react(SIGUSR2, Sender::Process, &notices, true), Reaction::PassOn);
        assert_eq!(react(SIGUSR1, Sender::Process, &notices, true), Reaction::Checkpoint);
    }

    #[test]
    fn the_inbox_identifies_the_sender_of_a_signal() {
        let mut inbox = SignalInbox::open().unwrap();
        signal_hook::low_level::raise(SIGURG).unwrap();
        assert!(inbox.take(0).contains(&(SIGURG, Sender::Process)));
        signal_hook::low_level::raise(SIGURG).unwrap();
        let supervisor_baseline = i32::try_from(std::process::id()).unwrap();
        assert!(inbox.take(supervisor_baseline).contains(&(SIGURG, Sender::Program)));
    }
}
