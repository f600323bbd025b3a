//! TCP connections to other parts of a distributed job. While all parts are frozen, each reports its ends. What has been
//! sent is driven on into the receive queue of the other end, as within one part, until the counters of both ends agree.

use super::internet::{TcpInformation, drive_on};
use super::{Found, RECEIVING, Unsupported, Walk};
use crate::objects::Motion;
use crate::partners::{CutPartners, DistantEnd, Partner};
use crate::{Blocker, RefusalCode};
use standfast_format::records::SocketState;
use standfast_linux::abi;
use standfast_linux::sys::{descriptors, socket};
use std::io;
use std::time::Duration;

/// The pause between two meetings while something is on its way.
const MEETING_PAUSE: Duration = Duration::from_micros(200);

impl Found {
    fn is_distant(&self) -> bool {
        matches!(self.record.state, SocketState::Distant { .. })
    }

    fn distant_end(&self) -> io::Result<DistantEnd> {
        let (local, remote) = self.ends().ok_or(io::ErrorKind::NotConnected)?;
        let information = TcpInformation::of(self.own())?;
        let mut traffic = information.traffic;
        traffic.unsent = socket::unsent_bytes(self.own())? as u64;
        Ok(DistantEnd { local, remote, has_ended: information.has_ended(), traffic })
    }
}

impl Walk<'_> {
    /// Has the other parts name their ends, and waits until nothing is on its way between any two parts. An end that no
    /// part has a partner for leads outside.
    pub(super) fn meet_partners(&mut self, blockers: &mut Vec<Blocker>) -> io::Result<()> {
        let Some(partners) = self.partners.filter(|_| self.motion == Motion::Stopped && blockers.is_empty()) else {
            return Ok(());
        };
        let distant: Vec<usize> = (0..self.sockets.len()).filter(|at| self.sockets[*at].is_distant()).collect();
        match self.meet_until_settled(partners, &distant) {
            Ok(()) => {}
            Err(Gathering::End { at, unsupported }) => {
                blockers.push(self.blocker(self.sockets[at].place, unsupported)?);
            }
            Err(Gathering::Others(why)) => {
                blockers.push(Blocker::new(RefusalCode::OtherParts, "the distributed job", why).for_now());
            }
        }
        Ok(())
    }

    fn meet_until_settled(&mut self, partners: &dyn CutPartners, distant: &[usize]) -> Result<(), Gathering> {
        let mut scans = 0;
        loop {
            let ends = distant.iter().map(|at| self.sockets[*at].distant_end().map_err(of_end(*at)));
            let ends = ends.collect::<Result<Vec<_>, _>>()?;
            let meeting = partners.meet(&ends).map_err(|error| Gathering::Others(error.to_string()))?;
            if meeting.partners.len() != ends.len() {
                return Err(Gathering::Others("another part has answered to other questions".to_owned()));
            }
            for (at, partner) in distant.iter().zip(&meeting.partners) {
                self.note_partner(*at, *partner, scans)
                    .map_err(|unsupported| Gathering::End { at: *at, unsupported })?;
            }
            if meeting.is_settled {
                return Ok(());
            }
            scans += 1;
            std::thread::sleep(MEETING_PAUSE);
        }
    }

    /// Records what is known of the other end, and makes room for what it has sent.
    fn note_partner(&mut self, at: usize, partner: Option<Partner>, scans: usize) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        let Some((_, remote)) = found.ends() else { return Ok(()) };
        let Some(Partner { unsent, has_ended, has_connected }) = partner else {
            let why = format!("the other end of this connection, {remote}, is outside the distributed job");
            self.sockets[at].record.state = self.leading_outside(why)?;
            return Ok(());
        };
        if unsent > 0 {
            drive_on(found.own(), unsent as usize, scans)?;
        }
        let events = descriptors::ready_events(found.own(), abi::POLLRDHUP)?;
        let has_shut_down = !has_ended && events & abi::POLLRDHUP != 0;
        let peer = found.peer.clone().unwrap_or_default();
        let record = &mut self.sockets[at].record;
        record.state =
            SocketState::Distant { peer: peer.into(), is_accepted: has_connected, has_peer_ended: has_ended };
        record.shut_down |= if has_shut_down { RECEIVING } else { 0 };
        Ok(())
    }
}

/// Why the parts could not agree.
enum Gathering {
    /// Because of this end.
    End { at: usize, unsupported: Unsupported },
    /// Because of other parts.
    Others(String),
}

fn of_end(at: usize) -> impl Fn(io::Error) -> Gathering {
    move |error| Gathering::End { at, unsupported: error.into() }
}
