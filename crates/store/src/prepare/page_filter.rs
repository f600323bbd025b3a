//! Selects the pages of a batch that go into the image. It leaves out pages of zeros, moves the rest together and cuts
//! it into blocks. Pure; other modules write them.

use standfast_core::{PAGE_BYTES, PageRange, is_zero};
use standfast_format::image::BLOCK_PAGES_MAX;
use standfast_format::{BackingPage, BatchRange, Contents, PageBatch, Run};

/// The runs of a batch whose bytes have been reduced to the stored pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FilteredPages {
    /// Places of the stored pages, in the order of the bytes.
    pub(super) stored: Vec<Run>,
    /// Pages of zeros that must be recorded.
    pub(super) zeros: Vec<Run>,
}

/// Removes all pages from the batch that need not be stored.
pub(super) fn filter_pages(batch: &mut PageBatch) -> FilteredPages {
    let mut filtered = FilteredPages::default();
    let (mut from, mut to) = (0, 0);
    for &BatchRange { owner, range, backing_page } in &batch.ranges {
        let mut rest = range;
        while rest.pages() > 0 {
            let (zero, pages) = stretch(&batch.bytes[from..], rest.pages());
            let (piece, after) = rest.split_at(pages);
            let bytes = pages as usize * PAGE_BYTES;
            if !zero {
                if from != to {
                    batch.bytes.copy_within(from..from + bytes, to);
                }
                to += bytes;
                push(&mut filtered.stored, owner, piece, Contents::Stored);
            } else if backing_page == BackingPage::File {
                push(&mut filtered.zeros, owner, piece, Contents::Zero);
            }
            from += bytes;
            rest = after;
        }
    }
    batch.bytes.truncate(to);
    filtered
}

/// Returns whether the first page is zero, and how many pages from there on are alike in that, at most `limit`.
fn stretch(bytes: &[u8], limit: u64) -> (bool, u64) {
    let mut pages = bytes.as_chunks::<PAGE_BYTES>().0.iter().take(limit as usize).map(|page| is_zero(page));
    let first = pages.next().expect("the sum of a batch's ranges is the length of its bytes");
    (first, 1 + pages.take_while(|zero| *zero == first).count() as u64)
}

fn push(runs: &mut Vec<Run>, owner: u32, range: PageRange, contents: Contents) {
    match runs.last_mut() {
        Some(last) if last.owner == owner && last.range.end() == range.start() => {
            last.range = PageRange::new(last.range.start(), last.range.pages() + range.pages());
        }
        _ => runs.push(Run { owner, range, contents }),
    }
}

/// Divides runs into blocks of at most [`BLOCK_PAGES_MAX`] pages. Returns the runs of each block.
pub(super) fn cut(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    let mut room = u64::from(BLOCK_PAGES_MAX);
    for run in runs {
        let mut rest = run.range;
        while rest.pages() > 0 {
            let (piece, after) = rest.split_at(room);
            block.push(Run { range: piece, ..*run });
            room -= piece.pages();
            rest = after;
            if room == 0 {
                blocks.push(std::mem::take(&mut block));
                room = u64::from(BLOCK_PAGES_MAX);
            }
        }
    }
    if !block.is_empty() {
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use standfast_core::Address;

    /// Owner and page number.
    type PageAt = (u32, u64);

    /// Reference implementation: one page at a time.
    fn filter_naively(batch: &PageBatch) -> (Vec<PageAt>, Vec<Vec<u8>>, Vec<PageAt>) {
        let (mut stored, mut contents, mut zeros) = (Vec::new(), Vec::new(), Vec::new());
        let mut pages = batch.bytes.chunks(PAGE_BYTES);
        for &BatchRange { owner, range, backing_page } in &batch.ranges {
            for page in 0..range.pages() {
                let bytes = pages.next().unwrap();
                let key = (owner, range.start().get() / 4096 + page);
                if bytes.iter().any(|byte| *byte != 0) {
                    stored.push(key);
                    contents.push(bytes.to_vec());
                } else if backing_page == BackingPage::File {
                    zeros.push(key);
                }
            }
        }
        (stored, contents, zeros)
    }

    fn keys(runs: &[Run]) -> Vec<PageAt> {
        let pages = |run: &Run| {
            let (owner, first) = (run.owner, run.range.start().get() / 4096);
            (0..run.range.pages()).map(move |page| (owner, first + page))
        };
        runs.iter().flat_map(pages).collect()
    }

    prop_compose! {
        fn any_batch()(ranges in prop::collection::vec((0u32..2, 0u64..3, 1u64..90, any::<bool>()), 0..6), seed: u64) -> PageBatch {
            let mut batch = PageBatch::default();
            let mut next = 16;
            for (owner, gap, pages, file) in ranges {
                let backing_page = if file { BackingPage::File } else { BackingPage::Zeros };
                let range = PageRange::new(Address::new((next + gap) * 4096), pages);
                batch.ranges.push(BatchRange { owner, range, backing_page });
                next += gap + pages;
                for page in 0..pages {
                    let zero = (seed >> (page % 61)) & 1 == 0;
                    let place = batch.bytes.len() + (seed as usize + page as usize) % 4096;
                    batch.bytes.resize(batch.bytes.len() + PAGE_BYTES, 0);
                    if !zero {
                        batch.bytes[place] = page as u8 | 1;
                    }
                }
            }
            batch
        }
    }

    proptest! {
        #[test]
        fn filtering_keeps_all_nonzero_pages_in_order(mut batch in any_batch()) {
            let (stored, contents, zeros) = filter_naively(&batch);
            let filtered = filter_pages(&mut batch);
            prop_assert_eq!(keys(&filtered.stored), stored);
            prop_assert_eq!(keys(&filtered.zeros), zeros);
            prop_assert_eq!(batch.bytes, contents.concat());
        }

        #[test]
        fn cutting_keeps_the_order_and_fills_all_blocks_but_the_last(mut batch in any_batch()) {
            let runs = filter_pages(&mut batch).stored;
            let blocks = cut(&runs);
            prop_assert_eq!(keys(&blocks.concat()), keys(&runs));
            let pages = |block: &Vec<Run>| keys(block).len();
            for (at, block) in blocks.iter().enumerate() {
                let full = pages(block) == BLOCK_PAGES_MAX as usize;
                prop_assert!(full || (at + 1 == blocks.len() && pages(block) > 0));
            }
        }
    }
}
