//! The peers of Unix sockets, as the kernel's socket diagnostics report them.

use super::internet::Network;
use super::queue::{UnixMessage, is_sent_like_this};
use super::{ELSEWHERE, Found, Motion, Unsupported, Walk, unread_error};
use crate::RefusalCode;
use crate::files::{FileId, other_holder};
use standfast_format::records::{Credentials, SocketMessage, SocketState};
use standfast_linux::abi;
use standfast_linux::sys::socket;
use standfast_linux::{Pid, UnixSocket};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest message with credentials: the sender sends it again out of a small buffer.
const WITH_CREDENTIALS_MAX: usize = 32 << 10;
const BOTH: u8 = abi::SHUT_RDWR as u8 + 1;

impl Walk<'_> {
    pub(super) fn connect_unix(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let kernel_socket = self.kernel_socket(at, network)?;
        let found = &self.sockets[at];
        let is_alone = kernel_socket.is_listening || found.is_datagram() || kernel_socket.peer.is_none();
        let file_mode = self.file_of_address(found, kernel_socket, is_alone)?;
        let (state, shut_down) = if kernel_socket.is_listening {
            (SocketState::Listening { backlog: kernel_socket.backlog }, kernel_socket.shut_down)
        } else if found.is_datagram() {
            (self.datagrams_towards(at, kernel_socket)?, kernel_socket.shut_down)
        } else {
            self.partner(at, kernel_socket, network)?
        };
        if found.record.error.is_some() && !matches!(state, SocketState::PeerClosed { .. }) {
            return Err(unread_error());
        }
        let record = &mut self.sockets[at].record;
        (record.file_mode, record.state, record.shut_down) = (file_mode, state, shut_down.into());
        Ok(())
    }

    fn kernel_socket<'a>(&self, at: usize, network: &'a Network) -> Result<&'a UnixSocket, Unsupported> {
        let inode = self.shown[self.sockets[at].place].identity().inode;
        let kernel_socket = network.unix.iter().find(|socket| u64::from(socket.inode) == inode);
        kernel_socket.ok_or_else(|| {
            Unsupported::because(
                RefusalCode::KernelTooOld,
                "this kernel does not report what it is connected to (CONFIG_UNIX_DIAG)",
            )
        })
    }

    /// Returns the socket of the job with this inode.
    fn with_inode(&self, inode: u32) -> Option<usize> {
        self.sockets
            .iter()
            .position(|other| other.is_unix() && self.shown[other.place].identity().inode == u64::from(inode))
    }

    /// Returns the other end of a stream or of a packet socket. Both ends show what either has shut down: if this end
    /// cannot receive, the other does not send.
    fn partner(
        &self,
        at: usize,
        kernel_socket: &UnixSocket,
        network: &Network,
    ) -> Result<(SocketState, u8), Unsupported> {
        let outside = || {
            let state = self.leading_outside("its other end is outside the program".to_owned())?;
            Ok((state, kernel_socket.shut_down))
        };
        let peer_name = || self.sockets[at].peer.clone().filter(|name| has_address(name)).unwrap_or_default();
        match kernel_socket.peer {
            None => Ok((SocketState::Unconnected, kernel_socket.shut_down)),
            Some(0) => {
                let waits = |listener: &&UnixSocket| listener.waiting.contains(&kernel_socket.inode);
                match network.unix.iter().find(waits) {
                    // Its listener names it later.
                    Some(listener) if self.with_inode(listener.inode).is_some() => {
                        Ok((SocketState::Unconnected, kernel_socket.shut_down))
                    }
                    Some(_) => outside(),
                    None if kernel_socket.shut_down == BOTH => {
                        Ok((SocketState::PeerClosed { peer: peer_name().into() }, 0))
                    }
                    None => outside(),
                }
            }
            Some(inode) => match self.with_inode(inode) {
                Some(peer) => Ok((SocketState::Paired { peer: peer as u32 }, kernel_socket.shut_down)),
                None if self.may_be_on_its_way(at, inode) => Ok((SocketState::Unconnected, kernel_socket.shut_down)),
                None => outside(),
            },
        }
    }

    /// Reports whether a socket that no process holds may be in flight in a message of the program's. While the program
    /// runs its messages are not read.
    fn may_be_on_its_way(&self, at: usize, inode: u32) -> bool {
        let device = self.shown[self.sockets[at].place].identity().device;
        self.motion == Motion::Running
            && other_holder(&[], |_, _, file| FileId::of(file) == FileId { device, inode: inode.into() }).is_none()
    }

    /// Returns where datagrams go. Sending to an address outside the program keeps no state on the other side.
    fn datagrams_towards(&self, at: usize, kernel_socket: &UnixSocket) -> Result<SocketState, Unsupported> {
        let address = self.sockets[at].peer.clone().filter(|name| has_address(name));
        Ok(match (kernel_socket.peer, address) {
            (None, _) => SocketState::Unconnected,
            (Some(0), peer) => SocketState::PeerClosed { peer: peer.unwrap_or_default().into() },
            (Some(inode), Some(address)) => {
                let peer = self.with_inode(inode).map(|peer| peer as u32);
                SocketState::Towards { address: address.into(), peer }
            }
            (Some(inode), None) => match self.with_inode(inode) {
                Some(peer) => SocketState::Paired { peer: peer as u32 },
                None if self.may_be_on_its_way(at, inode) => SocketState::Unconnected,
                None => {
                    return Err(Unsupported::with_hint(
                        RefusalCode::ConnectionOutside,
                        "its other end is outside the program",
                        ELSEWHERE,
                    ));
                }
            },
        })
    }

    /// Returns the mode of the file that a socket's own address names, or `None` if the file has been removed. For a
    /// connected socket the address is only a label, which it may have from a listening socket. So only a socket that
    /// `is_alone` needs it.
    fn file_of_address(
        &self,
        found: &Found,
        kernel_socket: &UnixSocket,
        is_alone: bool,
    ) -> Result<Option<u32>, Unsupported> {
        let Some((inode, _)) = kernel_socket.file else { return Ok(None) };
        let Some(path) = path_of(&found.record.name.0) else { return Ok(None) };
        let is_relative = path.is_relative();
        let path = self.in_directory_of(found, &path);
        let there = std::fs::symlink_metadata(&path).ok();
        match there.filter(|there| there.ino() as u32 == inode) {
            Some(there) => Ok(Some(there.mode())),
            None if is_relative && is_alone => Err(Unsupported::with_hint(
                RefusalCode::UnixSocketPath,
                format!("the file {} that it is bound to cannot be found", path.display()),
                "bind sockets to absolute paths",
            )),
            None => Ok(None),
        }
    }

    fn in_directory_of(&self, found: &Found, path: &Path) -> PathBuf {
        let process = self.process_of(&self.shown[found.place]);
        let directory = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap_or_default();
        directory.join(path)
    }

    /// Names the connections that wait at a listening socket. The data that they have sent cannot be read before they
    /// are accepted.
    pub(super) fn await_unix(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let waiting = self.kernel_socket(at, network)?.waiting.clone();
        for (place, inode) in waiting.into_iter().enumerate() {
            let Some(waiting) = self.with_inode(inode).filter(|_| inode != 0) else {
                return Err(Unsupported::for_now(
                    RefusalCode::ConnectionUnsettled,
                    "a connection from outside the program, or from a closed socket, waits to be accepted",
                ));
            };
            let found = &mut self.sockets[waiting];
            if socket::unsent_bytes(found.own())? > 0 {
                return Err(Unsupported::for_now(
                    RefusalCode::ConnectionUnsettled,
                    "a connection with unread data waits to be accepted",
                ));
            }
            found.record.state = SocketState::Waiting { listener: at as u32, place: place as u32 };
        }
        Ok(())
    }

    /// Records what a Unix socket has received, now that all sockets are known: the senders of datagrams, and the open
    /// files that come with them.
    pub(super) fn receive_unix(&mut self, at: usize) -> Result<(), Unsupported> {
        let inode = self.shown[self.sockets[at].place].identity().inode;
        let messages = self.unread.remove(&inode).unwrap_or(Ok(Vec::new()))?;
        let is_doubtful = |message: &UnixMessage| !message.places.is_empty() && message.contents.len() > 1;
        if self.sockets[at].record.kind == abi::SOCK_STREAM && messages.iter().any(is_doubtful) {
            let sender = match self.sockets[at].record.state {
                SocketState::Paired { peer } => Some(self.sockets[peer as usize].own()),
                _ => None,
            };
            if !sender.is_some_and(|sender| is_sent_like_this(sender, &messages).unwrap_or(false)) {
                return Err(Unsupported::for_now(
                    RefusalCode::UnreadMessage,
                    "an unread message passes descriptors, and at which byte they belong is unknown",
                ));
            }
        }
        let state = &self.sockets[at].record.state.clone();
        let of_the_peer = matches!(state, SocketState::Paired { .. } | SocketState::PeerClosed { .. });
        for message in messages {
            let credentials = message.credentials.map(|sender| self.sender(sender)).transpose()?.flatten();
            if credentials.is_some() && message.contents.len() > WITH_CREDENTIALS_MAX {
                return Err(Unsupported::for_now(
                    RefusalCode::UnreadMessage,
                    "a long unread message carries the credentials of its sender",
                ));
            }
            let is_of_another = match state {
                SocketState::PeerClosed { peer } if self.sockets[at].is_datagram() => {
                    has_address(&message.from) && message.from != peer.0
                        || message.from.is_empty() && !peer.0.is_empty()
                }
                _ => false,
            };
            let named = !of_the_peer && self.sockets[at].is_datagram() && has_address(&message.from);
            let is_sender =
                |other: &Found| other.is_unix() && other.is_datagram() && other.record.name.0 == message.from;
            let sender = self.sockets.iter().position(is_sender).filter(|_| named);
            if is_of_another || named && sender.is_none() {
                return Err(Unsupported::for_now(
                    RefusalCode::UnreadMessage,
                    "an unread datagram has a sender outside the program, or a closed one",
                ));
            }
            let open_files = message.places.iter().map(|place| self.sent_along(*place));
            let open_files = open_files.collect::<Result<_, _>>()?;
            let (contents, sender) = (message.contents.into(), sender.map(|sender| sender as u32));
            self.sockets[at].record.received.push(SocketMessage {
                contents,
                sender,
                open_files,
                credentials,
                from: None,
            });
        }
        Ok(())
    }

    /// Returns the record of who sent a message, or `None` if the kernel was not asked to record it. The main process,
    /// which makes all sockets, sends it again.
    fn sender(&self, pid: Pid) -> Result<Option<Credentials>, Unsupported> {
        match self.job().iter().position(|holder| holder.pid == pid) {
            _ if pid.get() == 0 => Ok(None),
            Some(0) => Ok(Some(Credentials { process: 0 })),
            _ => Err(Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "an unread message carries the credentials of a process other than the main one",
            )),
        }
    }

    /// Returns the open file that a descriptor in flight leads to.
    fn sent_along(&self, place: usize) -> Result<u32, Unsupported> {
        // Its blocker has been reported already.
        let unknown = || {
            Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "an unread message passes a descriptor that cannot be restored",
            )
        };
        let position = self.position(&self.shown[place]).ok_or_else(unknown)?;
        if self.found.open_files[position].needs_process() {
            return Err(Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "an unread message passes a pidfd or a file of /proc about a process",
            ));
        }
        Ok(position as u32)
    }
}

fn has_address(name: &[u8]) -> bool {
    name.len() > size_of::<abi::sa_family_t>()
}

/// Returns the path in an address, unless it is an abstract one.
pub(super) fn path_of(address: &[u8]) -> Option<PathBuf> {
    let path = address.get(size_of::<abi::sa_family_t>()..)?;
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    (end > 0).then(|| Path::new(OsStr::from_bytes(&path[..end])).to_owned())
}
