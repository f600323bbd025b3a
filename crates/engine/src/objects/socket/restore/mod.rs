//! Sockets, made again in the new process: first pairs, each end connected to the other, then those that stand alone,
//! then those that wait to be accepted. Data in flight is sent again when all open files exist (`messages.rs`).
//!
//! Connections to other parts of a distributed job are made before all that stands alone (`distant.rs`).
//!
//! A pair of sockets without names is made as such. If one end has a name, and always with TCP, a socket listens there
//! for a moment, to be connected to.

pub(super) mod connect;
mod connecting;
mod datagrams;
mod distant;
mod greeting;
mod lingering;
mod messages;
mod names;
mod options;

use crate::EngineError;
use crate::error::kernel;
use crate::objects::{F_SETFL, O_ASYNC, Opening};
use connect::{Naming, Patience};
pub(crate) use connecting::Connecting;
use datagrams::was_connected_before;
pub(in crate::objects) use names::Names;
pub(crate) use names::Renamed;
use standfast_format::records::{Bytes, OpenFileKind, Socket, SocketState};
use standfast_linux::abi;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const NON_BLOCKING: u64 = abi::SOCK_NONBLOCK as u64;

/// A socket of the new process.
pub(in crate::objects) struct Made {
    /// Its number there.
    pub(in crate::objects) number: u64,
    /// A descriptor of ours.
    own: OwnedFd,
    /// The other end, if it is to be closed again.
    peer_to_close: Option<Box<Made>>,
}

impl Made {
    fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

impl Opening<'_> {
    pub(in crate::objects) fn make_sockets(&mut self) -> Result<(), EngineError> {
        let records = &self.plan.job.sockets;
        let mut made: Vec<Option<Made>> = records.iter().map(|_| None).collect();
        let ended = || records.iter().enumerate().filter(|(_, record)| record.state == SocketState::Ended);
        // A socket that has ended does not keep others from its port, but a bound one does. The kernel chooses that
        // port once more only as long as nobody is bound to it.
        for (place, record) in ended() {
            made[place] = self.make_reset(record, &[Naming::Chosen]).ok();
        }
        for (place, record) in records.iter().enumerate() {
            match &record.state {
                SocketState::Paired { peer } if place < *peer as usize => {
                    let (one, other) = self.make_pair(record, &records[*peer as usize])?;
                    (made[place], made[*peer as usize]) = (Some(one), Some(other));
                }
                SocketState::PeerClosed { peer } => made[place] = Some(self.make_peer_closed(record, peer)?),
                SocketState::Reset => made[place] = Some(self.make_reset_anywhere(record)?),
                _ => {}
            }
        }
        // Other parts may send to them as soon as all have their connections.
        let udp = |record: &Socket| stands_alone(record) && is_udp(record);
        for (place, record) in records.iter().enumerate().filter(|(_, record)| udp(record)) {
            made[place] = Some(self.make_alone(record)?);
        }
        self.make_distant(&mut made)?;
        for (place, record) in records.iter().enumerate().filter(|(_, record)| stands_alone(record) && !udp(record)) {
            made[place] = Some(self.make_alone(record)?);
        }
        // Their ports have been waited for by now, and nobody listens there yet.
        for (place, record) in ended() {
            if made[place].is_none() {
                made[place] = Some(self.make_reset_anywhere(record)?);
            }
        }
        // The sockets that they are connected to, or wait at, exist by now.
        let listeners = || records.iter().enumerate().filter_map(|(place, record)| Some((place, backlog(record)?)));
        for (place, backlog) in listeners() {
            // The program may have lowered it when more were waiting already.
            self.listen(&made, place, backlog.max(waiting_at(records, place)))?;
        }
        for (made, record) in made.iter().flatten().zip(records.iter()) {
            if let SocketState::Towards { address, .. } = &record.state
                && is_internet(record.family)
            {
                if was_connected_before(record, address) {
                    self.connect(made, &record.name.0)?;
                }
                self.connect(made, &address.0)?;
            }
        }
        for place in in_order_of_arrival(records) {
            let waiting = made[place].as_ref().expect("those that stand alone have been made");
            if let SocketState::Waiting { listener, .. } = records[place].state {
                let address = self.reach(listener as usize, records[place].family);
                self.connect_named(waiting, &records[place], &address, Patience::Long)?;
            }
        }
        for (place, backlog) in listeners().filter(|(place, backlog)| *backlog < waiting_at(records, *place)) {
            self.listen(&made, place, backlog)?;
        }
        self.sockets = made.into_iter().flatten().collect();
        assert_eq!(self.sockets.len(), records.len(), "the plan has seen that every pair is one");
        Ok(())
    }

    fn listen(&self, made: &[Option<Made>], place: usize, backlog: u32) -> Result<(), EngineError> {
        let listener = made[place].as_ref().expect("those that stand alone have been made");
        self.call("listening", abi::SYS_listen, [listener.number, backlog.into(), 0, 0, 0, 0]).map(drop)
    }

    /// Makes a socket with its options and its name, without a connection.
    pub(in crate::objects) fn make_alone(&self, record: &Socket) -> Result<Made, EngineError> {
        let (made, reached) = self.make_named(record)?;
        self.note_reached(record, reached);
        Ok(made)
    }

    /// Does the same, and returns the address at which it is reached, if it has one.
    fn make_named(&self, record: &Socket) -> Result<(Made, Option<Vec<u8>>), EngineError> {
        let made = self.create(record)?;
        options::set(made.own(), record)?;
        // Connections of the previous life may linger under its address.
        if is_tcp(record) && !self.is_only_bound(record) {
            options::share_address(made.own())?;
        }
        let reached = if is_named_at_once(record) { self.bind(&made, record)? } else { None };
        Ok((made, reached))
    }

    /// Reports whether a socket is bound to a port where nothing else of the job is, not even an end that has been closed. It
    /// must get the port without sharing it: the kernel would not let it listen beside a lingering connection later.
    fn is_only_bound(&self, record: &Socket) -> bool {
        let port = |address: &Bytes| Endpoint::of(&address.0).map(|endpoint| endpoint.port);
        let own = port(&record.name);
        let has_port = |other: &Socket| match &other.state {
            SocketState::PeerClosed { peer } if port(peer) == own => true,
            _ => port(&other.name) == own,
        };
        let mut others = self.plan.job.sockets.iter().filter(|other| !std::ptr::eq(*other, record) && is_tcp(other));
        record.state == SocketState::Unconnected && !others.any(has_port)
    }

    fn create(&self, record: &Socket) -> Result<Made, EngineError> {
        let kind = record.kind as u64 | NON_BLOCKING;
        let arguments = [record.family as u64, kind, record.protocol as u64, 0, 0, 0];
        let number = self.park(self.call("making a socket", abi::SYS_socket, arguments)?)?;
        self.take_up(number)
    }

    fn take_up(&self, number: u64) -> Result<Made, EngineError> {
        Ok(Made { number, own: self.own(number)?, peer_to_close: None })
    }

    /// Sends data in flight, shuts down what was shut down, and sets what has to come last.
    pub(in crate::objects) fn finish_sockets(&mut self, files: &[Option<u64>]) -> Result<(), EngineError> {
        let sockets = std::mem::take(&mut self.sockets);
        let records = &self.plan.job.sockets;
        self.send_to_parts(&sockets)?;
        for place in datagrams::in_order_of_peers(records) {
            self.fill(place, &records[place], &sockets, files)?;
        }
        self.forget_names()?;
        for (made, record) in sockets.iter().zip(records) {
            let shutting = |source| kernel("shutting a connection down", source);
            if let Some(how) = record.shut_down.checked_sub(1) {
                socket::shut_down(made.own(), how as i32).or_else(already_so).map_err(shutting)?;
            }
            if let Some(other) = &made.peer_to_close {
                if record.error.is_some() {
                    // Data that a peer has not read when it is closed resets the connection.
                    let resetting = |source| kernel("resetting a connection", source);
                    socket::send(made.own(), b"!", &[], &[]).map_err(resetting)?;
                }
                self.close(other.number)?;
            }
        }
        self.await_ends_of_parts(&sockets)?;
        // Our own copies of those other ends would keep them open.
        let sockets: Vec<Made> = sockets.into_iter().map(|made| Made { peer_to_close: None, ..made }).collect();
        for (made, record) in sockets.iter().zip(records) {
            if record.state == SocketState::Ended {
                connect::forget_reset(made)?;
            }
            if let SocketState::Connecting { peer } = &record.state {
                let own = made.own.try_clone().map_err(|source| kernel("keeping a socket", source))?;
                let (name, peer) = (record.name.clone(), peer.clone());
                self.connecting.push(Connecting { own, name, peer });
            }
            let notes = options::set_last(made.own(), record)?;
            self.names.borrow_mut().notes.extend(notes);
            if options::keeps_sharing(record) && !options::shares_address(record) {
                options::share_address(made.own())?;
                self.sharing.extend(socket::cookie(made.own()));
            }
        }
        for (file, parked) in self.plan.job.open_files.iter().zip(files) {
            if matches!(file.kind, OpenFileKind::Socket { .. }) {
                let Some(parked) = *parked else { continue };
                let arguments = [parked, F_SETFL, (file.flags & !O_ASYNC).into(), 0, 0, 0];
                self.call("setting a socket's flags", abi::SYS_fcntl, arguments)?;
            }
        }
        Ok(())
    }
}

/// Reports whether a socket is named at once. Some get their name when they are connected.
fn is_named_at_once(record: &Socket) -> bool {
    has_name(record) && !matches!(record.state, SocketState::Waiting { .. } | SocketState::Connecting { .. })
}

/// Ignores the error of a side that the other side may have shut down already.
fn already_so(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(abi::ENOTCONN) { Ok(()) } else { Err(error) }
}

fn stands_alone(record: &Socket) -> bool {
    !matches!(
        record.state,
        SocketState::Paired { .. }
            | SocketState::PeerClosed { .. }
            | SocketState::Reset
            | SocketState::Ended
            | SocketState::Distant { .. }
    )
}

/// Returns how many connections may wait to be accepted by a socket, if it listens.
fn backlog(record: &Socket) -> Option<u32> {
    if let SocketState::Listening { backlog } = record.state { Some(backlog) } else { None }
}

/// Returns how many wait to be accepted by a listening socket.
fn waiting_at(records: &[Socket], place: usize) -> u32 {
    let is_it = |at: u32| at as usize == place;
    let waits = |it: &&Socket| matches!(it.state, SocketState::Waiting { listener, .. } if is_it(listener));
    records.iter().filter(waits).count() as u32
}

/// Returns the sockets that wait to be accepted, in order.
fn in_order_of_arrival(records: &[Socket]) -> Vec<usize> {
    let place = |record: &Socket| match record.state {
        SocketState::Waiting { listener, place } => Some((listener, place)),
        _ => None,
    };
    let mut waiting: Vec<usize> = (0..records.len()).filter(|at| place(&records[*at]).is_some()).collect();
    waiting.sort_by_key(|at| place(&records[*at]));
    waiting
}

pub(in crate::objects) fn is_internet(family: i32) -> bool {
    matches!(family, abi::AF_INET | abi::AF_INET6)
}

fn is_tcp(record: &Socket) -> bool {
    is_internet(record.family) && record.kind == abi::SOCK_STREAM
}

fn is_udp(record: &Socket) -> bool {
    is_internet(record.family) && record.kind == abi::SOCK_DGRAM
}

/// Reports whether a socket is bound. Internet sockets always return an address, which is all zeros before binding.
fn has_name(record: &Socket) -> bool {
    match record.family {
        abi::AF_UNIX => !record.name.0.is_empty(),
        _ => record.name.0.iter().skip(size_of::<abi::sa_family_t>()).any(|byte| *byte != 0),
    }
}

/// Returns the address at which a socket with this name is reached from here, in the form of `family`.
fn reachable(name: &[u8], family: i32) -> Vec<u8> {
    let Some(mut endpoint) = Endpoint::of(name) else { return name.to_vec() };
    let named = i32::from(u16::from_le_bytes([name[0], name[1]]));
    if endpoint.address.is_unspecified() {
        endpoint.address = match (named, family) {
            (abi::AF_INET, _) | (_, abi::AF_INET) => std::net::Ipv4Addr::LOCALHOST.into(),
            _ => std::net::Ipv6Addr::LOCALHOST.into(),
        };
    } else if named == family {
        // As it is, with the scope of a link-local address.
        return name.to_vec();
    }
    endpoint.to_address(family)
}

/// Describes an address for people.
pub(super) fn describe(address: &Bytes) -> String {
    match Endpoint::of(&address.0) {
        Some(endpoint) => endpoint.to_string(),
        None => {
            let path = address.0.get(size_of::<abi::sa_family_t>()..).unwrap_or_default();
            String::from_utf8_lossy(path).replace('\0', "@").trim_end_matches('@').to_owned()
        }
    }
}
