//! Ring 2: names of Unix sockets that lead nowhere. They bind a socket to a path whose file has been removed, or whose
//! directory is not available. A helper process does this with a directory of our own as the root of its file system,
//! so that the path is free there, whatever it leads to elsewhere. No other process ever sees a file of that name.
//!
//! # Safety
//! Only a process of its own changes its root, and it ends afterwards.

use crate::namespace_helper::in_helper_process;
use crate::sys::process::effective_user;
use crate::sys::socket;
use rustix::process::{chdir, chroot};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, remove_dir, remove_dir_all, rename};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// A temporary directory of our own, removed when this is dropped.
#[derive(Debug)]
pub struct PassingDirectory(PathBuf);

impl PassingDirectory {
    /// # Errors
    /// If none can be made.
    pub fn new() -> io::Result<Self> {
        let mut last = io::ErrorKind::NotFound.into();
        for place in ["/dev/shm", "/tmp", "/var/tmp"] {
            for attempt in 0..100 {
                let name = format!("standfast-names-{}-{attempt}", std::process::id());
                let directory = Path::new(place).join(name);
                match DirBuilder::new().mode(0o700).create(&directory) {
                    Ok(()) => return Ok(Self(directory)),
                    Err(error) => last = error,
                }
                if last.kind() != io::ErrorKind::AlreadyExists {
                    break;
                }
            }
        }
        Err(last)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PassingDirectory {
    fn drop(&mut self) {
        // A process in it stays there.
        let _ = remove_dir(&self.0).or_else(|_| remove_dir_all(&self.0));
    }
}

/// Names that lead to sockets only in a directory of our own.
#[derive(Debug)]
pub struct HiddenNames {
    directory: PassingDirectory,
    given: u32,
}

impl HiddenNames {
    /// # Errors
    /// If no directory can be made.
    pub fn new() -> io::Result<Self> {
        Ok(Self { directory: PassingDirectory::new()?, given: 0 })
    }

    /// Binds a socket to an address (`struct sockaddr_un` with a path). Returns a short path at which the socket can be
    /// reached as long as this value lives.
    ///
    /// # Errors
    /// If the kernel does not let us change the root, and any error of bind(2).
    pub fn bind(&mut self, socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<PathBuf> {
        self.given += 1;
        let root = self.directory.path().join(format!("root-{}", self.given));
        DirBuilder::new().mode(0o700).create(&root)?;
        let path = address.get(size_of::<libc::sa_family_t>()..).unwrap_or_default();
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        let inside = make_way(&root, Path::new(OsStr::from_bytes(&path[..end])))?;
        let root = CString::new(root.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
        in_helper_process(|| bind_below(&root, socket, address))?;
        let reached = self.directory.path().join(self.given.to_string());
        rename(&inside, &reached)?;
        Ok(reached)
    }
}

/// Makes every directory that a path passes through, from a root that is also the working directory. Returns the place
/// to which the path leads.
fn make_way(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut way = Vec::new();
    let at = |way: &[&OsStr]| way.iter().fold(root.to_owned(), |path, name| path.join(name));
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                DirBuilder::new().mode(0o700).recursive(true).create(at(&way))?;
                way.push(name);
            }
            Component::ParentDir => {
                DirBuilder::new().mode(0o700).recursive(true).create(at(&way))?;
                way.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(at(&way))
}

/// Binds the socket below the new root; only for a process of its own.
fn bind_below(root: &CString, socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    if effective_user() != 0 || chroot(root).is_err() {
        // SAFETY: descriptors stay as they are.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
        chroot(root)?;
    }
    chdir(c"/")?;
    socket::bind(socket, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn address(path: &str) -> Vec<u8> {
        [&(libc::AF_UNIX as u16).to_le_bytes()[..], path.as_bytes(), b"\0"].concat()
    }

    #[test]
    fn a_socket_bound_to_an_unreachable_name_can_be_connected() {
        let mut names = HiddenNames::new().unwrap();
        for path in ["/no/such/directory/here", "relative/../name", "../above", "/tmp"] {
            let made = socket::create(libc::AF_UNIX, libc::SOCK_STREAM, 0).unwrap();
            let address = address(path);
            let reached = match names.bind(made.as_fd(), &address) {
                // Some systems forbid this.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
                reached => reached.unwrap(),
            };
            assert_eq!(socket::name(made.as_fd()).unwrap(), address);
            rustix::net::listen(&made, 1).unwrap();
            let client = UnixStream::connect(&reached).unwrap();
            assert_eq!(socket::peer_name(client.as_fd()).unwrap().unwrap(), address);
        }
        let directory = names.directory.path().to_owned();
        drop(names);
        assert!(!directory.exists());
    }
}
