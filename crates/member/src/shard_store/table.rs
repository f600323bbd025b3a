//! Tables: the frame of each page of a shard. They are written once and never changed.
//!
//! ```text
//!   16 bytes   XXH3 of the rest
//!    8         number of entries
//!   28 each    kind and check (u32: 0 for a slot, else check + 1), slot or stripe (u32), frame (u32; all ones for zeros),
//!              XXH3 of the page
//!   the rest   CBOR: the descriptions of the group's members
//! ```

use super::{Entries, MemberError, read_checked, write_checked};
use standfast_core::Checksum;
use standfast_group::{Description, Fingerprint, Place};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ENTRY_BYTES: usize = 28;

/// The location of a page's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// No frame: the page is zeros.
    Zero,
    /// In this frame.
    At(u32),
}

impl Frame {
    /// Returns its number, if there is one.
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Self::Zero => None,
            Self::At(number) => Some(number),
        }
    }
}

/// A page of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) frame: Frame,
    pub(crate) checksum: Checksum,
}

impl Entry {
    /// Returns the entry of a page of zeros.
    pub(crate) fn zero() -> Self {
        Self { frame: Frame::Zero, checksum: Checksum::default() }
    }

    /// Returns the fingerprint of the page.
    pub(crate) fn known_by(self) -> Fingerprint {
        match self.frame {
            Frame::Zero => Fingerprint::ZEROS,
            Frame::At(_) => Fingerprint::of_checksum(self.checksum),
        }
    }
}

/// Reads a table into these entries. Returns the descriptions.
pub(crate) fn read(directory: &Path, number: u64, entries: &mut Entries) -> Result<Vec<Description>, MemberError> {
    let path = directory.join(name(number));
    let broken = |reason: &str| MemberError::unusable(&path, reason);
    let bytes = read_checked(&path)?.ok_or_else(|| broken("it is not there"))?;
    let (count, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| broken("it is too short"))?;
    let length = usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|it| it.checked_mul(ENTRY_BYTES));
    let split = length.and_then(|length| rest.split_at_checked(length));
    let (of_entries, rest) = split.ok_or_else(|| broken("it is too short"))?;
    entries.extend(of_entries.as_chunks::<ENTRY_BYTES>().0.iter().map(entry));
    minicbor::decode(rest).map_err(|error| broken(&error.to_string()))
}

/// Writes a table.
pub(crate) fn write(
    directory: &Path,
    number: u64,
    entries: &Entries,
    descriptions: &[Description],
) -> Result<(), MemberError> {
    let mut bytes = Vec::with_capacity(8 + entries.len() * ENTRY_BYTES);
    bytes.extend((entries.len() as u64).to_le_bytes());
    entries.iter().for_each(|(place, it)| bytes.extend(entry_bytes(place, it)));
    minicbor::encode(descriptions, &mut bytes).expect("a vector takes everything");
    write_checked(directory, &name(number), &bytes)
}

/// Returns the highest number of an existing table; 0 if there is none.
pub(crate) fn highest(directory: &Path) -> Result<u64, MemberError> {
    Ok(numbers(directory)?.into_iter().max().unwrap_or(0))
}

/// Removes all tables but these.
pub(crate) fn remove_others(directory: &Path, named: &BTreeSet<u64>) -> Result<(), MemberError> {
    for number in numbers(directory)?.into_iter().filter(|number| !named.contains(number)) {
        let path = directory.join(name(number));
        fs::remove_file(&path).map_err(MemberError::file(&path))?;
    }
    Ok(())
}

fn numbers(directory: &Path) -> Result<Vec<u64>, MemberError> {
    let number = |name: &str| name.strip_prefix("table-")?.parse::<u64>().ok();
    let mut found = Vec::new();
    for file in fs::read_dir(directory).map_err(MemberError::file(directory))? {
        let file = file.map_err(MemberError::file(directory))?;
        found.extend(file.file_name().to_str().and_then(number));
    }
    Ok(found)
}

fn name(number: u64) -> String {
    format!("table-{number}")
}

fn entry_bytes(place: Place, entry: Entry) -> [u8; ENTRY_BYTES] {
    let (kind, place) = match place {
        Place::Slot(slot) => (0, slot),
        Place::Check { check, stripe } => (check + 1, stripe),
    };
    let mut bytes = [0; ENTRY_BYTES];
    for (at, word) in [kind, place, entry.frame.number().unwrap_or(u32::MAX)].into_iter().enumerate() {
        bytes[at * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[12..].copy_from_slice(&entry.checksum.to_bytes());
    bytes
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> (Place, Entry) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let place = match word(0) {
        0 => Place::Slot(word(4)),
        kind => Place::Check { check: kind - 1, stripe: word(4) },
    };
    let frame = if word(8) == u32::MAX { Frame::Zero } else { Frame::At(word(8)) };
    let checksum = Checksum::from_bytes(bytes[12..].try_into().expect("sixteen bytes"));
    (place, Entry { frame, checksum })
}
