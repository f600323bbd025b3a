//! TCP and UDP: both ends of a connection are the job's, or the other end is closed. Data that a TCP socket has sent
//! cannot be read there. It is first driven on into the receive queue of the other end, which is the job's as well.

use super::{Found, Unsupported, Walk};
use crate::RefusalCode;
use crate::partners::Traffic;
use standfast_format::records::{SocketMessage, SocketState};
use standfast_linux::abi;
use standfast_linux::proc::tcp_state::{
    CLOSE_WAIT, CLOSED, CLOSING, ESTABLISHED, FIN_WAIT_1, FIN_WAIT_2, LAST_ACK, LISTENING, SYN_SENT,
};
use standfast_linux::proc::{Endpoint, TcpConnection};
use standfast_linux::sys::{descriptors, socket};
use standfast_linux::{UdpSocket, UnixSocket};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a send queue may take to drain into the other end's receive queue. The kernel sends again what a full queue
/// has dropped, after 200 ms at the earliest.
const DRAIN_MAX: Duration = Duration::from_millis(500);
const DRAIN_PAUSE: Duration = Duration::from_micros(200);
/// The least number of attempts: on a busy machine each attempt may take as long as many pauses.
const DRAIN_SCANS_MIN: usize = 20;
/// After this many attempts more room is made: how much of it the kernel's own bookkeeping takes is not known.
const SCANS_FOR_MORE_ROOM: usize = 5;
/// Room beyond the bytes that a receive queue is to take: data in flight may be counted in whole segments.
const ROOM_SPARE: usize = 128 << 10;
/// An even value for TCP_QUICKACK: acknowledge what there is, and continue as before.
const ACKNOWLEDGE_ONCE: i32 = 2;

/// Everything that the kernel reports about sockets.
pub(super) struct Network {
    pub(super) unix: Vec<UnixSocket>,
    /// All TCP connections, once they are wanted.
    tcp: OnceLock<Vec<TcpConnection>>,
    /// UDP sockets, by inode. Those that the kernel does not report are missing.
    pub(super) udp: HashMap<u64, UdpSocket>,
}

impl Network {
    /// Reads only the tables of the kinds of socket that the job has.
    pub(super) fn scan(sockets: &[Found]) -> io::Result<Self> {
        // If a kernel lacks this table, a later step does not find the socket in it and refuses.
        let unix = if sockets.iter().any(Found::is_unix) { UnixSocket::all().unwrap_or_default() } else { Vec::new() };
        // A kernel without CONFIG_INET_UDP_DIAG reports none.
        let udp = if sockets.iter().any(Found::is_udp) { UdpSocket::all().unwrap_or_default() } else { HashMap::new() };
        Ok(Self { unix, tcp: OnceLock::new(), udp })
    }

    /// Returns the other end of a connection, whichever process of this machine has it. To read the table of all takes
    /// milliseconds, so that is done only for an end that should be here and cannot be found otherwise.
    fn other_end(&self, local: Endpoint, remote: Endpoint) -> io::Result<Option<TcpConnection>> {
        let found = TcpConnection::between(remote, local).unwrap_or_default();
        if found.is_some() || !is_here(local, remote) {
            return Ok(found);
        }
        Ok(self.all_tcp()?.iter().find(|it| it.local == remote && it.remote == local).copied())
    }

    /// Returns all TCP connections of this machine.
    pub(super) fn all_tcp(&self) -> io::Result<&[TcpConnection]> {
        Ok(match self.tcp.get() {
            Some(all) => all,
            None => {
                let all = TcpConnection::all()?;
                self.tcp.get_or_init(|| all)
            }
        })
    }
}

/// Reports whether both ends of a connection are surely on this machine.
fn is_here(local: Endpoint, remote: Endpoint) -> bool {
    remote.address.is_loopback() || remote.address == local.address
}

/// The beginning of `TCP_INFO`.
pub(super) struct TcpInformation {
    pub(super) state: u8,
    /// Of a listening socket: how many connections may wait, and how many do.
    backlog: u32,
    waiting: u32,
    /// How many segments have been sent, how many received, and how many of those sent with data.
    segments: u32,
    received_segments: u32,
    data_segments: u32,
    /// How many bytes wait to be sent for the first time.
    not_sent: u32,
    /// Without what has not been acknowledged yet.
    pub(super) traffic: Traffic,
}

impl TcpInformation {
    pub(super) fn of(own: BorrowedFd<'_>) -> io::Result<Self> {
        // struct tcp_info: state in byte 0, unacked at 24, sacked at 28, bytes_acked at 120, bytes_received at 128,
        // segs_out at 136, segs_in at 140, notsent_bytes at 144, data_segs_out at 156.
        const BYTES: usize = 160;
        let mut bytes = socket::option(own, abi::IPPROTO_TCP, abi::TCP_INFO, BYTES)?;
        bytes.resize(BYTES, 0);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let count = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Ok(Self {
            state: bytes[0],
            waiting: word(24),
            backlog: word(28),
            segments: word(136),
            received_segments: word(140),
            data_segments: word(156),
            not_sent: word(144),
            traffic: Traffic { unsent: 0, acknowledged: count(120), received: count(128) },
        })
    }

    /// Reports whether there is no connection, or none any more.
    pub(super) fn is_closed(&self) -> bool {
        self.state == CLOSED
    }

    /// Reports whether everything that the other end will ever send has been received.
    pub(super) fn has_received_all(&self) -> bool {
        matches!(self.state, CLOSE_WAIT | LAST_ACK | CLOSING)
    }

    /// Reports whether both directions of a connection are open.
    pub(super) fn is_open(&self) -> bool {
        self.state == ESTABLISHED
    }

    /// Reports whether a connection's sending direction has been shut down.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, FIN_WAIT_1 | FIN_WAIT_2 | LAST_ACK | CLOSING)
    }

    /// Reports whether data was sent, or is to be, before there is a connection.
    pub(super) fn holds_data(&self) -> bool {
        self.data_segments > 0 || self.not_sent > 0
    }

    /// Reports whether a closed socket had a connection. A failed attempt has had one answer at most.
    fn has_been_connected(&self) -> bool {
        self.received_segments > 1
    }
}

impl Found {
    pub(super) fn ends(&self) -> Option<(Endpoint, Endpoint)> {
        Some((Endpoint::of(&self.record.name.0)?, Endpoint::of(self.peer.as_ref()?)?))
    }
}

impl Walk<'_> {
    pub(super) fn connect_tcp(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let information = self.await_answer(at)?;
        let found = &self.sockets[at];
        let (state, shut_down) = match information.state {
            LISTENING => (SocketState::Listening { backlog: information.backlog }, 0),
            // That the sending direction is shut down does not show as long as there is no connection.
            CLOSED if information.segments == 0 => (SocketState::Unconnected, shut_down_receiving(found.own())?),
            CLOSED if information.has_been_connected() => (SocketState::Ended, 0),
            CLOSED => {
                return Err(Unsupported::for_now(
                    RefusalCode::ConnectionUnsettled,
                    "its connection has failed, and the program has not reacted yet",
                ));
            }
            ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 | CLOSE_WAIT | LAST_ACK | CLOSING => {
                let shut_down = if information.has_ended() { abi::SHUT_WR as u32 + 1 } else { 0 };
                (self.tcp_partner(at, information.state, network)?, shut_down)
            }
            SYN_SENT => (self.still_connecting(at, &information, network)?, 0),
            _ => return Err(Unsupported::for_now(RefusalCode::ConnectionUnsettled, "its connection is being made")),
        };
        let is_connected =
            matches!(state, SocketState::Paired { .. } | SocketState::PeerClosed { .. } | SocketState::Distant { .. });
        let opened_with = if is_connected { Some(opened_with(found.own(), found.record.family)?) } else { None };
        let record = &mut self.sockets[at].record;
        (record.state, record.shut_down, record.opened_with) = (state, shut_down, opened_with);
        Ok(())
    }

    fn tcp_partner(&self, at: usize, state: u8, network: &Network) -> Result<SocketState, Unsupported> {
        let found = &self.sockets[at];
        let unknown =
            || Unsupported::for_now(RefusalCode::ConnectionUnsettled, "its connection is being made or has just ended");
        let (local, remote) = found.ends().ok_or_else(unknown)?;
        if local == remote {
            return Err(Unsupported::because(
                RefusalCode::SocketKind,
                "it is connected to itself, which cannot be restored",
            ));
        }
        let is_peer = |other: &Found| other.is_tcp() && other.ends() == Some((remote, local));
        if let Some(peer) = self.sockets.iter().position(is_peer) {
            return Ok(SocketState::Paired { peer: peer as u32 });
        }
        let outside = || {
            if self.partners.is_some() {
                // Which part has the other end, the others say once all are frozen.
                let peer = found.peer.clone().unwrap_or_default().into();
                return Ok(SocketState::Distant { peer, is_accepted: false, has_peer_ended: false, held_back: None });
            }
            let why = format!("the other end of this connection, {remote}, is outside the program");
            self.leading_outside(why)
        };
        match network.other_end(local, remote)? {
            Some(end) if end.inode != 0 => outside(),
            // Its listener, if that is the job's, names it later.
            Some(end) if matches!(end.state, ESTABLISHED | CLOSE_WAIT) => {
                let serves = |other: &Found| {
                    other.is_tcp()
                        && other.peer.is_none()
                        && Endpoint::of(&other.record.name.0).is_some_and(|it| it.serves(&remote))
                };
                if self.sockets.iter().any(serves) { Ok(SocketState::Unconnected) } else { outside() }
            }
            _ if is_here(local, remote) && matches!(state, CLOSE_WAIT | LAST_ACK | CLOSING) => {
                let peer = found.peer.clone().unwrap_or_default();
                Ok(SocketState::PeerClosed { peer: peer.into() })
            }
            _ => outside(),
        }
    }

    /// Names the connections that wait at a listening socket. The data that they have sent cannot be read before they
    /// are accepted.
    pub(super) fn await_tcp(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let listener = Endpoint::of(&self.sockets[at].record.name.0);
        let Some(listener) = listener else { return Ok(()) };
        let waits = TcpInformation::of(self.sockets[at].own())?.waiting as usize;
        let mut place = 0;
        for other in 0..self.sockets.len() {
            let found = &self.sockets[other];
            let Some((local, remote)) = found.ends().filter(|(_, remote)| found.is_tcp() && listener.serves(remote))
            else {
                continue;
            };
            if found.record.state != SocketState::Unconnected {
                continue;
            }
            let end = network.other_end(local, remote)?.filter(|end| end.inode == 0);
            if end.is_none() || has_sent(found.own())? || found.record.shut_down != 0 {
                return Err(Unsupported::for_now(
                    RefusalCode::ConnectionUnsettled,
                    "a connection with unread data waits to be accepted",
                ));
            }
            let shut_down = shut_down_receiving(found.own())?;
            let record = &mut self.sockets[other].record;
            (record.state, record.shut_down) = (SocketState::Waiting { listener: at as u32, place }, shut_down);
            place += 1;
        }
        if waits != place as usize {
            let why = match self.partners {
                Some(_) => "a connection from another node, or from a closed socket, waits to be accepted",
                None => "a connection from outside the program, or from a closed socket, waits to be accepted",
            };
            return Err(Unsupported::for_now(RefusalCode::ConnectionUnsettled, why));
        }
        Ok(())
    }

    pub(super) fn receive_tcp(&mut self, at: usize) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        match found.record.state {
            SocketState::Paired { peer } => drain(&self.sockets[peer as usize], found)?,
            SocketState::PeerClosed { .. } | SocketState::Ended | SocketState::Distant { .. } => {}
            _ => return Ok(()),
        }
        let bytes = descriptors::unread_bytes(found.own())?;
        if let Some(emptied) = self.sockets[at].emptied.take() {
            self.note_refilled(at, emptied, bytes);
            return Ok(());
        }
        if bytes == 0 {
            return Ok(());
        }
        let found = &self.sockets[at];
        let mut contents = vec![0u8; bytes];
        let peeked = socket::peek(found.own(), &mut contents)?.map_or(0, |peeked| peeked.bytes);
        if peeked != bytes {
            return Err(Unsupported::for_now(RefusalCode::UnreadMessage, "its received data could not be read"));
        }
        let message = SocketMessage { contents: contents.into(), ..SocketMessage::default() };
        self.sockets[at].record.received.push(message);
        Ok(())
    }
}

/// Reports whether a TCP socket listens, or has never been connected.
pub(super) fn is_alone(own: BorrowedFd<'_>) -> io::Result<bool> {
    let information = TcpInformation::of(own)?;
    Ok(information.state == LISTENING || information.state == CLOSED && information.segments == 0)
}

/// Returns the time to live of the packet that opened a connection, or 0 if it was sent from here. The kernel makes it the
/// one of multicasts, which no program can set, and notes the interface. With a time to live of 1, both ends look alike.
/// Options that tell about each packet of IPv6 let later packets change one or the other at either end.
fn opened_with(own: BorrowedFd<'_>, family: i32) -> io::Result<u32> {
    let number = |level, name| socket::number(own, level, name);
    let (hops, is_accepted) = match family {
        abi::AF_INET => {
            let hops = number(abi::IPPROTO_IP, abi::IP_MULTICAST_TTL)?;
            (hops, hops != 1)
        }
        _ => {
            let hops = number(abi::IPPROTO_IPV6, abi::IPV6_MULTICAST_HOPS)?;
            (hops, hops != 1 && number(abi::IPPROTO_IPV6, abi::IPV6_MULTICAST_IF)? != 0)
        }
    };
    Ok(if is_accepted { hops as u32 } else { 0 })
}

/// Reports whether anything has been sent since the connection was made.
fn has_sent(own: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(TcpInformation::of(own)?.data_segments > 0 || socket::unsent_bytes(own)? > 0)
}

/// Returns whether a TCP socket has shut down its receiving direction, if the other end has not shut down anything.
pub(super) fn shut_down_receiving(own: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(if descriptors::ready_events(own, abi::POLLRDHUP)? & abi::POLLRDHUP == 0 { 0 } else { super::RECEIVING })
}

/// Waits until everything that one end has sent has reached the receive queue of the other. A full queue is given room.
fn drain(sender: &Found, receiver: &Found) -> Result<(), Unsupported> {
    let deadline = Instant::now() + DRAIN_MAX;
    acknowledge(receiver.own())?;
    let mut scans = 0;
    while socket::unsent_bytes(sender.own())? > 0 {
        scans += 1;
        if scans > DRAIN_SCANS_MIN && Instant::now() > deadline {
            return Err(Unsupported::for_now(RefusalCode::UnreadMessage, "sent data does not arrive at its other end"));
        }
        drive_on(receiver.own(), socket::unsent_bytes(sender.own())?, scans)?;
        std::thread::sleep(DRAIN_PAUSE);
    }
    Ok(())
}

/// Makes room in a receive queue for bytes that the other end has sent, and has it announced there. No more than is
/// needed: the program would fill it, and the next checkpoint would find no room. `scans` is how often that was done.
pub(super) fn drive_on(receiver: BorrowedFd<'_>, bytes: usize, scans: usize) -> io::Result<()> {
    let bytes = descriptors::unread_bytes(receiver)?.saturating_add(bytes).saturating_add(ROOM_SPARE);
    let bytes = bytes.saturating_mul(1 + scans / SCANS_FOR_MORE_ROOM);
    socket::make_room(receiver, i32::try_from(bytes).unwrap_or(i32::MAX))?;
    // Peeking at received data makes the kernel announce the room to the other side; one byte is enough.
    socket::peek(receiver, &mut [0u8; 1])?;
    acknowledge(receiver)
}

fn acknowledge(receiver: BorrowedFd<'_>) -> io::Result<()> {
    socket::set_number(receiver, abi::IPPROTO_TCP, abi::TCP_QUICKACK, ACKNOWLEDGE_ONCE)
}
