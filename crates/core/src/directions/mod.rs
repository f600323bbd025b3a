//! The directives of a program about its own checkpoints. libstandfast writes them into the program's memory: a header
//! at one of a few known addresses, and a table of regions. Pure: callers read the bytes.
//!
//! Nothing here is trusted, since a program may overwrite it. Senseless content is an error, and then nothing is left
//! out of the checkpoint. The layout is a contract with `bindings/c/src/internal.h`.
//!
//! ```text
//!   0  magic (16)   16 version (4)   20 current view (4)   24 lock (8)
//!  32  two views, each: base, regions in it, log, regions in it, room in it, when the base was made (6 times 8)
//! 128  regions named by interrupting signal handlers: how many (8), 16 of them (16 each)
//! 392  threads that talk with the supervisor (4)   396 sections that forbid checkpoints (4)   400 a checkpoint waits (4)
//! 404  flags (2): exclusions are checked, a thread gives back free memory
//! 406  threads that wait for a checkpoint at their present point (2)
//! 408  outcomes reported (4)   412 the last one (4)   416 its generation (8)   424 checkpoints of this memory (8)
//! 432  when requests are honoured (8)   440 when the next checkpoint comes without a request (8)
//! 448  requests to give back free memory (4), and how many were fulfilled (4)
//! 456  address of the record of exclusions (8), and their number (8)
//! 472  the job's directory, to the end of the page
//! ```

mod masked_pages;
mod records;
mod regions;
mod table;

use crate::Address;
pub use masked_pages::{MaskedPage, MaskedPages};
pub use records::{RECORDS_BYTES, excluded_by};
pub use regions::{Changes, Excluded, Region, Regions, Usage};
pub use table::{DirectivesTable, Outline};

/// Length of the header.
pub const HEADER_BYTES: usize = 4096;

/// The addresses at which a header may be.
pub const PLACES: [Address; 8] = {
    let mut places = [Address::new(0); 8];
    let mut number = 0;
    while number < places.len() {
        places[number] = Address::new(0x3f53_0000_0000 + (number as u64) * 0x1_0000_0000);
        number += 1;
    }
    places
};

/// Length of a region in the log.
pub const ENTRY_BYTES: usize = 16;
/// Length of a region in the base.
pub const PACKED_BYTES: usize = 14;

/// Largest number of regions in a table: a gigabyte of them.
const REGIONS_MAX: u64 = 1 << 26;
const DEFERRED_MAX: usize = 16;

const MAGIC: &[u8; 16] = b"standfast-lib-01";
const VERSION: u32 = 3;
const VIEWS: usize = 32;
const VIEW_BYTES: usize = 48;
const DEFERRED: usize = 128;
const ASKING: usize = 392;
const PENDING: usize = 400;
const FLAGS: usize = 404;
const WAITING: usize = 406;
const OUTCOME: usize = 408;
const GIVING: usize = 448;
const RECORDS: usize = 456;
const DIRECTORY: usize = 472;

const FLAG_CHECKING: u32 = 1;
const FLAG_GIVING: u32 = 2;

/// The content of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectivesHeader {
    /// The base of the table: entries that are ascending and disjoint.
    pub base: Stretch,
    /// The log of the table: entries in the order of time, which come after those of the base.
    pub log: Stretch,
    /// Identity of the base, which distinguishes it from earlier and later ones at the same address. Neither the base
    /// nor the existing entries of the log change any more.
    pub made: u64,
    /// Entries that come after those of the log.
    pub deferred: Vec<u8>,
    /// Whether a thread is currently talking to the supervisor.
    pub is_asking: bool,
    /// Whether the program currently forbids checkpoints.
    pub is_disabled: bool,
    /// Whether a thread waits for a checkpoint at its present point.
    pub is_awaited: bool,
    /// Whether the program's promises are checked.
    pub is_checking: bool,
    /// Whether one of its threads gives back free memory on request.
    pub gives_back: bool,
    /// How often it has done so.
    pub given: u32,
    /// Number of outcomes that have been reported to it.
    pub sequence: u32,
    /// Number of checkpoints that have been taken of this memory.
    pub epoch: u64,
    /// Address of the record of exclusions, and their number; if exclusions are checked.
    pub records: (Address, u64),
}

/// Part of a table, in the program's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its first address.
    pub start: Address,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The reason why a header or a table makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DirectionsError {
    /// Another version of the library wrote it.
    #[error("its libstandfast has a table of version {0}, which this standfast does not know")]
    Version(u32),
    /// It has more regions than the library accepts.
    #[error("its table says that it has {0} regions")]
    TooMany(u64),
    /// A region or its kind is invalid.
    #[error("its table of regions has been written over")]
    Senseless,
}

impl DirectivesHeader {
    /// Parses a header; returns `None` if there is none.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Option<Self>, DirectionsError> {
        if &bytes[..MAGIC.len()] != MAGIC {
            return Ok(None);
        }
        if number32(bytes, 16) != VERSION {
            return Err(DirectionsError::Version(number32(bytes, 16)));
        }
        let view = VIEWS + VIEW_BYTES * (number32(bytes, 20) & 1) as usize;
        let stretch = |at: usize, entry_bytes: usize| {
            let count = number64(bytes, at + 8);
            if count > REGIONS_MAX {
                return Err(DirectionsError::TooMany(count));
            }
            Ok(Stretch { start: Address::new(number64(bytes, at)), bytes: count as usize * entry_bytes })
        };
        let deferred = usize::try_from(number64(bytes, DEFERRED)).ok().filter(|count| *count <= DEFERRED_MAX);
        let deferred = deferred.ok_or(DirectionsError::Senseless)? * ENTRY_BYTES;
        Ok(Some(Self {
            base: stretch(view, PACKED_BYTES)?,
            log: stretch(view + 16, ENTRY_BYTES)?,
            made: number64(bytes, view + 40),
            deferred: bytes[DEFERRED + 8..][..deferred].to_vec(),
            is_asking: number32(bytes, ASKING) != 0,
            is_disabled: number32(bytes, ASKING + 4) != 0,
            is_awaited: bytes[WAITING..FLAGS + 4] != [0; 2],
            is_checking: number32(bytes, FLAGS) & FLAG_CHECKING != 0,
            gives_back: number32(bytes, FLAGS) & FLAG_GIVING != 0,
            given: number32(bytes, GIVING + 4),
            sequence: number32(bytes, OUTCOME),
            epoch: number64(bytes, OUTCOME + 16),
            records: (Address::new(number64(bytes, RECORDS)), number64(bytes, RECORDS + 8)),
        }))
    }
}

/// Bytes to write into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderWrite {
    /// Offset in the header.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The outcome of a checkpoint, as reported to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointOutcome {
    /// The checkpoint was taken as this generation, and the program continues: the first return.
    Taken(u64),
    /// The program was restarted from this generation: the second return.
    Restarted(u64),
    /// There is no checkpoint.
    Failed,
}

/// When checkpoints are taken, on the program's own monotonic clock, in nanoseconds; all ones for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time from which requests are honoured.
    pub due_at: u64,
    /// The time at which the next checkpoint comes without a request.
    pub next_at: u64,
}

impl DirectivesHeader {
    /// Returns the write that reports an outcome to the program.
    pub fn outcome(&self, outcome: CheckpointOutcome, times: Times) -> HeaderWrite {
        let (code, generation) = match outcome {
            CheckpointOutcome::Taken(generation) => (1i32, generation),
            CheckpointOutcome::Restarted(generation) => (2, generation),
            CheckpointOutcome::Failed => (-7, 0),
        };
        let epoch = if outcome == CheckpointOutcome::Failed { self.epoch } else { self.epoch.wrapping_add(1) };
        let mut bytes = Vec::with_capacity(GIVING - OUTCOME);
        bytes.extend(self.sequence.wrapping_add(1).to_le_bytes());
        bytes.extend(code.to_le_bytes());
        [generation, epoch, times.due_at, times.next_at].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        HeaderWrite { offset: OUTCOME as u64, bytes }
    }
}

/// Returns the write that tells the program that a checkpoint was due while it forbade them.
pub fn pending() -> HeaderWrite {
    HeaderWrite { offset: PENDING as u64, bytes: 1u32.to_le_bytes().to_vec() }
}

/// Returns the write that asks the program to give back free memory. `times` is the total number of such requests.
pub fn give_back(times: u32) -> HeaderWrite {
    HeaderWrite { offset: GIVING as u64, bytes: times.to_le_bytes().to_vec() }
}

/// Returns the write that tells the program the path of its job's directory; `None` if the path is too long.
pub fn directory(path: &[u8]) -> Option<HeaderWrite> {
    let bytes = [path, b"\0"].concat();
    (bytes.len() <= HEADER_BYTES - DIRECTORY).then_some(HeaderWrite { offset: DIRECTORY as u64, bytes })
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..][..4].try_into().expect("four bytes"))
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..][..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16] = VERSION as u8;
        bytes
    }

    #[test]
    fn the_active_view_and_deferred_entries_are_parsed() {
        let mut bytes = header();
        bytes[20] = 1;
        for (place, word) in
            [(80, 0x5000u64), (88, 3), (96, 0x9000), (104, 2), (120, 77), (DEFERRED, 1), (OUTCOME + 16, 7)]
        {
            bytes[place..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[DEFERRED + 8] = 0x77;
        bytes[ASKING + 4] = 1;
        (bytes[FLAGS], bytes[WAITING], bytes[GIVING + 4]) = (2, 1, 9);
        let parsed = DirectivesHeader::parse(&bytes).unwrap().unwrap();
        assert_eq!(parsed.base, Stretch { start: Address::new(0x5000), bytes: 42 });
        assert_eq!(parsed.log, Stretch { start: Address::new(0x9000), bytes: 32 });
        assert_eq!((parsed.deferred.len(), parsed.deferred[0]), (ENTRY_BYTES, 0x77));
        assert!(parsed.is_disabled && parsed.is_awaited && !parsed.is_asking);
        assert_eq!((parsed.epoch, parsed.made), (7, 77));
        assert_eq!((parsed.is_checking, parsed.gives_back, parsed.given), (false, true, 9));
    }

    #[test]
    fn other_memory_is_not_a_header_and_unknown_versions_are_reported() {
        assert_eq!(DirectivesHeader::parse(&[0; HEADER_BYTES]), Ok(None));
        let mut bytes = header();
        bytes[16] = 9;
        assert_eq!(DirectivesHeader::parse(&bytes), Err(DirectionsError::Version(9)));
        let mut bytes = header();
        bytes[40 + 7] = 1;
        assert!(matches!(DirectivesHeader::parse(&bytes), Err(DirectionsError::TooMany(_))));
    }

    #[test]
    fn an_outcome_counts_up_and_only_success_makes_a_new_epoch() {
        let header = DirectivesHeader::parse(&header()).unwrap().unwrap();
        let times = Times { due_at: 5, next_at: u64::MAX };
        for (outcome, code, epoch) in [
            (CheckpointOutcome::Taken(9), 1, 1),
            (CheckpointOutcome::Restarted(9), 2, 1),
            (CheckpointOutcome::Failed, -7, 0),
        ] {
            let HeaderWrite { offset, bytes } = header.outcome(outcome, times);
            assert_eq!((offset as usize, offset as usize + bytes.len()), (OUTCOME, GIVING));
            assert_eq!(number32(&bytes, 0), 1);
            assert_eq!(number32(&bytes, 4).cast_signed(), code);
            assert_eq!(number64(&bytes, 16), epoch);
        }
    }

    #[test]
    fn a_directory_too_long_for_the_header_is_omitted() {
        let longest = vec![b'x'; HEADER_BYTES - DIRECTORY - 1];
        assert_eq!(directory(&longest).map(|message| message.bytes.len()), Some(HEADER_BYTES - DIRECTORY));
        assert_eq!(directory(&[longest, vec![b'x']].concat()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(noise in proptest::collection::vec(any::<u8>(), HEADER_BYTES - 16)) {
            let mut bytes = header();
            bytes[16..].copy_from_slice(&noise);
            let _ = DirectivesHeader::parse(&bytes);
            bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
            let _ = DirectivesHeader::parse(&bytes);
        }
    }
}
