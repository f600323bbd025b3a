//! Messages of the control socket: one JSON line to the supervisor, and one back. The module is pure; the socket is
//! elsewhere.
//!
//! ```text
//! client      {"version":1,"request":"checkpoint","stop":false}\n
//! supervisor  {"version":1,"reply":"taken","generation":7,...}\n
//! ```

use crate::report::{CheckpointReport, CoalescingReport, LiveReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use standfast_parts::CutOrder;

/// Version of this protocol. Client and supervisor may be different builds, since a job may run for weeks.
pub(crate) const VERSION: u32 = 1;

/// Longest line in either direction. A reply with a long list of blockers takes some thousand bytes.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Take a checkpoint that begins after this request.
    Checkpoint {
        /// Whether to stop the program after the checkpoint.
        stop: bool,
    },
    /// Take the checkpoint of a part of a distributed job. The connection carries the conversation with the coordinator
    /// meanwhile, and the reply ends it.
    Cut(CutOrder),
    /// End the job where it is.
    End {
        /// Whether it has done all that it was there for: what is in memory is not needed any more.
        is_finished: bool,
    },
    /// Coalesce the checkpoints that build upon each other.
    Coalesce,
    /// Report the state.
    Status,
    /// A program asks for a checkpoint of itself at its present point. It waits for the outcome in its own memory.
    Here {
        /// Whether it has asked before and has no outcome yet.
        again: bool,
    },
    /// A program has enabled checkpoints after one was put off.
    Enabled,
}

/// A reply of the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The checkpoint is durable.
    Taken(CheckpointReport),
    /// The checkpoints have been coalesced.
    Coalesced(CoalescingReport),
    /// The state.
    Status(Box<LiveReport>),
    /// The request will be carried out.
    Noted,
    /// The request came too early.
    NotDue {
        /// Remaining time. The greatest possible number means for ever.
        nanoseconds: u64,
    },
    /// The request failed.
    Failed {
        /// Cause and remedy, for people.
        message: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: u32,
    #[serde(flatten)]
    body: T,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Reason why a line is not a valid message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    /// The peer uses another version of the protocol.
    #[error(
        "the other side uses version {theirs} of the control protocol, and this one version {VERSION}\nhint: use the same standfast on both sides"
    )]
    Version {
        /// Version of the peer.
        theirs: u32,
    },
    /// The line is not a message of the protocol.
    #[error("the other side does not use the control protocol: {0}")]
    Senseless(String),
    /// The line is longer than any message.
    #[error("the message is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

/// Returns the line for a message, with its newline.
pub(crate) fn encode<T: Serialize>(body: T) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Line { version: VERSION, body }).expect("messages are plain data");
    line.push(b'\n');
    line
}

/// Returns the message in a line, with or without its newline.
pub(crate) fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, ProtocolError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(ProtocolError::TooLong);
    }
    let senseless = |error: serde_json::Error| ProtocolError::Senseless(error.to_string());
    // First check the version: the body of another version may not decode.
    let Versioned { version } = serde_json::from_slice(line).map_err(senseless)?;
    if version != VERSION {
        return Err(ProtocolError::Version { theirs: version });
    }
    serde_json::from_slice(line).map(|line: Line<T>| line.body).map_err(senseless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ChosenInterval, LastRehearsal, MeanTimeSource, PhaseReport, RestartReport, StopReport};
    use crate::settings::{FlushMode, FlushReport};
    use crate::settings::{Method, Why};

    fn report() -> CheckpointReport {
        CheckpointReport {
            generation: 7,
            tasks: 3,
            processes: 2,
            parent: Some(6),
            pages_scanned: 500,
            pages_read: 400,
            pages_stored: 300,
            huge_pages_split: 0,
            first_writes: 9,
            first_writes_nanoseconds: 8_000,
            file_bytes: u64::MAX,
            taken_nanoseconds: 1_700_000_000_000_000_001,
            pause_nanoseconds: 5,
            scanning_nanoseconds: 2,
            durable_nanoseconds: 6,
            processor_nanoseconds: 11,
            processors: 2,
            method: Method::Fork,
            why: Why::Asked,
            expected_pause_nanoseconds: Some(4),
            is_in_memory: false,
        }
    }

    #[test]
    fn every_message_survives_the_wire() {
        let checkpoint = |stop| Request::Checkpoint { stop };
        let here = |again| Request::Here { again };
        let ours = [checkpoint(true), checkpoint(false), Request::Coalesce, Request::Status];
        for request in ours.into_iter().chain([here(false), here(true), Request::Enabled]) {
            assert_eq!(decode(&encode(request)), Ok(request));
        }
        let status = LiveReport {
            supervisor_pid: 1,
            program_pid: 2,
            is_checkpointing: true,
            is_coalescing: false,
            flush: Some(FlushReport {
                every: std::num::NonZeroU32::new(16),
                flush_mode: FlushMode::Foreground,
                is_asked: false,
                background_nanoseconds_per_mib: Some(5),
                foreground_nanoseconds_per_mib: None,
            }),
            disabled_seconds: Some(0.5),
            next_due_seconds: Some(1.5),
            chosen_interval: Some(ChosenInterval {
                seconds: 93.5,
                mean_time_seconds: None,
                known: MeanTimeSource::Told,
                overhead_ratio: Some(0.25),
            }),
            last_checkpoint: Some(report()),
            last_failure: Some("two\nlines".into()),
            rehearsal: Some(LastRehearsal::Failed { reason: "a file is gone\nhint: put it back".into() }),
            stop: Some(StopReport { seconds: 1.25, deadline_seconds: Some(30.0), is_met: Some(true) }),
            restart: Some(RestartReport {
                generation: 3,
                nanoseconds: 7,
                phases: vec![PhaseReport { name: "plan".into(), nanoseconds: 7 }],
            }),
        };
        let failed = Reply::Failed { message: "no \"space\"".into() };
        let coalesced = CoalescingReport { generation: Some(7), file_bytes: 4096, removed: 5 };
        let theirs = [Reply::Noted, Reply::NotDue { nanoseconds: 5 }];
        let ours = [Reply::Taken(report()), Reply::Coalesced(coalesced), Reply::Status(Box::new(status)), failed];
        for reply in ours.into_iter().chain(theirs) {
            let line = encode(&reply);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
            assert_eq!(decode(&line), Ok(reply));
        }
    }

    #[test]
    fn another_version_is_reported_even_if_the_body_is_unknown() {
        let line = br#"{"version":2,"request":"sing"}"#;
        assert_eq!(decode::<Request>(line), Err(ProtocolError::Version { theirs: 2 }));
    }

    #[test]
    fn malformed_requests_are_refused() {
        for noise in [&b""[..], b"\n", b"checkpoint", b"{}", b"\xff\xfe", br#"{"version":1,"request":"sing"}"#] {
            assert!(matches!(decode::<Request>(noise), Err(ProtocolError::Senseless(_))), "{noise:?}");
        }
        assert_eq!(decode::<Request>(&vec![b' '; LINE_BYTES_MAX + 1]), Err(ProtocolError::TooLong));
    }
    /// The library looks for these words and does not parse JSON.
    #[test]
    fn the_c_library_uses_the_words_of_the_control_protocol() {
        let source = include_str!("../../../../bindings/c/src/ask.c").replace("\\\"", "\"");
        let said = |line: &str| source.contains(&format!("\"{line}\\n\""));
        for request in [Request::Here { again: false }, Request::Here { again: true }, Request::Enabled] {
            let line = String::from_utf8(encode(request)).unwrap();
            assert!(said(line.trim_end()), "{line}");
        }
        let heard = |reply| String::from_utf8(encode(reply)).unwrap();
        for (word, reply) in [("\"noted\"", Reply::Noted), ("\"nanoseconds\":", Reply::NotDue { nanoseconds: 5 })] {
            assert!(source.contains(word) && heard(reply).contains(word), "{word}");
        }
    }
}
