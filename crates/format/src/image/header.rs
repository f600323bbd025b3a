//! The first page of an image: it identifies the image and gives the place and checksum of everything else.

use super::index::{BLOCK_ENTRY_BYTES, INHERITED_ENTRY_BYTES, RUN_ENTRY_BYTES};
use super::{ImageError, ImagePart};
use crate::manifest::{GenerationNumber, JobId};
use standfast_core::{Checksum, PAGE_BYTES, Root};

/// Length of the header: one page, so that the data area after it is page aligned.
pub const HEADER_BYTES: usize = PAGE_BYTES;

/// The version of the layout that this library writes, and the newest that it reads.
pub const IMAGE_VERSION: u32 = 1;

/// Longest table that is read: 2^30 pages, 4 TiB, no two of which adjoin.
pub const TABLE_BYTES_MAX: u64 = 16 << 30;

/// Longest state that is read. A thread takes 3 KiB, or 11 KiB with the widest vector registers: 45,000 such threads.
pub const STATE_BYTES_MAX: u64 = 512 << 20;

const MAGIC: [u8; 8] = *b"SFIMAGE\n";

/// The image stores every page itself.
const KIND_FULL: u32 = 1;

/// Unchanged pages are inherited from the parent.
const KIND_INCREMENTAL: u32 = 2;

/// Offset of the checksum of the header page: at its end, so that it covers one contiguous piece.
const CHECKSUM_OFFSET: usize = HEADER_BYTES - 16;

/// The job and generation of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageIdentity {
    /// The job.
    pub job: JobId,
    /// The generation.
    pub generation: GenerationNumber,
    /// The generation whose pages it inherits; none for a full image.
    pub parent: Option<Parent>,
}

/// The generation from which an image inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Its number.
    pub generation: GenerationNumber,
    /// Its root when it was taken. Coalescing gives it another root, but this name stays.
    pub origin: Root,
}

/// A part of the file with one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) checksum: Checksum,
}

impl Section {
    pub(super) fn of(offset: u64, content: &[u8]) -> Self {
        Self { offset, bytes: content.len() as u64, checksum: Checksum::of(content) }
    }

    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.bytes)
    }
}

/// The decoded fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) identity: ImageIdentity,
    pub(super) stored_pages: u64,
    pub(super) data_bytes: u64,
    pub(super) blocks: Section,
    pub(super) runs: Section,
    pub(super) inherited: Section,
    pub(super) state: Section,
}

/// A page that may be a header.
#[derive(Debug, Clone, Copy)]
pub struct UnverifiedHeader<'a>(&'a [u8; HEADER_BYTES]);

/// A header that is intact and makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    page: Box<[u8; HEADER_BYTES]>,
    fields: Fields,
}

/// The parts after the data area, whose checksums are right.
#[derive(Debug, Clone, Copy)]
pub(super) struct TailParts<'a> {
    pub(super) blocks: &'a [u8],
    pub(super) runs: &'a [u8],
    pub(super) inherited: &'a [u8],
    pub(super) state: &'a [u8],
}

/// Number of bytes that [`is_image`] examines.
pub const MAGIC_BYTES: usize = MAGIC.len();

/// Reports whether a file with this beginning is an image, damaged or not.
pub fn is_image(beginning: [u8; MAGIC_BYTES]) -> bool {
    beginning == MAGIC
}

impl<'a> UnverifiedHeader<'a> {
    /// Takes the beginning of a file: at least its first page.
    ///
    /// # Errors
    /// If there is no whole page.
    pub fn new(file: &'a [u8]) -> Result<Self, ImageError> {
        let page =
            file.first_chunk().ok_or(ImageError::Length { expected: HEADER_BYTES as u64, found: file.len() as u64 })?;
        Ok(Self(page))
    }

    /// Verifies the page, and the length of the file, `file_bytes`.
    ///
    /// # Errors
    /// If it is not the header of an image of that length.
    pub fn verify(self, file_bytes: u64) -> Result<Header, ImageError> {
        let mut fields = Reader(self.0);
        if fields.array() != MAGIC {
            return Err(ImageError::Foreign);
        }
        let version = fields.u32();
        if version > IMAGE_VERSION {
            return Err(ImageError::Version(version));
        }
        if Checksum::of(&self.0[..CHECKSUM_OFFSET]).to_bytes() != self.0[CHECKSUM_OFFSET..] {
            return Err(ImageError::Damaged(ImagePart::Header));
        }
        let named = Named::read(&mut fields, version)?;
        if fields.0[..fields.0.len() - 16].iter().any(|byte| *byte != 0) {
            return Err(senseless("it holds more than its version knows"));
        }
        named.fields.check()?;
        let expected = named.file_bytes;
        if named.fields.file_bytes() != expected {
            return Err(senseless("its parts do not add up to the length that it names"));
        }
        if expected != file_bytes {
            return Err(ImageError::Length { expected, found: file_bytes });
        }
        Ok(Header { page: Box::new(*self.0), fields: named.fields })
    }
}

impl Header {
    /// Returns the job and generation of the image.
    pub fn identity(&self) -> ImageIdentity {
        self.fields.identity
    }

    /// Returns how many pages are in the data area.
    pub fn stored_pages(&self) -> u64 {
        self.fields.stored_pages
    }

    /// Returns the length of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.fields.file_bytes()
    }

    /// Returns the place of the tables and the state: offset in the file, and length in bytes.
    pub fn tail(&self) -> (u64, u64) {
        let start = self.fields.blocks.offset;
        (start, self.file_bytes() - start)
    }

    pub(super) fn page(&self) -> &[u8] {
        &*self.page
    }

    /// Splits the tail into its parts and verifies each.
    pub(super) fn split_tail<'a>(&self, tail: &'a [u8]) -> Result<TailParts<'a>, ImageError> {
        let (start, expected) = self.tail();
        if tail.len() as u64 != expected {
            return Err(ImageError::Length { expected: self.file_bytes(), found: start + tail.len() as u64 });
        }
        let part = |section: Section, name| {
            let from = (section.offset - start) as usize;
            let content = &tail[from..from + section.bytes as usize];
            if Checksum::of(content) == section.checksum { Ok(content) } else { Err(ImageError::Damaged(name)) }
        };
        Ok(TailParts {
            blocks: part(self.fields.blocks, ImagePart::BlockTable)?,
            runs: part(self.fields.runs, ImagePart::RunTable)?,
            inherited: part(self.fields.inherited, ImagePart::InheritedTable)?,
            state: part(self.fields.state, ImagePart::State)?,
        })
    }
}

impl Fields {
    pub(super) fn file_bytes(&self) -> u64 {
        self.state.end().expect("checked: the parts lie one after the other within 64 bits")
    }

    /// Checks that the parts adjoin without gaps and respect their limits.
    pub(super) fn check(&self) -> Result<(), ImageError> {
        let ImageIdentity { generation, parent, .. } = self.identity;
        if parent.is_some_and(|parent| parent.generation >= generation) {
            return Err(senseless("its parent is not older than itself"));
        }
        if parent.is_some() != (self.inherited.bytes > 0) {
            return Err(senseless("it inherits pages without a parent, or none in spite of one"));
        }
        let data_end = (HEADER_BYTES as u64).checked_add(self.data_bytes);
        let adjoining = data_end == Some(self.blocks.offset)
            && self.blocks.end() == Some(self.runs.offset)
            && self.runs.end() == Some(self.inherited.offset)
            && self.inherited.end() == Some(self.state.offset)
            && self.state.end().is_some();
        if !adjoining {
            return Err(senseless("its parts do not lie one after the other"));
        }
        let limited = [
            (ImagePart::BlockTable, self.blocks.bytes, TABLE_BYTES_MAX),
            (ImagePart::RunTable, self.runs.bytes, TABLE_BYTES_MAX),
            (ImagePart::InheritedTable, self.inherited.bytes, TABLE_BYTES_MAX),
            (ImagePart::State, self.state.bytes, STATE_BYTES_MAX),
        ];
        for (part, bytes, limit) in limited {
            if bytes > limit {
                return Err(ImageError::TooLong { part, bytes, limit });
            }
        }
        let whole_entries = self.blocks.bytes.is_multiple_of(BLOCK_ENTRY_BYTES as u64)
            && self.runs.bytes.is_multiple_of(RUN_ENTRY_BYTES as u64)
            && self.inherited.bytes.is_multiple_of(INHERITED_ENTRY_BYTES as u64);
        if whole_entries { Ok(()) } else { Err(senseless("a table ends in the middle of an entry")) }
    }

    /// Encodes the header page.
    pub(super) fn encode(&self) -> Header {
        let mut page = Box::new([0; HEADER_BYTES]);
        let mut writer = Writer { page: &mut page, at: 0 };
        writer.put(&MAGIC);
        writer.put(&IMAGE_VERSION.to_le_bytes());
        writer.put(&(PAGE_BYTES as u32).to_le_bytes());
        let parent = self.identity.parent;
        let kind = if parent.is_some() { KIND_INCREMENTAL } else { KIND_FULL };
        writer.put(&kind.to_le_bytes());
        writer.put(&[0; 4]);
        writer.put_u64(self.identity.generation.get());
        writer.put_u64(parent.map_or(0, |parent| parent.generation.get()));
        writer.put(&self.identity.job.to_bytes());
        writer.put_u64(self.stored_pages);
        writer.put_u64(self.file_bytes());
        writer.put_u64(HEADER_BYTES as u64);
        writer.put_u64(self.data_bytes);
        for section in [self.blocks, self.runs, self.inherited, self.state] {
            writer.put_u64(section.offset);
            writer.put_u64(section.bytes);
            writer.put(&section.checksum.to_bytes());
        }
        writer.put(&parent.map_or([0; 32], |parent| parent.origin.to_bytes()));
        let checksum = Checksum::of(&page[..CHECKSUM_OFFSET]);
        page[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_bytes());
        Header { page, fields: *self }
    }
}

/// The fields, and the file length that the header states separately.
struct Named {
    fields: Fields,
    file_bytes: u64,
}

impl Named {
    fn read(from: &mut Reader<'_>, version: u32) -> Result<Self, ImageError> {
        let (page_bytes, kind, reserved) = (from.u32(), from.u32(), from.u32());
        let known = [KIND_FULL, KIND_INCREMENTAL].contains(&kind);
        if version == 0 || page_bytes != PAGE_BYTES as u32 || !known || reserved != 0 {
            return Err(senseless("its version, page size or kind is unknown"));
        }
        let generation = GenerationNumber::new(from.u64()).ok_or_else(|| senseless("its generation is 0"))?;
        let parent = GenerationNumber::new(from.u64());
        if parent.is_some() != (kind == KIND_INCREMENTAL) {
            return Err(senseless("a full image has no parent, an incremental one has"));
        }
        let job = JobId::from_bytes(from.array());
        let (stored_pages, file_bytes) = (from.u64(), from.u64());
        let (data_offset, data_bytes) = (from.u64(), from.u64());
        if data_offset != HEADER_BYTES as u64 {
            return Err(senseless("its data area does not start after the header"));
        }
        let (blocks, runs, inherited, state) = (from.section(), from.section(), from.section(), from.section());
        let origin = Root::from_bytes(from.array());
        if parent.is_none() && origin != Root::from_bytes([0; 32]) {
            return Err(senseless("it names the root of a parent that it has not"));
        }
        let parent = parent.map(|generation| Parent { generation, origin });
        let identity = ImageIdentity { job, generation, parent };
        Ok(Self { fields: Fields { identity, stored_pages, data_bytes, blocks, runs, inherited, state }, file_bytes })
    }
}

/// The unread rest of the header page. The fields end long before the page does.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("all fields fit the page");
        self.0 = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn section(&mut self) -> Section {
        Section { offset: self.u64(), bytes: self.u64(), checksum: Checksum::from_bytes(self.array()) }
    }
}

struct Writer<'a> {
    page: &'a mut [u8; HEADER_BYTES],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, field: &[u8]) {
        self.page[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn put_u64(&mut self, field: u64) {
        self.put(&field.to_le_bytes());
    }
}

fn senseless(why: &str) -> ImageError {
    ImageError::Senseless(ImagePart::Header, why.into())
}
