//! The envelope of every message between processes of a job: pages if there are any, then a body, then a foot that identifies
//! the message. The pages come first so that their buffer can become the message, and the message their buffer again: they
//! are most of what travels, and are neither copied nor read here. The checksum covers body and foot; each page has a syndrome
//! in the body, which is compared where the page is used.
//!
//! ```text
//!                          0      4         6      8     24     40       48      52     56      60        64         80
//! +--------------+--------+------+---------+------+-----+------+--------+-------+------+-------+---------+----------+
//! | pages x byte |  body  | SFGP | version | kind | job | plan | membership | round | body | pages | unused  | checksum |
//! +--------------+--------+------+---------+------+-----+------+--------+-------+------+-------+---------+----------+
//!                            lengths of both ----------------------------------------^      ^      XXH3 of body and foot
//! ```

use crate::identity::Term;
use crate::message_error::{MESSAGE_BYTES_MAX, MESSAGE_VERSION, MessageError};
use standfast_core::Checksum;
use standfast_format::manifest::JobId;
use std::ops::Range;

const MAGIC: [u8; 4] = *b"SFGP";
const FOOT_BYTES: usize = 80;
const CHECKSUM_BYTES: usize = 16;

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// The protocol: memberships, epochs, recoveries.
    Control,
    /// Encoding and rebuilding.
    Data,
    /// The drivers, before and beside the protocol.
    Driver,
}

impl MessageKind {
    const ALL: [Self; 3] = [Self::Control, Self::Data, Self::Driver];

    fn number(self) -> u16 {
        self as u16
    }
}

/// What identifies a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// What it is about.
    pub kind: MessageKind,
    /// The job to which it belongs.
    pub job: JobId,
    /// Digest of the plan to which it belongs; zeros before there is one.
    pub plan: Checksum,
    /// The membership and round to which it belongs.
    pub term: Term,
}

/// A message whose envelope is intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// What identifies it.
    pub envelope: Envelope,
    /// How many bytes of pages it begins with.
    pub pages: usize,
    /// Where its body lies.
    pub body: Range<usize>,
}

impl Envelope {
    /// Seals a message. `bytes` holds `pages` bytes of pages, and then the body.
    ///
    /// # Panics
    /// If it is longer than 4 GiB.
    #[must_use]
    pub fn seal(&self, mut bytes: Vec<u8>, pages: usize) -> Vec<u8> {
        let length = |bytes: usize| u32::try_from(bytes).expect("messages are far shorter").to_le_bytes();
        let body = bytes.len() - pages;
        bytes.extend(MAGIC);
        bytes.extend(MESSAGE_VERSION.to_le_bytes());
        bytes.extend(self.kind.number().to_le_bytes());
        bytes.extend(self.job.to_bytes());
        bytes.extend(self.plan.to_bytes());
        bytes.extend(self.term.membership.to_le_bytes());
        bytes.extend(self.term.round.to_le_bytes());
        bytes.extend(length(body));
        bytes.extend(length(pages));
        bytes.extend([0; 4]);
        let checksum = Checksum::of(&bytes[pages..]);
        bytes.extend(checksum.to_bytes());
        bytes
    }

    /// Opens a message. Nothing is taken from one before length, version and checksum are right.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are not a message, or not those that were sent.
    pub fn open(bytes: &[u8]) -> Result<Opened, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let foot = foot(bytes)?;
        let version = number(foot, 4, 2) as u16;
        if version != MESSAGE_VERSION {
            return Err(MessageError::Version(version));
        }
        let (length, pages) = (number(foot, 52, 4) as usize, number(foot, 56, 4) as usize);
        let claimed = pages + length + FOOT_BYTES;
        if claimed != bytes.len() {
            return Err(MessageError::Length { found: bytes.len(), claimed });
        }
        let (summed, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().expect("the foot is there");
        if Checksum::of(&summed[pages..]).to_bytes() != *checksum {
            return Err(MessageError::Damaged);
        }
        let number_of_kind = number(foot, 6, 2);
        let kind = MessageKind::ALL.into_iter().find(|kind| u64::from(kind.number()) == number_of_kind);
        let kind = kind.ok_or_else(|| MessageError::Senseless(format!("unknown kind {number_of_kind}")))?;
        let envelope = Self {
            kind,
            job: JobId::from_bytes(field(foot, 8)),
            plan: Checksum::from_bytes(field(foot, 24)),
            term: Term { membership: number(foot, 40, 8), round: number(foot, 48, 4) as u32 },
        };
        Ok(Opened { envelope, pages, body: pages..pages + length })
    }

    /// Reports whether some bytes claim to be a message of the drivers. It is not verified: [`Envelope::open`] does that.
    #[must_use]
    pub fn claims_to_be_of_drivers(bytes: &[u8]) -> bool {
        foot(bytes).is_ok_and(|foot| number(foot, 6, 2) == u64::from(MessageKind::Driver.number()))
    }
}

fn foot(bytes: &[u8]) -> Result<&[u8], MessageError> {
    let foot = bytes.last_chunk::<FOOT_BYTES>().filter(|foot| foot[..4] == MAGIC);
    foot.map(<[u8; FOOT_BYTES]>::as_slice).ok_or(MessageError::Foreign)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the foot is there")
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(kind: MessageKind) -> Envelope {
        let (job, plan) = (JobId::from_bytes([1; 16]), Checksum::of(b"plan"));
        Envelope { kind, job, plan, term: Term { membership: 3, round: 4 } }
    }

    #[test]
    fn a_sealed_message_is_opened_and_a_changed_body_is_damage() {
        for kind in MessageKind::ALL {
            let mut bytes = envelope(kind).seal(b"pagesbody".to_vec(), 5);
            let opened = Envelope::open(&bytes).unwrap();
            assert_eq!(opened, Opened { envelope: envelope(kind), pages: 5, body: 5..9 });
            assert_eq!(Envelope::claims_to_be_of_drivers(&bytes), kind == MessageKind::Driver);
            bytes[6] ^= 1;
            assert_eq!(Envelope::open(&bytes), Err(MessageError::Damaged));
        }
    }

    #[test]
    fn short_or_unknown_messages_are_refused() {
        assert_eq!(Envelope::open(b"short"), Err(MessageError::Foreign));
        assert!(!Envelope::claims_to_be_of_drivers(b"short"));
        let mut bytes = envelope(MessageKind::Driver).seal(Vec::new(), 0);
        bytes[6] = 9;
        let at = bytes.len() - CHECKSUM_BYTES;
        let checksum = Checksum::of(&bytes[..at]).to_bytes();
        bytes[at..].copy_from_slice(&checksum);
        assert!(matches!(Envelope::open(&bytes), Err(MessageError::Senseless(_))));
    }
}
