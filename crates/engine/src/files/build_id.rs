//! The name that the linker has given to its output (ELF note `NT_GNU_BUILD_ID`), by which people and distributions
//! identify a version of a library. It says which file something is, not that the file is intact; digests are for that.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Offsets and sizes of ELF for 64 bits (gABI, chapters 4 and 5).
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const NOTE_SEGMENT: u64 = 4;
const BUILD_ID_NOTE: u64 = 3;
/// Executables have about ten segments.
const SEGMENTS_MAX: u64 = 128;
/// Notes take some hundred bytes.
const NOTES_BYTES_MAX: u64 = 64 << 10;
/// Identifiers have 8, 16 or 20 bytes.
const BYTES_MAX: usize = 64;

/// Returns the build-id of an executable or a library; `None` for another file, or if it was built without one.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let read = |offset: u64, bytes: usize| {
        let mut buffer = vec![0u8; bytes];
        file.read_exact_at(&mut buffer, offset).ok().map(|()| buffer)
    };
    let header = read(0, HEADER_BYTES)?;
    // 64 bits, least significant byte first.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(&header, 32, 8)?, number(&header, 54, 2)?, number(&header, 56, 2)?);
    for segment in 0..count.min(SEGMENTS_MAX) {
        let segment = read(table.checked_add(segment * size)?, SEGMENT_BYTES)?;
        let (kind, offset, bytes) = (number(&segment, 0, 4)?, number(&segment, 8, 8)?, number(&segment, 32, 8)?);
        if kind == NOTE_SEGMENT
            && bytes <= NOTES_BYTES_MAX
            && let Some(found) = in_notes(&read(offset, bytes as usize)?)
        {
            return Some(found);
        }
    }
    None
}

/// Searches notes. A note has the lengths of name and contents, a kind, and name and contents, each padded to four
/// bytes.
fn in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    while let (Some(name), Some(contents), Some(kind)) = (number(notes, 0, 4), number(notes, 4, 4), number(notes, 8, 4))
    {
        let (name, contents) = (usize::try_from(name).ok()?, usize::try_from(contents).ok()?);
        let after_name = 12 + name.checked_next_multiple_of(4)?;
        let found = notes.get(after_name..after_name.checked_add(contents)?)?;
        if kind == BUILD_ID_NOTE && notes.get(12..12 + name) == Some(b"GNU\0") && contents <= BYTES_MAX {
            return Some(found.to_vec());
        }
        notes = notes.get(after_name + contents.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    bytes.get(at..at + length).map(|bytes| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, contents: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, contents.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, contents] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_after_other_notes() {
        let notes = [note(b"GNU\0", 5, b"property"), note(b"Go\0\0", 4, b"other"), note(b"GNU\0", 3, b"12345")];
        assert_eq!(in_notes(&notes.concat()), Some(b"12345".to_vec()));
        assert_eq!(in_notes(&notes[..2].concat()), None);
    }

    #[test]
    fn notes_with_a_wrong_length_are_ignored() {
        let whole = note(b"GNU\0", 3, b"12345678");
        for length in 0..whole.len() {
            assert_eq!(in_notes(&whole[..length]), None);
        }
        assert_eq!(in_notes(&[0xff; 64]), None);
    }

    #[test]
    fn a_file_that_is_not_an_executable_has_no_build_id() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for contents in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01", &[b'\x7f'; 100]] {
            std::fs::write(&path, contents).unwrap();
            assert_eq!(build_id(&File::open(&path).unwrap()), None);
        }
    }
}
