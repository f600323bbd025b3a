//! What a part of a distributed job needs of the other parts. The engine knows one part only, and not how others are
//! reached.
//!
//! ```text
//! checkpoint   all parts are frozen   meet, meet, ...  until nothing is on its way between them   contents are recorded
//! restart      listeners   arrive(Listening)   connections   connect(has_all)   own listeners   ...   arrive(Rebuilt)   files   arrive(Ready)
//! ```

use standfast_format::BoxError;
use standfast_linux::proc::Endpoint;
use std::fmt;

/// Reaches the other parts during a checkpoint, while all of them are frozen.
pub trait CutPartners: fmt::Debug + Send + Sync {
    /// Reports the ends of this part to the other parts, and waits for theirs. It is called again, with new counters and
    /// with answers to what was asked, until the meeting is settled.
    ///
    /// # Errors
    /// When another part has given up, or does not answer.
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError>;
}

/// Reaches the other parts during a restart.
pub trait RestartPartners: fmt::Debug + Send + Sync {
    /// Waits until all parts have come this far.
    ///
    /// # Errors
    /// When another part has given up, or does not answer.
    fn arrive(&self, step: RestartStep) -> Result<(), BoxError>;

    /// Reports that this part has its connections to other parts, with everything that they had received, or that their
    /// queues have taken less than before; and waits for the others. Returns whether all parts have. If not, those that were
    /// full are to be filled once more.
    ///
    /// # Errors
    /// As for [`RestartPartners::arrive`].
    fn connect(&self, has_all: bool) -> Result<bool, BoxError>;

    /// Says which datagrams other parts are to send to this one again, before it has arrived anywhere.
    ///
    /// # Errors
    /// When that cannot be passed on.
    fn want_datagrams(&self, wanted: &[DistantDatagram]) -> Result<(), BoxError>;

    /// Returns the datagrams that other parts want, whoever is to send them, once all have their connections.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn wanted_datagrams(&self) -> Result<Vec<DistantDatagram>, BoxError>;

    /// Returns what all parts of this restart know and nobody else does.
    fn token(&self) -> RestartToken;
}

/// A number that all parts of one restart know and nobody else does. Connections between them begin with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RestartToken(pub [u8; 16]);

impl fmt::Debug for RestartToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RestartToken")
    }
}

/// A datagram that a socket of one part has sent to one of another part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistantDatagram {
    /// Where it comes from.
    pub from: Endpoint,
    /// The address of the socket that is to receive it.
    pub to: Endpoint,
    /// Its contents.
    pub contents: Vec<u8>,
}

/// How far a part has come in a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartStep {
    /// It listens where connections between the parts had been accepted.
    Listening,
    /// It is complete, has been compared with its image, and nothing speaks against it. Its files may be changed now.
    Rebuilt,
    /// Its files are as they were, and its new life is recorded: all that is left is to let it run.
    Ready,
}

/// What a part says at a meeting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutReport {
    /// Its ends.
    pub ends: Vec<DistantEnd>,
    /// The ends that the meeting before has asked for, as far as this node has their addresses.
    pub found: Vec<FoundEnd>,
    /// The addresses of its UDP sockets, at the first meeting.
    pub udp: Vec<Endpoint>,
}

/// The addresses of an end of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndAddresses {
    /// Its own.
    pub local: Endpoint,
    /// That of the other end.
    pub remote: Endpoint,
}

/// An end that no process of any part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundEnd {
    /// Its addresses.
    pub addresses: EndAddresses,
    /// What has become of it.
    pub fate: EndFate,
}

/// What has become of an end that no process of any part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndFate {
    /// It was closed, and everything that it had sent has arrived.
    Closed,
    /// It was closed, and the kernel still sends this many bytes.
    Closing {
        /// That many.
        unsent: u64,
    },
    /// A program outside the job has it, or is about to accept it.
    Outside,
}

/// One end of a TCP connection whose other end no process of this part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistantEnd {
    /// Its addresses.
    pub addresses: EndAddresses,
    /// Whether this end had accepted the connection, as far as that can be seen without the other end.
    pub seems_accepted: bool,
    /// Whether this end has shut down its sending direction.
    pub has_ended: bool,
    /// Whether everything that the other end has ever sent was received.
    pub has_received_all: bool,
    /// Whether its receive queue may be emptied, and filled again by the other end.
    pub may_be_emptied: bool,
    /// Whether that was done, so that only this part knows what was in it.
    pub was_emptied: bool,
    /// Whether it was filled again.
    pub was_refilled: bool,
    /// What has passed.
    pub traffic: Traffic,
}

/// Counters of one end of a TCP connection, in bytes. The packets that begin and end a connection count as a byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Sent by the program, and not acknowledged by the other end.
    pub unsent: u64,
    /// Sent and acknowledged.
    pub acknowledged: u64,
    /// Received, whether read or not.
    pub received: u64,
}

/// What the other parts have answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// The other end of each reported end, in the same order.
    pub others: Vec<OtherEnd>,
    /// Ends that no process of any part has. Each node that has the address of one is to say what has become of it.
    pub asked: Vec<EndAddresses>,
    /// Ends of this node that have been closed, though their other ends have not. A restart makes them for a moment.
    pub closed: Vec<ClosedHere>,
    /// The addresses of the UDP sockets of other parts, after the first meeting.
    pub udp: Vec<Endpoint>,
    /// Whether nothing is on its way any more between any two parts.
    pub is_settled: bool,
}

/// An end of this node that has been closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedHere {
    /// Its addresses.
    pub addresses: EndAddresses,
    /// Whether it had accepted the connection.
    pub is_accepted: bool,
}

/// What is known of the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherEnd {
    /// A process of another part has it.
    Open(Partner),
    /// It was closed on a node of the job.
    Closed {
        /// How many bytes its kernel still has to send.
        unsent: u64,
    },
    /// The nodes have been asked for it.
    Unknown,
    /// No part has it.
    Outside,
}

/// The other end of a connection, in another part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partner {
    /// How many bytes it has sent that have not arrived here.
    pub unsent: u64,
    /// Whether it has shut down its sending direction.
    pub has_ended: bool,
    /// Whether it had opened the connection, so that the end here has accepted it.
    pub has_connected: bool,
    /// Set if both ends are to empty their receive queues now, since what is on its way does not fit into them. This is what
    /// the end here has received when all has come (see [`Traffic::received`]).
    pub empty_until: Option<u64>,
    /// Whether both ends have done so, and are to fill them again: each sends what the other one had received.
    pub is_to_refill: bool,
}
