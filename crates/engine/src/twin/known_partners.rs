//! The other parts of a distributed job, as the image knows them: the twin of one part asks nobody.

use crate::objects::distant_sender;
use crate::partners::{CutPartners, CutReport, DistantEnd, EndAddresses, Meeting, OtherEnd, Partner};
use standfast_format::BoxError;
use standfast_format::records::{JobState, Socket, SocketState};
use standfast_linux::proc::Endpoint;
use std::collections::HashMap;

/// The other ends of the connections that an image has, and the senders of datagrams.
#[derive(Debug)]
pub(super) struct KnownPartners {
    ends: HashMap<EndAddresses, Partner>,
    udp: Vec<Endpoint>,
}

impl KnownPartners {
    /// Returns `None` if there are none.
    pub(super) fn of(job: &JobState) -> Option<Self> {
        let end = |socket: &Socket| match &socket.state {
            SocketState::Distant { peer, is_accepted, has_peer_ended, .. } => {
                let (local, remote) = (Endpoint::of(&socket.name.0)?, Endpoint::of(&peer.0)?);
                let partner = Partner {
                    unsent: 0,
                    has_ended: *has_peer_ended,
                    has_connected: *is_accepted,
                    empty_until: None,
                    is_to_refill: false,
                };
                Some((EndAddresses { local, remote }, partner))
            }
            _ => None,
        };
        let ends: HashMap<_, _> = job.sockets.iter().filter_map(end).collect();
        let udp: Vec<_> = job.sockets.iter().flat_map(|socket| &socket.received).filter_map(distant_sender).collect();
        (!ends.is_empty() || !udp.is_empty()).then_some(Self { ends, udp })
    }
}

impl CutPartners for KnownPartners {
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError> {
        let other =
            |end: &DistantEnd| self.ends.get(&end.addresses).map_or(OtherEnd::Outside, |it| OtherEnd::Open(*it));
        let others = report.ends.iter().map(other).collect();
        let udp = self.udp.clone();
        Ok(Meeting { others, asked: Vec::new(), closed: Vec::new(), udp, is_settled: true })
    }
}
