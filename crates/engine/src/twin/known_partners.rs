//! The other parts of a distributed job, as the image knows them: the twin of one part asks nobody.

use crate::partners::{CutPartners, DistantEnd, Meeting, Partner};
use standfast_format::BoxError;
use standfast_format::records::{JobState, Socket, SocketState};
use standfast_linux::proc::Endpoint;

/// The other ends of the connections that an image has.
#[derive(Debug)]
pub(super) struct KnownPartners {
    ends: Vec<(Endpoint, Endpoint, Partner)>,
}

impl KnownPartners {
    /// Returns `None` if there are none.
    pub(super) fn of(job: &JobState) -> Option<Self> {
        let end = |socket: &Socket| match &socket.state {
            SocketState::Distant { peer, is_accepted, has_peer_ended } => {
                let partner = Partner { unsent: 0, has_ended: *has_peer_ended, has_connected: *is_accepted };
                Some((Endpoint::of(&socket.name.0)?, Endpoint::of(&peer.0)?, partner))
            }
            _ => None,
        };
        let ends: Vec<_> = job.sockets.iter().filter_map(end).collect();
        (!ends.is_empty()).then_some(Self { ends })
    }
}

impl CutPartners for KnownPartners {
    fn meet(&self, ends: &[DistantEnd]) -> Result<Meeting, BoxError> {
        let partner = |end: &DistantEnd| {
            let known = self.ends.iter().find(|(local, remote, _)| (*local, *remote) == (end.local, end.remote));
            known.map(|(_, _, partner)| *partner)
        };
        Ok(Meeting { partners: ends.iter().map(partner).collect(), is_settled: true })
    }
}
