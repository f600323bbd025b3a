//! What a part and the coordinator say to each other: one JSON object a line.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One end of a TCP connection whose other end no process of this part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConnectionEnd {
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
    /// Whether this end has shut down its sending direction.
    pub has_ended: bool,
    /// Bytes that its program has sent and the other end has not acknowledged.
    pub unsent: u64,
    /// Bytes sent and acknowledged. The packets that begin and end a connection count as a byte each.
    pub acknowledged: u64,
    /// Bytes received, counted in the same way.
    pub received: u64,
}

/// The other end of a connection, as its part reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartnerEnd {
    /// Bytes that it has sent and that have not arrived.
    pub unsent: u64,
    /// Whether it has shut down its sending direction.
    pub has_ended: bool,
    /// Whether it had opened the connection.
    pub has_connected: bool,
}

/// How far a part has come in a restart. Each phase begins when all parts have finished the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartBarrier {
    /// It listens where connections between the parts had been accepted.
    Listening,
    /// It has its connections to other parts, with everything that they had received.
    Connected,
    /// It is complete, and has been compared with its image.
    Rebuilt,
}

/// What a part says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromPart {
    /// It is frozen, and has these ends. It waits for [`ToPart::Partners`].
    Frozen {
        /// Its ends.
        ends: Vec<ConnectionEnd>,
    },
    /// Its state and memory are captured. It waits for [`ToPart::Thaw`].
    Captured,
    /// Its checkpoint is durable.
    Sealed {
        /// The generation.
        generation: u64,
    },
    /// It has come this far in a restart. It waits for [`ToPart::Continue`].
    Reached {
        /// How far.
        phase: RestartBarrier,
    },
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
    /// The other end of each end that it has reported, in the same order. `None`: no part has it.
    Partners {
        /// Those ends.
        partners: Vec<Option<PartnerEnd>>,
        /// Whether nothing is on its way any more between any two parts.
        is_settled: bool,
    },
    /// All parts are captured: run on.
    Thaw,
    /// All parts have come as far.
    Continue,
    /// Run on without a checkpoint, or end the restart: another part has failed.
    GiveUp {
        /// Why, for people.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lines_of_json_that_say_what_they_mean() {
        let end = ConnectionEnd {
            local: "10.0.0.1:4000".parse().unwrap(),
            remote: "[fd00::2]:80".parse().unwrap(),
            has_ended: false,
            unsent: 1,
            acknowledged: 2,
            received: 3,
        };
        let said = FromPart::Frozen { ends: vec![end] };
        let line = serde_json::to_string(&said).unwrap();
        assert!(line.starts_with(r#"{"frozen":{"ends":[{"local":"10.0.0.1:4000""#) && !line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<FromPart>(&line).unwrap(), said);
        assert_eq!(serde_json::to_string(&ToPart::Thaw).unwrap(), r#""thaw""#);
    }
}
