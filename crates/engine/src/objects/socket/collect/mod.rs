//! Collects sockets. A socket belongs to one open file. Its peer and its received data are determined when all sockets
//! are known, including those in flight in messages of others.
//!
//! This file determines the kind of a socket. `unix.rs` and `internet.rs` find its peer, `connecting.rs` one that has not
//! answered, `distant.rs` those in other parts of a distributed job, `datagrams.rs` UDP, `queue.rs` received data, and `options.rs` its options.

mod connecting;
mod datagrams;
mod distant;
mod internet;
mod options;
mod queue;
mod refill;
mod unix;

use crate::capture_options::ExternalSockets;
use crate::objects::socket::loopback::await_datagrams;
use crate::objects::{Known, Motion, Unsupported, Walk};
use crate::partners::DistantEnd;
use crate::{Blocker, RefusalCode};
pub(crate) use datagrams::distant_sender;
use internet::Network;
pub(in crate::objects) use options::Usual;
use options::{Class, set_options};
pub(in crate::objects) use queue::Unread;
pub(in crate::objects) use queue::received;
use refill::Emptied;
use standfast_format::records::{OpenFileKind, Socket, SocketOption, SocketState};
use standfast_linux::abi;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::{descriptors, process, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

const ELSEWHERE: &str = "start both under one standfast run";
const ELSEWHERE_OR_RESET: &str =
    "start both under one standfast run, or let it come back as a connection that was reset: --external-sockets reset";
/// Netlink protocols whose sockets have no state beyond their options.
const NETLINK_PROTOCOLS: [i32; 3] = [abi::NETLINK_ROUTE, abi::NETLINK_SOCK_DIAG, abi::NETLINK_KOBJECT_UEVENT];

/// Bits of [`Socket::shut_down`].
const RECEIVING: u32 = 1;
const SENDING: u32 = 2;

/// A socket of the job.
pub(in crate::objects) struct Found {
    /// Place of one of its descriptors among those shown.
    place: usize,
    /// A descriptor of our own.
    pub(in crate::objects) own: OwnedFd,
    /// The address of the other side, if it is connected.
    peer: Option<Vec<u8>>,
    /// The end as the parts of a distributed job agreed on it.
    agreed: Option<DistantEnd>,
    /// What it had received, if its receive queue had to be emptied.
    emptied: Option<Emptied>,
    pub(in crate::objects) record: Socket,
}

impl Found {
    fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    fn is(&self, family: i32, kind: i32) -> bool {
        (self.record.family, self.record.kind) == (family, kind)
    }

    fn is_unix(&self) -> bool {
        self.record.family == abi::AF_UNIX
    }

    fn is_tcp(&self) -> bool {
        self.is(abi::AF_INET, abi::SOCK_STREAM) || self.is(abi::AF_INET6, abi::SOCK_STREAM)
    }

    fn is_udp(&self) -> bool {
        self.is(abi::AF_INET, abi::SOCK_DGRAM) || self.is(abi::AF_INET6, abi::SOCK_DGRAM)
    }

    fn is_datagram(&self) -> bool {
        self.record.kind == abi::SOCK_DGRAM
    }

    fn is_listening(&self) -> bool {
        matches!(self.record.state, SocketState::Listening { .. })
    }

    /// Reports whether a connection of this socket, or of its clients, could keep a restart from its port for a minute.
    /// A socket that is only bound has none, and must not be made to share its port: another program could come to
    /// listen there.
    pub(in crate::objects) fn keeps_its_port(&self) -> bool {
        self.is_tcp() && !matches!(self.record.state, SocketState::Unconnected | SocketState::Ended)
    }
}

impl Walk<'_> {
    /// Adds a socket; its peer is determined later.
    pub(in crate::objects) fn socket(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        let own = shown.own(&self.holders)?;
        let (family, kind) = process::socket_kind(own.as_fd())?;
        let protocol = socket::number(own.as_fd(), abi::SOL_SOCKET, abi::SO_PROTOCOL)?;
        let is_known = match (family, kind) {
            (abi::AF_UNIX, abi::SOCK_STREAM | abi::SOCK_DGRAM | abi::SOCK_SEQPACKET) => true,
            (abi::AF_INET | abi::AF_INET6, abi::SOCK_STREAM) => protocol == abi::IPPROTO_TCP,
            (abi::AF_INET | abi::AF_INET6, abi::SOCK_DGRAM) => protocol == abi::IPPROTO_UDP,
            (abi::AF_NETLINK, _) => NETLINK_PROTOCOLS.contains(&protocol),
            _ => false,
        };
        if !is_known {
            return Err(Unsupported::because(RefusalCode::SocketKind, "sockets of this kind are not supported"));
        }
        if !self.is_in_our_network(shown.holder)? || network_of(own.as_fd()) != own_network() {
            return Err(Unsupported::because(
                RefusalCode::NetworkNamespace,
                "it belongs to a network namespace of the program's own",
            ));
        }
        let error = error_of(own.as_fd(), family, kind)?;
        let peer = socket::peer_name(own.as_fd()).ok().flatten();
        let is_alone = match protocol {
            abi::IPPROTO_TCP => internet::is_alone(own.as_fd())?,
            _ => protocol == abi::IPPROTO_UDP && peer.is_none(),
        };
        let class = Class { family, kind, protocol, is_alone };
        let mut options = set_options(own.as_fd(), class, &mut self.usual_options)?;
        if protocol == abi::IPPROTO_TCP && self.reused_ports.is_some_and(|reused| reused.holds(own.as_fd())) {
            options.retain(|option| !shares_address(option));
        }
        let name = socket::name(own.as_fd())?;
        // A socket without an address returns only its family.
        let name = if name.len() <= size_of::<abi::sa_family_t>() { Vec::new() } else { name };
        let record = Socket { family, kind, protocol, name: name.into(), options, error, ..Socket::default() };
        self.sockets.push(Found { place, own, peer, agreed: None, emptied: None, record });
        Ok(OpenFileKind::Socket { socket: self.sockets.len() as u32 - 1 })
    }

    /// Returns the state of a connection whose other end is outside the job.
    fn leading_outside(&self, why: String) -> Result<SocketState, Unsupported> {
        match self.external_sockets {
            ExternalSockets::Refuse => {
                Err(Unsupported::with_hint(RefusalCode::ConnectionOutside, why, ELSEWHERE_OR_RESET))
            }
            ExternalSockets::Reset => Ok(SocketState::Reset),
        }
    }

    fn is_in_our_network(&self, holder: usize) -> io::Result<bool> {
        let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
        Ok(of(&self.holders[holder].pid.to_string())? == of("self")?)
    }

    /// Determines the peer and the received data of all sockets.
    pub(in crate::objects) fn examine_sockets(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        if self.sockets.is_empty() && self.partners.is_none() {
            return Ok(());
        }
        let network = Network::scan(&self.sockets)?;
        for step in [Self::connect, Self::await_acceptance, Self::agree, Self::disinherit] {
            self.examine_each(step, &network, blockers)?;
        }
        self.meet_partners(blockers)?;
        self.await_datagrams(blockers)?;
        self.examine_each(Self::receive, &network, blockers)?;
        self.examine_each(Self::check_distant, &network, blockers)
    }

    /// Waits for what UDP sockets of the job have sent to others of them.
    fn await_datagrams(&self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        let some = self.sockets.iter().find(|socket| socket.is_udp()).filter(|_| self.motion == Motion::Stopped);
        let Some(some) = some else { return Ok(()) };
        match await_datagrams() {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let why = "datagrams take long to arrive here, so one may be on its way to it";
                let unsupported = Unsupported::for_now(RefusalCode::UnreadMessage, why);
                blockers.push(self.blocker(some.place, unsupported)?);
                Ok(())
            }
            awaited => awaited,
        }
    }

    fn examine_each(
        &mut self,
        step: fn(&mut Self, usize, &Network) -> Result<(), Unsupported>,
        network: &Network,
        blockers: &mut Vec<Blocker>,
    ) -> io::Result<()> {
        for at in 0..self.sockets.len() {
            if let Err(unsupported) = step(self, at, network) {
                blockers.push(self.blocker(self.sockets[at].place, unsupported)?);
            }
        }
        Ok(())
    }

    /// Determines the peer of a socket.
    fn connect(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        if found.is_unix() {
            return self.connect_unix(at, network);
        }
        if found.record.family == abi::AF_NETLINK {
            return match descriptors::unread_bytes(found.own()) {
                Ok(0) | Err(_) if descriptors::ready_events(found.own(), abi::POLLIN)? & abi::POLLIN == 0 => Ok(()),
                _ => Err(Unsupported::for_now(RefusalCode::UnreadMessage, "it has an unread answer of the kernel")),
            };
        }
        if found.is_udp() { self.connect_udp(at, network) } else { self.connect_tcp(at, network) }
    }

    /// Finds the connections that nobody has accepted yet, once all listeners are known.
    fn await_acceptance(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        if !found.is_listening() {
            return Ok(());
        }
        if found.is_unix() { self.await_unix(at, network) } else { self.await_tcp(at, network) }
    }

    /// Checks that both ends of a connection agree, and that every connection has found its other end.
    fn agree(&mut self, at: usize, _: &Network) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        let agrees = match found.record.state {
            SocketState::Paired { peer } => {
                matches!(self.sockets[peer as usize].record.state, SocketState::Paired { peer } if peer as usize == at)
            }
            SocketState::Unconnected if self.motion == Motion::Running => true,
            SocketState::Unconnected => found.peer.is_none() || found.record.family == abi::AF_NETLINK,
            _ => true,
        };
        if let SocketState::Paired { peer } = found.record.state
            && found.is_tcp()
            && self.sockets[peer as usize].record.shut_down & SENDING == 0
            && descriptors::ready_events(found.own(), abi::POLLRDHUP)? & abi::POLLRDHUP != 0
        {
            // Nobody else has shut down its receiving direction.
            self.sockets[at].record.shut_down |= RECEIVING;
        }
        if agrees { Ok(()) } else { Err(changed()) }
    }

    /// Removes the address sharing that we gave to a listening socket from the sockets that it has accepted.
    fn disinherit(&mut self, at: usize, _: &Network) -> Result<(), Unsupported> {
        let (Some(reused), found) = (self.reused_ports, &self.sockets[at]) else { return Ok(()) };
        let name = |socket: &Found| Endpoint::of(&socket.record.name.0);
        let has_accepted = |listener: &Found| {
            let serves = name(listener).zip(name(found)).is_some_and(|(one, other)| one.serves(&other));
            listener.is_tcp() && listener.is_listening() && serves && reused.holds(listener.own())
        };
        let is_accepted = found.is_tcp() && !found.is_listening() && found.record.options.iter().any(shares_address);
        if is_accepted && self.sockets.iter().any(has_accepted) {
            reused.extend(socket::cookie(found.own()));
            self.sockets[at].record.options.retain(|option| !shares_address(option));
        }
        Ok(())
    }

    /// Records what a socket has received.
    fn receive(&mut self, at: usize, _: &Network) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        // Data from others is lost with the connection.
        if self.motion == Motion::Running || found.record.state == SocketState::Reset {
            return Ok(());
        }
        if found.is_unix() {
            self.receive_unix(at)
        } else if found.is_udp() {
            self.receive_udp(at)
        } else {
            self.receive_tcp(at)
        }
    }
}

/// Returns the error that a socket will report next. The kernel reports it once, to the program. Unix connections have one
/// only: their peer was closed with data unread. A packet socket reports it before the messages that it holds, so that
/// these cannot be read.
fn error_of(own: BorrowedFd<'_>, family: i32, kind: i32) -> Result<Option<i32>, Unsupported> {
    let waits = descriptors::ready_events(own, abi::POLLPRI)? & (abi::POLLERR | abi::POLLPRI);
    let is_carried = match (family, kind) {
        (abi::AF_UNIX, abi::SOCK_STREAM) => waits == abi::POLLERR,
        (abi::AF_UNIX, abi::SOCK_SEQPACKET) => waits == abi::POLLERR && descriptors::unread_bytes(own)? == 0,
        _ => false,
    };
    match waits {
        0 => Ok(None),
        _ if is_carried => Ok(Some(abi::ECONNRESET)),
        _ => Err(unread_error()),
    }
}

fn changed() -> Unsupported {
    Unsupported::for_now(RefusalCode::ConnectionUnsettled, "its connection changed at this moment")
}

fn unread_error() -> Unsupported {
    let why = "it has an error or urgent data that the program has not read yet";
    Unsupported::for_now(RefusalCode::UnreadMessage, why)
}

fn shares_address(option: &SocketOption) -> bool {
    (option.level, option.name) == (abi::SOL_SOCKET, abi::SO_REUSEADDR)
}

/// Returns the network namespace of a socket, wherever the process that holds it has moved since. Returns `None` if the
/// kernel does not report it (before Linux 5.14).
fn network_of(own: BorrowedFd<'_>) -> Option<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    let cookie = socket::option(own, abi::SOL_SOCKET, SO_NETNS_COOKIE, size_of::<u64>()).ok()?;
    cookie.try_into().ok().map(u64::from_le_bytes)
}

fn own_network() -> Option<u64> {
    static OWN: OnceLock<Option<u64>> = OnceLock::new();
    *OWN.get_or_init(|| network_of(socket::create(abi::AF_UNIX, abi::SOCK_STREAM, 0).ok()?.as_fd()))
}
