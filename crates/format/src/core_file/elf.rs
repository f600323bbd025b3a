//! The container: ELF header, program headers and notes for 64 bits, least significant byte first (System V gABI,
//! chapters 4 and 5). `readelf` and gdb check the result in the tests of the command.

use crate::records::Protection;
use standfast_core::PAGE_BYTES;

const HEADER_BYTES: u16 = 64;
const PROGRAM_HEADER_BYTES: u16 = 56;
const SECTION_HEADER_BYTES: u16 = 64;
/// 64 bits, least significant byte first, version 1, System V.
const IDENTIFICATION: [u8; 16] = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const TYPE_CORE: u16 = 4;
const MACHINE_X86_64: u16 = 62;
const VERSION: u32 = 1;
const KIND_LOAD: u32 = 1;
const KIND_NOTE: u32 = 4;
/// This number of program headers says that the first section header has the real one (`PN_XNUM`).
const COUNT_IS_IN_SECTION: u16 = 0xffff;
/// Names and contents of notes are padded to this.
const NOTE_ALIGNMENT: usize = 4;

/// A range of addresses and its bytes in the file, which may be fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) file_offset: u64,
    pub(super) file_bytes: u64,
    pub(super) protection: Protection,
}

/// Appends a note.
pub(super) fn add_note(notes: &mut Vec<u8>, owner: &str, kind: u32, contents: &[u8]) {
    let name = [owner.as_bytes(), b"\0"].concat();
    for length in [name.len(), contents.len()] {
        notes.extend(u32::try_from(length).expect("a note is short").to_le_bytes());
    }
    notes.extend(kind.to_le_bytes());
    for part in [&name[..], contents] {
        notes.extend(part);
        notes.resize(notes.len().next_multiple_of(NOTE_ALIGNMENT), 0);
    }
}

/// Returns the offset of the first page in a file with these numbers of segments and bytes of notes.
pub(super) fn pages_offset(segments: usize, notes_bytes: usize) -> u64 {
    (notes_offset(segments) + notes_bytes as u64).next_multiple_of(PAGE_BYTES as u64)
}

fn notes_offset(segments: usize) -> u64 {
    let section = if count_field(segments) == COUNT_IS_IN_SECTION { u64::from(SECTION_HEADER_BYTES) } else { 0 };
    u64::from(HEADER_BYTES) + section + u64::from(PROGRAM_HEADER_BYTES) * (segments as u64 + 1)
}

/// Returns the number of program headers, of which the notes have one, as the header states it.
fn count_field(segments: usize) -> u16 {
    u16::try_from(segments + 1).unwrap_or(COUNT_IS_IN_SECTION)
}

/// Returns everything before the first page: header, program headers and notes, padded to a page.
pub(super) fn head(segments: &[Segment], notes: &[u8]) -> Vec<u8> {
    let count = count_field(segments.len());
    let has_section = count == COUNT_IS_IN_SECTION;
    let section_offset = if has_section { u64::from(HEADER_BYTES) } else { 0 };
    let table_offset = u64::from(HEADER_BYTES) + if has_section { u64::from(SECTION_HEADER_BYTES) } else { 0 };
    let mut head = IDENTIFICATION.to_vec();
    head.extend([TYPE_CORE, MACHINE_X86_64].map(u16::to_le_bytes).concat());
    head.extend(VERSION.to_le_bytes());
    // No entry point.
    head.extend([0, table_offset, section_offset].map(u64::to_le_bytes).concat());
    head.extend(0u32.to_le_bytes());
    let sections = u16::from(has_section);
    let sizes = [HEADER_BYTES, PROGRAM_HEADER_BYTES, count, SECTION_HEADER_BYTES * sections, sections, 0];
    head.extend(sizes.map(u16::to_le_bytes).concat());
    if has_section {
        // The fields of a section header; `sh_info` holds the number of program headers.
        head.extend([0; 40]);
        let all = u32::try_from(segments.len() + 1).expect("the records are too short for more mappings");
        head.extend([0, all].map(u32::to_le_bytes).concat());
        head.extend([0; 16]);
    }
    let notes_at = notes_offset(segments.len());
    add_program_header(&mut head, [KIND_NOTE, 0], [notes_at, 0, 0, notes.len() as u64, 0, NOTE_ALIGNMENT as u64]);
    for segment in segments {
        let Segment { address, bytes, file_offset, file_bytes, protection } = *segment;
        let fields = [file_offset, address, 0, file_bytes, bytes, PAGE_BYTES as u64];
        add_program_header(&mut head, [KIND_LOAD, flags(protection)], fields);
    }
    assert_eq!(head.len() as u64, notes_at);
    head.extend(notes);
    head.resize(head.len().next_multiple_of(PAGE_BYTES), 0);
    head
}

/// Appends kind and flags, then file offset, address, physical address, bytes in the file, bytes in memory, alignment.
fn add_program_header(head: &mut Vec<u8>, kind: [u32; 2], fields: [u64; 6]) {
    head.extend(kind.map(u32::to_le_bytes).concat());
    head.extend(fields.map(u64::to_le_bytes).concat());
}

fn flags(protection: Protection) -> u32 {
    u32::from(protection.execute) | u32::from(protection.write) << 1 | u32::from(protection.read) << 2
}
