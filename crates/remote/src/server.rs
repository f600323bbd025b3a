//! The server of a node: accepts connections, and has a shim answer each. It trusts nobody: the shim checks who has connected.

use crate::RemoteError;
use crate::error::system;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// The maximum number of shims at a time. Strangers can connect as well, and each connection costs a process for seconds.
const SHIMS_MAX: usize = 1000;
/// How long to wait when no more processes or descriptors can be had.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers connections until the process is ended. `shim` starts a process that calls [`crate::answer`] with the
/// connection.
///
/// # Errors
/// When the system refuses to wait.
pub fn serve(listener: &TcpListener, shim: impl Fn(OwnedFd) -> io::Result<Child>) -> Result<Infallible, RemoteError> {
    let mut shims: Vec<Shim> = Vec::new();
    loop {
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        polled.extend(shims.iter().map(|shim| PollFd::from_borrowed_fd(shim.end.as_fd(), PollFlags::IN)));
        if shims.len() < SHIMS_MAX {
            polled.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        match rustix::event::poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            answer => answer.map_err(|error| system("waiting for connections")(error.into()))?,
        };
        let has_connected = polled.get(shims.len()).is_some_and(|it| !it.revents().is_empty());
        drop(polled);
        shims.retain_mut(|shim| !shim.has_ended());
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
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

fn accepted(listener: &TcpListener, shim: &impl Fn(OwnedFd) -> io::Result<Child>) -> io::Result<Shim> {
    let (connection, _) = listener.accept()?;
    let child = shim(connection.into())?;
    let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    Ok(Shim { child, end })
}
