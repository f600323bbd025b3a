//! Separates the pages of a batch that have masked words, which the program has declared not to count. They are encoded
//! on their own, so that only what counts takes space. Pure; other modules write them.

use standfast_core::delta::Page;
use standfast_core::directions::MaskedPage;
use standfast_core::{Mask, PAGE_BYTES, PageRange, is_zero};
use standfast_format::{BackingPage, BatchRange, Contents, PageBatch, Run};

/// Some pages and their places, in the order of the bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) runs: Vec<Run>,
    pub(super) bytes: Vec<u8>,
}

/// Pages separated from a batch. The memory is reused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SeparatedPages {
    /// Pages that are partly dead. The dead parts are zero here.
    pub(super) dead: Pages,
    /// Pages that are partly held by the generation on which the image builds.
    pub(super) held: Pages,
    /// The words that count in the held pages.
    pub(super) masks: Vec<Mask>,
    /// Whether all pages of the batch are held: then they stay in the batch, and none is copied.
    is_all_held: bool,
    /// Pages of zeros that must be recorded.
    pub(super) zeros: Vec<Run>,
}

impl SeparatedPages {
    /// Returns the bytes of the held pages. Valid until the batch is changed.
    pub(super) fn held_bytes<'a>(&'a self, batch: &'a PageBatch) -> &'a [u8] {
        if self.is_all_held { &batch.bytes } else { &self.held.bytes }
    }

    fn clear(&mut self) {
        let Self { dead, held, masks, is_all_held, zeros } = self;
        [dead, held].into_iter().for_each(Pages::clear);
        masks.clear();
        *is_all_held = false;
        zeros.clear();
    }
}

/// Takes the pages out of a batch that are not stored as they are.
pub(super) fn separate_masked(batch: &mut PageBatch, separated: &mut SeparatedPages) {
    separated.clear();
    let Some(masked_pages) = batch.masked_pages.take() else { return };
    separated.is_all_held = batch.ranges.iter().all(|BatchRange { range, .. }| {
        let within = masked_pages.within(*range);
        within.len() as u64 == range.pages() && within.iter().all(MaskedPage::is_held)
    });
    let mut moved = Moved::default();
    for BatchRange { owner, range, backing_page } in std::mem::take(&mut batch.ranges) {
        let mut rest = range;
        for masked_page in masked_pages.within(range) {
            let (others, after) = rest.split_at(PageRange::between(rest.start(), masked_page.page).pages());
            moved.keep(batch, BatchRange { owner, range: others, backing_page });
            let (own, after) = after.split_at(1);
            let page: &mut Page =
                batch.bytes[moved.from..].first_chunk_mut().expect("a batch has all pages of its ranges");
            masked_page.dead.clear(page);
            let run = Run { owner, range: own, contents: Contents::Stored };
            if masked_page.is_held() {
                separated.held.push(run, if separated.is_all_held { &[] } else { &page[..] });
                separated.masks.push(masked_page.out.inverse());
            } else if !is_zero(page) {
                separated.dead.push(run, page);
            } else if backing_page == BackingPage::File {
                separated.zeros.push(Run { contents: Contents::Zero, ..run });
            }
            moved.from += PAGE_BYTES;
            rest = after;
        }
        moved.keep(batch, BatchRange { owner, range: rest, backing_page });
    }
    if !separated.is_all_held {
        batch.bytes.truncate(moved.to);
    }
}

/// Positions in a batch: the end of the processed bytes, and the end of the bytes that stay.
#[derive(Default)]
struct Moved {
    from: usize,
    to: usize,
}

impl Moved {
    /// Moves the next pages to the end of those that stay.
    fn keep(&mut self, batch: &mut PageBatch, stays: BatchRange) {
        let bytes = stays.range.bytes() as usize;
        if bytes > 0 {
            batch.bytes.copy_within(self.from..self.from + bytes, self.to);
            batch.ranges.push(stays);
            self.from += bytes;
            self.to += bytes;
        }
    }
}

impl Pages {
    fn clear(&mut self) {
        self.runs.clear();
        self.bytes.clear();
    }

    fn push(&mut self, run: Run, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.runs.last_mut() {
            Some(last) if last.owner == run.owner && last.range.end() == run.range.start() => {
                last.range = PageRange::between(last.range.start(), run.range.end());
            }
            _ => self.runs.push(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Address;
    use standfast_core::directions::Regions;
    use std::sync::Arc;

    const DEAD: u64 = 1;
    const READ_ONLY: u64 = 2;

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * PAGE_BYTES as u64), pages)
    }

    fn stored(first: u64, count: u64) -> Run {
        Run { owner: 3, range: pages(first, count), contents: Contents::Stored }
    }

    fn region(start: u64, bytes: u64, kind: u64) -> Vec<u8> {
        [(start | kind << 62).to_le_bytes(), bytes.to_le_bytes()].concat()
    }

    #[test]
    fn pages_with_masked_words_leave_the_batch_and_each_keeps_its_bytes() {
        // Dead are most of page 2, and all of page 6 but its last word. Read-only are the first words of pages 3 and 4.
        let table = [
            region(0x2010, 0xff0, DEAD),
            region(0x3000, 8, READ_ONLY),
            region(0x4000, 8, READ_ONLY),
            region(0x6000, 0xffc, DEAD),
        ];
        let regions = Regions::decode([&table.concat()[..]]).unwrap();
        let held = standfast_core::PageSet::of([pages(3, 1)]);
        let masked_pages = Some(Arc::new(regions.masked_pages(Some(0))).where_held(&held));
        let bytes = [1, 2, 3, 4, 5].iter().flat_map(|fill| [*fill; PAGE_BYTES]);
        let bytes = bytes.chain([7; PAGE_BYTES - 4]).chain([0; 4]).collect();
        let of = |range, backing_page| BatchRange { owner: 3, range, backing_page };
        let ranges = vec![of(pages(1, 5), BackingPage::Zeros), of(pages(6, 1), BackingPage::File)];
        let mut batch = PageBatch { ranges, bytes, masked_pages };
        let mut separated = SeparatedPages::default();
        // The earlier content must not matter.
        separated.zeros.push(stored(9, 9));
        separate_masked(&mut batch, &mut separated);
        let SeparatedPages { dead, held, masks, zeros, .. } = separated;
        assert_eq!(batch.ranges, [pages(1, 1), pages(4, 2)].map(|range| of(range, BackingPage::Zeros)));
        assert_eq!(batch.bytes.chunks(PAGE_BYTES).map(|page| page[0]).collect::<Vec<_>>(), [1, 4, 5]);
        assert_eq!((dead.runs, held.runs), (vec![stored(2, 1)], vec![stored(3, 1)]));
        assert_eq!(dead.bytes, [[2; 16].as_slice(), &[0; PAGE_BYTES - 16]].concat());
        assert!(held.bytes == [3; PAGE_BYTES] && masks[0].words() == PAGE_BYTES / 4 - 2);
        assert_eq!(zeros, [Run { contents: Contents::Zero, ..stored(6, 1) }]);
    }

    #[test]
    fn a_batch_of_only_held_pages_stays_in_place() {
        let table = [region(0x3000, 8, READ_ONLY), region(0x4000, 8, READ_ONLY), region(0x4008, 8, DEAD)];
        let regions = Regions::decode([&table.concat()[..]]).unwrap();
        let bytes = vec![5; 2 * PAGE_BYTES];
        let ranges = vec![BatchRange { owner: 3, range: pages(3, 2), backing_page: BackingPage::Zeros }];
        let masked_pages = Some(Arc::new(regions.masked_pages(Some(0))));
        let mut batch = PageBatch { ranges, bytes, masked_pages };
        let mut separated = SeparatedPages::default();
        separate_masked(&mut batch, &mut separated);
        let wanted = [[5; PAGE_BYTES + 8].as_slice(), &[0; 8], &[5; PAGE_BYTES - 16]].concat();
        assert_eq!((separated.held_bytes(&batch), separated.held.bytes.len()), (&wanted[..], 0));
        assert_eq!((&separated.held.runs, &batch.ranges), (&vec![stored(3, 2)], &vec![]));
        let counting: Vec<_> = separated.masks.iter().map(|mask| mask.words()).collect();
        assert_eq!(counting, [PAGE_BYTES / 4 - 2, PAGE_BYTES / 4 - 4]);
    }
}
