//! Sends data in flight again, from its original socket to the one that had received it. Then it reads the data there,
//! which must match.

use super::{Made, is_internet, is_tcp};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::Opening;
use crate::objects::socket::collect::{distant_sender, received};
use crate::objects::socket::loopback::await_datagrams;
use standfast_format::records::{Socket, SocketMessage, SocketState};
use standfast_linux::abi;
use standfast_linux::sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Room beyond twice the bytes that are to be received: the kernel's own bookkeeping takes some of it.
const ROOM_SPARE: usize = 128 << 10;
/// How long a message may take to arrive on the same machine.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
const ARRIVAL_PAUSE: Duration = Duration::from_micros(200);
/// `struct msghdr`, `struct iovec`, and control messages before the contents, for calls of the new process.
const HEADER_BYTES: u64 = 56;
const PIECE_BYTES: u64 = 16;
const CONTROL_BYTES: usize = 1056;

impl Opening<'_> {
    pub(super) fn fill(
        &self,
        place: usize,
        record: &Socket,
        sockets: &[Made],
        files: &[Option<u64>],
    ) -> Result<(), EngineError> {
        let receiver = &sockets[place];
        if matches!(record.state, SocketState::Distant { .. }) {
            // It has everything already, from the other part.
            return Ok(());
        }
        let of_parts = from_parts(record);
        if of_parts > 0 {
            await_parts(receiver, record, of_parts)?;
        }
        for at in of_parts..=record.received.len() {
            if let Some(peer) = self.peer_at(record, at) {
                if is_internet(record.family) {
                    // What comes later would not be let in.
                    await_datagrams().map_err(|source| kernel("waiting for datagrams", source))?;
                }
                self.connect(receiver, &peer)?;
            }
            let Some(message) = record.received.get(at) else { break };
            let unnamed;
            let (sender, to) = match (&record.state, message.sender) {
                (SocketState::Paired { peer }, _) => (&sockets[*peer as usize], Vec::new()),
                (SocketState::PeerClosed { .. } | SocketState::Ended, _) => {
                    (receiver.peer_to_close.as_deref().expect("it has had another end"), Vec::new())
                }
                (_, Some(sender)) => {
                    let sends_there = self.plan.job.sockets[sender as usize].family;
                    (&sockets[sender as usize], self.destination(place, message, sends_there))
                }
                // The sender was a socket without a name that has been closed.
                (_, None) => {
                    unnamed = self.create(record)?;
                    (&unnamed, self.reach(place, record.family))
                }
            };
            if message.credentials.is_some() {
                want_credentials(receiver, true)?;
                self.send_as_itself(sender, &to, message, files)?;
                want_credentials(receiver, false)?;
            } else {
                self.send(sender, receiver, record, &to, message, files)?;
            }
        }
        if record.received.is_empty() { Ok(()) } else { arrived(receiver, record) }
    }

    /// Sends a message from here.
    fn send(
        &self,
        sender: &Made,
        receiver: &Made,
        record: &Socket,
        to: &[u8],
        message: &SocketMessage,
        files: &[Option<u64>],
    ) -> Result<(), EngineError> {
        let sending = |source| kernel("sending again what was in flight", source);
        let with = message.open_files.iter().map(|file| self.own(parked(files, *file)?));
        let with = with.collect::<Result<Vec<OwnedFd>, _>>()?;
        let mut with: Vec<BorrowedFd<'_>> = with.iter().map(AsFd::as_fd).collect();
        let deadline = Instant::now() + ARRIVAL_MAX;
        let mut rest = &message.contents.0[..];
        if is_tcp(record) {
            socket::set_number(sender.own(), abi::IPPROTO_TCP, abi::TCP_NODELAY, 1).map_err(sending)?;
        }
        while !rest.is_empty() {
            let sent = match &message.from {
                Some(_) => self.send_from_its_address(sender, to, message),
                None => socket::send(sender.own(), rest, to, &with),
            };
            match sent {
                Ok(bytes) => {
                    rest = &rest[bytes..];
                    with.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    make_room(sender, receiver, record).map_err(sending)?;
                }
                Err(error) => return Err(sending(error)),
            }
        }
        while is_tcp(record) && socket::unsent_bytes(sender.own()).map_err(sending)? > 0 {
            if Instant::now() > deadline {
                return Err(sending(io::ErrorKind::TimedOut.into()));
            }
            make_room(sender, receiver, record).map_err(sending)?;
        }
        Ok(())
    }

    /// Sends a datagram from the address from which it came. Its sender is bound to any.
    fn send_from_its_address(&self, sender: &Made, to: &[u8], message: &SocketMessage) -> io::Result<usize> {
        let place = message.sender.ok_or(io::ErrorKind::InvalidData)?;
        let source = self.source(message, self.plan.job.sockets[place as usize].family);
        socket::send_from(sender.own(), &message.contents.0, to, &source)
    }

    /// Makes the new process send a message whose receiver wants to know the sender.
    fn send_as_itself(
        &self,
        sender: &Made,
        to: &[u8],
        message: &SocketMessage,
        files: &[Option<u64>],
    ) -> Result<(), EngineError> {
        let numbers =
            message.open_files.iter().map(|file| parked(files, *file).map(|file| (file as i32).to_le_bytes()));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?.concat();
        let mut control = Vec::new();
        if !numbers.is_empty() {
            // struct cmsghdr: length, level, kind.
            control.extend((numbers.len() as u64 + 16).to_le_bytes());
            control.extend([abi::SOL_SOCKET, abi::SCM_RIGHTS].iter().flat_map(|word| word.to_le_bytes()));
            control.extend(&numbers);
        }
        let control_bytes = control.len() as u64;
        control.resize(CONTROL_BYTES, 0);
        let scratch = self.process.scratch;
        let control_at = scratch + HEADER_BYTES + PIECE_BYTES;
        let to_at = control_at + CONTROL_BYTES as u64;
        let contents_at = to_at + to.len() as u64;
        let contents = &message.contents.0;
        // struct msghdr: name, its length, pieces, their number, control, its length, flags; struct iovec: base,
        // length.
        let words = [
            if to.is_empty() { 0 } else { to_at },
            to.len() as u64,
            scratch + HEADER_BYTES,
            1,
            control_at,
            control_bytes,
            0,
            contents_at,
            contents.len() as u64,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend([&control[..], to, contents].concat());
        let argument = self.process.argument(&bytes)?;
        let flags = (abi::MSG_DONTWAIT | abi::MSG_NOSIGNAL) as u64;
        let action = "sending again what was in flight";
        let sent = self.call(action, abi::SYS_sendmsg, [sender.number, argument, flags, 0, 0, 0])?;
        if sent != contents.len() as u64 {
            return Err(kernel(action, io::ErrorKind::WriteZero.into()));
        }
        Ok(())
    }
}

fn want_credentials(receiver: &Made, wants: bool) -> Result<(), EngineError> {
    let setting = |source| kernel("setting an option of a socket", source);
    socket::set_number(receiver.own(), abi::SOL_SOCKET, abi::SO_PASSCRED, wants.into()).map_err(setting)
}

fn parked(files: &[Option<u64>], file: u32) -> Result<u64, EngineError> {
    let missing = || kernel("sending descriptors again", io::ErrorKind::InvalidData.into());
    files.get(file as usize).copied().flatten().ok_or_else(missing)
}

/// Makes room for more: at the receiver of a TCP connection, else at the sender.
fn make_room(sender: &Made, receiver: &Made, record: &Socket) -> io::Result<()> {
    if is_internet(record.family) {
        let bytes = 2 * record.received.iter().map(|message| message.contents.0.len()).sum::<usize>() + ROOM_SPARE;
        socket::make_room(receiver.own(), i32::try_from(bytes).unwrap_or(i32::MAX))?;
        // Peeking makes the kernel announce the room to the other side.
        socket::peek(receiver.own(), &mut [0u8; 1])?;
        socket::set_number(receiver.own(), abi::IPPROTO_TCP, abi::TCP_QUICKACK, 2)?;
        std::thread::sleep(ARRIVAL_PAUSE);
        return Ok(());
    }
    let before = socket::number(sender.own(), abi::SOL_SOCKET, abi::SO_SNDBUF)?;
    socket::set_number(sender.own(), abi::SOL_SOCKET, abi::SO_SNDBUF, before.saturating_mul(2))?;
    if socket::number(sender.own(), abi::SOL_SOCKET, abi::SO_SNDBUF)? > before {
        return Ok(());
    }
    Err(io::Error::other("more was in flight than this system lets be (net.core.wmem_max, net.unix.max_dgram_qlen)"))
}

/// Returns how many messages come from other parts. They are the first ones.
fn from_parts(record: &Socket) -> usize {
    let is_udp = is_internet(record.family) && !is_tcp(record);
    record.received.iter().take_while(|message| is_udp && distant_sender(message).is_some()).count()
}

/// Waits until the other parts have sent their datagrams again.
fn await_parts(receiver: &Made, record: &Socket, count: usize) -> Result<(), EngineError> {
    let waiting = |source| kernel("waiting for datagrams of other parts", source);
    let deadline = Instant::now() + ARRIVAL_MAX;
    while received(receiver.own(), record).map_err(waiting)?.len() < count {
        if Instant::now() > deadline {
            return Err(waiting(io::Error::other("one was lost on the way; another restart sends them again")));
        }
        std::thread::sleep(ARRIVAL_PAUSE);
    }
    Ok(())
}

/// Waits until everything has arrived, in order, before anybody else may send. What several parts have sent comes in any order.
fn arrived(receiver: &Made, record: &Socket) -> Result<(), EngineError> {
    let scanning = |source| kernel("looking whether what was in flight has arrived", source);
    let deadline = Instant::now() + ARRIVAL_MAX;
    let of_parts = from_parts(record);
    let sorted = |mut messages: Vec<Vec<u8>>| {
        let count = of_parts.min(messages.len());
        messages[..count].sort();
        messages
    };
    let wanted = sorted(record.received.iter().map(|message| message.contents.0.to_vec()).collect());
    loop {
        let found = sorted(received(receiver.own(), record).map_err(scanning)?);
        let is_stream = record.kind == abi::SOCK_STREAM;
        let alike = if is_stream { found.concat() == wanted.concat() } else { found == wanted };
        if alike {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(scanning(io::Error::other("a message is missing, or came from another program")));
        }
        std::thread::sleep(ARRIVAL_PAUSE);
    }
}
