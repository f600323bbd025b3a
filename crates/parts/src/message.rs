//! What a part and the coordinator say to each other: one JSON object a line.

use crate::ListChanges;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// The addresses of an end of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndName {
    /// Its own.
    pub local: SocketAddr,
    /// That of the other end.
    pub remote: SocketAddr,
}

impl EndName {
    /// Returns the name of the other end.
    pub fn of_other_end(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

impl fmt::Display for EndName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the connection from {} to {}", self.local, self.remote)
    }
}

/// What a part says at a meeting.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MeetingReport {
    /// Its ends of connections that lead out of it, as far as they are not as at the meeting before.
    pub ends: ListChanges<ConnectionEnd>,
    /// What has become of the ends that were asked for, as far as its node has their addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<AskedEnd>,
    /// The addresses of its UDP sockets, at the first meeting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<SocketAddr>,
}

/// One end of a TCP connection whose other end no process of this part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "EndLine", into = "EndLine")]
pub struct ConnectionEnd {
    /// Its addresses.
    pub name: EndName,
    /// Whether this end had accepted the connection, as far as it can be seen there.
    pub seems_accepted: bool,
    /// Whether this end has shut down its sending direction.
    pub has_ended: bool,
    /// Whether it has received everything that the other end will ever send.
    pub has_received_all: bool,
    /// Whether its receive queue may be emptied, and filled again by the other end.
    pub may_be_emptied: bool,
    /// Whether that was done. Until it is filled again, its part must not run.
    pub was_emptied: bool,
    /// Whether it was filled again.
    pub was_refilled: bool,
    /// Bytes that its program has sent and the other end has not acknowledged.
    pub unsent: u64,
    /// Bytes sent and acknowledged. The packets that begin and end a connection count as a byte each.
    pub acknowledged: u64,
    /// Bytes received, counted in the same way.
    pub received: u64,
}

/// A [`ConnectionEnd`] as it is said: its addresses, a bit for each of its properties, and its counters, in their order.
#[derive(Serialize, Deserialize)]
struct EndLine(SocketAddr, SocketAddr, u8, u64, u64, u64);

impl From<ConnectionEnd> for EndLine {
    fn from(end: ConnectionEnd) -> Self {
        let bits = bits([
            end.seems_accepted,
            end.has_ended,
            end.has_received_all,
            end.may_be_emptied,
            end.was_emptied,
            end.was_refilled,
        ]);
        Self(end.name.local, end.name.remote, bits, end.unsent, end.acknowledged, end.received)
    }
}

impl From<EndLine> for ConnectionEnd {
    fn from(EndLine(local, remote, bits, unsent, acknowledged, received): EndLine) -> Self {
        let name = EndName { local, remote };
        let [seems_accepted, has_ended, has_received_all, may_be_emptied, was_emptied, was_refilled] = properties(bits);
        Self {
            name,
            seems_accepted,
            has_ended,
            has_received_all,
            may_be_emptied,
            was_emptied,
            was_refilled,
            unsent,
            acknowledged,
            received,
        }
    }
}

#[cfg(test)]
impl ConnectionEnd {
    /// Returns an end over which nothing has passed.
    pub(crate) fn idle(name: EndName) -> Self {
        Self {
            name,
            seems_accepted: false,
            has_ended: false,
            has_received_all: false,
            may_be_emptied: true,
            was_emptied: false,
            was_refilled: false,
            unsent: 0,
            acknowledged: 0,
            received: 0,
        }
    }
}

/// An end that no process of any part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AskedEnd {
    /// Its addresses.
    #[serde(flatten)]
    pub name: EndName,
    /// What has become of it.
    pub fate: AskedEndFate,
}

/// What has become of an end that no process of any part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskedEndFate {
    /// It was closed, and everything that it had sent has arrived.
    Closed,
    /// It was closed, and this many bytes are still to be sent.
    Closing {
        /// That many.
        unsent: u64,
    },
    /// A program outside the job has it.
    Outside,
}

/// What is known of the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OppositeEnd {
    /// A process of another part has it.
    Open(PartnerEnd),
    /// It was closed on a node of the job.
    Closed {
        /// Bytes that are still to be sent from there.
        unsent: u64,
    },
    /// The nodes have been asked for it.
    Unknown,
    /// No part has it.
    Outside,
}

/// An end that was closed, on the node that hears of it. The other end was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClosedConnectionEnd {
    /// Its addresses.
    #[serde(flatten)]
    pub name: EndName,
    /// Whether it had accepted the connection.
    pub is_accepted: bool,
}

/// The other end of a connection, as its part reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "PartnerLine", into = "PartnerLine")]
pub struct PartnerEnd {
    /// Bytes that it has sent and that have not arrived.
    pub unsent: u64,
    /// Whether it has shut down its sending direction.
    pub has_ended: bool,
    /// Whether it had opened the connection.
    pub has_connected: bool,
    /// Set if both ends are to empty their receive queues now: what the part that hears this has received when all has come.
    pub empty_until: Option<u64>,
    /// Whether both ends have done so, and are to fill them again.
    pub is_to_refill: bool,
}

/// A [`PartnerEnd`] as it is said: a bit for each of its properties in their order, and its two numbers.
#[derive(Serialize, Deserialize)]
struct PartnerLine(u8, u64, Option<u64>);

impl From<PartnerEnd> for PartnerLine {
    fn from(end: PartnerEnd) -> Self {
        Self(bits([end.has_ended, end.has_connected, end.is_to_refill]), end.unsent, end.empty_until)
    }
}

impl From<PartnerLine> for PartnerEnd {
    fn from(PartnerLine(bits, unsent, empty_until): PartnerLine) -> Self {
        let [has_ended, has_connected, is_to_refill] = properties(bits);
        Self { unsent, has_ended, has_connected, empty_until, is_to_refill }
    }
}

/// Returns a bit for each property, the first one the lowest.
fn bits<const COUNT: usize>(properties: [bool; COUNT]) -> u8 {
    properties.into_iter().zip(0..).map(|(holds, bit)| u8::from(holds) << bit).sum()
}

fn properties<const COUNT: usize>(bits: u8) -> [bool; COUNT] {
    std::array::from_fn(|bit| bits >> bit & 1 == 1)
}

/// How far a part has come in a restart. Each phase begins when all parts have finished the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartBarrier {
    /// It listens where connections between the parts had been accepted.
    Listening,
    /// It has its connections to other parts, with everything that they had received.
    Connected,
    /// It is complete, has been compared with its image, and nothing speaks against it. Its files may be changed now.
    Rebuilt,
    /// Its files are as they were, and its new life is recorded: all that is left is to let it run.
    Ready,
}

/// What a part says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromPart {
    /// It has done all that can be done while it runs. It waits for [`ToPart::Freeze`].
    Ready,
    /// It is frozen. It waits for [`ToPart::Partners`].
    Frozen(MeetingReport),
    /// Its state and memory are captured. It waits for [`ToPart::Thaw`].
    Captured,
    /// Its checkpoint is durable.
    Sealed {
        /// The generation.
        generation: u64,
        /// By how much the checkpoint has made its program run longer, as estimated.
        overhead_nanoseconds: u64,
    },
    /// It has come this far in a restart. It waits for [`ToPart::Continue`].
    Reached {
        /// How far.
        phase: RestartBarrier,
    },
    /// It has its connections to other parts, but their queues have taken less than before. It waits for [`ToPart::Again`].
    Short,
    /// It could not do what was asked, and continues to run, or has not begun.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// What the coordinator says to a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToPart {
    /// All parts are ready: freeze now.
    Freeze,
    /// What the others have reported.
    Partners {
        /// The other end of each end that it has reported, in the same order, as far as not said before.
        others: ListChanges<OppositeEnd>,
        /// Ends that no part has: what has become of those that have an address of its node?
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asked: Vec<EndName>,
        /// Ends of its node that have been closed, though the other ends have not.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        closed: Vec<ClosedConnectionEnd>,
        /// The addresses of the UDP sockets of other parts, after the first meeting.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        udp: Vec<SocketAddr>,
        /// Whether nothing is on its way any more between any two parts.
        is_settled: bool,
    },
    /// All parts are captured: run on.
    Thaw,
    /// All parts have come as far.
    Continue,
    /// All parts have their connections. Those whose queues were full are to be filled once more.
    Again,
    /// Run on without a checkpoint, or end the restart: another part has failed.
    GiveUp {
        /// Why, for people.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an end may cost of the coordinator's traffic, in both directions together.
    const END_BYTES_MAX: usize = 100;

    fn end(port: u16) -> ConnectionEnd {
        let name = EndName {
            local: SocketAddr::from(([10, 77, 100, 11], port)),
            remote: SocketAddr::from(([10, 77, 100, 12], 60_000)),
        };
        let (acknowledged, received) = (1_234_567_890, 1_234_567_890);
        ConnectionEnd { seems_accepted: true, acknowledged, received, ..ConnectionEnd::idle(name) }
    }

    #[test]
    fn messages_are_lines_of_json_that_come_back() {
        let ends = vec![
            end(1),
            ConnectionEnd { has_ended: true, was_emptied: true, unsent: 5, ..end(2) },
            ConnectionEnd { has_received_all: true, may_be_emptied: false, was_refilled: true, ..end(3) },
        ];
        let said = FromPart::Frozen(MeetingReport {
            ends: ListChanges::between(&[], &ends),
            found: Vec::new(),
            udp: Vec::new(),
        });
        let line = serde_json::to_string(&said).unwrap();
        assert!(line.starts_with(r#"{"frozen":{"ends":[[0,[["10.77.100.11:1","10.77.100.12:60000",9,0,"#), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<FromPart>(&line).unwrap(), said);
        assert_eq!(serde_json::to_string(&ToPart::Thaw).unwrap(), r#""thaw""#);
    }

    #[test]
    fn an_end_costs_few_bytes_and_none_at_a_meeting_where_it_has_not_changed() {
        let ends: Vec<_> = (0..200).map(|number| end(50_000 + number)).collect();
        let other = OppositeEnd::Open(PartnerEnd { has_connected: true, ..PartnerEnd::default() });
        let others = vec![other; ends.len()];
        let bytes = |ends_before: &[ConnectionEnd], others_before: &[OppositeEnd]| {
            let ends = ListChanges::between(ends_before, &ends);
            let said = FromPart::Frozen(MeetingReport { ends, found: Vec::new(), udp: Vec::new() });
            let others = ListChanges::between(others_before, &others);
            let answer =
                ToPart::Partners { others, asked: Vec::new(), closed: Vec::new(), udp: Vec::new(), is_settled: true };
            serde_json::to_string(&said).unwrap().len() + serde_json::to_string(&answer).unwrap().len()
        };
        let (first, again) = (bytes(&[], &[]), bytes(&ends, &others));
        assert!(first <= END_BYTES_MAX * ends.len(), "{} bytes an end", first / ends.len());
        assert!(again < 100, "{again} bytes in all");
    }
}
