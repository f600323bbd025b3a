//! The server of a node: accepts connections, and has a shim answer each. It trusts nobody: the shim checks who has connected.

use crate::RemoteError;
use crate::error::system;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// The maximum number of shims at a time. Strangers can connect as well, and each connection costs a process for seconds.
const SHIMS_MAX: usize = 1000;
/// How long to wait when no more processes or descriptors can be had.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers connections until the job's first command has ended, if there is one; returns how it ended. `shim` starts a
/// process that calls [`crate::answer`] with the connection.
///
/// # Errors
/// When the system refuses to wait.
pub fn serve(
    listener: &TcpListener,
    shim: impl Fn(OwnedFd) -> io::Result<Child>,
    first: Option<Child>,
) -> Result<ExitStatus, RemoteError> {
    let mut first = first.map(Shim::of).transpose().map_err(system("watching the command"))?;
    let mut shims: Vec<Shim> = Vec::new();
    loop {
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        polled.extend(shims.iter().map(|shim| PollFd::from_borrowed_fd(shim.end.as_fd(), PollFlags::IN)));
        if shims.len() < SHIMS_MAX {
            polled.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        let listened = polled.len();
        polled.extend(first.iter().map(|first| PollFd::from_borrowed_fd(first.end.as_fd(), PollFlags::IN)));
        match rustix::event::poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            answer => answer.map_err(|error| system("waiting for connections")(error.into()))?,
        };
        let has_connected = polled[..listened].get(shims.len()).is_some_and(|it| !it.revents().is_empty());
        drop(polled);
        if let Some(status) = first.as_mut().and_then(Shim::status) {
            return Ok(status);
        }
        shims.retain_mut(|shim| shim.status().is_none());
        if has_connected {
            match accepted(listener, &shim) {
                Ok(started) => shims.push(started),
                // Whoever has connected sees that the connection ends.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

struct Shim {
    child: Child,
    /// Readable when it has ended.
    end: OwnedFd,
}

impl Shim {
    fn of(child: Child) -> io::Result<Self> {
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Self { child, end })
    }

    /// Returns how it has ended, if it has.
    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

fn accepted(listener: &TcpListener, shim: &impl Fn(OwnedFd) -> io::Result<Child>) -> io::Result<Shim> {
    let (connection, _) = listener.accept()?;
    Shim::of(shim(connection.into())?)
}
