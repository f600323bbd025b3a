//! A generation with everything that it inherits: its own image, its parent's, and so on down to a full one. What a
//! restart reads.

use crate::StoreError;
use crate::image_file::ImageFile;
use crate::job::Shelf;
use crate::resolve::{Resolved, Take, resolve};
use standfast_core::PAGE_BYTES;
use standfast_format::image::{Header, Index, Inherited};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Links that a chain has at most: each is an open file, of which a process may have 1024 on an ordinary system. A
/// checkpoint that would make a longer one is full.
pub const LINKS_MAX: usize = 256;

/// Bytes that are read, verified and placed at a time: enough for full speed, little enough to stay in the cache.
const PORTION_BYTES: usize = 1 << 20;

/// Threads that read at most. Placing pages is bound by the kernel's memory management, which four keep busy.
const READERS_MAX: usize = 4;

/// The images of a generation and all those that it inherits from, open; header, tables and state of each have been
/// verified and are those that the manifest names.
///
/// Errors of the store that come out of [`ImageSource::deliver`] are [`StoreError`]s in their box: after one of those an
/// older generation may still be good.
#[derive(Debug)]
pub struct Chain {
    shelf: Arc<Shelf>,
    /// Newest first.
    links: Vec<ImageFile>,
    resolved: Resolved,
}

/// What [`Chain::verify`] has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Blocks of pages.
    pub blocks: u64,
    /// Length of the generation's own file, every byte of it verified.
    pub bytes: u64,
}

impl Chain {
    /// Opens the chain of a generation that stands in the manifest.
    pub(crate) fn open(shelf: &Arc<Shelf>, manifest: &Manifest, generation: &Generation) -> Result<Self, StoreError> {
        Self::open_above(shelf, manifest, generation, None)
    }

    /// Opens those links of the chain of a generation that come above `base`, which must be one of them; all where there is
    /// none. What is the base's, [`Chain::beyond`] tells.
    pub(crate) fn open_above(
        shelf: &Arc<Shelf>,
        manifest: &Manifest,
        generation: &Generation,
        base: Option<GenerationNumber>,
    ) -> Result<Self, StoreError> {
        let mut links: Vec<ImageFile> = Vec::new();
        let above = manifest.chain(generation.number).take_while(|link| Some(link.number) != base);
        for link in above.take(LINKS_MAX + 1) {
            let opened = ImageFile::open(shelf, manifest.job, link).and_then(|file| {
                let named = links.last().and_then(|child| child.image.header.identity().parent);
                let is_meant = named.is_none_or(|parent| parent.origin == link.origin);
                if is_meant { Ok(file) } else { Err(StoreError::WrongImage(file.path().to_owned())) }
            });
            links.push(opened.map_err(|error| of_link(shelf, generation.number, link.number, error))?);
        }
        let indexes: Vec<&Index> = links.iter().map(|link| &link.image.index).collect();
        let resolved = resolve(&indexes).map_err(|source| {
            let path = links.first().map(|link| link.path().to_owned()).unwrap_or_default();
            StoreError::Image { path, source }
        })?;
        Ok(Self { shelf: Arc::clone(shelf), links, resolved })
    }

    /// The header of the generation's own image.
    pub fn header(&self) -> &Header {
        &self.newest().image.header
    }

    /// Reads and verifies every block of the generation's own image. Those of the generations that it builds upon are
    /// theirs to verify.
    ///
    /// # Errors
    /// The first block that is not what was written or cannot be read.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let own = portions(&self.newest().image.index, |_| true).into_iter().map(|blocks| (0, blocks)).collect();
        self.in_turn(own, &|_, _| Ok(())).map_err(|failure| match failure {
            Failure::Store(error) => error,
            Failure::Placing(_) => unreachable!("nothing is placed"),
        })?;
        let image = &self.newest().image;
        Ok(Verified { blocks: image.index.blocks().len() as u64, bytes: image.header.file_bytes() })
    }

    /// Pages that are those of a link that was not opened.
    pub(crate) fn beyond(&self) -> &[Inherited] {
        &self.resolved.beyond
    }

    fn newest(&self) -> &ImageFile {
        self.links.first().expect("a chain has a link")
    }

    /// What is to be read, in the order in which it lies on the disk: link and blocks.
    pub(crate) fn portions(&self) -> Vec<(usize, Range<usize>)> {
        let mut all: Vec<_> =
            portions(&self.newest().image.index, |_| true).into_iter().map(|blocks| (0, blocks)).collect();
        for (link, takes) in (1..).zip(&self.resolved.takes) {
            let index = &self.links[link].image.index;
            let is_wanted = |block| takes_of(takes, &(block..block + 1)).next().is_some();
            all.extend(portions(index, is_wanted).into_iter().map(|blocks| (link, blocks)));
        }
        all
    }

    fn in_turn(&self, portions: Vec<(usize, Range<usize>)>, place: Place<'_>) -> Result<(), Failure> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
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
                if let Err(error) = place(runs, bytes) {
                    // The others find nothing left to do.
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

    /// Reads and verifies a portion: which pages of it are taken, and what they hold.
    pub(crate) fn read<'a>(
        &'a self,
        (link, blocks): &(usize, Range<usize>),
        buffers: &'a mut Buffers,
    ) -> Result<(&'a [Run], &'a [u8]), StoreError> {
        let file = &self.links[*link];
        let own = self.newest().number;
        file.read_blocks(blocks.clone(), &mut buffers.blocks)
            .map_err(|error| of_link(&self.shelf, own, file.number, error))?;
        let index = &file.image.index;
        if *link == 0 {
            return Ok((index.runs_of(blocks.clone()), &buffers.blocks));
        }
        buffers.runs.clear();
        buffers.pages.clear();
        let start = index.blocks()[blocks.start].offset();
        for take in takes_of(&self.resolved.takes[link - 1], blocks) {
            let from = (index.blocks()[take.block].offset() - start) as usize + take.first as usize * PAGE_BYTES;
            buffers.pages.extend_from_slice(&buffers.blocks[from..from + take.run.range.bytes() as usize]);
            buffers.runs.push(take.run);
        }
        Ok((&buffers.runs, &buffers.pages))
    }
}

/// Memory that one portion leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    blocks: Vec<u8>,
    pages: Vec<u8>,
    runs: Vec<Run>,
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

/// Whose fault it is that not all pages were delivered.
enum Failure {
    Store(StoreError),
    Placing(BoxError),
}

fn note(first: &Mutex<Option<Failure>>, failure: Failure) {
    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// Notes that an image is bad, so that no other generation which builds upon it is tried, and says whose error it is.
fn of_link(shelf: &Shelf, own: GenerationNumber, number: GenerationNumber, source: StoreError) -> StoreError {
    shelf.bad_generations().insert(number, source.is_damage());
    if number == own { source } else { StoreError::Link { number, source: Box::new(source) } }
}

/// The takes from some adjoining blocks.
fn takes_of<'a>(takes: &'a [Take], blocks: &Range<usize>) -> impl Iterator<Item = &'a Take> {
    let from = takes.partition_point(|take| take.block < blocks.start);
    let end = blocks.end;
    takes[from..].iter().take_while(move |take| take.block < end)
}

/// The wanted blocks, in groups that adjoin and are read at once.
fn portions(index: &Index, is_wanted: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut portions: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, block) in index.blocks().iter().enumerate().filter(|(at, _)| is_wanted(*at)) {
        match portions.last_mut() {
            Some(last) if last.end == at && bytes + block.bytes() <= PORTION_BYTES => last.end = at + 1,
            _ => {
                portions.push(at..at + 1);
                bytes = 0;
            }
        }
        bytes += block.bytes();
    }
    portions
}
