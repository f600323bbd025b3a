//! Finds out what has changed by reading everything and comparing checksums with those of the last committed checkpoint.
//!
//! Shared memory is always tracked this way, since many writes to it leave no trace in the page tables of the job:
//! writes through another mapping, through write(2), or by a task that has ended or is outside the job (measured: none
//! of them is seen). The memory of processes is also tracked this way if the kernel does not track writes. It takes 24
//! bytes of our memory for each page, and the time to read all of them.

use crate::ProcessIdentity;
use crate::object_key::ObjectKey;
use standfast_core::{Address, Checksum, PAGE_BYTES, PageRange, PageSet, is_zero};
use standfast_format::BackingPage;
use standfast_format::records::FileIdentity;

/// The owner of the pages, the same in one checkpoint and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// The memory of a process.
    Process(ProcessIdentity),
    /// A memory object.
    Object(ObjectKey),
}

/// What the pages of all owners held.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// As of the last committed generation.
    saved: Vec<Known>,
    /// As of the last scan; becomes `saved` when its checkpoint is committed.
    seen: Vec<Known>,
}

/// What the pages of one owner held.
#[derive(Debug)]
struct Known {
    key: Key,
    /// Its number in the image.
    owner: u32,
    /// Ascending. Pages of zeros are left out, since an image holds nothing of them that could be inherited.
    pages: Vec<(Address, Checksum)>,
    /// If this is the same again, nothing has changed, so that the pages need not be compared.
    stamp: Option<FileIdentity>,
}

impl Hashes {
    /// Begins a new checkpoint.
    pub(crate) fn begin(&mut self) {
        self.seen.clear();
    }

    /// Begins to compare the pages of an owner.
    pub(crate) fn page_filter(&mut self, key: Key, owner: u32) -> PageFilter<'_> {
        let saved = self.saved.iter().find(|known| known.key == key);
        self.seen.push(Known { key, owner, pages: Vec::new(), stamp: None });
        let seen = &mut self.seen.last_mut().expect("it was just pushed").pages;
        let (was, saved) = saved.map_or((owner, &[][..]), |known| (known.owner, &known.pages));
        PageFilter { was, saved: Saved(saved), seen, unchanged: Vec::new(), changed: Vec::new() }
    }

    /// Notes when the most recently compared owner was last modified.
    pub(crate) fn set_stamp(&mut self, stamp: Option<FileIdentity>) {
        self.seen.last_mut().expect("something was compared").stamp = stamp;
    }

    /// Takes over what is known about an owner that nothing has modified since: its earlier number and its pages.
    /// Returns `None` if it must be compared.
    pub(crate) fn carry(&mut self, key: Key, owner: u32, stamp: Option<FileIdentity>) -> Option<(u32, PageSet)> {
        let is_it = |known: &&Known| known.key == key && stamp.is_some() && known.stamp == stamp;
        let (was, pages) = self.saved.iter().find(is_it).map(|known| (known.owner, known.pages.clone()))?;
        let unchanged = PageSet::of(pages.iter().map(|(address, _)| PageRange::new(*address, 1)));
        self.seen.push(Known { key, owner, pages, stamp });
        Some((was, unchanged))
    }

    /// Returns the number of an owner in the last committed generation, if it was there.
    pub(crate) fn was(&self, key: Key) -> Option<u32> {
        self.saved.iter().find(|known| known.key == key).map(|known| known.owner)
    }

    pub(crate) fn committed(&mut self) {
        self.saved = std::mem::take(&mut self.seen);
    }

    pub(crate) fn forget(&mut self) {
        self.saved.clear();
    }
}

/// Finds out which pages of one owner have not changed.
#[derive(Debug)]
pub(crate) struct PageFilter<'a> {
    /// The number that the owner had in the last committed generation.
    pub(crate) was: u32,
    /// What its pages held there.
    pub(crate) saved: Saved<'a>,
    seen: &'a mut Vec<(Address, Checksum)>,
    unchanged: Vec<PageRange>,
    changed: Vec<PageRange>,
}

/// What pages held, ascending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved<'a>(&'a [(Address, Checksum)]);

/// The result for some ascending pages.
#[derive(Debug, Default)]
pub(crate) struct FilterResult {
    seen: Vec<(Address, Checksum)>,
    unchanged: Vec<PageRange>,
    /// Without pages of zeros.
    changed: Vec<PageRange>,
}

impl Saved<'_> {
    /// Compares pages, whose contents are in `bytes` one after another, and passes on those that have changed.
    pub(crate) fn filter(
        self,
        ranges: &[(PageRange, BackingPage)],
        bytes: &[u8],
        mut changed: impl FnMut(PageRange, BackingPage, &[u8]),
    ) -> FilterResult {
        let mut filtered = FilterResult::default();
        let Some((first, _)) = ranges.first() else { return filtered };
        let mut saved = &self.0[self.0.partition_point(|(address, _)| *address < first.start())..];
        let (contents, _) = bytes.as_chunks::<PAGE_BYTES>();
        let places = ranges.iter().flat_map(|(range, backing_page)| {
            let page = |page| PageRange::new(range.start().plus(page * PAGE_BYTES as u64), 1);
            (0..range.pages()).map(move |number| (page(number), *backing_page))
        });
        for ((place, backing_page), bytes) in places.zip(contents) {
            if !is_zero(bytes) {
                let now = (place.start(), Checksum::of(bytes));
                filtered.seen.push(now);
                while let [(address, _), rest @ ..] = saved
                    && *address < place.start()
                {
                    saved = rest;
                }
                if saved.first() == Some(&now) {
                    filtered.unchanged.push(place);
                    continue;
                }
                filtered.changed.push(place);
            }
            changed(place, backing_page, bytes);
        }
        filtered
    }
}

impl PageFilter<'_> {
    /// Takes the results, ascending.
    pub(crate) fn take(&mut self, filtered: FilterResult) {
        self.seen.extend(filtered.seen);
        self.unchanged.extend(filtered.unchanged);
        self.changed.extend(filtered.changed);
    }

    /// Returns the unchanged pages, and the changed pages that are not zeros.
    pub(crate) fn into_pages(self) -> (PageSet, PageSet) {
        (PageSet::of(self.unchanged), PageSet::of(self.changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::Object(ObjectKey::File { device: 1, inode: 2 });

    fn pages(start: u64, fills: &[u8]) -> (PageRange, Vec<u8>) {
        let range = PageRange::new(Address::new(start), fills.len() as u64);
        (range, fills.iter().flat_map(|fill| [*fill; PAGE_BYTES]).collect())
    }

    /// Returns the contents of the changed pages, and the number of unchanged ones.
    fn scan(hashes: &mut Hashes, pieces: Vec<(PageRange, Vec<u8>)>) -> (Vec<u8>, u64) {
        hashes.begin();
        let mut page_filter = hashes.page_filter(KEY, 0);
        let mut changed = Vec::new();
        for (range, bytes) in pieces {
            let filtered =
                page_filter.saved.filter(&[(range, BackingPage::Zeros)], &bytes, |_, _, page| changed.push(page[0]));
            page_filter.take(filtered);
        }
        (changed, page_filter.into_pages().0.pages())
    }

    #[test]
    fn only_pages_that_differ_from_the_committed_checkpoint_remain() {
        let mut hashes = Hashes::default();
        assert_eq!(scan(&mut hashes, vec![pages(0, &[1, 2, 3]), pages(0x8000, &[4])]), (vec![1, 2, 3, 4], 0));
        assert_eq!(scan(&mut hashes, vec![pages(0, &[1, 2, 3])]), (vec![1, 2, 3], 0), "that one was not committed");
        hashes.committed();
        assert_eq!(scan(&mut hashes, vec![pages(0, &[1, 9, 3, 4]), pages(0x8000, &[4])]), (vec![9, 4, 4], 2));
        hashes.committed();
        assert_eq!(scan(&mut hashes, vec![pages(0x8000, &[4])]), (vec![], 1));
        hashes.forget();
        assert_eq!(scan(&mut hashes, vec![pages(0x8000, &[4])]), (vec![4], 0));
    }

    #[test]
    fn an_object_with_the_committed_stamp_is_not_read_again() {
        let stamp = |changed_nanoseconds| Some(FileIdentity { changed_nanoseconds, ..FileIdentity::default() });
        let mut hashes = Hashes::default();
        scan(&mut hashes, vec![pages(0, &[1, 0, 3])]);
        hashes.set_stamp(stamp(7));
        hashes.begin();
        assert!(hashes.carry(KEY, 3, stamp(7)).is_none(), "that one was not committed");
        scan(&mut hashes, vec![pages(0, &[1, 0, 3])]);
        hashes.set_stamp(stamp(7));
        hashes.committed();
        hashes.begin();
        assert!(hashes.carry(KEY, 3, stamp(8)).is_none() && hashes.carry(KEY, 3, None).is_none());
        let (was, unchanged) = hashes.carry(KEY, 3, stamp(7)).unwrap();
        assert_eq!((was, unchanged.pages()), (0, 2));
        hashes.committed();
        assert_eq!(scan(&mut hashes, vec![pages(0, &[1, 0, 4])]), (vec![0, 4], 1), "its pages are still known");
    }

    #[test]
    fn a_page_of_zeros_is_never_skipped_as_unchanged() {
        let mut hashes = Hashes::default();
        scan(&mut hashes, vec![pages(0, &[0, 1])]);
        hashes.committed();
        assert_eq!(scan(&mut hashes, vec![pages(0, &[0, 1])]), (vec![0], 1));
    }
}
