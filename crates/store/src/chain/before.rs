//! Reads single pages of a chain: the content that a page had in a generation, to which the differences of its children
//! apply (C2, C4). Whole images are read in file order instead ([`crate::chain`]).
//!
//! A page that is itself stored as differences needs the page of its parent, and so on. Each page needs one block of
//! each link, which is cached for neighbouring pages. A page that no link holds reads as zeros, as it does when
//! differences are made.

use super::Chain;
use crate::StoreError;
use crate::resolve::BlockRun;
use standfast_core::codec::{Decompressor, Encoding};
use standfast_core::delta::Page;
use standfast_core::{Address, PAGE_BYTES};
use standfast_format::Run;
use standfast_format::image::PageDifferences;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bytes of blocks cached for neighbouring pages: some blocks of pages, or the differences of a whole chain.
const LOADED_BYTES_MAX: usize = 8 << 20;

/// A block, by its link and its index in that link.
type Key = (usize, usize);

/// The location of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    key: Key,
    /// Its index in the block.
    at: usize,
    /// The number of its owner in the link.
    owner: u32,
    address: Address,
}

/// A verified block.
#[derive(Debug)]
struct Load {
    /// Its pages; for a block of differences, its stored bytes.
    bytes: Vec<u8>,
    differences: Option<PageDifferences>,
}

/// Recently used blocks.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    blocks: HashMap<Key, Arc<Load>>,
    /// Keys of the blocks, oldest first.
    order: VecDeque<Key>,
    bytes: usize,
    decompressor: Decompressor,
}

impl Loaded {
    fn keep(&mut self, key: Key, load: &Arc<Load>) {
        while self.bytes + load.bytes.len() > LOADED_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.blocks.remove(&oldest).map_or(0, |load| load.bytes.len());
        }
        self.bytes += load.bytes.len();
        self.order.push_back(key);
        self.blocks.insert(key, Arc::clone(load));
    }
}

impl Chain {
    /// Applies the differences of a block to the parent's pages, for the pages whose bit in `wanted` is set.
    pub(crate) fn put_differences(
        &self,
        key: Key,
        stored: &[u8],
        wanted: u64,
        pages: &mut [u8],
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let (link, at) = key;
        let file = &self.links[link];
        let block = &file.image.index.blocks()[at];
        let differences = block.differences(stored).map_err(|error| self.of_link(link, file.bad(error)))?;
        let keys = pages_of(file.image.index.runs_of(at..at + 1));
        for (at, ((owner, address), page)) in keys.zip(pages.as_chunks_mut().0).enumerate() {
            if wanted >> at & 1 != 0 {
                self.put(Place { key, at, owner, address }, stored, &differences, page, loaded)?;
            }
        }
        Ok(())
    }

    /// Applies the differences of one page.
    fn put(
        &self,
        place: Place,
        stored: &[u8],
        differences: &PageDifferences,
        page: &mut Page,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        let (link, number) = place.key;
        let index = &self.links[link].image.index;
        if !differences.is_whole(place.at) {
            let was = index.base_of(place.owner);
            match was.and_then(|was| self.find(link + 1, was, place.address)) {
                Some(place) => self.page(place, page, loaded)?,
                None => page.fill(0),
            }
        }
        let applied = index.blocks()[number].apply(stored, differences, place.at, page);
        applied.map_err(|error| self.of_link(link, self.links[link].bad(error)))
    }

    /// Reads the content of a page, verified.
    fn page(&self, place: Place, page: &mut Page, loaded: &mut Loaded) -> Result<(), StoreError> {
        let load = self.load(place.key, loaded)?;
        match &load.differences {
            None => *page = load.bytes.as_chunks().0[place.at],
            Some(differences) => self.put(place, &load.bytes, differences, page, loaded)?,
        }
        Ok(())
    }

    fn load(&self, key: Key, loaded: &mut Loaded) -> Result<Arc<Load>, StoreError> {
        if let Some(load) = loaded.blocks.get(&key) {
            return Ok(Arc::clone(load));
        }
        let (link, at) = key;
        let file = &self.links[link];
        let block = &file.image.index.blocks()[at];
        let mut bytes = Vec::new();
        file.read_blocks(at..at + 1, &mut bytes).map_err(|error| self.of_link(link, error))?;
        let bad = |error| self.of_link(link, file.bad(error));
        let mut differences = None;
        match block.encoding() {
            Encoding::Raw => {}
            Encoding::Lz4 | Encoding::Zstd | Encoding::Sparse => {
                let mut pages = vec![0; block.page_bytes()];
                block.unpack(&bytes, &mut pages, &mut loaded.decompressor).map_err(bad)?;
                bytes = pages;
            }
            Encoding::Differences => differences = Some(block.differences(&bytes).map_err(bad)?),
        }
        let load = Arc::new(Load { bytes, differences });
        loaded.keep(key, &load);
        Ok(load)
    }

    /// Finds a page, searching from this link on. Returns `None` if no link has stored it.
    fn find(&self, mut link: usize, mut owner: u32, address: Address) -> Option<Place> {
        loop {
            let index = &self.links.get(link)?.image.index;
            let block_run = self.block_runs[link].get_or_init(|| BlockRun::of(index));
            if let Some(run) = holding(block_run, owner, address, |run| (run.owner, run.range)) {
                let before = (address.get() - run.range.start().get()) / PAGE_BYTES as u64;
                let at = (run.first + before) as usize;
                return Some(Place { key: (link, run.block), at, owner, address });
            }
            owner = holding(index.inherited(), owner, address, |run| (run.owner, run.range))?.was;
            link += 1;
        }
    }

    /// Reads the content of pages in the newest generation, so that differences against it can be made. Pages stored
    /// raw are read without verification. If one is damaged, so is everything that its children inherit; a restart
    /// verifies them and uses none of them. The owners of the runs are those of the newest generation.
    pub(crate) fn before_images(
        &self,
        runs: impl IntoIterator<Item = Run>,
        into: &mut Vec<u8>,
        loaded: &mut Loaded,
    ) -> Result<(), StoreError> {
        into.clear();
        let mut raw: Option<Stretch> = None;
        for run in runs {
            for page in 0..run.range.pages() {
                let address = run.range.start().plus(page * PAGE_BYTES as u64);
                let start = into.len();
                into.resize(start + PAGE_BYTES, 0);
                let Some(place) = self.find(0, run.owner, address) else { continue };
                let (link, at) = place.key;
                let block = &self.links[link].image.index.blocks()[at];
                if block.encoding() != Encoding::Raw {
                    let page = into[start..].first_chunk_mut().expect("room for a page");
                    self.page(place, page, loaded)?;
                    continue;
                }
                let offset = block.offset() + (place.at * PAGE_BYTES) as u64;
                match &mut raw {
                    Some(raw) if raw.is_followed_by(link, offset, start) => raw.bytes += PAGE_BYTES,
                    _ => {
                        let next = Stretch { link, offset, start, bytes: PAGE_BYTES };
                        raw.replace(next).map_or(Ok(()), |raw| self.read_stretch(&raw, into))?;
                    }
                }
            }
        }
        raw.map_or(Ok(()), |raw| self.read_stretch(&raw, into))
    }

    fn read_stretch(&self, raw: &Stretch, into: &mut [u8]) -> Result<(), StoreError> {
        self.links[raw.link].read_unverified(&mut into[raw.start..raw.start + raw.bytes], raw.offset)
    }
}

/// Pages that adjoin both in a file and in memory.
struct Stretch {
    link: usize,
    offset: u64,
    start: usize,
    bytes: usize,
}

impl Stretch {
    fn is_followed_by(&self, link: usize, offset: u64, start: usize) -> bool {
        (self.link, self.offset + self.bytes as u64, self.start + self.bytes) == (link, offset, start)
    }
}

/// Returns the run that contains a page. `runs` must be ascending and disjoint.
fn holding<T>(
    runs: &[T],
    owner: u32,
    address: Address,
    place: impl Fn(&T) -> (u32, standfast_core::PageRange),
) -> Option<&T> {
    let ends_before = |run: &T| {
        let (whose, range) = place(run);
        (whose, range.end()) <= (owner, address)
    };
    let run = runs.get(runs.partition_point(ends_before))?;
    let (whose, range) = place(run);
    (whose == owner && range.contains(address)).then_some(run)
}

/// Returns the owner and address of each page.
fn pages_of(runs: &[Run]) -> impl Iterator<Item = (u32, Address)> {
    runs.iter().flat_map(|run| {
        (0..run.range.pages()).map(|page| (run.owner, run.range.start().plus(page * PAGE_BYTES as u64)))
    })
}
