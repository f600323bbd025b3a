//! TCP connections to other parts of a distributed job. While all parts are frozen, each reports its ends. What has been
//! sent is driven on into the receive queue of the other end, as within one part, until the counters of both ends agree.
//!
//! An end whose other end no part has may have been closed. The node that has the address of the other end knows: its
//! kernel may still be sending what a process has left when it closed the connection.

use super::internet::{TcpInformation, drive_on, shut_down_receiving};
use super::refill::FullEnd;
use super::{Found, Network, RECEIVING, Unsupported, Walk, changed};
use crate::objects::socket::exchange::with_room;
use crate::objects::socket::spare_room::UnsentLimit;
use crate::partners::{
    ClosedHere, CutPartners, CutReport, DistantEnd, EndAddresses, EndFate, FoundEnd, Meeting, OtherEnd, Partner,
};
use crate::{Blocker, RefusalCode};
use standfast_format::records::{Bytes, ClosedEnd, SocketState};
use standfast_linux::abi;
use standfast_linux::own_addresses;
use standfast_linux::proc::tcp_state::{CLOSING, FIN_WAIT_1, FIN_WAIT_2, LAST_ACK, TIME_WAIT};
use standfast_linux::proc::{Endpoint, TcpConnection};
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// The pause between two meetings while something is on its way.
const MEETING_PAUSE: Duration = Duration::from_micros(200);

impl Found {
    fn is_distant(&self) -> bool {
        matches!(self.record.state, SocketState::Distant { .. })
    }

    /// Reports whether it seems to have been accepted: then the hops of the packet that opened the connection are known.
    fn seems_accepted(&self) -> bool {
        self.record.opened_with.is_some_and(|hops| hops > 0)
    }

    fn distant_end(&self) -> Result<DistantEnd, Unsupported> {
        let ended = || Unsupported::for_now(RefusalCode::ConnectionUnsettled, "its connection has just ended");
        let (local, remote) = self.ends().ok_or_else(ended)?;
        let information = TcpInformation::of(self.own())?;
        if information.is_closed() {
            return Err(ended());
        }
        let mut traffic = information.traffic;
        traffic.unsent = socket::unsent_bytes(self.own())? as u64;
        Ok(DistantEnd {
            addresses: EndAddresses { local, remote },
            seems_accepted: self.seems_accepted(),
            has_ended: information.has_ended(),
            has_received_all: information.has_received_all(),
            may_be_emptied: information.is_open() && shut_down_receiving(self.own())? == 0,
            was_emptied: self.emptied.is_some(),
            was_refilled: self.emptied.as_ref().is_some_and(|it| it.is_refilled),
            traffic,
        })
    }

    /// Reports whether its connection is still as it was when the parts agreed. A process of another part that is killed
    /// meanwhile ends it, and that must not be recorded as something that the program has done.
    fn is_as_agreed(&self) -> io::Result<bool> {
        let (Some(agreed), true) = (&self.agreed, self.is_distant()) else { return Ok(true) };
        let now = TcpInformation::of(self.own())?;
        // What did not fit into a queue that was filled again still moves.
        let has_received_more = !agreed.was_refilled && now.traffic.received != agreed.traffic.received;
        Ok(!now.is_closed() && now.has_received_all() == agreed.has_received_all && !has_received_more)
    }
}

impl Walk<'_> {
    /// Has the other parts name their ends, and waits until nothing is on its way between any two parts. An end that no
    /// part has a partner for leads outside.
    pub(super) fn meet_partners(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        let Some(partners) = self.partners.filter(|_| self.meets_partners && blockers.is_empty()) else {
            return Ok(());
        };
        let distant: Vec<usize> = (0..self.sockets.len()).filter(|at| self.sockets[*at].is_distant()).collect();
        let met = self.meet_until_settled(partners, &distant);
        match self.unless_bytes_are_held(met) {
            Ok(closed) => {
                self.found.closed_ends = closed.iter().map(closed_end).collect();
                // Without the limit a later checkpoint may take longer.
                let set = |limit: UnsentLimit| distant.iter().try_for_each(|at| limit.set(self.sockets[*at].own()));
                drop(UnsentLimit::of_node().and_then(set));
            }
            Err(Gathering::End { at, unsupported }) => {
                blockers.push(self.blocker(self.sockets[at].place, unsupported)?);
            }
            Err(Gathering::Others(why)) => {
                blockers.push(Blocker::new(RefusalCode::OtherParts, "the distributed job", why).for_now());
            }
        }
        Ok(())
    }

    /// Returns the ends of this node that have been closed.
    fn meet_until_settled(
        &mut self,
        partners: &dyn CutPartners,
        distant: &[usize],
    ) -> Result<Vec<ClosedHere>, Gathering> {
        let (mut scans, mut found) = (0, Vec::new());
        let mut udp = self.udp_addresses().map_err(other_parts)?;
        loop {
            let of_end = |at: &usize| {
                let end = self.sockets[*at].distant_end();
                end.map_err(|unsupported| Gathering::End { at: *at, unsupported })
            };
            let ends = distant.iter().map(of_end).collect::<Result<Vec<_>, _>>()?;
            let count = ends.len();
            let report = CutReport { ends: ends.clone(), found, udp: std::mem::take(&mut udp) };
            let meeting = with_room(self.refilled(), || partners.meet(report)).map_err(other_parts)?;
            let Meeting { others, asked, closed, udp: of_others, is_settled } = meeting;
            self.distant_udp.extend(of_others);
            if others.len() != count {
                return Err(Gathering::Others("another part has answered to other questions".to_owned()));
            }
            let (mut full, mut to_refill) = (Vec::new(), Vec::new());
            for (at, other) in distant.iter().zip(others) {
                let noted = match other {
                    OtherEnd::Open(partner @ Partner { empty_until: Some(received), .. }) => {
                        full.push(FullEnd { at: *at, received });
                        // Nothing moves at this meeting, and so it is known who has connected. Before, it may not have been.
                        self.note_partner(*at, &partner)
                    }
                    OtherEnd::Open(Partner { is_to_refill: true, .. }) => {
                        to_refill.push(*at);
                        Ok(())
                    }
                    _ if self.sockets[*at].emptied.is_some() => Ok(()),
                    other => self.note_other(*at, other, scans),
                };
                noted.map_err(|unsupported| Gathering::End { at: *at, unsupported })?;
            }
            self.empty(&full).map_err(other_parts)?;
            self.refill(&to_refill).map_err(other_parts)?;
            if is_settled {
                distant.iter().zip(ends).for_each(|(at, end)| self.sockets[*at].agreed = Some(end));
                return Ok(closed);
            }
            found = fates_of(&asked).map_err(other_parts)?;
            scans += 1;
            std::thread::sleep(MEETING_PAUSE);
        }
    }

    /// Returns the addresses from which UDP sockets of this part send to other nodes.
    fn udp_addresses(&self) -> io::Result<Vec<Endpoint>> {
        let bound = self.sockets.iter().filter(|socket| socket.is_udp());
        let bound: Vec<_> = bound.filter_map(|socket| Endpoint::of(&socket.record.name.0)).collect();
        let of_node = if bound.is_empty() { Vec::new() } else { own_addresses()? };
        let each = |bound: &Endpoint| {
            let addresses = if bound.address.is_unspecified() { of_node.clone() } else { vec![bound.address] };
            let port = bound.port;
            addresses.into_iter().map(move |address| Endpoint { address, port })
        };
        let is_reachable = |it: &Endpoint| it.port != 0 && !it.address.is_loopback();
        Ok(bound.iter().flat_map(each).filter(is_reachable).collect())
    }

    /// Checks, once all is recorded, that no connection to another part has changed since the parts agreed.
    pub(super) fn check_distant(&mut self, at: usize, _: &Network) -> Result<(), Unsupported> {
        if self.sockets[at].is_as_agreed()? { Ok(()) } else { Err(changed()) }
    }

    /// Records what is known of the other end, and makes room for what it has sent.
    fn note_other(&mut self, at: usize, other: OtherEnd, scans: usize) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        let Some((_, remote)) = found.ends() else { return Ok(()) };
        let partner = match other {
            OtherEnd::Open(partner) => partner,
            OtherEnd::Closed { unsent } => {
                let has_connected = found.seems_accepted();
                Partner { unsent, has_ended: true, has_connected, empty_until: None, is_to_refill: false }
            }
            OtherEnd::Unknown => return Ok(()),
            OtherEnd::Outside => {
                let why = format!("the other end of this connection, {remote}, is outside the distributed job");
                self.sockets[at].record.state = self.leading_outside(why)?;
                return Ok(());
            }
        };
        if partner.unsent > 0 {
            drive_on(found.own(), partner.unsent as usize, scans)?;
        }
        self.note_partner(at, &partner)
    }

    /// Records what is known of an open end's partner.
    fn note_partner(&mut self, at: usize, partner: &Partner) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        let events = descriptors::ready_events(found.own(), abi::POLLRDHUP)?;
        let has_shut_down = !partner.has_ended && events & abi::POLLRDHUP != 0;
        let peer = found.peer.clone().unwrap_or_default();
        let record = &mut self.sockets[at].record;
        record.state = SocketState::Distant {
            peer: peer.into(),
            is_accepted: partner.has_connected,
            has_peer_ended: partner.has_ended,
            held_back: None,
        };
        record.shut_down |= if has_shut_down { RECEIVING } else { 0 };
        Ok(())
    }
}

/// Why the parts could not agree.
pub(super) enum Gathering {
    /// Because of this end.
    End { at: usize, unsupported: Unsupported },
    /// Because of other parts.
    Others(String),
}

pub(super) fn other_parts(error: impl ToString) -> Gathering {
    Gathering::Others(error.to_string())
}

/// Returns what has become of those ends that have an address of this node.
fn fates_of(asked: &[EndAddresses]) -> io::Result<Vec<FoundEnd>> {
    let here: Vec<_> = asked.iter().filter(|end| is_here(end.local.address)).collect();
    // The table may be long.
    let all = if here.is_empty() { Vec::new() } else { TcpConnection::all()? };
    let fate = |end: &&EndAddresses| {
        let entry = all.iter().find(|it| (it.local, it.remote) == (end.local, end.remote));
        FoundEnd { addresses: **end, fate: entry.map_or(EndFate::Closed, fate_of) }
    };
    Ok(here.iter().map(fate).collect())
}

fn fate_of(entry: &TcpConnection) -> EndFate {
    match entry.state {
        _ if entry.inode != 0 => EndFate::Outside,
        FIN_WAIT_1 | LAST_ACK | CLOSING => EndFate::Closing { unsent: entry.unsent.max(1) },
        FIN_WAIT_2 | TIME_WAIT => EndFate::Closed,
        _ => EndFate::Outside,
    }
}

/// Reports whether this node has an address: only then a socket can be bound to it.
fn is_here(address: IpAddr) -> bool {
    let bound = || {
        let probe = socket::create(family_of(address), abi::SOCK_DGRAM, 0)?;
        socket::bind(probe.as_fd(), &Endpoint { address, port: 0 }.to_address(family_of(address)))
    };
    bound().is_ok()
}

fn family_of(address: IpAddr) -> i32 {
    if address.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 }
}

fn closed_end(end: &ClosedHere) -> ClosedEnd {
    let ClosedHere { addresses: EndAddresses { local, remote }, is_accepted } = *end;
    let bytes = |endpoint: Endpoint| Bytes::from(endpoint.to_address(family_of(local.address)));
    ClosedEnd { name: bytes(local), peer: bytes(remote), is_accepted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Instant;

    fn endpoint(address: SocketAddr) -> Endpoint {
        Endpoint { address: address.ip(), port: address.port() }
    }

    fn fate(local: SocketAddr, remote: SocketAddr) -> EndFate {
        let addresses = EndAddresses { local: endpoint(local), remote: endpoint(remote) };
        let found = fates_of(&[addresses]).unwrap();
        assert_eq!((found.len(), found[0].addresses), (1, addresses));
        found[0].fate
    }

    /// The kernel of a busy machine may take a moment, and so may a program that another test has just begun, and that still
    /// has our sockets.
    fn await_fate(local: SocketAddr, remote: SocketAddr, is_it: impl Fn(EndFate) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_it(fate(local, remote)) {
            assert!(Instant::now() < deadline, "{:?}", fate(local, remote));
            std::thread::sleep(MEETING_PAUSE);
        }
    }

    #[test]
    fn an_end_is_open_then_closing_then_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // What the client sends does not all fit.
        socket::set_number(listener.as_fd(), abi::SOL_SOCKET, abi::SO_RCVBUF, 4096).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let server = listener.accept().unwrap().0;
        assert_eq!(fate(own, other), EndFate::Outside);
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 1 << 16]).is_ok() {}
        drop(client);
        await_fate(own, other, |fate| matches!(fate, EndFate::Closing { unsent } if unsent > 1));
        drop(server);
        await_fate(own, other, |fate| fate == EndFate::Closed);
    }

    #[test]
    fn an_end_of_another_node_is_not_found() {
        let elsewhere = |address: &str| endpoint(address.parse().unwrap());
        let [local, remote] = ["192.0.2.1:80", "127.0.0.1:81"].map(elsewhere);
        assert_eq!(fates_of(&[EndAddresses { local, remote }]).unwrap(), []);
        assert!(is_here([127, 0, 0, 1].into()));
    }
}
