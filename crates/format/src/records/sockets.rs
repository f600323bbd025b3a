//! Records of sockets: how to recreate one, its peer, and the data that it has received but not yet read.
//!
//! Addresses are recorded as the kernel returns them (`struct sockaddr`, without trailing space). Data that a socket
//! has sent but the other side has not read is recorded with the other side.

use super::Bytes;
use minicbor::{Decode, Encode};

/// One socket.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct Socket {
    /// Address family: `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`.
    #[n(0)]
    pub family: i32,
    /// `SOCK_STREAM`, `SOCK_DGRAM`, `SOCK_SEQPACKET`, `SOCK_RAW`, without flags.
    #[n(1)]
    pub kind: i32,
    /// Protocol.
    #[n(2)]
    pub protocol: i32,
    /// Its own address; empty if it has none.
    #[n(3)]
    pub name: Bytes,
    /// Permissions of the file that its address names, if there was one at the checkpoint.
    #[n(4)]
    pub file_mode: Option<u32>,
    /// Its connection.
    #[n(5)]
    pub state: SocketState,
    /// Options that the program has set, in the order in which to set them again.
    #[n(6)]
    pub options: Vec<SocketOption>,
    /// Directions that it has shut down itself (`shutdown(2)`): 1 receiving, 2 sending, 3 both.
    #[n(7)]
    pub shut_down: u32,
    /// Data that was received but not yet read, in the order of reading.
    #[n(8)]
    pub received: Vec<SocketMessage>,
    /// Error number of an error that the program has not been told yet: ECONNRESET.
    #[n(9)]
    pub error: Option<i32>,
    /// Time to live, or hops, of the packet that opened its TCP connection, if it was accepted; 0 if it opened the
    /// connection itself.
    #[n(10)]
    pub opened_with: Option<u32>,
}

/// The connection of a socket.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub enum SocketState {
    /// Not connected.
    #[default]
    #[n(0)]
    Unconnected,
    /// Waiting for connections.
    #[n(1)]
    Listening {
        /// Number of connections that may wait to be accepted.
        #[n(0)]
        backlog: u32,
    },
    /// Connected to another socket of the job.
    #[n(2)]
    Paired {
        /// Position in [`super::JobState::sockets`].
        #[n(0)]
        peer: u32,
    },
    /// Connected to a socket that has been closed.
    #[n(3)]
    PeerClosed {
        /// Address of the other side; empty if it had none.
        #[n(0)]
        peer: Bytes,
    },
    /// Waiting for a listening socket of the job to accept it.
    #[n(4)]
    Waiting {
        /// Position in [`super::JobState::sockets`].
        #[n(0)]
        listener: u32,
        /// Number of connections that wait there before it.
        #[n(1)]
        place: u32,
    },
    /// Sends datagrams to an address, and receives only from it.
    #[n(5)]
    Towards {
        /// That address.
        #[n(0)]
        address: Bytes,
        /// The Unix socket that had it then, by position in [`super::JobState::sockets`]; absent if that is not the
        /// job's.
        #[n(1)]
        peer: Option<u32>,
    },
    /// Connected to a peer outside the job. It is restored as a connection that the other side has reset.
    #[n(6)]
    Reset,
    /// No longer connected: both sides ended the connection, but the program has not closed the socket yet.
    #[n(7)]
    Ended,
    /// Connected to a socket in another part of a distributed job.
    #[n(8)]
    Distant {
        /// Address of the other end.
        #[n(0)]
        peer: Bytes,
        /// Whether this end had accepted the connection. In a restart it listens, and the other end connects.
        #[n(1)]
        is_accepted: bool,
        /// Whether the other end has shut down its sending direction.
        #[n(2)]
        has_peer_ended: bool,
        /// How many of the received bytes, the last ones, did not fit into the receive queue; absent if all did.
        #[n(3)]
        held_back: Option<u64>,
    },
    /// Being connected: the other side has not answered yet. A restart asks it again.
    #[n(9)]
    Connecting {
        /// Address of the other side.
        #[n(0)]
        peer: Bytes,
    },
}

/// The end of a TCP connection to another part of a distributed job that no process has any more. The other end has not
/// been closed, so a restart makes this one for a moment.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct ClosedEnd {
    /// Its address.
    #[n(0)]
    pub name: Bytes,
    /// Address of the other end.
    #[n(1)]
    pub peer: Bytes,
    /// Whether this end had accepted the connection.
    #[n(2)]
    pub is_accepted: bool,
}

/// One option, as `getsockopt(2)` returns it.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct SocketOption {
    /// Level.
    #[n(0)]
    pub level: i32,
    /// Name.
    #[n(1)]
    pub name: i32,
    /// Value.
    #[n(2)]
    pub value: Bytes,
}

/// A datagram, a packet, or a piece of a stream.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketMessage {
    /// Its content.
    #[n(0)]
    pub contents: Bytes,
    /// The socket that sent it, by position in [`super::JobState::sockets`]; absent if that is the peer, or a closed
    /// socket without a name.
    #[n(1)]
    pub sender: Option<u32>,
    /// Open files that come with it (SCM_RIGHTS), by position in [`super::JobState::open_files`].
    #[n(2)]
    pub open_files: Vec<u32>,
    /// Its sender (SCM_CREDENTIALS), if the receiver asks for it.
    #[n(3)]
    pub credentials: Option<Credentials>,
    /// The address that it came from, if that of its sender names no interface.
    #[n(4)]
    pub from: Option<Bytes>,
}

/// The sender of a message.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
}
