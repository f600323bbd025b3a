//! Location of the sockets of a job: its directory, which only its owner may enter. They are reached through an open
//! descriptor of the directory (`/proc/self/fd/N/NAME`), since an address has room for only 108 bytes and directories
//! may have longer names.

use rustix::fd::{AsFd as _, AsRawFd as _};
use rustix::fs::{AtFlags, FileType};
use rustix::net::sockopt::socket_peercred;
use standfast_store::Directory;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket name in a directory that is held open, so that the socket has a short address.
#[derive(Debug)]
pub(crate) struct SocketPlace {
    directory: Directory,
    name: &'static str,
}

impl SocketPlace {
    pub(crate) fn open(directory: &Path, name: &'static str) -> io::Result<Self> {
        Ok(Self { directory: Directory::open(directory)?, name })
    }

    fn address(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{}", self.directory.as_fd().as_raw_fd(), self.name))
    }

    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.address())
    }

    /// Listens on the socket, for this user only. The caller holds the job's lease, so an existing socket belongs to a
    /// dead supervisor and is replaced. A file of another type with this name is the user's, and stays. Nothing here
    /// blocks.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        self.remove()?;
        let listener = UnixListener::bind(self.address())?;
        std::fs::set_permissions(self.address(), Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match rustix::fs::statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Socket => return Ok(()),
            // If the file cannot be examined, it cannot be removed either.
            Ok(_) | Err(_) => {}
        }
        match rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reports whether the peer is this user or root, who can do everything anyway.
pub(crate) fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let peer = socket_peercred(stream)?.uid;
    Ok(peer.is_root() || peer == rustix::process::geteuid())
}
