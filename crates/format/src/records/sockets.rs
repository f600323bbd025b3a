//! Records of sockets: how one is made again, whom it is connected to, and what it has received and not yet read.
//!
//! Addresses are kept as the kernel gives them (`struct sockaddr`, without trailing room). What a socket has sent and
//! the other side has not read stands with the other side.

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
    /// Its own address; empty where it has none.
    #[n(3)]
    pub name: Bytes,
    /// Permissions of the file that its address names, where there was one at the checkpoint.
    #[n(4)]
    pub file_mode: Option<u32>,
    /// Whom it is connected to.
    #[n(5)]
    pub state: SocketState,
    /// What the program has set, in the order in which it is to be set again.
    #[n(6)]
    pub options: Vec<SocketOption>,
    /// What it has shut down itself (`shutdown(2)`): 1 receiving, 2 sending, 3 both.
    #[n(7)]
    pub shut_down: u32,
    /// What has been received and not yet read, the first to be read first.
    #[n(8)]
    pub received: Vec<SocketMessage>,
}

/// Whom a socket is connected to.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub enum SocketState {
    /// Nobody.
    #[default]
    #[n(0)]
    Unconnected,
    /// It waits for connections.
    #[n(1)]
    Listening {
        /// How many may wait to be accepted.
        #[n(0)]
        backlog: u32,
    },
    /// Another socket of the job, which is connected to this one.
    #[n(2)]
    Paired {
        /// Position in [`super::JobState::sockets`].
        #[n(0)]
        peer: u32,
    },
    /// A socket that has been closed.
    #[n(3)]
    PeerClosed {
        /// The address of the other side; empty where it had none.
        #[n(0)]
        peer: Bytes,
    },
    /// A listening socket of the job, which has not accepted it yet.
    #[n(4)]
    Waiting {
        /// Position in [`super::JobState::sockets`].
        #[n(0)]
        listener: u32,
        /// How many wait there before it.
        #[n(1)]
        place: u32,
    },
    /// An address to which it sends datagrams, and from which alone it takes some.
    #[n(5)]
    Towards {
        /// That address.
        #[n(0)]
        address: Bytes,
    },
    /// A peer outside the job: it comes back as a connection that the other side has reset.
    #[n(6)]
    Reset,
    /// Nobody any more: both sides had ended the connection, and the program has not closed it yet.
    #[n(7)]
    Ended,
}

/// One option, as `getsockopt(2)` gives it.
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

/// A datagram, a packet, or a stretch of a stream.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketMessage {
    /// What it says.
    #[n(0)]
    pub contents: Bytes,
    /// The socket that it came from, by position in [`super::JobState::sockets`]; absent where that is the peer, or a
    /// socket without a name that has been closed.
    #[n(1)]
    pub sender: Option<u32>,
    /// Open files that come with it (SCM_RIGHTS), by position in [`super::JobState::open_files`].
    #[n(2)]
    pub open_files: Vec<u32>,
    /// Who sent it (SCM_CREDENTIALS), where the receiver wants to know.
    #[n(3)]
    pub credentials: Option<Credentials>,
}

/// Who sent a message.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Position in [`super::JobState::processes`].
    #[n(0)]
    pub process: u32,
}
