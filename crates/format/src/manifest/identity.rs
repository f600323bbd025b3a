//! Identities that outlive a process: of a job, of its generations and of its levels. The store names the files.

use minicbor::{Decode, Encode};
use std::fmt;
use std::num::NonZeroU64;

/// Identity of a job: 16 random bytes, drawn at its first start and kept in all its restarts.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cbor(transparent)]
pub struct JobId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

impl JobId {
    /// Creates an identity from these bytes, which should be random.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of a generation: counted from 1, and never used twice within the job.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cbor(transparent)]
pub struct GenerationNumber(#[n(0)] NonZeroU64);

impl GenerationNumber {
    /// The first generation of a job.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Returns the generation with this number; `None` for 0, which names no generation.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the number of the next generation. Saturates at the largest number, which no job reaches.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for GenerationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for GenerationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Identity of a level in memory: 16 random bytes, drawn when the level is created. A directory with another identity
/// is another level, whatever job it belongs to.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq)]
#[cbor(transparent)]
pub struct LevelId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

impl LevelId {
    /// Creates an identity from these bytes, which should be random.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for LevelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LevelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
