//! Connections to other parts of a distributed job. Where a connection had been accepted, a socket listens for a moment,
//! as within one part; the other part connects to it from the address that it had. Then both ends exchange over the
//! connection itself what they had received: each sends that to the other end, which sends it back, so that it lies where
//! it lay.
//!
//! ```text
//! all parts listen     RestartStep::Listening     connect, accept, exchange     RestartStep::Connected
//! ```

use super::exchange::{Exchange, exchange};
use super::{Made, connect, options};
use crate::EngineError;
use crate::error::kernel;
use crate::objects::Opening;
use crate::partners::{RestartPartners, RestartStep};
use standfast_format::records::{Bytes, Socket, SocketState};
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
#[derive(Clone, Copy)]
struct Distant<'a> {
    place: usize,
    record: &'a Socket,
    peer: &'a Bytes,
    is_accepted: bool,
}

fn distant(records: &[Socket]) -> impl Iterator<Item = Distant<'_>> {
    records.iter().enumerate().filter_map(|(place, record)| match &record.state {
        SocketState::Distant { peer, is_accepted, .. } => {
            Some(Distant { place, record, peer, is_accepted: *is_accepted })
        }
        _ => None,
    })
}

impl Opening<'_> {
    /// Makes the ends of connections to other parts, with everything that they had received. Takes part in the steps of the
    /// restart even if there are none.
    pub(super) fn make_distant(&self, made: &mut [Option<Made>]) -> Result<(), EngineError> {
        let Some(partners) = self.partners else { return Ok(()) };
        let records = &self.plan.job.sockets;
        let listeners = self.listen_for_parts(records)?;
        arrive(partners, RestartStep::Listening)?;
        for end in distant(records).filter(|end| !end.is_accepted) {
            made[end.place] = Some(self.connect_to_part(&end)?);
        }
        for (listener, count) in &listeners {
            for _ in 0..*count {
                let (place, end) = self.accept_from_part(listener, records, made)?;
                made[place] = Some(end);
            }
            self.close(listener.number)?;
        }
        drop(listeners);
        let ends = distant(records).map(|end| {
            let made = made[end.place].as_ref().expect("each end has been connected or accepted");
            Exchange::new(made.own(), partners.token(), contents(end.record))
        });
        exchange(ends.collect()).map_err(|source| kernel("exchanging what another part had received", source))?;
        arrive(partners, RestartStep::Connected)
    }

    /// Makes a socket listen at each address where connections had been accepted. Returns how many each has to accept.
    fn listen_for_parts(&self, records: &[Socket]) -> Result<Vec<(Made, u32)>, EngineError> {
        let mut accepting: BTreeMap<&[u8], Vec<Distant<'_>>> = BTreeMap::new();
        for end in distant(records).filter(|end| end.is_accepted) {
            accepting.entry(&end.record.name.0).or_default().push(end);
        }
        let listen = |ends: &Vec<Distant<'_>>| {
            let count = ends.len() as u32;
            let state = SocketState::Listening { backlog: count };
            let listener = self.make_alone(&Socket { state, ..ends[0].record.clone() })?;
            self.call("listening", abi::SYS_listen, [listener.number, count.into(), 0, 0, 0, 0])?;
            Ok((listener, count))
        };
        accepting.values().map(listen).collect()
    }

    fn connect_to_part(&self, end: &Distant<'_>) -> Result<Made, EngineError> {
        let made = self.create(end.record)?;
        options::set(made.own(), end.record)?;
        self.connect_named(&made, end.record, &end.peer.0)?;
        Ok(made)
    }

    /// Accepts a connection of another part. Strangers may connect as well, and are sent away.
    fn accept_from_part(
        &self,
        listener: &Made,
        records: &[Socket],
        made: &[Option<Made>],
    ) -> Result<(usize, Made), EngineError> {
        let action = "accepting a connection of another part";
        let deadline = Instant::now() + ACCEPT_MAX;
        loop {
            connect::wait_until(listener, abi::POLLIN, deadline)?;
            let arguments = [listener.number, 0, 0, NON_BLOCKING, 0, 0];
            let number = self.park(self.call(action, abi::SYS_accept4, arguments)?)?;
            let accepted = self.take_up(number)?;
            let ends = || {
                let peer = socket::peer_name(accepted.own())?.ok_or(io::ErrorKind::NotConnected)?;
                Ok::<_, io::Error>((Endpoint::of(&socket::name(accepted.own())?), Endpoint::of(&peer)))
            };
            let ends = ends().map_err(|source| kernel(action, source))?;
            let is_it = |end: &Distant<'_>| {
                let wanted = (Endpoint::of(&end.record.name.0), Endpoint::of(&end.peer.0));
                end.is_accepted && made[end.place].is_none() && wanted == ends
            };
            match distant(records).find(is_it) {
                Some(end) => {
                    options::set(accepted.own(), end.record)?;
                    return Ok((end.place, accepted));
                }
                None => self.close(number)?,
            }
        }
    }

    /// Waits until the other ends that have shut down their sending direction have done so again.
    pub(super) fn await_ends_of_parts(&self, sockets: &[Made]) -> Result<(), EngineError> {
        let deadline = Instant::now() + ACCEPT_MAX;
        for (made, record) in sockets.iter().zip(&self.plan.job.sockets) {
            if let SocketState::Distant { has_peer_ended: true, .. } = record.state {
                connect::wait_until(made, abi::POLLRDHUP, deadline)?;
            }
        }
        Ok(())
    }
}

fn arrive(partners: &dyn RestartPartners, step: RestartStep) -> Result<(), EngineError> {
    partners.arrive(step).map_err(EngineError::Image)
}

/// Returns what an end had received, which is one piece of a stream.
fn contents(record: &Socket) -> &[u8] {
    record.received.first().map_or(&[], |message| &message.contents.0)
}
