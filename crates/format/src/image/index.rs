//! The tables of an image: which blocks there are, which pages each holds, and which pages are those of the parent.
//!
//! A block is a stretch of the data area with one checksum. The run table lists the runs of all blocks in the order of
//! the file, each block saying how many are its own, and behind them the runs of zeros, which have no block. A run never
//! reaches over the end of its block. 1 GiB in one piece takes 4096 entries in each table (224 KiB), 1 GiB in scattered
//! pages 4096 blocks and 262,144 runs (4.2 MiB).

use super::header::{HEADER_BYTES, Header};
use super::{ImageError, Part};
use crate::records::JobState;
use crate::{Contents, Run};
use standfast_core::{Address, Checksum, PAGE_BYTES, PageRange};
use std::ops::Range;

/// Most pages in a block: 256 KiB stay in a core's cache between reading, verifying and placing.
pub const BLOCK_PAGES_MAX: u32 = 64;

pub(super) const BLOCK_ENTRY_BYTES: usize = 40;
pub(super) const RUN_ENTRY_BYTES: usize = 16;
pub(super) const INHERITED_ENTRY_BYTES: usize = 24;

/// The bytes of a block are its pages as they are. The only encoding so far; a reader refuses any other.
pub(super) const ENCODING_RAW: u32 = 0;

/// A block of the data area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    offset: u64,
    bytes: u32,
    checksum: Checksum,
    runs: Range<usize>,
}

impl Block {
    /// Where in the file it starts; page aligned.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes it takes: whole pages, at most [`BLOCK_PAGES_MAX`] of them.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Whether `bytes` are those of the block.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] when they are not.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), ImageError> {
        if bytes.len() == self.bytes() && Checksum::of(bytes) == self.checksum {
            Ok(())
        } else {
            Err(ImageError::Damaged(Part::Block(self.offset)))
        }
    }
}

/// Pages that hold what the pages of the same addresses of an owner of the parent hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inherited {
    /// Whose they are.
    pub owner: u32,
    /// Which.
    pub range: PageRange,
    /// The number that the owner had in the parent.
    pub was: u32,
}

/// Where every page of an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    blocks: Vec<Block>,
    stored: Vec<Run>,
    sorted: Vec<Run>,
    inherited: Vec<Inherited>,
}

impl Index {
    /// The blocks in the order of the file, without gaps between them.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The runs of some adjoining blocks, one after the other as their pages are.
    pub fn runs_of(&self, blocks: Range<usize>) -> &[Run] {
        match &self.blocks[blocks] {
            [] => &[],
            [only] => &self.stored[only.runs.clone()],
            [first, .., last] => &self.stored[first.runs.start..last.runs.end],
        }
    }

    /// All runs of the image itself, zeros too, ascending by owner and address; runs that adjoin have become one.
    pub fn runs(&self) -> &[Run] {
        &self.sorted
    }

    /// What is the parent's, ascending by owner and address.
    pub fn inherited(&self) -> &[Inherited] {
        &self.inherited
    }

    pub(super) fn decode(header: &Header, blocks: &[u8], runs: &[u8], inherited: &[u8]) -> Result<Self, ImageError> {
        let mut stored = runs.as_chunks().0.iter().map(decode_run).collect::<Result<Vec<Run>, ImageError>>()?;
        let mut first_run = 0;
        let mut offset = HEADER_BYTES as u64;
        let mut table = Vec::with_capacity(blocks.len() / BLOCK_ENTRY_BYTES);
        for entry in blocks.as_chunks().0 {
            let block = decode_block(entry, offset, first_run, &stored)?;
            offset += u64::from(block.bytes);
            first_run = block.runs.end;
            table.push(block);
        }
        let pages = (offset - HEADER_BYTES as u64) / PAGE_BYTES as u64;
        if offset != header.tail().0 || pages != header.stored_pages() {
            return Err(senseless_block("its blocks do not fill the data area"));
        }
        for run in &mut stored[first_run..] {
            run.contents = Contents::Zero;
        }
        let sorted = sorted_runs(&stored)?;
        stored.truncate(first_run);
        let inherited =
            inherited.as_chunks().0.iter().map(decode_inherited).collect::<Result<Vec<Inherited>, ImageError>>()?;
        check_inherited(&inherited, &sorted)?;
        Ok(Self { blocks: table, stored, sorted, inherited })
    }

    pub(super) fn check_owners(&self, state: &JobState) -> Result<(), ImageError> {
        check_owners(&self.sorted, &self.inherited, state)
    }
}

/// That there is a process, and that every run belongs to an owner that the state holds.
pub(super) fn check_owners(runs: &[Run], inherited: &[Inherited], state: &JobState) -> Result<(), ImageError> {
    if state.processes.is_empty() {
        return Err(ImageError::Senseless(Part::State, "it holds no process".into()));
    }
    let unknown = "it names an owner that the state does not hold";
    if runs.iter().any(|run| state.owner(run.owner).is_none()) {
        return Err(senseless_run(unknown));
    }
    if inherited.iter().any(|run| state.owner(run.owner).is_none()) {
        return Err(senseless_inherited(unknown));
    }
    Ok(())
}

/// That what is inherited ascends, and that no page of it is also the image's own. `runs` ascend.
pub(super) fn check_inherited(inherited: &[Inherited], runs: &[Run]) -> Result<(), ImageError> {
    let behind = |one: &Inherited, next: &Inherited| (one.owner, one.range.end()) <= (next.owner, next.range.start());
    if !inherited.is_sorted_by(behind) {
        return Err(senseless_inherited("its runs are out of order"));
    }
    let mut own = runs.iter().peekable();
    for run in inherited {
        while own.next_if(|own| (own.owner, own.range.end()) <= (run.owner, run.range.start())).is_some() {}
        if own.peek().is_some_and(|own| own.owner == run.owner && own.range.overlaps(run.range)) {
            return Err(senseless_inherited("a page in it is also the image's own"));
        }
    }
    Ok(())
}

fn decode_inherited(entry: &[u8; INHERITED_ENTRY_BYTES]) -> Result<Inherited, ImageError> {
    let (start, pages) = (u64_at(entry, 0), u64_at(entry, 8));
    match PageRange::checked(Address::new(start), pages) {
        Some(range) if pages > 0 => Ok(Inherited { owner: u32_at(entry, 16), range, was: u32_at(entry, 20) }),
        _ => Err(senseless_inherited("a run is empty, not page aligned or reaches beyond 64 bits")),
    }
}

pub(super) fn encode_inherited(run: &Inherited) -> [u8; INHERITED_ENTRY_BYTES] {
    let mut entry = [0; INHERITED_ENTRY_BYTES];
    entry[..8].copy_from_slice(&run.range.start().get().to_le_bytes());
    entry[8..16].copy_from_slice(&run.range.pages().to_le_bytes());
    entry[16..20].copy_from_slice(&run.owner.to_le_bytes());
    entry[20..].copy_from_slice(&run.was.to_le_bytes());
    entry
}

/// All runs in order of owner and address, neighbours joined.
///
/// # Errors
/// When a page stands in two of them.
pub fn sorted_runs(runs: &[Run]) -> Result<Vec<Run>, ImageError> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by_key(|run| (run.owner, run.range.start()));
    let twice = |pair: &[Run]| pair[0].owner == pair[1].owner && pair[0].range.end() > pair[1].range.start();
    if let Some(pair) = sorted.windows(2).find(|pair| twice(pair)) {
        return Err(senseless_run(&format!("the page at {} stands in it twice", pair[1].range.start())));
    }
    sorted.dedup_by(|next, kept| {
        let adjoins = (kept.owner, kept.range.end(), kept.contents) == (next.owner, next.range.start(), next.contents);
        if adjoins {
            kept.range = PageRange::new(kept.range.start(), kept.range.pages() + next.range.pages());
        }
        adjoins
    });
    Ok(sorted)
}

fn decode_run(entry: &[u8; RUN_ENTRY_BYTES]) -> Result<Run, ImageError> {
    let start = u64_at(entry, 0);
    let owner = u32_at(entry, 8);
    let pages = u32_at(entry, 12);
    match PageRange::checked(Address::new(start), u64::from(pages)) {
        Some(range) if pages > 0 => Ok(Run { owner, range, contents: Contents::Stored }),
        _ => Err(senseless_run("a run is empty, not page aligned or reaches beyond 64 bits")),
    }
}

pub(super) fn encode_run(run: &Run) -> [u8; RUN_ENTRY_BYTES] {
    let pages = u32::try_from(run.range.pages()).expect("the builder cuts runs to 32 bits");
    let mut entry = [0; RUN_ENTRY_BYTES];
    entry[..8].copy_from_slice(&run.range.start().get().to_le_bytes());
    entry[8..12].copy_from_slice(&run.owner.to_le_bytes());
    entry[12..].copy_from_slice(&pages.to_le_bytes());
    entry
}

fn decode_block(
    entry: &[u8; BLOCK_ENTRY_BYTES],
    expected_offset: u64,
    first_run: usize,
    runs: &[Run],
) -> Result<Block, ImageError> {
    let (offset, stored_bytes, raw_bytes) = (u64_at(entry, 0), u32_at(entry, 8), u32_at(entry, 12));
    let (encoding, run_count) = (u32_at(entry, 16), u32_at(entry, 20) as usize);
    let checksum = Checksum::from_bytes(*entry.last_chunk().expect("an entry ends in a checksum"));
    if encoding != ENCODING_RAW {
        return Err(senseless_block("it names an encoding that this Standfast does not know"));
    }
    let longest = BLOCK_PAGES_MAX * PAGE_BYTES as u32;
    if offset != expected_offset || stored_bytes != raw_bytes || raw_bytes > longest {
        return Err(senseless_block("a block is too long, or does not start where the one before it ends"));
    }
    let last_run = first_run + run_count;
    let Some(own) = runs.get(first_run..last_run) else {
        return Err(senseless_block("it has more runs than the run table"));
    };
    // Not the product but the quotient: the sum of 2^30 runs of 2^32 pages fits 64 bits, their bytes would not.
    let pages: u64 = own.iter().map(|run| run.range.pages()).sum();
    if pages == 0 || !raw_bytes.is_multiple_of(PAGE_BYTES as u32) || pages != u64::from(raw_bytes) / PAGE_BYTES as u64 {
        return Err(senseless_block("the runs of a block do not add up to its length"));
    }
    Ok(Block { offset, bytes: raw_bytes, checksum, runs: first_run..last_run })
}

pub(super) fn encode_block(offset: u64, bytes: u32, runs: u32, checksum: Checksum) -> [u8; BLOCK_ENTRY_BYTES] {
    let mut entry = [0; BLOCK_ENTRY_BYTES];
    entry[..8].copy_from_slice(&offset.to_le_bytes());
    entry[8..12].copy_from_slice(&bytes.to_le_bytes());
    entry[12..16].copy_from_slice(&bytes.to_le_bytes());
    entry[16..20].copy_from_slice(&ENCODING_RAW.to_le_bytes());
    entry[20..24].copy_from_slice(&runs.to_le_bytes());
    entry[24..].copy_from_slice(&checksum.to_bytes());
    entry
}

fn u32_at(entry: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*entry[at..].first_chunk().expect("the field lies within the entry"))
}

fn u64_at(entry: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*entry[at..].first_chunk().expect("the field lies within the entry"))
}

fn senseless_block(why: &str) -> ImageError {
    ImageError::Senseless(Part::BlockTable, why.into())
}

pub(super) fn senseless_run(why: &str) -> ImageError {
    ImageError::Senseless(Part::RunTable, why.into())
}

fn senseless_inherited(why: &str) -> ImageError {
    ImageError::Senseless(Part::InheritedTable, why.into())
}
