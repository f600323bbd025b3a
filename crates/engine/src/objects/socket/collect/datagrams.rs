//! UDP sockets: their peers, and the datagrams that they hold. Those of senders outside the job could not be sent again:
//! nobody else may use their address.

use super::internet::Network;
use super::queue::{Received, messages};
use super::{Found, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::{SocketMessage, SocketState};
use standfast_linux::abi;
use standfast_linux::own_addresses;
use standfast_linux::proc::Endpoint;
use standfast_linux::sys::descriptors;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

impl Walk<'_> {
    pub(super) fn connect_udp(&mut self, at: usize, network: &Network) -> Result<(), Unsupported> {
        let inode = self.shown[self.sockets[at].place].identity().inode;
        let found = &mut self.sockets[at];
        let known = network.udp.get(&inode);
        found.record.shut_down = match known.and_then(|known| known.shut_down) {
            Some(recorded) => recorded.into(),
            None => shut_down_as_polled(found.own())?,
        };
        // getpeername(2) does not return a peer without a port.
        let without_port = || known.and_then(|known| known.peer).map(|peer| peer.to_address(found.record.family));
        if let Some(address) = found.peer.clone().or_else(without_port) {
            found.record.state = SocketState::Towards { address: address.into(), peer: None };
        }
        Ok(())
    }

    /// Reads datagrams. Those of senders outside the job could not be sent again: nobody else may use their address. Those of
    /// other parts come first, ordered by their senders: the order among different senders means nothing.
    pub(super) fn receive_udp(&mut self, at: usize) -> Result<(), Unsupported> {
        let found = &self.sockets[at];
        let inode = self.shown[found.place].identity().inode;
        let messages = messages(found.own(), inode, false)?;
        let of_node = if messages.is_empty() { Vec::new() } else { own_addresses()? };
        let mut received = messages
            .into_iter()
            .map(|received| self.datagram(at, received, &of_node))
            .collect::<Result<Vec<_>, _>>()?;
        received.sort_by_key(|message| distant_sender(message).map_or((true, None), |from| (false, Some(from))));
        self.sockets[at].record.received.extend(received);
        Ok(())
    }

    /// Returns the record of a datagram. `of_node` are the addresses of this node.
    fn datagram(&self, at: usize, received: Received, of_node: &[IpAddr]) -> Result<SocketMessage, Unsupported> {
        if received.peeked.is_joined {
            return Err(Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "the kernel has joined several unread datagrams (UDP_GRO)",
            ));
        }
        let outside = || {
            Unsupported::for_now(
                RefusalCode::UnreadMessage,
                "an unread datagram has a sender outside the program, or a closed one",
            )
        };
        let from = Endpoint::of(&received.peeked.from).ok_or_else(outside)?;
        let sends =
            |other: &Found| other.is_udp() && Endpoint::of(&other.record.name.0).is_some_and(|it| it.serves(&from));
        let is_here = from.address.is_loopback() || of_node.contains(&from.address);
        let message = SocketMessage { contents: received.contents.into(), ..SocketMessage::default() };
        let Some(sender) = self.sockets.iter().position(sends).filter(|_| is_here) else {
            // A socket that has another peer would not let it in again.
            let is_let_in = match &self.sockets[at].record.state {
                SocketState::Towards { address, .. } => Endpoint::of(&address.0) == Some(from),
                _ => true,
            };
            let is_known = !is_here && is_let_in && self.distant_udp.contains(&from);
            let message = SocketMessage { from: Some(received.peeked.from.into()), ..message };
            return if is_known { Ok(message) } else { Err(outside()) };
        };
        // Otherwise a sender that is bound to any address would have another one after a restart.
        let names_none =
            Endpoint::of(&self.sockets[sender].record.name.0).is_some_and(|it| it.address.is_unspecified());
        let from = names_none.then(|| received.peeked.from.into());
        Ok(SocketMessage { sender: Some(sender as u32), from, ..message })
    }
}

/// Returns the sender of a datagram if that is a socket of another part.
pub(crate) fn distant_sender(message: &SocketMessage) -> Option<Endpoint> {
    message.from.as_ref().filter(|_| message.sender.is_none()).and_then(|from| Endpoint::of(&from.0))
}

/// Returns the directions of a datagram socket that are shut down, if poll(2) shows them. The sending direction alone
/// does not show.
fn shut_down_as_polled(own: BorrowedFd<'_>) -> io::Result<u32> {
    let events = descriptors::ready_events(own, abi::POLLRDHUP)?;
    Ok(match (events & abi::POLLHUP != 0, events & abi::POLLRDHUP != 0) {
        (true, _) => super::RECEIVING | super::SENDING,
        (false, true) => super::RECEIVING,
        (false, false) => 0,
    })
}
