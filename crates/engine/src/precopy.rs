//! Reading ahead, as live migration does: the job is scanned, continues, and is read meanwhile. At the following stop,
//! pages that it has not written since the scan need not be read again.
//!
//! Pages that are read while a program runs may be torn. But the next scan reports everything written after the first
//! one, and those pages are read at the stop. So the image is that of the stop, page by page. Memory for which the
//! kernel cannot report writes reliably (untracked memory, private mappings of files, shared memory) is not read ahead
//! at all.

use crate::capture_options::{CaptureOptions, Tracking};
use crate::collect::{Collection, Look};
use crate::freeze::{Frozen, FrozenProcess, if_another_ended};
use crate::pages::Pages;
use crate::reading::Wanted;
use crate::{EngineError, ProcessIdentity};
use standfast_core::directions::MaskedPages;
use standfast_core::{PAGE_BYTES, PageRange, PageSet};
use standfast_format::{BackingPage, BatchRange, ImageSink, PageBatch};
use standfast_linux::ProcessMemory;
use std::sync::Arc;

/// Pages of a job that are read while it runs. Their contents do not count before the next stop.
#[derive(Debug, Default)]
pub struct Precopied {
    processes: Vec<OfProcess>,
}

/// Such pages of one process.
#[derive(Debug)]
struct OfProcess {
    identity: ProcessIdentity,
    /// Whether it may share pages with another process since a fork.
    is_shared: bool,
    /// Pages to read, ascending.
    wanted: Vec<(PageRange, BackingPage)>,
    batches: Vec<PageBatch>,
}

/// Pages that were read ahead and hold what the process holds at the stop.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    owner: u32,
    pub(crate) pages: PageSet,
    masked_pages: Option<Arc<MaskedPages>>,
    batches: Vec<PageBatch>,
}

impl Frozen {
    /// Takes the collection and determines which pages a checkpoint would save, so that they can be read when the job
    /// runs again. Nothing is precopied if the kernel does not track writes.
    ///
    /// # Errors
    /// [`EngineError::Refused`] and others, as for a capture.
    pub fn begin_precopy(&mut self, options: CaptureOptions) -> Result<Precopied, EngineError> {
        if !options.builds_upon_last {
            self.shared.memory.tracks().forget();
        }
        let collection =
            Collection::take(self, options, Look::First).map_err(|error| if_another_ended(error, self.main))?;
        if self.shared.memory.tracks().resolve(options.tracking) != Tracking::Pagemap {
            return Ok(Precopied::default());
        }
        let scanned = self.processes.iter().zip(collection.identities).zip(collection.pages);
        let of_process = |((process, identity), pages): ((&FrozenProcess, ProcessIdentity), Pages)| {
            let wanted =
                pages.changed.into_iter().filter(|(_, backing_page)| *backing_page == BackingPage::Zeros).collect();
            OfProcess { identity, is_shared: process.memory.leaves_shared(), wanted, batches: Vec::new() }
        };
        Ok(Precopied { processes: scanned.map(of_process).collect() })
    }
}

impl Precopied {
    /// Reads them into batches that the sink lends, up to `bytes_max` bytes. The job may run.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn read(&mut self, sink: &mut dyn ImageSink, bytes_max: u64) -> Result<(), EngineError> {
        let mut room = bytes_max;
        for process in &mut self.processes {
            // A process that has ended or executed another program meanwhile has lost these pages.
            let Ok(mut memory) = ProcessMemory::open(process.identity.pid) else { continue };
            if process.is_shared {
                memory.leave_shared();
            }
            let read = |ranges: &[PageRange], into: &mut [u8]| memory.read_pages(ranges, into);
            let wanted = Wanted { owner: 0, ranges: &process.wanted, masked_pages: None, read: &read };
            process.batches = wanted.read_for_precopy(sink, &mut room)?;
        }
        Ok(())
    }

    /// Returns the pages that are still valid for a process, `owner` in the image: those of `still` that were read,
    /// except masked words.
    pub(crate) fn keep(
        &mut self,
        identity: ProcessIdentity,
        owner: u32,
        still: &PageSet,
        masked_pages: Option<&Arc<MaskedPages>>,
    ) -> Kept {
        let Some(place) = self.processes.iter().position(|process| process.identity == identity) else {
            return Kept::default();
        };
        let batches = self.processes.swap_remove(place).batches;
        let read = PageSet::of(batches.iter().flat_map(|batch| batch.ranges.iter().map(|it| it.range)));
        Kept { owner, pages: read.intersection(still), masked_pages: masked_pages.cloned(), batches }
    }

    /// Reports whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns the batches that no process kept to the sink.
    pub(crate) fn give_back(self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        let unused = self.processes.into_iter().flat_map(|process| process.batches);
        unused
            .map(|batch| cut(batch, 0, &PageSet::default()))
            .try_for_each(|batch| sink.submit(batch))
            .map_err(EngineError::Image)
    }
}

impl Kept {
    /// Hands the pages to the sink and returns how many there are.
    pub(crate) fn save(self, sink: &mut dyn ImageSink) -> Result<u64, EngineError> {
        let Self { owner, pages, masked_pages, batches } = self;
        for batch in batches {
            let batch = PageBatch { masked_pages: masked_pages.clone(), ..cut(batch, owner, &pages) };
            sink.submit(batch).map_err(EngineError::Image)?;
        }
        Ok(pages.pages())
    }
}

/// Keeps only the given pages in a batch.
fn cut(mut batch: PageBatch, owner: u32, pages: &PageSet) -> PageBatch {
    let (mut from, mut to) = (0, 0);
    let mut ranges = Vec::new();
    for BatchRange { range, backing_page, .. } in std::mem::take(&mut batch.ranges) {
        for piece in PageSet::of([range]).intersection(pages).ranges() {
            let offset = from + (piece.start().get() - range.start().get()) as usize;
            let bytes = piece.bytes() as usize;
            batch.bytes.copy_within(offset..offset + bytes, to);
            to += bytes;
            ranges.push(BatchRange { owner, range: *piece, backing_page });
        }
        from += range.pages() as usize * PAGE_BYTES;
    }
    batch.bytes.truncate(to);
    batch.ranges = ranges;
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Address;

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * PAGE_BYTES as u64), pages)
    }

    #[test]
    fn cutting_a_batch_keeps_the_wanted_pages_and_their_bytes() {
        let bytes = [1, 2, 3, 9, 10].iter().flat_map(|fill| [*fill; PAGE_BYTES]).collect();
        let of = |owner, range| BatchRange { owner, range, backing_page: BackingPage::Zeros };
        let ranges = vec![of(0, pages(1, 3)), of(0, pages(9, 2))];
        let batch = PageBatch { ranges, bytes, masked_pages: None };
        let batch = cut(batch, 7, &PageSet::of([pages(2, 1), pages(9, 2), pages(30, 1)]));
        assert_eq!(batch.ranges, [of(7, pages(2, 1)), of(7, pages(9, 2))]);
        assert_eq!(batch.bytes.chunks(PAGE_BYTES).map(|page| page[0]).collect::<Vec<_>>(), [2, 9, 10]);
    }
}
