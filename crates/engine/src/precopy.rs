//! Reading ahead, as live migration does: the job is scanned, runs on, and is read meanwhile; at the stop that follows,
//! what it has not written since the look need not be read again.
//!
//! What is read while a program runs may be torn. Whatever is written after the look is told by the next one, and is read
//! at the stop: so the image is that of the stop, page by page. What the kernel cannot tell for certain (memory that is not
//! tracked, private mappings of files, shared memory) is not read ahead at all.

use crate::capture_options::{CaptureOptions, Tracking};
use crate::collect::Collection;
use crate::freeze::{Frozen, FrozenProcess, if_another_ended};
use crate::pages::Pages;
use crate::reading::Wanted;
use crate::{EngineError, ProcessIdentity};
use standfast_core::directions::MaskedPages;
use standfast_core::{PAGE_BYTES, PageRange, PageSet};
use standfast_format::{BackingPage, BatchRange, ImageSink, PageBatch};
use standfast_linux::ProcessMemory;
use std::sync::Arc;

/// Pages of a job that are read while it runs. They hold nothing that counts before the next stop.
#[derive(Debug, Default)]
pub struct Precopied {
    processes: Vec<OfProcess>,
}

/// Those of one process.
#[derive(Debug)]
struct OfProcess {
    identity: ProcessIdentity,
    /// Whether it may share pages with another one since a fork.
    is_shared: bool,
    /// To be read, ascending.
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
    /// Takes the collection and looks which pages a checkpoint would have to save, so that they can be read when the job runs
    /// on. Nothing is to be read where the kernel does not note what is written.
    ///
    /// # Errors
    /// [`EngineError::Refused`] and others, as for a capture.
    pub fn foresee(&mut self, options: CaptureOptions) -> Result<Precopied, EngineError> {
        if !options.builds_upon_last {
            self.shared.tracks().forget();
        }
        let collection = Collection::take(self, options, false).map_err(|error| if_another_ended(error, self.main))?;
        if self.shared.tracks().resolve(options.tracking) != Tracking::Pagemap {
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
    /// Reads them, as far as so many bytes go, into batches that the sink lends. The job may run.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn read(&mut self, sink: &mut dyn ImageSink, bytes_max: u64) -> Result<(), EngineError> {
        let mut room = bytes_max;
        for process in &mut self.processes {
            // One that has ended or executed another program meanwhile holds nothing of what it held.
            let Ok(mut memory) = ProcessMemory::open(process.identity.pid) else { continue };
            if process.is_shared {
                memory.leave_shared();
            }
            let read = |ranges: &[PageRange], into: &mut [u8]| memory.read_pages(ranges, into);
            let wanted = Wanted { owner: 0, ranges: &process.wanted, masked_pages: None, read: &read };
            process.batches = wanted.read_ahead(sink, &mut room)?;
        }
        Ok(())
    }

    /// What of it counts for a process that is `owner` of its pages: those of `still` that were read, but for the blanks.
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

    /// Whether there is nothing to be read.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Gives back what nobody kept.
    pub(crate) fn give_back(self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        let unused = self.processes.into_iter().flat_map(|process| process.batches);
        unused
            .map(|batch| cut(batch, 0, &PageSet::default()))
            .try_for_each(|batch| sink.submit(batch))
            .map_err(EngineError::Image)
    }
}

impl Kept {
    /// Hands the pages to the sink. Returns how many there are.
    pub(crate) fn save(self, sink: &mut dyn ImageSink) -> Result<u64, EngineError> {
        let Self { owner, pages, masked_pages, batches } = self;
        for batch in batches {
            let batch = PageBatch { masked_pages: masked_pages.clone(), ..cut(batch, owner, &pages) };
            sink.submit(batch).map_err(EngineError::Image)?;
        }
        Ok(pages.pages())
    }
}

/// Leaves those pages in a batch that count.
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
    fn a_batch_keeps_the_pages_that_count_and_each_its_bytes() {
        let bytes = [1, 2, 3, 9, 10].iter().flat_map(|fill| [*fill; PAGE_BYTES]).collect();
        let of = |owner, range| BatchRange { owner, range, backing_page: BackingPage::Zeros };
        let ranges = vec![of(0, pages(1, 3)), of(0, pages(9, 2))];
        let batch = PageBatch { ranges, bytes, masked_pages: None };
        let batch = cut(batch, 7, &PageSet::of([pages(2, 1), pages(9, 2), pages(30, 1)]));
        assert_eq!(batch.ranges, [of(7, pages(2, 1)), of(7, pages(9, 2))]);
        assert_eq!(batch.bytes.chunks(PAGE_BYTES).map(|page| page[0]).collect::<Vec<_>>(), [2, 9, 10]);
    }
}
