//! The control socket: how `checkpoint DIR` and `status DIR` talk to the supervisor of a job.
//!
//! A Unix socket named `control` in the job's directory, which only its owner may enter; the other side's user is
//! checked all the same. Both sides reach it through an open descriptor of the directory (`/proc/self/fd/N/control`),
//! since an address has room for 108 bytes only and directories have longer names.

mod client;
mod protocol;
mod server;

pub(crate) use client::{ControlError, ask};
pub(crate) use protocol::{Reply, Request};
pub(crate) use server::{ClientId, ControlSocket};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The socket's name in the job's directory.
const SOCKET_NAME: &str = "control";

/// A directory held open, so that the socket in it has a short address.
struct SocketPlace {
    directory: OwnedFd,
}

impl SocketPlace {
    fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: rustix::fs::open(directory, flags, Mode::empty())? })
    }

    fn address(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_NAME}", self.directory.as_raw_fd()))
    }
}

/// Whether the other side is this user, or root, who could do everything anyhow.
fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let peer = socket_peercred(stream)?.uid;
    Ok(peer.is_root() || peer == rustix::process::geteuid())
}
