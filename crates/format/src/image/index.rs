//! The tables of an image: its blocks, the pages that each block holds, and the pages inherited from the parent.
//!
//! A block is a part of the data area with one checksum. The run table lists the runs of all blocks in file order; each
//! block states how many are its own. The runs of zeros, which have no block, come after them. A run never extends
//! beyond its block. 1 GiB in one piece takes 4096 entries in each table (224 KiB). 1 GiB in scattered pages takes 4096
//! blocks and 262,144 runs (4.2 MiB).

use super::assemble::NewBlock;
use super::encoding::STORED_BYTES_MAX;
use super::header::{HEADER_BYTES, Header};
use super::{ImageError, ImagePart};
use crate::records::JobState;
use crate::{Contents, Run};
use standfast_core::codec::Encoding;
use standfast_core::{Address, Checksum, PAGE_BYTES, PageRange};
use std::ops::Range;

/// Maximum number of pages in a block: 256 KiB stay in a core's cache between reading, verifying and placing.
pub const BLOCK_PAGES_MAX: u32 = 64;

pub(super) const BLOCK_ENTRY_BYTES: usize = 40;
pub(super) const RUN_ENTRY_BYTES: usize = 16;
pub(super) const INHERITED_ENTRY_BYTES: usize = 24;

/// A block of the data area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    offset: u64,
    /// Stored length.
    bytes: u32,
    pages: u32,
    encoding: Encoding,
    checksum: Checksum,
    runs: Range<usize>,
}

impl Block {
    /// Returns its offset in the file, which is page aligned if no block before it is encoded.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns its stored length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the encoding of its pages.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the length of its pages in bytes, at most [`BLOCK_PAGES_MAX`] of them.
    pub fn page_bytes(&self) -> usize {
        self.pages as usize * PAGE_BYTES
    }

    /// Verifies that `bytes` are the stored bytes of the block.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] if they are not.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), ImageError> {
        if bytes.len() == self.bytes() && Checksum::of(bytes) == self.checksum {
            Ok(())
        } else {
            Err(ImageError::Damaged(ImagePart::Block(self.offset)))
        }
    }
}

/// Pages whose contents equal those at the same addresses of an owner in the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inherited {
    /// The owner of the pages.
    pub owner: u32,
    /// The pages.
    pub range: PageRange,
    /// The number of the owner in the parent.
    pub was: u32,
}

/// The owner in the parent to which the differences of an owner's pages apply, at the same addresses. If the parent has
/// stored no such page, or the owner has no base, a difference applies to a page of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Base {
    /// The owner of the differences.
    pub owner: u32,
    /// The number of the owner in the parent.
    pub was: u32,
}

/// The place of every page of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    blocks: Vec<Block>,
    stored: Vec<Run>,
    sorted: Vec<Run>,
    inherited: Vec<Inherited>,
    bases: Vec<Base>,
}

impl Index {
    /// Returns the blocks in file order. There are no gaps between them.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the runs of some adjoining blocks, in the order of their pages.
    pub fn runs_of(&self, blocks: Range<usize>) -> &[Run] {
        match &self.blocks[blocks] {
            [] => &[],
            [only] => &self.stored[only.runs.clone()],
            [first, .., last] => &self.stored[first.runs.start..last.runs.end],
        }
    }

    /// Returns all runs of the image itself, including zeros, ascending by owner and address, with adjoining runs
    /// joined.
    pub fn runs(&self) -> &[Run] {
        &self.sorted
    }

    /// Returns the inherited runs, ascending by owner and address.
    pub fn inherited(&self) -> &[Inherited] {
        &self.inherited
    }

    /// Reports whether any pages are stored as differences.
    pub fn has_differences(&self) -> bool {
        self.blocks.iter().any(|block| block.encoding == Encoding::Differences)
    }

    /// Returns the number of the owner in the parent to whose pages this owner's differences apply.
    pub fn base_of(&self, owner: u32) -> Option<u32> {
        let place = self.bases.binary_search_by_key(&owner, |base| base.owner).ok()?;
        Some(self.bases[place].was)
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
        let pages: u64 = table.iter().map(|block| u64::from(block.pages)).sum();
        if offset != header.tail().0 || pages != header.stored_pages() {
            return Err(senseless_block("its blocks do not fill the data area"));
        }
        for run in &mut stored[first_run..] {
            run.contents = Contents::Zero;
        }
        let sorted = sorted_runs(&stored)?;
        stored.truncate(first_run);
        let entries = inherited.as_chunks().0;
        let (bases, inherited) = entries.split_at(entries.iter().take_while(|entry| is_base(entry)).count());
        let bases = bases.iter().map(decode_base).collect::<Result<Vec<Base>, ImageError>>()?;
        check_bases(&bases)?;
        let inherited = inherited.iter().map(decode_inherited).collect::<Result<Vec<Inherited>, ImageError>>()?;
        check_inherited(&inherited, &sorted)?;
        Ok(Self { blocks: table, stored, sorted, inherited, bases })
    }

    pub(super) fn check_owners(&self, state: &JobState) -> Result<(), ImageError> {
        check_owners(&self.sorted, &self.inherited, &self.bases, state)
    }
}

/// Checks that there is a process, and that the state has the owner of every run.
pub(super) fn check_owners(
    runs: &[Run],
    inherited: &[Inherited],
    bases: &[Base],
    state: &JobState,
) -> Result<(), ImageError> {
    if state.processes.is_empty() {
        return Err(ImageError::Senseless(ImagePart::State, "it holds no process".into()));
    }
    let unknown = "it names an owner that the state does not hold";
    if runs.iter().any(|run| state.owner(run.owner).is_none()) {
        return Err(senseless_run(unknown));
    }
    let mut owners = inherited.iter().map(|run| run.owner).chain(bases.iter().map(|base| base.owner));
    if owners.any(|owner| state.owner(owner).is_none()) {
        return Err(senseless_inherited(unknown));
    }
    Ok(())
}

/// Checks that inherited runs ascend, and that none of their pages is also the image's own. `runs` must ascend.
pub(super) fn check_inherited(inherited: &[Inherited], runs: &[Run]) -> Result<(), ImageError> {
    let after = |one: &Inherited, next: &Inherited| (one.owner, one.range.end()) <= (next.owner, next.range.start());
    if !inherited.is_sorted_by(after) {
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

/// Checks that each owner has at most one base.
pub(super) fn check_bases(bases: &[Base]) -> Result<(), ImageError> {
    if bases.is_sorted_by(|one, next| one.owner < next.owner) {
        Ok(())
    } else {
        Err(senseless_inherited("its bases are out of order"))
    }
}

/// Reports whether an entry is a base. Bases have no pages and come first.
fn is_base(entry: &[u8; INHERITED_ENTRY_BYTES]) -> bool {
    u64_at(entry, 8) == 0
}

fn decode_base(entry: &[u8; INHERITED_ENTRY_BYTES]) -> Result<Base, ImageError> {
    match u64_at(entry, 0) {
        0 => Ok(Base { owner: u32_at(entry, 16), was: u32_at(entry, 20) }),
        _ => Err(senseless_inherited("a run is empty")),
    }
}

pub(super) fn encode_base(base: &Base) -> [u8; INHERITED_ENTRY_BYTES] {
    let mut entry = [0; INHERITED_ENTRY_BYTES];
    entry[16..20].copy_from_slice(&base.owner.to_le_bytes());
    entry[20..].copy_from_slice(&base.was.to_le_bytes());
    entry
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

/// Returns all runs in order of owner and address, with neighbours joined.
///
/// # Errors
/// If a page is in two of them.
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
    let Some(encoding) = Encoding::from_number(encoding) else {
        return Err(senseless_block("it names an encoding that this Standfast does not know"));
    };
    let fits = match encoding {
        Encoding::Raw => stored_bytes == raw_bytes,
        _ => (1..raw_bytes).contains(&stored_bytes),
    };
    if offset != expected_offset || !fits || raw_bytes > STORED_BYTES_MAX {
        return Err(senseless_block("a block is too long, or does not start where the one before it ends"));
    }
    let last_run = first_run + run_count;
    let Some(own) = runs.get(first_run..last_run) else {
        return Err(senseless_block("it has more runs than the run table"));
    };
    // This compares the quotient: the sum of 2^30 runs of 2^32 pages fits 64 bits, but not their product in bytes.
    let pages: u64 = own.iter().map(|run| run.range.pages()).sum();
    if pages == 0 || !raw_bytes.is_multiple_of(PAGE_BYTES as u32) || pages != u64::from(raw_bytes) / PAGE_BYTES as u64 {
        return Err(senseless_block("the runs of a block do not add up to its length"));
    }
    Ok(Block { offset, bytes: stored_bytes, pages: pages as u32, encoding, checksum, runs: first_run..last_run })
}

pub(super) fn encode_block(block: &NewBlock, page_bytes: u32) -> [u8; BLOCK_ENTRY_BYTES] {
    let mut entry = [0; BLOCK_ENTRY_BYTES];
    entry[..8].copy_from_slice(&block.offset.to_le_bytes());
    entry[8..12].copy_from_slice(&block.stored_bytes.to_le_bytes());
    entry[12..16].copy_from_slice(&page_bytes.to_le_bytes());
    entry[16..20].copy_from_slice(&u32::from(block.encoding.number()).to_le_bytes());
    entry[20..24].copy_from_slice(&(block.runs.len() as u32).to_le_bytes());
    entry[24..].copy_from_slice(&block.checksum.to_bytes());
    entry
}

fn u32_at(entry: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*entry[at..].first_chunk().expect("the field lies within the entry"))
}

fn u64_at(entry: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*entry[at..].first_chunk().expect("the field lies within the entry"))
}

fn senseless_block(why: &str) -> ImageError {
    ImageError::Senseless(ImagePart::BlockTable, why.into())
}

pub(super) fn senseless_run(why: &str) -> ImageError {
    ImageError::Senseless(ImagePart::RunTable, why.into())
}

fn senseless_inherited(why: &str) -> ImageError {
    ImageError::Senseless(ImagePart::InheritedTable, why.into())
}
