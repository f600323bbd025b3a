//! Pairs of connected sockets, and the names of sockets.

use super::lingering::end_lingering;
use super::{Made, describe, has_name, is_tcp, options, reachable};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::opening::AddressWait;
use crate::objects::{O_NONBLOCK, Opening};
use standfast_format::records::{Bytes, OpenFile, OpenFileKind, Socket, SocketState, ThreadState};
use standfast_linux::abi;
use standfast_linux::proc::tcp_state::TIME_WAIT;
use standfast_linux::proc::{Endpoint, TcpConnection};
use standfast_linux::sys::{descriptors, socket};
use standfast_linux::{Abort, Registers};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const NON_BLOCKING: u64 = abi::SOCK_NONBLOCK as u64;
/// How long a connection of the previous life may still occupy an address. The kernel keeps a pair of local addresses
/// for a second, and a port on which a server without SO_REUSEADDR listened for a minute.
const TAKEN_MAX: Duration = Duration::from_secs(65);
const TAKEN_PAUSE: Duration = Duration::from_millis(20);
/// The pause between two attempts to end the connections that linger at an address: one may be just about to linger.
/// The kernel answers a lingering connection's stray segments once in half a second.
const END_PAUSE: Duration = Duration::from_millis(600);
/// A connection to the same machine takes microseconds.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const CONNECT_PAUSE: Duration = Duration::from_micros(200);

/// How a connected socket gets its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// The restart binds it.
    Bound,
    /// The kernel chooses it, from a range of one port, and takes it back when the connection ends (Linux 6.3).
    Chosen,
    /// Any free name.
    Any,
}

/// How long to wait for an occupied address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    /// Where there is another way: as long as connections that have just been ended may take.
    Short,
    Long,
}

impl Patience {
    fn limit(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Short => Duration::from_millis(200),
            Self::Long => TAKEN_MAX,
        }
    }
}

impl Opening<'_> {
    /// Makes two sockets that are connected to each other.
    pub(super) fn make_pair(&self, one: &Socket, other: &Socket) -> Result<(Made, Made), EngineError> {
        if !is_tcp(one) && !has_name(one) && !has_name(other) {
            return self.make_unnamed_pair(one);
        }
        // The accepted end has the name of the listening socket.
        let opened_with = |record: &Socket| record.opened_with.is_some_and(|hops| hops > 0);
        let is_accepted = match (opened_with(one), opened_with(other)) {
            (true, false) => true,
            (false, true) => false,
            _ => self.seems_accepted(one, other),
        };
        if is_accepted {
            self.connect_through_listener(one, other)
        } else {
            self.connect_through_listener(other, one).map(|(other, one)| (one, other))
        }
    }

    fn seems_accepted(&self, one: &Socket, other: &Socket) -> bool {
        let listens = |name: &Bytes| {
            let mut listeners = self.plan.job.sockets.iter();
            listeners.any(|it| {
                matches!(it.state, SocketState::Listening { .. })
                    && it.family == one.family
                    && serves(&it.name.0, &name.0)
            })
        };
        // If nobody listens any more, the accepted end usually shares its address, and may be bound at once.
        let is_other = || listens(&other.name) || options::shares_address(other) && !options::shares_address(one);
        has_name(one) && (listens(&one.name) || !has_name(other) || !is_other())
    }

    /// Makes a socket whose other end is to be closed once the data from there has been sent again.
    pub(super) fn make_peer_closed(&self, record: &Socket, peer: &Bytes) -> Result<Made, EngineError> {
        let name = if is_tcp(record) { peer.clone() } else { self.name_of_closed(record, peer) };
        let opened_with = record.opened_with.map(|hops| u32::from(hops == 0));
        let other = Socket { name, opened_with, options: Vec::new(), file_mode: None, ..record.clone() };
        let (mut made, end) = if is_tcp(record) {
            self.make_pair(record, &other)?
        } else if record.kind == abi::SOCK_DGRAM || !has_name(record) && !has_name(&other) {
            let (made, end) = self.make_unnamed_pair(record)?;
            if has_name(record) {
                let reached = self.bind(&made, record)?;
                self.note_reached(record, reached);
            }
            if has_name(&other) {
                self.bind(&end, &other)?;
            }
            (made, end)
        } else if has_name(record) {
            self.connect_through_listener(record, &other)?
        } else {
            self.connect_through_listener(&other, record).map(|(end, made)| (made, end))?
        };
        made.peer_to_close = Some(Box::new(end));
        Ok(made)
    }

    /// Makes such a connection under its name, or under any other one: it leads nowhere any more.
    pub(super) fn make_reset_anywhere(&self, record: &Socket) -> Result<Made, EngineError> {
        let made = self.make_reset(record, &[Naming::Bound, Naming::Any])?;
        if is_tcp(record) {
            self.note_name(&made, record)?;
        }
        Ok(made)
    }

    /// Makes a connection that the other end resets on close, which comes when all else has been done. Data that came
    /// from there before can still be read. The recorded address leads nowhere any more, and may not be available here:
    /// the first of `namings` that works is taken.
    pub(super) fn make_reset(&self, record: &Socket, namings: &[Naming]) -> Result<Made, EngineError> {
        let resetting = |source| kernel("resetting a connection", source);
        if !is_tcp(record) {
            let (mut made, other) = self.make_unnamed_pair(record)?;
            options::set(made.own(), record)?;
            // Closing a socket with unread data resets the connection.
            socket::send(made.own(), b"!", &[], &[]).map_err(resetting)?;
            made.peer_to_close = Some(Box::new(other));
            return Ok(made);
        }
        let anywhere = Endpoint { address: loopback(record.family), port: 0 }.to_address(record.family);
        let listener = self.make_alone(&Socket {
            family: record.family,
            kind: record.kind,
            protocol: record.protocol,
            name: anywhere.into(),
            ..Socket::default()
        })?;
        self.call("listening", abi::SYS_listen, [listener.number, 1, 0, 0, 0, 0])?;
        let address = socket::name(listener.own()).map_err(resetting)?;
        let mut made = Err(resetting(io::ErrorKind::AddrNotAvailable.into()));
        for naming in namings {
            made = self.connect_to(record, &address, *naming);
            if made.is_ok() {
                break;
            }
        }
        let mut made = made?;
        wait_for(&listener, abi::POLLIN)?;
        let arguments = [listener.number, 0, 0, NON_BLOCKING, 0, 0];
        let number = self.park(self.call("accepting a connection", abi::SYS_accept4, arguments)?)?;
        let other = self.take_up(number)?;
        self.close(listener.number)?;
        options::reset_when_closed(other.own()).map_err(resetting)?;
        made.peer_to_close = Some(Box::new(other));
        Ok(made)
    }

    /// Makes a socket with the options of the record, and with its name if that is wanted, connected to `address`.
    fn connect_to(&self, record: &Socket, address: &[u8], naming: Naming) -> Result<Made, EngineError> {
        let made = self.create(record)?;
        options::set(made.own(), record)?;
        let bind =
            |name: &[u8]| self.with_address("giving a socket its address", abi::SYS_bind, &made, name, Patience::None);
        let connect = || {
            let name = &any_address(record, address).unwrap_or_else(|| record.name.0.clone());
            match naming {
                Naming::Bound => {
                    options::share_address(made.own())?;
                    bind(name)?;
                }
                Naming::Chosen => {
                    if !options::choose_port(made.own(), u16::from_be_bytes([name[2], name[3]])) {
                        return Err(kernel("choosing a port", io::ErrorKind::Unsupported.into()));
                    }
                    // The other sockets that are to have this port are made later.
                    options::share_address(made.own())?;
                    bind(&any_port(name))?;
                }
                Naming::Any => {}
            }
            let patience = if naming == Naming::Any { Patience::Long } else { Patience::None };
            self.connect_tcp(&made, record, address, patience)?;
            // A port outside the system's range of ports to choose from is not chosen.
            if naming == Naming::Chosen { has_its_name(&made, record) } else { Ok(()) }
        };
        match connect() {
            Ok(()) => Ok(made),
            Err(error) => {
                self.close(made.number)?;
                Err(error)
            }
        }
    }

    fn make_unnamed_pair(&self, record: &Socket) -> Result<(Made, Made), EngineError> {
        let kind = record.kind as u64 | NON_BLOCKING;
        let arguments = [record.family as u64, kind, record.protocol as u64, self.process.scratch, 0, 0];
        self.call("making a pair of sockets", abi::SYS_socketpair, arguments)?;
        let [one, other] = self.two_descriptors()?;
        Ok((self.take_up(self.park(one)?)?, self.take_up(self.park(other)?)?))
    }

    /// Makes a socket listen under the name of `accepted`, and connects one with the name of `connecting` to it.
    fn connect_through_listener(&self, accepted: &Socket, connecting: &Socket) -> Result<(Made, Made), EngineError> {
        let (listener, reached) = self.make_named(accepted)?;
        let Some(reached) = reached else {
            // No name is available for it.
            self.close(listener.number)?;
            return self.make_unnamed_pair(accepted);
        };
        self.call("listening", abi::SYS_listen, [listener.number, 1, 0, 0, 0, 0])?;
        let connected = self.create(connecting)?;
        options::set(connected.own(), connecting)?;
        options::open_with(connected.own(), connecting.family, accepted.opened_with)?;
        let address = if is_tcp(accepted) { reachable(&accepted.name.0, connecting.family) } else { reached };
        self.connect_named(&connected, connecting, &address, Patience::Long)?;
        wait_for(&listener, abi::POLLIN)?;
        let arguments = [listener.number, 0, 0, NON_BLOCKING, 0, 0];
        let number = self.park(self.call("accepting a connection", abi::SYS_accept4, arguments)?)?;
        self.close(listener.number)?;
        Ok((self.take_up(number)?, connected))
    }

    /// Gives a socket its name, and connects it. A port at which a connection of the previous life lingers may not be
    /// bound explicitly. The kernel still takes that port if it chooses it itself, from a range of one.
    pub(super) fn connect_named(
        &self,
        made: &Made,
        record: &Socket,
        address: &[u8],
        patience: Patience,
    ) -> Result<(), EngineError> {
        if !is_tcp(record) {
            if has_name(record) {
                self.bind(made, record)?;
            }
            return self.connect(made, address);
        }
        let action = format!("giving a socket its address {}", describe(&record.name));
        let name = &record.name.0;
        options::share_address(made.own())?;
        let name = &any_address(record, address).unwrap_or_else(|| name.clone());
        match self.with_address(&action, abi::SYS_bind, made, name, Patience::None) {
            Err(EngineError::Kernel { source, .. }) if source.raw_os_error() == Some(abi::EADDRINUSE) => {
                let is_chosen = options::choose_port(made.own(), u16::from_be_bytes([name[2], name[3]]));
                let name = if is_chosen { any_port(name) } else { name.clone() };
                self.with_address(&action, abi::SYS_bind, made, &name, patience)?;
            }
            bound => bound?,
        }
        self.connect_tcp(made, record, address, patience)?;
        has_its_name(made, record)
    }

    /// Connects a TCP socket that has its name. We connect without waiting, and the kernel takes such a connection to be
    /// incomplete until the next connect(2), which returns 0 once. Where the socket blocks, the program has probably waited
    /// for its connection, so that call is made here; but not if the program is still in it.
    pub(super) fn connect_tcp(
        &self,
        made: &Made,
        record: &Socket,
        address: &[u8],
        patience: Patience,
    ) -> Result<(), EngineError> {
        self.connect_within(made, address, patience)?;
        if self.is_non_blocking(record) || self.is_in_connect(record) {
            return Ok(());
        }
        let action = format!("completing the connection to {}", describe(&address.into()));
        match self.with_address(&action, abi::SYS_connect, made, address, Patience::None) {
            Err(EngineError::Kernel { source, .. }) if source.raw_os_error() == Some(abi::EISCONN) => Ok(()),
            completed => completed,
        }
    }

    /// Reports whether the program has a socket that does not block.
    fn is_non_blocking(&self, record: &Socket) -> bool {
        self.plan.job.open_files.iter().any(|file| file.flags & O_NONBLOCK != 0 && self.is_of(file, record))
    }

    /// Reports whether a thread was stopped in connect(2) for a socket. The kernel makes that call again.
    fn is_in_connect(&self, record: &Socket) -> bool {
        let job = self.plan.job;
        job.processes.iter().any(|process| {
            let connecting = |thread: &ThreadState| {
                let registers = Registers(thread.registers.as_slice().try_into().ok()?);
                let is_connect = matches!(registers.pending_restart(), Abort::Restart { number: abi::SYS_connect });
                is_connect.then(|| registers.arguments()[0] as i32)
            };
            let leads_here = |number: i32| {
                let mut found = process.descriptors.iter().filter(|descriptor| descriptor.number == number);
                found.any(|descriptor| self.is_of(&job.open_files[descriptor.open_file as usize], record))
            };
            process.threads.iter().filter_map(connecting).any(leads_here)
        })
    }

    /// Reports whether an open file is this socket.
    fn is_of(&self, file: &OpenFile, record: &Socket) -> bool {
        let OpenFileKind::Socket { socket } = file.kind else { return false };
        std::ptr::eq(&self.plan.job.sockets[socket as usize], record)
    }

    /// Connects a socket that does not block.
    pub(super) fn connect(&self, made: &Made, address: &[u8]) -> Result<(), EngineError> {
        self.connect_within(made, address, Patience::Long)
    }

    fn connect_within(&self, made: &Made, address: &[u8], patience: Patience) -> Result<(), EngineError> {
        let action = format!("connecting a socket to {}", describe(&address.into()));
        match self.with_address(&action, abi::SYS_connect, made, address, patience) {
            Err(EngineError::Kernel { source, .. }) if source.raw_os_error() == Some(abi::EINPROGRESS) => {}
            connected => return connected,
        }
        wait_for(made, abi::POLLOUT)?;
        let error = socket::number(made.own(), abi::SOL_SOCKET, abi::SO_ERROR);
        match error.map_err(|source| kernel(&action, source))? {
            0 => Ok(()),
            error => Err(kernel(&action, io::Error::from_raw_os_error(error))),
        }
    }

    /// Calls bind or connect repeatedly while the previous life still occupies the address.
    pub(super) fn with_address(
        &self,
        action: &str,
        call: i64,
        made: &Made,
        address: &[u8],
        patience: Patience,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        let is_bind = call == abi::SYS_bind && is_tcp_socket(made);
        let mut end_again = begun;
        let deadline = begun + patience.limit();
        loop {
            let argument = self.process.argument(address)?;
            match self.call(action, call, [made.number, argument, address.len() as u64, 0, 0, 0]) {
                Err(EngineError::Kernel { source, .. })
                    if source.raw_os_error() == Some(abi::EADDRINUSE) && is_bind && Instant::now() >= end_again =>
                {
                    end_again = Instant::now() + END_PAUSE;
                    end_lingering(address);
                }
                Err(EngineError::Kernel { source, .. })
                    if matches!(source.raw_os_error(), Some(abi::EADDRNOTAVAIL | abi::EADDRINUSE))
                        && Endpoint::of(address).is_some()
                        && Instant::now() < deadline =>
                {
                    let rest = deadline.saturating_duration_since(Instant::now());
                    let wait = AddressWait { address: describe(&address.into()), waited: begun.elapsed(), rest };
                    (self.on_wait)(&wait).map_err(EngineError::Image)?;
                    std::thread::sleep(TAKEN_PAUSE);
                }
                answer => return answer.map(drop),
            }
        }
    }
}

/// Checks that a connected socket has the recorded name.
fn has_its_name(made: &Made, record: &Socket) -> Result<(), EngineError> {
    let giving = |source| kernel(&format!("giving a socket its address {}", describe(&record.name)), source);
    let now = socket::name(made.own()).map_err(giving)?;
    if Endpoint::of(&now) == Endpoint::of(&record.name.0) {
        return Ok(());
    }
    Err(giving(io::Error::other("another one was given to it")))
}

fn is_tcp_socket(made: &Made) -> bool {
    socket::number(made.own(), abi::SOL_SOCKET, abi::SO_PROTOCOL).is_ok_and(|it| it == abi::IPPROTO_TCP)
}

/// Returns the address of any interface, with the port of a socket, if the kernel chose its address when it was connected
/// to `peer`, and will do so again. To bind an IPv6 socket to an address restricts it to IPv6 (`IPV6_V6ONLY`), whatever
/// the program has set.
pub(super) fn any_address(record: &Socket, peer: &[u8]) -> Option<Vec<u8>> {
    let stands_alone = matches!(record.state, SocketState::Unconnected | SocketState::Listening { .. });
    let may_be = |own: &Endpoint| record.family == abi::AF_INET6 && own.address.is_ipv6() && !stands_alone;
    let own = Endpoint::of(&record.name.0).filter(may_be)?;
    let is_restricted = record.options.iter().any(|it| (it.level, it.name) == (abi::IPPROTO_IPV6, abi::IPV6_V6ONLY));
    let is_chosen = !own.address.is_unspecified() && own.address == Endpoint::of(peer)?.address;
    let any = Endpoint { address: Ipv6Addr::UNSPECIFIED.into(), ..own };
    (is_chosen && !is_restricted && is_free_in_ipv4(record, own.port)).then(|| any.to_address(record.family))
}

/// Reports whether no socket of IPv4 has the port of this one, which an IPv6 socket for any address would take as well.
fn is_free_in_ipv4(record: &Socket, port: u16) -> bool {
    let any = Endpoint { address: Ipv4Addr::UNSPECIFIED.into(), port };
    let bind = || {
        let probe = socket::create(abi::AF_INET, record.kind, record.protocol)?;
        socket::set_number(probe.as_fd(), abi::SOL_SOCKET, abi::SO_REUSEADDR, is_tcp(record).into())?;
        socket::bind(probe.as_fd(), &any.to_address(abi::AF_INET))
    };
    // Connections of the previous life that linger there keep the probe away as well, and will end.
    let lingers = || {
        let all = TcpConnection::all().unwrap_or_default();
        let mut users = all.iter().filter(|it| it.local.port == port).peekable();
        users.peek().is_some() && users.all(|it| it.state == TIME_WAIT || it.local.address.is_ipv6())
    };
    bind().is_ok() || is_tcp(record) && lingers()
}

/// Returns the same internet address, with a port of the kernel's choice.
pub(in crate::objects::socket) fn any_port(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    name[2..4].fill(0);
    name
}

/// Turns a connection that has been reset into one that has ended, by taking the error that reports the reset.
pub(super) fn forget_reset(made: &Made) -> Result<(), EngineError> {
    wait_for(made, abi::POLLHUP)?;
    let error = socket::number(made.own(), abi::SOL_SOCKET, abi::SO_ERROR);
    error.map(drop).map_err(|source| kernel("ending a connection", source))
}

fn wait_for(made: &Made, events: i16) -> Result<(), EngineError> {
    wait_until(made, events, Instant::now() + CONNECT_MAX)
}

pub(super) fn wait_until(made: &Made, events: i16, deadline: Instant) -> Result<(), EngineError> {
    let waiting = |source| kernel("waiting for a connection", source);
    while descriptors::ready_events(made.own(), events).map_err(waiting)? == 0 {
        if Instant::now() > deadline {
            return Err(waiting(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(CONNECT_PAUSE);
    }
    Ok(())
}

fn loopback(family: i32) -> IpAddr {
    match family {
        abi::AF_INET => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Reports whether a socket of the first name accepts connections to the second.
fn serves(listening: &[u8], name: &[u8]) -> bool {
    let endpoint = Endpoint::of;
    listening == name || endpoint(listening).zip(endpoint(name)).is_some_and(|(one, other)| one.serves(&other))
}
