//! Messages between client and server, and how they are sent: a length of four bytes, least significant first, and as many
//! bytes of CBOR.

use crate::RemoteError;
use crate::error::system;
use minicbor::{Decode, Encode};
use std::io::{ErrorKind, Read, Write};

/// The longest message. The line of a command is the longest part, and Linux allows 128 KiB for a single argument.
const BYTES_MAX: u32 = 1 << 18;

/// A stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum StreamKind {
    /// What it reads.
    #[n(0)]
    Input,
    /// What it prints.
    #[n(1)]
    Output,
    /// Its errors.
    #[n(2)]
    Errors,
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Purpose {
    /// To execute a command.
    #[n(0)]
    Command {
        /// A line for the shell.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        line: Vec<u8>,
    },
    /// A stream of a command that was begun on another connection.
    #[n(1)]
    Stream {
        /// The ticket that the command's connection was given.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        ticket: [u8; 32],
        /// Which stream.
        #[n(1)]
        kind: StreamKind,
    },
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RemoteMessage {
    /// From whoever has connected: a number for the proof.
    #[n(0)]
    Hello {
        /// Random.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        nonce: [u8; 32],
    },
    /// The answer: another number, and the proof for the first.
    #[n(1)]
    Challenge {
        /// Random.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        nonce: [u8; 32],
        /// Of both numbers.
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        proof: [u8; 32],
    },
    /// What the connection is for, and the proof for both numbers and this.
    #[n(2)]
    Wish {
        /// An encoded purpose.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        purpose: Vec<u8>,
        /// Of both numbers and the purpose.
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        proof: [u8; 32],
    },
    /// Where the streams of a command are to be connected.
    #[n(3)]
    Streams {
        /// The port, at the same address.
        #[n(0)]
        port: u16,
        /// To be shown there.
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        ticket: [u8; 32],
    },
    /// The command has ended, and all of its output has been sent.
    #[n(4)]
    Ended {
        /// Its status, in the form of wait(2).
        #[n(0)]
        status: i32,
    },
    /// The command could not be started.
    #[n(5)]
    Refused {
        /// Why.
        #[n(0)]
        reason: String,
    },
}

impl RemoteMessage {
    /// Decodes a message without its length.
    ///
    /// # Errors
    /// When these bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, RemoteError> {
        minicbor::decode(bytes).map_err(|_| RemoteError::Stranger("it sent bytes that are not a message"))
    }

    pub(crate) fn send(&self, to: &mut impl Write) -> Result<(), RemoteError> {
        let body = minicbor::to_vec(self).expect("a message can be encoded");
        let length = u32::try_from(body.len()).ok().filter(|length| *length <= BYTES_MAX);
        let length = length.ok_or(RemoteError::Refused("the command is too long".to_owned()))?;
        to.write_all(&[&length.to_le_bytes()[..], &body].concat()).map_err(system("sending a message"))
    }

    pub(crate) fn receive(from: &mut impl Read) -> Result<Self, RemoteError> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => RemoteError::Lost,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => RemoteError::Stranger("it says nothing"),
            _ => system("receiving a message")(error),
        };
        let mut length = [0; 4];
        from.read_exact(&mut length).map_err(failed)?;
        let length = u32::from_le_bytes(length);
        if length > BYTES_MAX {
            return Err(RemoteError::Stranger("its message is too long"));
        }
        let mut body = vec![0; length as usize];
        from.read_exact(&mut body).map_err(failed)?;
        Self::decode(&body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let purpose = Purpose::Stream { ticket: [7; 32], kind: StreamKind::Errors };
        let purpose = minicbor::to_vec(purpose).unwrap();
        for message in [
            RemoteMessage::Hello { nonce: [1; 32] },
            RemoteMessage::Wish { purpose, proof: [2; 32] },
            RemoteMessage::Ended { status: -3 },
            RemoteMessage::Refused { reason: "no".to_owned() },
        ] {
            let mut line = Vec::new();
            message.send(&mut line).unwrap();
            assert_eq!(RemoteMessage::receive(&mut line.as_slice()).unwrap(), message);
            line.pop();
            assert!(matches!(RemoteMessage::receive(&mut line.as_slice()), Err(RemoteError::Lost)));
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic() {
        let mut random = fastrand::Rng::with_seed(1);
        let valid = minicbor::to_vec(RemoteMessage::Wish { purpose: vec![1; 30], proof: [2; 32] }).unwrap();
        for _ in 0..10_000 {
            let mut bytes = valid.clone();
            (0..random.usize(1..4)).for_each(|_| bytes[random.usize(..valid.len())] = random.u8(..));
            bytes.truncate(random.usize(..=valid.len()));
            let _ = RemoteMessage::decode(&bytes);
        }
    }

    #[test]
    fn messages_that_are_too_long_are_neither_sent_nor_received() {
        let long = RemoteMessage::Wish { purpose: vec![0; BYTES_MAX as usize], proof: [0; 32] };
        assert!(long.send(&mut Vec::new()).is_err());
        let mut claim = &[0xff; 8][..];
        assert!(matches!(RemoteMessage::receive(&mut claim), Err(RemoteError::Stranger(_))));
    }
}
