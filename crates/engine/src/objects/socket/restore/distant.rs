//! Connections to other parts of a distributed job. Where a connection had been accepted, a socket listens for a moment,
//! as within one part; the other part connects to it, and says which connection it is. Then both ends exchange over the
//! connection itself what they had received: each sends that to the other end, which sends it back, so that it lies where
//! it lay.
//!
//! ```text
//! all parts listen     RestartStep::Listening     connect, accept, exchange     connect
//! ```
//!
//! An end that had been closed is made as well, and closed again: the other end gets what it had received, and the end of
//! the stream.

use super::connect::{Patience, any_port, wait_until};
use super::greeting::{answer, await_answer, await_greeting, greet};
use super::names::name_of;
use super::{Made, describe, options};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::Opening;
use crate::objects::socket::exchange::{Exchange, Room, SentBack, exchange, make_first_room, with_room};
use crate::partners::{EndAddresses, RestartPartners, RestartStep};
use standfast_format::records::{Bytes, ClosedEnd, JobState, Socket, SocketState};
use standfast_linux::abi;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::socket;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

const NON_BLOCKING: u64 = abi::SOCK_NONBLOCK as u64;
/// How long the other end of a connection may take, once all parts listen.
const ACCEPT_MAX: Duration = Duration::from_secs(20);

/// An end of such a connection.
struct DistantSocket<'a> {
    /// Its position in the job's table; none if it had been closed.
    place: Option<usize>,
    record: &'a Socket,
    made: Option<Made>,
}

impl DistantSocket<'_> {
    fn peer(&self) -> &Bytes {
        let SocketState::Distant { peer, .. } = &self.record.state else { unreachable!("only such are chosen") };
        peer
    }

    fn is_accepted(&self) -> bool {
        matches!(self.record.state, SocketState::Distant { is_accepted: true, .. })
    }

    fn addresses(&self) -> Option<EndAddresses> {
        let endpoint = |address: &Bytes| Endpoint::of(&address.0);
        Some(EndAddresses { local: endpoint(&self.record.name)?, remote: endpoint(self.peer())? })
    }

    fn own(&self) -> Result<&Made, EngineError> {
        self.made.as_ref().ok_or_else(|| kernel("connecting to another part", io::ErrorKind::NotConnected.into()))
    }

    /// Returns how much of that did not fit into its receive queue.
    fn held_back(&self) -> u64 {
        match self.record.state {
            SocketState::Distant { held_back, .. } => held_back.unwrap_or_default(),
            _ => 0,
        }
    }

    /// Returns what it had received, which is one piece of a stream.
    fn contents(&self) -> &[u8] {
        self.record.received.first().map_or(&[], |message| &message.contents.0)
    }
}

/// Returns the ends that had been closed, as sockets.
fn closed_ends(job: &JobState) -> Vec<Socket> {
    let socket = |end: &ClosedEnd| Socket {
        family: end.name.0.first_chunk().map_or(abi::AF_INET, |family| u16::from_le_bytes(*family).into()),
        kind: abi::SOCK_STREAM,
        protocol: abi::IPPROTO_TCP,
        name: end.name.clone(),
        state: SocketState::Distant {
            peer: end.peer.clone(),
            is_accepted: end.is_accepted,
            has_peer_ended: false,
            held_back: None,
        },
        ..Socket::default()
    };
    job.closed_ends.iter().flatten().map(socket).collect()
}

impl Opening<'_> {
    /// Makes the ends of connections to other parts, with everything that they had received. Takes part in the steps of the
    /// restart even if there are none.
    pub(super) fn make_distant(&self, made: &mut [Option<Made>]) -> Result<(), EngineError> {
        let Some(partners) = self.partners else { return Ok(()) };
        let records = self.plan.job.sockets.iter().enumerate().map(|(place, record)| (Some(place), record));
        let closed = closed_ends(self.plan.job);
        let all = records.chain(closed.iter().map(|record| (None, record)));
        let distant = all.filter(|(_, record)| matches!(record.state, SocketState::Distant { .. }));
        let mut ends: Vec<_> = distant.map(|(place, record)| DistantSocket { place, record, made: None }).collect();
        let listeners = self.listen_for_parts(&ends)?;
        self.want_datagrams(partners)?;
        partners.arrive(RestartStep::Listening).map_err(EngineError::Image)?;
        for end in ends.iter_mut().filter(|end| !end.is_accepted()) {
            let connected = self.connect_to_part(end, partners)?;
            end.made = Some(connected);
        }
        for (listener, count) in &listeners {
            for _ in 0..*count {
                self.accept_from_part(listener, &mut ends, partners)?;
            }
            self.close(listener.number)?;
        }
        drop(listeners);
        for end in ends.iter().filter(|end| !end.is_accepted()) {
            let answered = await_answer(end.own()?.own(), partners.token());
            answered.map_err(|source| kernel("connecting to another part", source))?;
        }
        exchange_all(&ends, partners)?;
        for end in ends {
            match (end.place, end.made) {
                (Some(place), socket) => made[place] = socket,
                (None, Some(closed)) => self.close(closed.number)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Makes a socket listen at each address where connections had been accepted. Returns how many each has to accept.
    fn listen_for_parts(&self, ends: &[DistantSocket<'_>]) -> Result<Vec<(Made, u32)>, EngineError> {
        let mut accepting: BTreeMap<&[u8], Vec<&Socket>> = BTreeMap::new();
        for end in ends.iter().filter(|end| end.is_accepted()) {
            accepting.entry(&end.record.name.0).or_default().push(end.record);
        }
        let listen = |records: &Vec<&Socket>| {
            let count = records.len() as u32;
            let state = SocketState::Listening { backlog: count };
            let listener = self.make_alone(&Socket { state, ..records[0].clone() })?;
            self.call("listening", abi::SYS_listen, [listener.number, count.into(), 0, 0, 0, 0])?;
            Ok((listener, count))
        };
        accepting.values().map(listen).collect()
    }

    /// Connects to another part, from the port that the end had, and says which connection this is.
    fn connect_to_part(&self, end: &DistantSocket<'_>, partners: &dyn RestartPartners) -> Result<Made, EngineError> {
        let made = self.create(end.record)?;
        options::set(made.own(), end.record)?;
        let made = match self.connect_named(&made, end.record, &end.peer().0, Patience::Short) {
            Ok(()) => made,
            Err(error) if is_taken(&error) => {
                self.close(made.number)?;
                self.connect_from_another_port(end)?
            }
            Err(error) => return Err(error),
        };
        let greeted = end.addresses().ok_or_else(|| io::ErrorKind::InvalidData.into());
        make_first_room(made.own(), end.contents().len())
            .and(greeted)
            .and_then(|addresses| greet(made.own(), partners.token(), addresses))
            .map_err(|source| kernel("greeting another part", source))?;
        Ok(made)
    }

    /// Does so from another port, since a connection of the previous life still lingers at the old one.
    fn connect_from_another_port(&self, end: &DistantSocket<'_>) -> Result<Made, EngineError> {
        let made = self.create(end.record)?;
        options::set(made.own(), end.record)?;
        let (name, peer) = (any_port(&end.record.name.0), &end.peer().0);
        self.with_address("naming a socket", abi::SYS_bind, &made, &name, Patience::None)?;
        self.connect_tcp(&made, end.record, peer, Patience::Long)?;
        let now = name_of(&made)?;
        let [before, to, after] = [&end.record.name, end.peer(), &now.clone().into()].map(describe);
        let note = format!("the connection from {before} to {to} goes on from {after}: its old port is still taken");
        self.note_renamed(end.place, now, note);
        Ok(made)
    }

    /// Accepts a connection of another part. Strangers may connect as well, and are sent away.
    fn accept_from_part(
        &self,
        listener: &Made,
        ends: &mut [DistantSocket<'_>],
        partners: &dyn RestartPartners,
    ) -> Result<(), EngineError> {
        let action = "accepting a connection of another part";
        let deadline = Instant::now() + ACCEPT_MAX;
        loop {
            wait_until(listener, abi::POLLIN, deadline)?;
            let arguments = [listener.number, 0, 0, NON_BLOCKING, 0, 0];
            let number = self.park(self.call(action, abi::SYS_accept4, arguments)?)?;
            let accepted = self.take_up(number)?;
            let greeting = await_greeting(accepted.own(), partners.token());
            let other = greeting.map_err(|source| kernel(action, source))?;
            let is_it = |end: &&mut DistantSocket<'_>| {
                let reversed = end.addresses().map(|it| EndAddresses { local: it.remote, remote: it.local });
                end.is_accepted() && end.made.is_none() && other.is_some() && reversed == other
            };
            let Some(end) = ends.iter_mut().find(is_it) else {
                self.close(number)?;
                continue;
            };
            // The other end sends nothing more before it has the answer.
            make_first_room(accepted.own(), end.contents().len())
                .and_then(|()| answer(accepted.own(), partners.token()))
                .map_err(|source| kernel(action, source))?;
            options::set(accepted.own(), end.record)?;
            self.note_other_peer(&accepted, end.place, end.peer())?;
            end.made = Some(accepted);
            return Ok(());
        }
    }

    /// Waits until the other ends that have shut down their sending direction have done so again.
    pub(super) fn await_ends_of_parts(&self, sockets: &[Made]) -> Result<(), EngineError> {
        let deadline = Instant::now() + ACCEPT_MAX;
        for (made, record) in sockets.iter().zip(&self.plan.job.sockets) {
            if let SocketState::Distant { has_peer_ended: true, .. } = record.state {
                wait_until(made, abi::POLLRDHUP, deadline)?;
            }
        }
        Ok(())
    }

    /// Notes it if the other end of an accepted connection has another address than before.
    fn note_other_peer(&self, accepted: &Made, place: Option<usize>, before: &Bytes) -> Result<(), EngineError> {
        let reading = |source| kernel("reading the address of another part", source);
        let now = socket::peer_name(accepted.own()).map_err(reading)?;
        if let (Some(place), Some(now)) = (place, now.filter(|now| Endpoint::of(now) != Endpoint::of(&before.0))) {
            self.names.borrow_mut().renamed.peers.insert(place, now);
        }
        Ok(())
    }
}

/// Reports whether an address could not be had, since something else still has it.
fn is_taken(error: &EngineError) -> bool {
    let EngineError::Kernel { source, .. } = error else { return false };
    matches!(source.raw_os_error(), Some(abi::EADDRNOTAVAIL | abi::EADDRINUSE))
}

/// Has both ends of each connection exchange what they had received, and waits until all parts have. If the queues of one take
/// less than before, all try again.
fn exchange_all(ends: &[DistantSocket<'_>], partners: &dyn RestartPartners) -> Result<(), EngineError> {
    let exchanging = |source| kernel("exchanging what another part had received", source);
    let mut under_way: Vec<_> = ends.iter().map(|end| (end, None::<SentBack>)).collect();
    loop {
        let exchanges = under_way.iter_mut().map(|(end, before)| {
            let own = end.own()?.own();
            Ok(match before.take() {
                None => Exchange::new(own, end.contents(), end.held_back()),
                Some(sent_back) => Exchange::again(own, end.contents(), end.held_back(), sent_back),
            })
        });
        let exchanges = exchanges.collect::<Result<Vec<_>, EngineError>>()?;
        let sent_back = exchange(exchanges).map_err(exchanging)?;
        let has_all = sent_back.iter().all(SentBack::is_complete);
        under_way.iter_mut().zip(sent_back).for_each(|((_, before), sent_back)| *before = Some(sent_back));
        let rooms = under_way.iter().filter_map(|(end, before)| {
            let (made, before) = (end.made.as_ref()?, before.as_ref()?);
            Some(Room::after(made.own(), end.contents().len(), before))
        });
        let rooms = rooms.collect();
        if with_room(rooms, || partners.connect(has_all)).map_err(EngineError::Image)? {
            return Ok(());
        }
    }
}
