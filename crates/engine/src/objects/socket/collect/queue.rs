//! What sockets have received and their programs have not read: read with MSG_PEEK, never consumed.
//!
//! A second message can be seen only from an offset on (SO_PEEK_OFF), which is restored at once. If we are killed in
//! between, a program that itself peeks at this socket may look too far; one that reads loses nothing.

use super::{Motion, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::Socket;
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::sys::descriptors;
use standfast_linux::sys::process;
use standfast_linux::sys::socket::{self, Peeked};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

/// The initial size of the buffer for a message; the buffer grows for larger ones.
const MESSAGE_BYTES: usize = 256 << 10;
/// The largest message that Linux allows.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// The value that means that no offset is set.
const NO_OFFSET: i32 = -1;

/// A message with its contents.
pub(super) struct Received {
    pub(super) contents: Vec<u8>,
    pub(super) peeked: Peeked,
}

/// The offset of a socket, restored on drop.
struct Offset<'a> {
    socket: BorrowedFd<'a>,
    before: i32,
}

impl<'a> Offset<'a> {
    fn new(socket: BorrowedFd<'a>) -> io::Result<Self> {
        let before = socket::number(socket, abi::SOL_SOCKET, abi::SO_PEEK_OFF).unwrap_or(NO_OFFSET);
        Ok(Self { socket, before })
    }

    fn set(&self, offset: usize) -> io::Result<()> {
        let offset = i32::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        socket::set_number(self.socket, abi::SOL_SOCKET, abi::SO_PEEK_OFF, offset)
    }
}

impl Drop for Offset<'_> {
    fn drop(&mut self) {
        // Restoring a number that was set before cannot fail.
        let _ = socket::set_number(self.socket, abi::SOL_SOCKET, abi::SO_PEEK_OFF, self.before);
    }
}

/// Sockets, by inode, in which an empty message has been seen. The kernel skips such a message once it has been seen,
/// so it would be lost. Until the socket has been seen empty, it counts as holding one.
static WITH_EMPTY_MESSAGES: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Returns the messages that a socket holds, in order. `ends` means that nothing more can come, which reads like an
/// empty packet.
pub(super) fn messages(own: BorrowedFd<'_>, inode: u64, ends: bool) -> Result<Vec<Received>, Unsupported> {
    let mut known = WITH_EMPTY_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let refusal = || Unsupported::for_now(RefusalCode::UnreadMessage, "it has an unread message of no bytes");
    let offset = Offset::new(own)?;
    if offset.before != NO_OFFSET {
        offset.set(0)?;
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(received) = one(own)? {
        let bytes = received.peeked.bytes;
        if bytes == 0 && !ends {
            known.insert(inode);
            return Err(refusal());
        }
        if bytes == 0 {
            break;
        }
        at += bytes;
        found.push(received);
        offset.set(at)?;
    }
    if found.is_empty() {
        known.remove(&inode);
    } else if known.contains(&inode) {
        return Err(refusal());
    }
    Ok(found)
}

/// Returns the messages of a packet socket.
fn packets(own: BorrowedFd<'_>, inode: u64) -> Result<Vec<Received>, Unsupported> {
    let found = messages(own, inode, is_at_its_end(own)?)?;
    let bytes = match descriptors::unread_bytes(own) {
        // A listening socket.
        Err(error) if error.raw_os_error() == Some(abi::EINVAL) => 0,
        bytes => bytes?,
    };
    // If the peer is closed, a message of no bytes looks like the end.
    if found.iter().map(|message| message.contents.len()).sum::<usize>() == bytes {
        return Ok(found);
    }
    Err(Unsupported::for_now(RefusalCode::UnreadMessage, "it has an unread message of no bytes"))
}

/// Returns the message at the present offset.
fn one(own: BorrowedFd<'_>) -> io::Result<Option<Received>> {
    let mut room = MESSAGE_BYTES;
    loop {
        let mut contents = vec![0u8; room];
        let Some(peeked) = peek(own, &mut contents)? else { return Ok(None) };
        if !peeked.is_cut {
            contents.truncate(peeked.bytes);
            return Ok(Some(Received { contents, peeked }));
        }
        room = room.checked_mul(2).filter(|room| *room <= MESSAGE_BYTES_MAX).ok_or(io::ErrorKind::FileTooLarge)?;
    }
}

/// Peeks at a socket. One that is not connected, or listens, has nothing to read.
fn peek(own: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<Peeked>> {
    match socket::peek(own, into) {
        Err(error) if matches!(error.raw_os_error(), Some(abi::EINVAL | abi::ENOTCONN)) => Ok(None),
        peeked => peeked,
    }
}

/// Returns the contents of a stream of Unix sockets. A peek ends after the bytes that descriptors come with. It does
/// not show where these bytes begin, see [`is_sent_like_this`].
fn stretches(own: BorrowedFd<'_>) -> Result<Vec<Received>, Unsupported> {
    let total = match descriptors::unread_bytes(own) {
        // A listening socket.
        Err(error) if error.raw_os_error() == Some(abi::EINVAL) => return Ok(Vec::new()),
        total => total?,
    };
    let offset = Offset::new(own)?;
    if offset.before != NO_OFFSET {
        offset.set(0)?;
    }
    let mut found = Vec::new();
    let mut at = 0;
    while at < total {
        if at > 0 {
            offset.set(at)?;
        }
        let mut contents = vec![0u8; total - at];
        let missing = || Unsupported::Unknown(io::Error::from(io::ErrorKind::UnexpectedEof));
        let peeked = peek(own, &mut contents)?.filter(|peeked| peeked.bytes > 0).ok_or_else(missing)?;
        contents.truncate(peeked.bytes);
        at += peeked.bytes;
        found.push(Received { contents, peeked });
    }
    Ok(found)
}

/// Reports whether the data in flight in a stream was sent in exactly the pieces that were found. Descriptors belong to
/// the first byte of their piece, and bytes sent before it without any look like the beginning of the same piece. But
/// each piece adds its own overhead to the sender's account. If these pieces, sent here, take up the same room, they
/// are the right ones.
pub(super) fn is_sent_like_this(sender: BorrowedFd<'_>, pieces: &[UnixMessage]) -> io::Result<bool> {
    let (ours, theirs) = UnixStream::pair()?;
    let room = socket::number(sender, abi::SOL_SOCKET, abi::SO_SNDBUF)?;
    socket::set_number(ours.as_fd(), abi::SOL_SOCKET, abi::SO_SNDBUF, room / 2)?;
    for piece in pieces {
        let with: &[BorrowedFd<'_>] = if piece.places.is_empty() { &[] } else { &[theirs.as_fd()] };
        match socket::send(ours.as_fd(), &piece.contents, &[], with) {
            Ok(bytes) if bytes == piece.contents.len() => {}
            _ => return Ok(false),
        }
    }
    Ok(socket::unsent_bytes(sender)? == socket::unsent_bytes(ours.as_fd())?)
}

/// A message of a Unix socket.
pub(in crate::objects) struct UnixMessage {
    pub(super) contents: Vec<u8>,
    /// The address that it came from; empty if there is none.
    pub(super) from: Vec<u8>,
    /// The sender, if the receiver asks for it; 0 if the kernel did not record it.
    pub(super) credentials: Option<Pid>,
    /// The places, among those shown, of the descriptors that come with it.
    pub(super) places: Vec<usize>,
}

/// The data that a Unix socket has received, or why it could not be read.
pub(in crate::objects) type Unread = Result<Vec<UnixMessage>, Unsupported>;

impl Walk<'_> {
    /// Reads what the Unix sockets of a frozen job have received. Passed descriptors are shown as held by ourselves;
    /// sockets among them are read as well. This comes before all else, since the other end of a pipe may be in flight.
    pub(in crate::objects) fn read_unix_messages(&mut self) {
        let mut at = 0;
        while self.motion == Motion::Stopped && at < self.shown.len() {
            let shown = &self.shown[at];
            let inode = shown.identity().inode;
            let is_ours = shown.file.file_type().is_socket() && self.external(shown).is_none();
            if is_ours && !self.unread.contains_key(&inode) {
                let unread = self.read_one(at);
                self.unread.insert(inode, unread);
            }
            at += 1;
        }
    }

    fn read_one(&mut self, at: usize) -> Unread {
        let shown = &self.shown[at];
        let own = shown.own(&self.holders)?;
        let received = match process::socket_kind(own.as_fd())? {
            (abi::AF_UNIX, abi::SOCK_STREAM) => stretches(own.as_fd())?,
            // A peek would take the error away. A socket that has messages as well is refused.
            (abi::AF_UNIX, _) if descriptors::ready_events(own.as_fd(), 0)? & abi::POLLERR != 0 => Vec::new(),
            (abi::AF_UNIX, abi::SOCK_DGRAM) => messages(own.as_fd(), shown.identity().inode, false)?,
            (abi::AF_UNIX, _) => packets(own.as_fd(), shown.identity().inode)?,
            _ => Vec::new(),
        };
        let supervisor_baseline = self.processes();
        let mut unread = Vec::new();
        for Received { contents, peeked } in received {
            let mut places = Vec::new();
            for descriptor in peeked.descriptors {
                let shown = self.holders[supervisor_baseline].show_one(supervisor_baseline, descriptor.as_raw_fd())?;
                places.push(self.shown.len());
                self.shown.push(shown);
                self.on_their_way.push(descriptor);
            }
            let credentials = peeked.credentials.map(|(pid, _)| pid);
            unread.push(UnixMessage { contents, from: peeked.from, credentials, places });
        }
        Ok(unread)
    }
}

/// Returns what a socket of this record's family and kind holds: each message, or the stretches of a stream.
pub(crate) fn received(own: BorrowedFd<'_>, record: &Socket) -> io::Result<Vec<Vec<u8>>> {
    let known = |unsupported| match unsupported {
        Unsupported::Unknown(error) => error,
        Unsupported::Refused(reason) => io::Error::other(reason.why),
    };
    let found = match (record.family, record.kind) {
        (abi::AF_UNIX, abi::SOCK_STREAM) => stretches(own),
        (_, abi::SOCK_STREAM) => {
            let mut contents = vec![0u8; descriptors::unread_bytes(own)?];
            let bytes = peek(own, &mut contents)?.map_or(0, |peeked| peeked.bytes);
            contents.truncate(bytes);
            return Ok(vec![contents]);
        }
        // An inode is never 0.
        _ => messages(own, 0, true),
    };
    Ok(found.map_err(known)?.into_iter().map(|received| received.contents).collect())
}

/// Reports whether nothing more can be received.
fn is_at_its_end(own: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(descriptors::ready_events(own, abi::POLLRDHUP)? & (abi::POLLRDHUP | abi::POLLHUP) != 0)
}
