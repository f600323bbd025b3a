//! Duties of process 1 of a container, or of another pid namespace. The foreground proxy has them if it is that process:
//! with `standfast run` as the entrypoint.
//!
//! - It reaps the orphans of the namespace, such as those of `docker exec`.
//! - It stays as long as the program, even if the supervisor is killed: the kernel kills all others when it ends.

use crate::event::{ContainerNews, JobEvent, Listener};
use crate::signals::{Sender, SignalInbox};
use crate::{Ending, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid};
use standfast_linux::proc;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Process 1, apart from what every foreground proxy does.
#[derive(Debug, Default)]
pub(super) struct ContainerInit {
    program: Option<NamedProgram>,
}

/// The program, as long as its pid is not reused.
#[derive(Debug)]
struct NamedProgram {
    pid: Pid,
    process: OwnedFd,
}

impl ContainerInit {
    /// Returns the duties of this process, if it has any.
    pub(super) fn of_this_process() -> Option<Self> {
        getpid().is_init().then(Self::default)
    }

    /// Notes which process is the program.
    pub(super) fn note_program(&mut self, pid: i32) {
        let open = |pid: Pid| Some(NamedProgram { pid, process: pidfd_open(pid, PidfdFlags::empty()).ok()? });
        self.program = Pid::from_raw(pid).and_then(open);
    }

    /// Reaps children that have ended, except for the supervisor. Returns how the program ended, if it is among them.
    pub(super) fn reap_orphans(&self, supervisor: Option<Pid>) -> Option<ExitStatus> {
        let mut of_program = None;
        let children = proc::children(standfast_linux::Pid::own()).unwrap_or_default();
        for child in children.into_iter().filter_map(|child| Pid::from_raw(child.get())) {
            if Some(child) == supervisor {
                continue;
            }
            if let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::NOHANG)
                && self.program.as_ref().is_some_and(|program| program.pid == child)
            {
                of_program = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
        of_program
    }

    /// Waits for a program that has outlived its supervisor, which ended as `ending` says, and passes signals on.
    /// Returns how the program ended, if that is known.
    pub(super) fn outlive(
        self,
        signals: &mut SignalInbox,
        ending: Ending,
        listener: &mut Listener<'_>,
    ) -> Result<Ending, Error> {
        let Some(program) = self.program.as_ref().filter(|program| !program.has_ended()) else { return Ok(ending) };
        let pid = program.pid.as_raw_nonzero().get();
        listener(&JobEvent::Container(ContainerNews::SupervisorKilled { pid }));
        let mut known = None;
        while !program.has_ended() {
            let mut fds = [PollFd::new(&program.process, PollFlags::IN), PollFd::new(&*signals, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::system("wait for the program")(error.into())),
            }
            known = self.reap_orphans(None).or(known);
            // What the kernel sends to us because of a key, it sends to the program too. SIGCHLD is not for the program.
            let sent = signals.take(0).into_iter().filter(|(_, sender)| *sender != Sender::Kernel);
            sent.for_each(|(signal, _)| program.send(signal));
        }
        known = self.reap_orphans(None).or(known);
        Ok(known.map_or(ending, Ending::of_status))
    }
}

impl NamedProgram {
    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn send(&self, signal: i32) {
        // It fails only if the program has ended, or for signals without a name.
        let _ = Signal::from_named_raw(signal).map(|signal| pidfd_send_signal(&self.process, signal));
    }
}
