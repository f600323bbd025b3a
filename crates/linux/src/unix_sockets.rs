//! Facts about Unix sockets that only the kernel's directory of sockets (sock_diag(7)) reports: which sockets are
//! connected, which wait to be accepted, and which file an address names.

use crate::sock_diag::{self, attributes, word};
use std::io;

/// Length of `struct unix_diag_msg`.
const MESSAGE_BYTES: usize = 16;
/// Requested attributes: name, file, peer, pending connections, queue lengths.
const SHOW: u32 = 1 | 2 | 4 | 8 | 16;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_VFS: u16 = 1;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_ICONS: u16 = 3;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_SHUTDOWN: u16 = 6;

/// One Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnixSocket {
    /// Its inode.
    pub inode: u32,
    /// `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_SEQPACKET`.
    pub kind: i32,
    /// Its name, with the byte 0 in front, if that is no path. Sockets that were accepted have that of the listener.
    pub abstract_name: Option<Vec<u8>>,
    /// Whether it listens.
    pub is_listening: bool,
    /// Inode of the socket to which it is connected; 0 for one without a holder: closed, or not accepted yet.
    pub peer: Option<u32>,
    /// Inodes of the sockets that wait to be accepted, in order; 0 for one that has been closed.
    pub waiting: Vec<u32>,
    /// Maximum number of sockets that may wait to be accepted.
    pub backlog: u32,
    /// Directions that either side has shut down: 1 receiving, 2 sending.
    pub shut_down: u8,
    /// Inode and device (in the kernel's own form) of the file that its address names.
    pub file: Option<(u32, u32)>,
}

impl UnixSocket {
    /// Returns all Unix sockets of this network namespace.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn all() -> io::Result<Vec<Self>> {
        // struct unix_diag_req: family, protocol, padding, states, inode, what to show, two cookies.
        let words = [u32::from(libc::AF_UNIX as u8), u32::MAX, 0, SHOW, u32::MAX, u32::MAX];
        let request: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        sock_diag::dump(&request, |body| found.extend(one(body)))?;
        Ok(found)
    }
}

/// Parses a `struct unix_diag_msg` and the attributes after it.
fn one(body: &[u8]) -> Option<UnixSocket> {
    const LISTENING: u8 = 10;
    let mut socket = UnixSocket {
        is_listening: *body.get(2)? == LISTENING,
        kind: (*body.get(1)?).into(),
        inode: word(body, 4)?,
        ..UnixSocket::default()
    };
    for (kind, value) in attributes(body.get(MESSAGE_BYTES..)?) {
        match kind {
            UNIX_DIAG_NAME if value.first() == Some(&0) => socket.abstract_name = Some(value.to_vec()),
            UNIX_DIAG_VFS => socket.file = word(value, 0).zip(word(value, 4)),
            UNIX_DIAG_PEER => socket.peer = word(value, 0),
            UNIX_DIAG_ICONS => socket.waiting = (0..value.len() / 4).filter_map(|at| word(value, at * 4)).collect(),
            UNIX_DIAG_RQLEN if socket.is_listening => socket.backlog = word(value, 4)?,
            UNIX_DIAG_SHUTDOWN => socket.shut_down = *value.first()?,
            _ => {}
        }
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(socket: &impl std::os::fd::AsRawFd) -> u32 {
        std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino() as u32
    }

    #[test]
    fn peers_and_pending_connections_of_unix_sockets_are_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let (one, other) = UnixStream::pair().unwrap();
        let (survivor, dead) = UnixStream::pair().unwrap();
        drop(dead);
        let listener = UnixListener::bind(&path).unwrap();
        let waiting = UnixStream::connect(&path).unwrap();
        let all = UnixSocket::all().unwrap();
        let find = |wanted: u32| all.iter().find(|socket| socket.inode == wanted).unwrap().clone();
        assert_eq!(find(inode(&one)).peer, Some(inode(&other)));
        assert_eq!((find(inode(&survivor)).peer, find(inode(&survivor)).shut_down), (Some(0), 3));
        assert_eq!((find(inode(&waiting)).peer, find(inode(&waiting)).shut_down), (Some(0), 0));
        let listening = find(inode(&listener));
        assert!(listening.is_listening && listening.peer.is_none() && listening.backlog > 0);
        assert_eq!(listening.waiting, [inode(&waiting)]);
        assert_eq!(listening.file.map(|(inode, _)| inode), Some(std::fs::metadata(&path).unwrap().ino() as u32));
    }
}
