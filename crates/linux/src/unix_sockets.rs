//! What the kernel's directory of sockets (sock_diag(7)) tells of Unix sockets, and nobody else does: who is connected to
//! whom, who waits to be accepted, which file an address names.

use crate::sys::socket;
use std::io;
use std::os::fd::AsFd;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const HEADER_BYTES: usize = 16;
/// Of `struct unix_diag_msg`.
const MESSAGE_BYTES: usize = 16;
/// Name, file, peer, pending connections, queue lengths.
const SHOW: u32 = 1 | 2 | 4 | 8 | 16;
const UNIX_DIAG_VFS: u16 = 1;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_ICONS: u16 = 3;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
/// The kernel's own messages are no longer.
const BUFFER_BYTES: usize = 1 << 16;

/// One Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnixSocket {
    /// Its inode.
    pub inode: u32,
    /// Whether it listens.
    pub is_listening: bool,
    /// Inode of the socket that it is connected to; 0 for one that nobody holds: closed, or not accepted yet.
    pub peer: Option<u32>,
    /// Inodes of the sockets that wait to be accepted, in order; 0 for one that has been closed.
    pub waiting: Vec<u32>,
    /// How many may wait to be accepted.
    pub backlog: u32,
    /// What has been shut down, by whichever side: 1 receiving, 2 sending.
    pub shut_down: u8,
    /// Inode and device (in the kernel's own form) of the file that its address names.
    pub file: Option<(u32, u32)>,
}

impl UnixSocket {
    /// All of this network namespace.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn all() -> io::Result<Vec<Self>> {
        let directory = socket::directory()?;
        // struct nlmsghdr, struct unix_diag_req: family, protocol, padding, states, inode, what to show, two cookies.
        let words = [u32::MAX, 0, SHOW, u32::MAX, u32::MAX];
        let mut request = Vec::new();
        request.extend(((HEADER_BYTES + 4 + 4 * words.len()) as u32).to_le_bytes());
        request.extend(SOCK_DIAG_BY_FAMILY.to_le_bytes());
        request.extend(REQUEST_DUMP.to_le_bytes());
        request.extend([0; 8]);
        request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
        request.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        socket::send(directory.as_fd(), &request, &[], &[])?;
        let (mut found, mut buffer) = (Vec::new(), vec![0u8; BUFFER_BYTES]);
        loop {
            let bytes = socket::receive(directory.as_fd(), &mut buffer)?;
            if Self::parse(&buffer[..bytes], &mut found)? {
                return Ok(found);
            }
        }
    }

    /// Parses some messages of the answer; returns whether the last one was among them.
    ///
    /// # Errors
    /// The error that the kernel answers with.
    pub fn parse(mut messages: &[u8], into: &mut Vec<Self>) -> io::Result<bool> {
        while messages.len() >= HEADER_BYTES {
            let (length, kind) = (word(messages, 0).unwrap_or_default(), half(messages, 4).unwrap_or_default());
            let length = (length as usize).clamp(HEADER_BYTES, messages.len());
            let body = &messages[HEADER_BYTES.min(length)..length];
            match kind {
                NLMSG_DONE => return Ok(true),
                NLMSG_ERROR => {
                    let error = word(body, 0).unwrap_or_default() as i32;
                    return Err(io::Error::from_raw_os_error(-error));
                }
                _ => into.extend(one(body)),
            }
            messages = &messages[length.next_multiple_of(4).min(messages.len())..];
        }
        Ok(false)
    }
}

/// `struct unix_diag_msg` and the attributes behind it.
fn one(body: &[u8]) -> Option<UnixSocket> {
    const LISTENING: u8 = 10;
    let mut socket =
        UnixSocket { is_listening: *body.get(2)? == LISTENING, inode: word(body, 4)?, ..UnixSocket::default() };
    let mut rest = body.get(MESSAGE_BYTES..)?;
    while let Some((length, kind)) = half(rest, 0).zip(half(rest, 2)) {
        let length = (length as usize).clamp(4, rest.len());
        let value = &rest[4..length];
        match kind {
            UNIX_DIAG_VFS => socket.file = word(value, 0).zip(word(value, 4)),
            UNIX_DIAG_PEER => socket.peer = word(value, 0),
            UNIX_DIAG_ICONS => socket.waiting = (0..value.len() / 4).filter_map(|at| word(value, at * 4)).collect(),
            UNIX_DIAG_RQLEN if socket.is_listening => socket.backlog = word(value, 4)?,
            UNIX_DIAG_SHUTDOWN => socket.shut_down = *value.first()?,
            _ => {}
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Some(socket)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)
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
    fn the_kernel_tells_who_is_connected_to_whom_and_who_waits() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let (one, other) = UnixStream::pair().unwrap();
        let (widow, dead) = UnixStream::pair().unwrap();
        drop(dead);
        let listener = UnixListener::bind(&path).unwrap();
        let waiting = UnixStream::connect(&path).unwrap();
        let all = UnixSocket::all().unwrap();
        let find = |wanted: u32| all.iter().find(|socket| socket.inode == wanted).unwrap().clone();
        assert_eq!(find(inode(&one)).peer, Some(inode(&other)));
        assert_eq!((find(inode(&widow)).peer, find(inode(&widow)).shut_down), (Some(0), 3));
        assert_eq!((find(inode(&waiting)).peer, find(inode(&waiting)).shut_down), (Some(0), 0));
        let listening = find(inode(&listener));
        assert!(listening.is_listening && listening.peer.is_none() && listening.backlog > 0);
        assert_eq!(listening.waiting, [inode(&waiting)]);
        assert_eq!(listening.file.map(|(inode, _)| inode), Some(std::fs::metadata(&path).unwrap().ino() as u32));
    }

    #[test]
    fn broken_messages_are_passed_over() {
        let mut found = Vec::new();
        for length in 0..40u8 {
            let message = [length, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 9, 0, 0, 0];
            assert!(!UnixSocket::parse(&message[..usize::from(length).min(message.len())], &mut found).unwrap());
        }
    }
}
