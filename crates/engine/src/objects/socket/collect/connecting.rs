//! Sockets that are being connected. The other side usually answers within a fraction of a millisecond, also if its program is
//! frozen. If it does not, nothing has been sent over the connection yet, and a restart asks again.

use super::internet::{Network, TcpInformation};
use super::{Unsupported, Walk};
use crate::RefusalCode;
use crate::objects::Motion;
use standfast_format::records::SocketState;
use standfast_linux::proc::tcp_state::SYN_SENT;
use std::io;
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(200);

impl Walk<'_> {
    /// Waits for the answer to a connection that is being made, but not for long, and not while the program runs.
    pub(super) fn await_answer(&self, at: usize) -> io::Result<TcpInformation> {
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            let information = TcpInformation::of(self.sockets[at].own())?;
            if information.state != SYN_SENT || self.motion == Motion::Running || Instant::now() > deadline {
                return Ok(information);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the state of a socket that has not been answered. The kernel tells its program no peer yet.
    pub(super) fn still_connecting(
        &self,
        at: usize,
        information: &TcpInformation,
        network: &Network,
    ) -> Result<SocketState, Unsupported> {
        let unsettled = |why| Unsupported::for_now(RefusalCode::ConnectionUnsettled, why);
        if information.holds_data() {
            return Err(unsettled("data waits for its connection to be made (TCP Fast Open)"));
        }
        let found = &self.sockets[at];
        let inode = self.shown[found.place].identity().inode;
        let all = network.all_tcp()?;
        let entry = all.iter().find(|it| it.inode == inode && it.state == SYN_SENT);
        let entry = entry.ok_or_else(|| unsettled("its connection is being made"))?;
        Ok(SocketState::Connecting { peer: entry.remote.to_address(found.record.family).into() })
    }
}
