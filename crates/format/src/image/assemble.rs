//! The writing side: assembles everything around the data area, once all blocks are there.

use super::header::{Fields, HEADER_BYTES, Header, ImageIdentity, Section};
use super::index::{
    Base, Inherited, check_bases, check_inherited, check_owners, encode_base, encode_block, encode_inherited,
    encode_run, sorted_runs,
};
use super::{BLOCK_PAGES_MAX, ImageError};
use crate::records::JobState;
use crate::{Contents, Run};
use standfast_core::codec::Encoding;
use standfast_core::{Checksum, PAGE_BYTES, Root};

/// A block that has been written to the data area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlock {
    /// Its offset in the file.
    pub offset: u64,
    /// The encoding of its pages.
    pub encoding: Encoding,
    /// Its stored length in bytes.
    pub stored_bytes: u32,
    /// Checksum of the stored bytes.
    pub checksum: Checksum,
    /// The runs whose pages it holds, in order. All are [`Contents::Stored`], with at most [`BLOCK_PAGES_MAX`] pages
    /// together.
    pub runs: Vec<Run>,
}

impl NewBlock {
    /// Describes a block with the pages of these runs, stored as `stored` in this encoding.
    ///
    /// # Panics
    /// If `stored` is longer than any block.
    pub fn new(offset: u64, encoding: Encoding, stored: &[u8], runs: Vec<Run>) -> Self {
        let stored_bytes = u32::try_from(stored.len()).expect("a block is short");
        Self { offset, encoding, stored_bytes, checksum: Checksum::of(stored), runs }
    }

    /// Returns how many pages it holds.
    fn pages(&self) -> u32 {
        let pages: u64 = self.runs.iter().map(|run| run.range.pages()).sum();
        assert!((1..=u64::from(BLOCK_PAGES_MAX)).contains(&pages), "a block holds 1 to {BLOCK_PAGES_MAX} pages");
        pages as u32
    }
}

/// The bytes around the data area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The first page.
    pub header: Header,
    /// The tables and the state, which follow the data area; [`Header::tail`] gives their place.
    pub tail: Vec<u8>,
    /// The root by which the manifest must name the image.
    pub root: Root,
}

impl Assembled {
    /// Returns the bytes of the header page, which must be written last, at offset 0.
    pub fn header_page(&self) -> &[u8] {
        self.header.page()
    }
}

/// The parts of an image, except its state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contained {
    /// Its blocks, in any order.
    pub blocks: Vec<NewBlock>,
    /// Recorded pages of zeros. All are [`Contents::Zero`].
    pub zeros: Vec<Run>,
    /// Pages inherited from the parent, ascending by owner and address. A full image has none, an incremental one some.
    pub inherited: Vec<Inherited>,
    /// The owners in the parent to whose pages the differences apply, ascending by owner.
    pub bases: Vec<Base>,
}

/// Assembles an image from its parts and its state.
///
/// # Errors
/// If the same page comes twice, or a part exceeds what a reader accepts.
///
/// # Panics
/// If the blocks leave a gap in the data area or are too long: both are errors of the caller.
pub fn assemble(identity: ImageIdentity, mut contained: Contained, state: &JobState) -> Result<Assembled, ImageError> {
    contained.blocks.sort_unstable_by_key(|block| block.offset);
    contained.check(state)?;
    let Contained { blocks, zeros, inherited, bases } = contained;
    let mut table = Vec::with_capacity(blocks.len() * super::index::BLOCK_ENTRY_BYTES);
    let mut runs = Vec::new();
    let (mut data_end, mut stored_pages) = (HEADER_BYTES as u64, 0);
    for block in &blocks {
        assert_eq!(block.offset, data_end, "blocks lie one after the other");
        let pages = block.pages();
        let page_bytes = pages * PAGE_BYTES as u32;
        let fits = match block.encoding {
            Encoding::Raw => block.stored_bytes == page_bytes,
            _ => (1..page_bytes).contains(&block.stored_bytes),
        };
        assert!(fits, "a block that is encoded is shorter than its pages");
        table.extend_from_slice(&encode_block(block, page_bytes));
        runs.extend(block.runs.iter().flat_map(encode_run));
        data_end += u64::from(block.stored_bytes);
        stored_pages += u64::from(pages);
    }
    runs.extend(zeros.iter().flat_map(|run| pieces(*run)).flat_map(|run| encode_run(&run)));
    let bases = bases.iter().map(encode_base);
    let inherited: Vec<u8> = bases.chain(inherited.iter().map(encode_inherited)).flatten().collect();
    let records = minicbor::to_vec(state).expect("a vector takes all bytes");
    seal(identity, data_end - HEADER_BYTES as u64, stored_pages, [&table, &runs, &inherited, &records])
}

fn seal(
    identity: ImageIdentity,
    data_bytes: u64,
    stored_pages: u64,
    parts: [&[u8]; 4],
) -> Result<Assembled, ImageError> {
    let [table, runs, inherited, records] = parts;
    let data_end = HEADER_BYTES as u64 + data_bytes;
    let blocks = Section::of(data_end, table);
    let run_table = Section::of(data_end + blocks.bytes, runs);
    let inherited_table = Section::of(run_table.offset + run_table.bytes, inherited);
    let state = Section::of(inherited_table.offset + inherited_table.bytes, records);
    let fields =
        Fields { identity, stored_pages, data_bytes, blocks, runs: run_table, inherited: inherited_table, state };
    fields.check()?;
    let header = fields.encode();
    let root = Root::of(&[header.page(), table, runs, inherited, records]);
    Ok(Assembled { tail: parts.concat(), header, root })
}

impl Contained {
    /// Checks that every page comes once and belongs to an owner: what a reader would refuse must not be written.
    fn check(&self, state: &JobState) -> Result<(), ImageError> {
        let all: Vec<Run> = self.blocks.iter().flat_map(|block| &block.runs).chain(&self.zeros).copied().collect();
        check_owners(&all, &self.inherited, &self.bases, state)?;
        check_bases(&self.bases)?;
        assert!(self.zeros.iter().all(|run| run.contents == Contents::Zero), "runs of zeros hold zeros");
        check_inherited(&self.inherited, &sorted_runs(&all)?)
    }
}

/// Splits a run into pieces whose number of pages fits 32 bits.
fn pieces(run: Run) -> impl Iterator<Item = Run> {
    let mut rest = run.range;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(u64::from(u32::MAX));
        rest = after;
        (piece.pages() > 0).then_some(Run { range: piece, ..run })
    })
}
