//! Reads pages of a frozen job into batches, on several threads, since the processors that the job ran on are idle. The
//! caller specifies which pages to read.

use crate::EngineError;
use crate::error::kernel;
use crate::hashes::{FilterResult, PageFilter};
use standfast_core::directions::MaskedPages;
use standfast_core::{PAGE_BYTES, PageRange};
use standfast_format::{BackingPage, BatchRange, ImageSink, PageBatch};
use std::io;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Maximum number of reading threads; memory bandwidth does not feed more.
const READERS_MAX: usize = 4;
/// Number of batches for which a further thread is started: starting it takes as long as reading a tenth of one batch.
const BATCHES_PER_READER: usize = 2;
/// Number of pieces for which a further thread is started.
const PIECES_PER_READER: usize = 16;
/// Number of batches that are filled between two calls of the sink.
const GROUP_MAX: usize = 64;
/// Number of pages that are compared at a time, so that their copy stays in the processor's cache.
const PIECE_PAGES: u64 = 64;

/// Reads some pages of an owner, one after another.
pub(crate) type Read<'a> = &'a (dyn Fn(&[PageRange], &mut [u8]) -> io::Result<()> + Sync);

/// Some pages of one owner, ascending.
pub(crate) struct Wanted<'a> {
    /// Its number in the image.
    pub(crate) owner: u32,
    pub(crate) ranges: &'a [(PageRange, BackingPage)],
    /// The parts of these pages that do not count.
    pub(crate) masked_pages: Option<&'a Arc<MaskedPages>>,
    pub(crate) read: Read<'a>,
}

impl Wanted<'_> {
    fn of_owner(&self, ranges: Vec<(PageRange, BackingPage)>) -> Vec<BatchRange> {
        let owner = self.owner;
        ranges.into_iter().map(|(range, backing_page)| BatchRange { owner, range, backing_page }).collect()
    }

    /// Hands all of them to the sink and returns how many there were.
    pub(crate) fn save(&self, sink: &mut dyn ImageSink) -> Result<u64, EngineError> {
        let mut uncut = Uncut::of(self.ranges);
        while !uncut.is_empty() {
            let mut group = Vec::new();
            for _ in 0..sink.ready().clamp(1, GROUP_MAX) {
                let mut batch = sink.lend().map_err(EngineError::Image)?;
                let ranges = uncut.cut((batch.bytes.len() / PAGE_BYTES) as u64);
                batch.bytes.truncate(pages_of(&ranges) as usize * PAGE_BYTES);
                batch.ranges = self.of_owner(ranges);
                batch.masked_pages = self.masked_pages.cloned();
                group.push(batch);
                if uncut.is_empty() {
                    break;
                }
            }
            let threads = group.len() / BATCHES_PER_READER;
            let unfilled = Mutex::new(group.iter_mut());
            let next = || unfilled.lock().unwrap_or_else(PoisonError::into_inner).next();
            on_threads(threads, &|| {
                while let Some(batch) = next() {
                    let ranges: Vec<_> = batch.ranges.iter().map(|it| it.range).collect();
                    (self.read)(&ranges, &mut batch.bytes)?;
                }
                Ok(())
            })?;
            group.into_iter().try_for_each(|batch| sink.submit(batch)).map_err(EngineError::Image)?;
        }
        Ok(pages_of(self.ranges))
    }

    /// Reads them into batches that remain with the caller, as long as there is `room`, in bytes, for the sink's
    /// batches. A batch that cannot be read completely comes back without ranges.
    pub(crate) fn read_for_precopy(
        &self,
        sink: &mut dyn ImageSink,
        room: &mut u64,
    ) -> Result<Vec<PageBatch>, EngineError> {
        let mut uncut = Uncut::of(self.ranges);
        let mut read = Vec::new();
        while !uncut.is_empty() {
            let mut group = Vec::new();
            while group.len() < READERS_MAX && !uncut.is_empty() {
                let mut batch = sink.lend().map_err(EngineError::Image)?;
                let Some(left) = room.checked_sub(batch.bytes.len() as u64) else {
                    sink.submit(batch).map_err(EngineError::Image)?;
                    break;
                };
                *room = left;
                let ranges = uncut.cut((batch.bytes.len() / PAGE_BYTES) as u64);
                batch.bytes.truncate(pages_of(&ranges) as usize * PAGE_BYTES);
                batch.ranges = self.of_owner(ranges);
                group.push(batch);
            }
            if group.is_empty() {
                break;
            }
            let unfilled = Mutex::new(group.iter_mut());
            let next = || unfilled.lock().unwrap_or_else(PoisonError::into_inner).next();
            on_threads(READERS_MAX, &|| {
                while let Some(batch) = next() {
                    let ranges: Vec<_> = batch.ranges.iter().map(|it| it.range).collect();
                    if (self.read)(&ranges, &mut batch.bytes).is_err() {
                        batch.ranges.clear();
                    }
                }
                Ok(())
            })?;
            read.append(&mut group);
        }
        Ok(read)
    }

    /// Hands the changed pages to the sink and returns how many there are.
    pub(crate) fn save_changed(
        &self,
        page_filter: &mut PageFilter<'_>,
        sink: &mut dyn ImageSink,
    ) -> Result<u64, EngineError> {
        let mut uncut = Uncut::of(self.ranges);
        let pieces: Vec<_> = std::iter::from_fn(|| (!uncut.is_empty()).then(|| uncut.cut(PIECE_PAGES))).collect();
        let (saved, next_piece) = (page_filter.saved, AtomicUsize::new(0));
        let found = Mutex::new(Vec::new());
        let mut changed = 0;
        while next_piece.load(Ordering::Relaxed) < pieces.len() {
            // Use too few batches rather than too many, since most pages will be unchanged.
            let left = pieces.len() - next_piece.load(Ordering::Relaxed);
            let group = sink.ready().min(left / PIECES_PER_READER).clamp(1, READERS_MAX);
            let lent = (0..group).map(|_| sink.lend().map(Filling::new)).collect::<Result<Vec<_>, _>>();
            let unfilled = Mutex::new(lent.map_err(EngineError::Image)?);
            let filled = Mutex::new(Vec::new());
            let next_batch = || unfilled.lock().unwrap_or_else(PoisonError::into_inner).pop();
            on_threads(group, &|| {
                let mut bytes = vec![0u8; PIECE_PAGES as usize * PAGE_BYTES];
                while let Some(mut batch) = next_batch() {
                    while batch.has_room() {
                        let place = next_piece.fetch_add(1, Ordering::Relaxed);
                        let Some(piece) = pieces.get(place) else { break };
                        let bytes = &mut bytes[..pages_of(piece) as usize * PAGE_BYTES];
                        let ranges: Vec<_> = piece.iter().map(|(range, _)| *range).collect();
                        (self.read)(&ranges, bytes)?;
                        let keep = |page, backing_page, bytes: &[u8]| batch.push(self.owner, page, backing_page, bytes);
                        let filtered = saved.filter(piece, bytes, keep);
                        found.lock().unwrap_or_else(PoisonError::into_inner).push((place, filtered));
                    }
                    filled.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
                }
                Ok(())
            })?;
            for batch in filled.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let batch = batch.into_batch();
                changed += (batch.bytes.len() / PAGE_BYTES) as u64;
                sink.submit(batch).map_err(EngineError::Image)?;
            }
        }
        let mut found: Vec<(usize, FilterResult)> = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable_by_key(|(place, _)| *place);
        found.into_iter().for_each(|(_, filtered)| page_filter.take(filtered));
        Ok(changed)
    }
}

/// Saves the changed pages of many owners with few pages each, so that several owners share one batch.
#[derive(Default)]
pub(crate) struct Gathering {
    filling: Option<Filling>,
    bytes: Vec<u8>,
}

impl Gathering {
    /// Reports whether an owner has few enough pages.
    pub(crate) fn takes(wanted: &Wanted<'_>) -> bool {
        pages_of(wanted.ranges) <= PIECE_PAGES
    }

    /// Like [`Wanted::save_changed`], but some of the pages reach the sink later, with [`Gathering::finish`] at the
    /// latest.
    pub(crate) fn save_changed(
        &mut self,
        wanted: &Wanted<'_>,
        page_filter: &mut PageFilter<'_>,
        sink: &mut dyn ImageSink,
    ) -> Result<u64, EngineError> {
        if self.filling.as_ref().is_some_and(|filling| !filling.has_room()) {
            std::mem::take(&mut self.filling)
                .map_or(Ok(()), |full| sink.submit(full.into_batch()))
                .map_err(EngineError::Image)?;
        }
        let filling = match &mut self.filling {
            Some(filling) => filling,
            none => none.insert(Filling::new(sink.lend().map_err(EngineError::Image)?)),
        };
        self.bytes.resize(pages_of(wanted.ranges) as usize * PAGE_BYTES, 0);
        let ranges: Vec<_> = wanted.ranges.iter().map(|(range, _)| *range).collect();
        (wanted.read)(&ranges, &mut self.bytes).map_err(|source| kernel("reading the program's files", source))?;
        let before = filling.bytes;
        let keep = |page, backing_page, bytes: &[u8]| filling.push(wanted.owner, page, backing_page, bytes);
        let filtered = page_filter.saved.filter(wanted.ranges, &self.bytes, keep);
        page_filter.take(filtered);
        Ok(((filling.bytes - before) / PAGE_BYTES) as u64)
    }

    /// Hands the last of the pages to the sink.
    pub(crate) fn finish(self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        self.filling.map_or(Ok(()), |last| sink.submit(last.into_batch())).map_err(EngineError::Image)
    }
}

fn pages_of(ranges: &[(PageRange, BackingPage)]) -> u64 {
    ranges.iter().map(|(range, _)| range.pages()).sum()
}

/// Ranges from which pieces are cut off.
struct Uncut<'a> {
    first: Option<(PageRange, BackingPage)>,
    rest: std::slice::Iter<'a, (PageRange, BackingPage)>,
}

impl<'a> Uncut<'a> {
    fn of(ranges: &'a [(PageRange, BackingPage)]) -> Self {
        let mut rest = ranges.iter();
        Self { first: rest.next().copied(), rest }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the next `pages` pages, or all that are left.
    fn cut(&mut self, pages: u64) -> Vec<(PageRange, BackingPage)> {
        assert!(pages > 0, "a sink lends room for a page at least");
        let (mut piece, mut room) = (Vec::new(), pages);
        while let Some((range, backing_page)) = self.first.filter(|_| room > 0) {
            let (head, tail) = range.split_at(room);
            piece.push((head, backing_page));
            room -= head.pages();
            self.first = if tail.pages() > 0 { Some((tail, backing_page)) } else { self.rest.next().copied() };
        }
        piece
    }
}

/// A batch that is filled page by page.
struct Filling {
    batch: PageBatch,
    bytes: usize,
}

impl Filling {
    fn new(batch: PageBatch) -> Self {
        assert!(batch.bytes.len() >= PIECE_PAGES as usize * PAGE_BYTES, "a sink lends room for a piece at least");
        Self { batch, bytes: 0 }
    }

    /// Reports whether all pages of a piece fit into it.
    fn has_room(&self) -> bool {
        self.batch.bytes.len() - self.bytes >= PIECE_PAGES as usize * PAGE_BYTES
    }

    fn push(&mut self, owner: u32, page: PageRange, backing_page: BackingPage, bytes: &[u8]) {
        self.batch.bytes[self.bytes..][..bytes.len()].copy_from_slice(bytes);
        self.bytes += bytes.len();
        match self.batch.ranges.last_mut() {
            Some(last) if (last.owner, last.backing_page, last.range.end()) == (owner, backing_page, page.start()) => {
                last.range = PageRange::between(last.range.start(), page.end());
            }
            _ => self.batch.ranges.push(BatchRange { owner, range: page, backing_page }),
        }
    }

    fn into_batch(mut self) -> PageBatch {
        self.batch.bytes.truncate(self.bytes);
        self.batch
    }
}

/// Returns the maximum number of threads that read at the same time.
pub(crate) fn readers() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    processors.clamp(1, READERS_MAX)
}

/// Does the same work on several threads, including this one.
fn on_threads(threads: usize, work: &(dyn Fn() -> io::Result<()> + Sync)) -> Result<(), EngineError> {
    let others = threads.clamp(1, readers()) - 1;
    let outcome = thread::scope(|scope| {
        // If no thread can be started, this one does all the work.
        let start = |_| thread::Builder::new().name("page reader".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (0..others).filter_map(start).collect();
        let own = work();
        let join = |other: thread::ScopedJoinHandle<'_, _>| other.join().unwrap_or_else(|panic| resume_unwind(panic));
        others.into_iter().map(join).fold(own, Result::and)
    });
    outcome.map_err(|source| kernel("reading the program's memory", source))
}
