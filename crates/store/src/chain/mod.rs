//! A generation with everything that it inherits: its own image, its parent's, and so on down to a full one. A restart
//! reads a chain.

mod before;

use crate::StoreError;
use crate::image_file::ImageFile;
use crate::level_directory::LevelDirectory;
use crate::progress::Progress;
use crate::resolve::{BlockRun, Resolved, Take, resolve};
pub(crate) use before::Loaded;
use standfast_core::PAGE_BYTES;
use standfast_core::codec::{Decompressor, Encoding};
use standfast_format::image::{Header, Index, Inherited};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Maximum number of links in a chain. Each is an open file, and a process may have 1024 of them on an ordinary system.
/// A checkpoint that would make a chain longer is full instead.
pub const LINKS_MAX: usize = 256;

/// Bytes that are read, verified and placed at a time: enough for full speed, and small enough to stay in the cache.
const PORTION_BYTES: usize = 1 << 20;

/// Maximum number of threads that read. The kernel's memory management limits the placing of pages, and four threads
/// saturate it.
const READERS_MAX: usize = 4;

/// The open images of a generation and of all generations that it inherits from. The header, tables and state of each
/// have been verified and match the manifest.
///
/// Store errors from [`ImageSource::deliver`] are boxed [`StoreError`]s. After one of those an older generation may
/// still be good.
#[derive(Debug)]
pub struct Chain {
    level_directory: Arc<LevelDirectory>,
    /// Newest first.
    pub(crate) links: Vec<ImageFile>,
    resolved: Resolved,
    /// The pages of each link by place, built when a single page is first needed.
    pub(crate) block_runs: Vec<OnceLock<Vec<BlockRun>>>,
    progress: Progress,
}

/// The scope of a [`Chain::verify`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Number of blocks of pages.
    pub blocks: u64,
    /// Length of the generation's own file, every byte of which was verified.
    pub bytes: u64,
}

/// Blocks of one link that are read in one operation.
#[derive(Debug)]
pub(crate) struct Portion {
    link: usize,
    blocks: Range<usize>,
}

impl Chain {
    /// Opens the chain of a generation that the manifest names.
    pub(crate) fn open(
        level_directory: &Arc<LevelDirectory>,
        manifest: &Manifest,
        generation: &Generation,
    ) -> Result<Self, StoreError> {
        Self::open_above(level_directory, manifest, generation, None)
    }

    /// Opens the links of a generation's chain above `base`, which must be one of them, or all links without a base.
    /// [`Chain::beyond`] returns the pages that belong to the base. If differences apply to those pages, the base is
    /// opened too.
    pub(crate) fn open_above(
        level_directory: &Arc<LevelDirectory>,
        manifest: &Manifest,
        generation: &Generation,
        base: Option<GenerationNumber>,
    ) -> Result<Self, StoreError> {
        let mut links: Vec<ImageFile> = Vec::new();
        let mut above = 0;
        let mut needs_all = false;
        for link in manifest.chain(generation.number).take(LINKS_MAX + 1) {
            let is_above = above == links.len() && Some(link.number) != base;
            if !is_above && !needs_all {
                break;
            }
            let opened = ImageFile::open(level_directory, manifest.job, link).and_then(|file| {
                let named = links.last().and_then(|child| child.image.header.identity().parent);
                let is_meant = named.is_none_or(|parent| parent.origin == link.origin);
                if is_meant { Ok(file) } else { Err(StoreError::WrongImage(file.path().to_owned())) }
            });
            links.push(opened.map_err(|error| of_link(level_directory, generation.number, link.number, error))?);
            above += usize::from(is_above);
            needs_all |= links.last().is_some_and(|link| link.image.index.has_differences());
        }
        let indexes: Vec<&Index> = links[..above].iter().map(|link| &link.image.index).collect();
        let resolved = resolve(&indexes).map_err(|source| {
            let path = links.first().map(|link| link.path().to_owned()).unwrap_or_default();
            StoreError::Image { path, source }
        })?;
        let block_runs = links.iter().map(|_| OnceLock::new()).collect();
        let level_directory = Arc::clone(level_directory);
        Ok(Self { level_directory, links, resolved, block_runs, progress: Progress::default() })
    }

    /// Returns the header of the generation's own image.
    pub fn header(&self) -> &Header {
        &self.newest().image.header
    }

    /// Returns the progress of [`Chain::verify`] or [`ImageSource::deliver`], in bytes of pages.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Reads and verifies every block of the generation's own image. The blocks of the generations on which it builds
    /// are not verified.
    ///
    /// # Errors
    /// The first block that cannot be read, or whose content is not what was written.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let own = portions(&self.newest().image.index, |_| true)
            .into_iter()
            .map(|blocks| Portion { link: 0, blocks })
            .collect();
        self.in_turn(own, &|_, _| Ok(())).map_err(|failure| match failure {
            Failure::Store(error) => error,
            Failure::Placing(_) => unreachable!("nothing is placed"),
        })?;
        let image = &self.newest().image;
        Ok(Verified { blocks: image.index.blocks().len() as u64, bytes: image.header.file_bytes() })
    }

    /// Returns the pages that belong to a link that was not opened.
    pub(crate) fn beyond(&self) -> &[Inherited] {
        &self.resolved.beyond
    }

    fn newest(&self) -> &ImageFile {
        self.links.first().expect("a chain has a link")
    }

    /// Returns the portions to read, in the order of their place on the disk.
    pub(crate) fn portions(&self) -> Vec<Portion> {
        let mut all: Vec<_> = portions(&self.newest().image.index, |_| true)
            .into_iter()
            .map(|blocks| Portion { link: 0, blocks })
            .collect();
        for (link, takes) in (1..).zip(&self.resolved.takes) {
            let index = &self.links[link].image.index;
            let is_wanted = |block| takes_of(takes, &(block..block + 1)).next().is_some();
            all.extend(portions(index, is_wanted).into_iter().map(|blocks| Portion { link, blocks }));
        }
        all
    }

    fn in_turn(&self, portions: Vec<Portion>, place: Place<'_>) -> Result<(), Failure> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        self.progress.expect(portions.iter().map(|portion| self.page_bytes(portion)).sum());
        let read = || {
            let mut buffers = Buffers::default();
            while let Some(portion) = portions.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (runs, bytes) = match self.read(portion, &mut buffers) {
                    Ok(read) => read,
                    Err(error) => {
                        next.store(portions.len(), Ordering::Relaxed);
                        note(&failure, Failure::Store(error));
                        continue;
                    }
                };
                let placed = place(runs, bytes);
                self.progress.add(self.page_bytes(portion));
                if let Err(error) = placed {
                    // The other threads find nothing left to do.
                    next.store(portions.len(), Ordering::Relaxed);
                    note(&failure, Failure::Placing(error));
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            for _ in 1..cores.min(READERS_MAX).min(portions.len()) {
                scope.spawn(read);
            }
            read();
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn page_bytes(&self, portion: &Portion) -> u64 {
        self.links[portion.link].image.index.blocks()[portion.blocks.clone()]
            .iter()
            .map(|block| block.page_bytes() as u64)
            .sum()
    }

    /// Reads and verifies a portion. Returns the pages taken from it and their content.
    pub(crate) fn read<'a>(
        &'a self,
        portion: &Portion,
        buffers: &'a mut Buffers,
    ) -> Result<(&'a [Run], &'a [u8]), StoreError> {
        let Portion { link, blocks } = portion;
        let index = &self.links[*link].image.index;
        let takes = if *link == 0 { &[][..] } else { &self.resolved.takes[link - 1][..] };
        let wanted = |block| if *link == 0 { !0 } else { mask(takes_of(takes, &(block..block + 1))) };
        self.read_blocks(*link, blocks.clone(), &wanted, buffers)?;
        if *link == 0 {
            return Ok((index.runs_of(blocks.clone()), &buffers.pages));
        }
        buffers.runs.clear();
        buffers.taken.clear();
        let (mut block, mut start) = (blocks.start, 0);
        for take in takes_of(takes, blocks) {
            start += index.blocks()[block..take.block].iter().map(|block| block.page_bytes()).sum::<usize>();
            block = take.block;
            let from = start + take.first as usize * PAGE_BYTES;
            buffers.taken.extend_from_slice(&buffers.pages[from..from + take.run.range.bytes() as usize]);
            buffers.runs.push(take.run);
        }
        Ok((&buffers.runs, &buffers.taken))
    }

    /// Reads the pages of adjoining blocks into [`Buffers::pages`]. Of a block of differences, it reads only the pages
    /// whose bit in `wanted` is set.
    fn read_blocks(
        &self,
        link: usize,
        blocks: Range<usize>,
        wanted: &dyn Fn(usize) -> u64,
        buffers: &mut Buffers,
    ) -> Result<(), StoreError> {
        let file = &self.links[link];
        let of_link = |error| self.of_link(link, error);
        file.read_blocks(blocks.clone(), &mut buffers.stored).map_err(of_link)?;
        let all = &file.image.index.blocks()[blocks.clone()];
        if all.iter().all(|block| block.encoding() == Encoding::Raw) {
            std::mem::swap(&mut buffers.stored, &mut buffers.pages);
            return Ok(());
        }
        buffers.pages.resize(all.iter().map(|block| block.page_bytes()).sum(), 0);
        let (mut stored, mut pages) = (&buffers.stored[..], &mut buffers.pages[..]);
        for (at, block) in blocks.zip(all) {
            let (own_stored, others_stored) = stored.split_at(block.bytes());
            let (own, others) = pages.split_at_mut(block.page_bytes());
            if block.encoding() == Encoding::Differences {
                self.put_differences((link, at), own_stored, wanted(at), own, &mut buffers.loaded)?;
            } else {
                let decompressor = &mut buffers.decompressor;
                block.unpack(own_stored, own, decompressor).map_err(|error| of_link(file.bad(error)))?;
            }
            (stored, pages) = (others_stored, others);
        }
        Ok(())
    }

    /// Attributes an error to its link.
    pub(crate) fn of_link(&self, link: usize, error: StoreError) -> StoreError {
        of_link(&self.level_directory, self.newest().number, self.links[link].number, error)
    }
}

/// Returns a mask of the pages taken from a block, one bit per page.
fn mask<'a>(takes: impl Iterator<Item = &'a Take>) -> u64 {
    let pages = |take: &Take| take.first..take.first + take.run.range.pages();
    takes.flat_map(pages).fold(0, |mask, page| mask | 1 << page)
}

/// Buffers that one portion passes on to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Blocks in their stored form.
    stored: Vec<u8>,
    /// Their pages.
    pages: Vec<u8>,
    /// The pages taken from them; `runs` are their places.
    taken: Vec<u8>,
    runs: Vec<Run>,
    decompressor: Decompressor,
    loaded: Loaded,
}

impl ImageSource for Chain {
    fn state(&self) -> &JobState {
        &self.newest().image.state
    }

    fn runs(&self) -> &[Run] {
        &self.resolved.runs
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        self.in_turn(self.portions(), place).map_err(|failure| match failure {
            Failure::Store(error) => Box::new(error),
            Failure::Placing(error) => error,
        })
    }
}

type Place<'a> = &'a (dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync);

/// The cause of a failed delivery.
enum Failure {
    Store(StoreError),
    Placing(BoxError),
}

fn note(first: &Mutex<Option<Failure>>, failure: Failure) {
    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// Records that an image is bad, so that no other generation that builds on it is tried, and attributes the error to
/// it.
fn of_link(
    level_directory: &LevelDirectory,
    own: GenerationNumber,
    number: GenerationNumber,
    source: StoreError,
) -> StoreError {
    level_directory.bad_generations().insert(number, source.is_damage());
    if number == own { source } else { StoreError::Link { number, source: Box::new(source) } }
}

/// Returns the takes from some adjoining blocks.
fn takes_of<'a>(takes: &'a [Take], blocks: &Range<usize>) -> impl Iterator<Item = &'a Take> {
    let from = takes.partition_point(|take| take.block < blocks.start);
    let end = blocks.end;
    takes[from..].iter().take_while(move |take| take.block < end)
}

/// Returns the wanted blocks, in groups that adjoin and are read in one operation.
fn portions(index: &Index, is_wanted: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut portions: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, block) in index.blocks().iter().enumerate().filter(|(at, _)| is_wanted(*at)) {
        match portions.last_mut() {
            Some(last) if last.end == at && bytes + block.page_bytes() <= PORTION_BYTES => last.end = at + 1,
            _ => {
                portions.push(at..at + 1);
                bytes = 0;
            }
        }
        bytes += block.page_bytes();
    }
    portions
}
