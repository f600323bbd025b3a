//! The peers of datagram sockets. A socket that is connected receives from its peer only, but keeps what others had sent
//! to it before. So its peer changes while datagrams are sent to it again.
//!
//! A UDP socket has its peer from the beginning, so that it takes no datagram that is for another socket at its port. For
//! each datagram of others it is connected to their sender. A Unix socket would lose what it has received if it changed
//! its peer. It has none until the last datagram of others has arrived.

use super::{Made, is_udp, reachable};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::Opening;
use crate::objects::socket::collect::distant_sender;
use crate::partners::{DistantDatagram, RestartPartners};
use standfast_format::records::{Bytes, Socket, SocketMessage, SocketState};
use standfast_linux::abi;
use standfast_linux::own_addresses;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::socket;
use std::cmp::Reverse;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long the kernel may take to send what fills the queue of a socket.
const SENDING_MAX: Duration = Duration::from_secs(10);
const SENDING_PAUSE: Duration = Duration::from_millis(1);

impl Opening<'_> {
    /// Returns the address to which a socket is to be connected when the message at this place is sent to it, or when
    /// all have been sent. Returns `None` if it needs no other peer than it has.
    pub(super) fn peer_at(&self, record: &Socket, at: usize) -> Option<Vec<u8>> {
        let SocketState::Towards { address, .. } = &record.state else { return None };
        let is_foreign = |message: &SocketMessage| !self.is_from_peer(record, address, message);
        if record.family == abi::AF_UNIX {
            let first = record.received.iter().rposition(is_foreign).map_or(0, |last| last + 1);
            let of_the_job = peer_of(&self.plan.job.sockets, record).map(|peer| self.reach(peer, record.family));
            return (at == first).then(|| of_the_job.unwrap_or_else(|| address.0.clone()));
        }
        let source = |at: usize| match record.received.get(at) {
            Some(message) if is_foreign(message) => self.source(message, record.family),
            _ => address.0.clone(),
        };
        let before = at.checked_sub(1).map_or_else(|| address.0.clone(), source);
        Some(source(at)).filter(|now| *now != before)
    }

    /// Reports whether a message to a socket came from its peer, which has this address.
    fn is_from_peer(&self, record: &Socket, address: &Bytes, message: &SocketMessage) -> bool {
        let sockets = &self.plan.job.sockets;
        if record.family == abi::AF_UNIX {
            return message.sender.is_some() && message.sender.map(|it| it as usize) == peer_of(sockets, record);
        }
        Endpoint::of(&self.source(message, record.family)) == Endpoint::of(&address.0)
    }

    /// Returns the address at which a socket of `family` sends a message to another one again.
    pub(super) fn destination(&self, receiver: usize, message: &SocketMessage, family: i32) -> Vec<u8> {
        let from = message.from.as_ref().and_then(|from| Endpoint::of(&from.0));
        match (from, Endpoint::of(&self.plan.job.sockets[receiver].name.0)) {
            // Whatever is sent to any address of this machine reaches it. This one has the same protocol.
            (Some(from), Some(own)) if own.address.is_unspecified() => {
                Endpoint { port: own.port, ..from }.to_address(family)
            }
            _ => self.reach(receiver, family),
        }
    }

    /// Returns the address of the sender of a UDP datagram, in the form of `family`.
    pub(super) fn source(&self, message: &SocketMessage, family: i32) -> Vec<u8> {
        let name = message.sender.map(|sender| &self.plan.job.sockets[sender as usize].name);
        message.from.as_ref().or(name).map(|address| reachable(&address.0, family)).unwrap_or_default()
    }
}

/// Datagrams between parts of a distributed job. A part says which it wants before any part has its connections. Then the part
/// whose socket had sent one sends it again.
impl Opening<'_> {
    /// Says which datagrams other parts are to send again.
    pub(super) fn want_datagrams(&self, partners: &dyn RestartPartners) -> Result<(), EngineError> {
        let mut wanted = Vec::new();
        for record in self.plan.job.sockets.iter().filter(|record| is_udp(record)) {
            for (message, from) in record.received.iter().filter_map(|it| Some((it, distant_sender(it)?))) {
                let to = address_towards(record, from).map_err(|source| kernel("finding an own address", source))?;
                wanted.push(DistantDatagram { from, to, contents: message.contents.0.to_vec() });
            }
        }
        partners.want_datagrams(&wanted).map_err(EngineError::Image)
    }

    /// Sends again what other parts want and a socket of this part had sent.
    pub(super) fn send_to_parts(&self, sockets: &[Made]) -> Result<(), EngineError> {
        let Some(partners) = self.partners else { return Ok(()) };
        let wanted = partners.wanted_datagrams().map_err(EngineError::Image)?;
        let sending = |source| kernel("sending a datagram to another part again", source);
        let of_node = if wanted.is_empty() { Vec::new() } else { own_addresses().map_err(sending)? };
        for datagram in wanted.iter().filter(|it| of_node.contains(&it.from.address)) {
            let sends = |record: &Socket| {
                is_udp(record) && Endpoint::of(&record.name.0).is_some_and(|it| it.serves(&datagram.from))
            };
            let place = self.plan.job.sockets.iter().position(sends);
            let place = place.ok_or_else(|| sending(io::Error::other("no socket has its address")))?;
            let family = self.plan.job.sockets[place].family;
            let [to, from] = [datagram.to, datagram.from].map(|it| it.to_address(family));
            let deadline = Instant::now() + SENDING_MAX;
            while let Err(error) = socket::send_from(sockets[place].own(), &datagram.contents, &to, &from) {
                if error.kind() != io::ErrorKind::WouldBlock || Instant::now() > deadline {
                    return Err(sending(error));
                }
                std::thread::sleep(SENDING_PAUSE);
            }
        }
        Ok(())
    }
}

/// Returns the address at which a node reaches a socket that is to receive from it.
fn address_towards(record: &Socket, from: Endpoint) -> io::Result<Endpoint> {
    let missing = || io::Error::from(io::ErrorKind::InvalidData);
    let bound = Endpoint::of(&record.name.0).ok_or_else(missing)?;
    if !bound.address.is_unspecified() {
        return Ok(bound);
    }
    let family = if from.address.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 };
    let probe = socket::create(family, abi::SOCK_DGRAM, 0)?;
    socket::connect(probe.as_fd(), &from.to_address(family))?;
    let own = Endpoint::of(&socket::name(probe.as_fd())?).ok_or_else(missing)?;
    Ok(Endpoint { port: bound.port, ..own })
}

/// Returns the socket to which a Unix datagram socket is connected, by its place. An image of an earlier version names only
/// its address.
fn peer_of(records: &[Socket], record: &Socket) -> Option<usize> {
    match &record.state {
        SocketState::Towards { peer: Some(peer), .. } => Some(*peer as usize),
        SocketState::Towards { address, .. } if record.family == abi::AF_UNIX => {
            records.iter().position(|other| other.family == abi::AF_UNIX && other.name == *address)
        }
        _ => None,
    }
}

/// Returns the places of all sockets, so that those which are connected to a Unix datagram socket come before it: once
/// that one has another peer, no other socket may be connected to it.
pub(super) fn in_order_of_peers(records: &[Socket]) -> Vec<usize> {
    let peer = |place: usize| peer_of(records, &records[place]);
    let steps = |place: usize| {
        let (mut steps, mut before, mut at) = (0, place, place);
        while let Some(next) = peer(at).filter(|next| *next != before && steps < records.len()) {
            (steps, before, at) = (steps + 1, at, next);
        }
        steps
    };
    let mut places: Vec<usize> = (0..records.len()).collect();
    places.sort_by_cached_key(|place| Reverse(steps(*place)));
    places
}

/// Reports whether a socket with this peer had another one before, of IPv6: the kernel chose its address for that one, and
/// would choose one of IPv4 for this peer.
pub(super) fn was_connected_before(record: &Socket, peer: &Bytes) -> bool {
    let address = |address: &Bytes| Endpoint::of(&address.0).map(|endpoint| endpoint.address);
    record.family == abi::AF_INET6
        && address(&record.name).is_some_and(|own| own.is_ipv6() && !own.is_unspecified())
        && address(peer).is_some_and(|peer| peer.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket of each pair is named by the first number and connected to the second.
    fn order(sockets: &[[u8; 2]]) -> Vec<usize> {
        let name = |number: u8| Bytes::from(vec![1, 0, 0, number]);
        let socket = |[own, peer]: [u8; 2]| Socket {
            family: abi::AF_UNIX,
            kind: abi::SOCK_DGRAM,
            name: name(own),
            state: SocketState::Towards { address: name(peer), peer: None },
            ..Socket::default()
        };
        in_order_of_peers(&sockets.iter().map(|pair| socket(*pair)).collect::<Vec<_>>())
    }

    #[test]
    fn sockets_are_connected_before_their_peer_is() {
        assert_eq!(order(&[[2, 3], [1, 2], [3, 9]]), [1, 0, 2]);
        assert_eq!(order(&[[1, 2], [2, 1], [3, 2]]), [2, 0, 1], "two that are connected to each other");
        assert_eq!(order(&[[1, 1], [2, 9]]).len(), 2, "one that is connected to itself");
        assert_eq!(order(&[[1, 2], [2, 3], [3, 1]]).len(), 3, "an image that is not sound");
    }
}
