//! The other parts of a distributed job, as the image knows them: the twin of one part asks nobody.

use crate::partners::{CutPartners, CutReport, DistantEnd, EndAddresses, Meeting, OtherEnd, Partner};
use standfast_format::BoxError;
use standfast_format::records::{JobState, Socket, SocketState};
use standfast_linux::proc::Endpoint;
use std::collections::HashMap;

/// The other ends of the connections that an image has.
#[derive(Debug)]
pub(super) struct KnownPartners(HashMap<EndAddresses, Partner>);

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
        (!ends.is_empty()).then_some(Self(ends))
    }
}

impl CutPartners for KnownPartners {
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError> {
        let other = |end: &DistantEnd| self.0.get(&end.addresses).map_or(OtherEnd::Outside, |it| OtherEnd::Open(*it));
        let others = report.ends.iter().map(other).collect();
        Ok(Meeting { others, asked: Vec::new(), closed: Vec::new(), is_settled: true })
    }
}
