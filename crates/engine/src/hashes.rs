//! What has changed, found out by reading everything and comparing checksums with those of the last committed checkpoint.
//!
//! This is how shared memory is tracked always: writes to it by way of another mapping, of write(2), of a task that has
//! come and gone or stands outside the job leave no trace in the page tables of the job (measured: none of them is
//! seen). It is also how the memory of processes is tracked where the kernel does not note writes. It takes 24 bytes of
//! ours for each page, and the time to read all of them.

use crate::ProcessIdentity;
use standfast_core::{Address, Checksum, PAGE_BYTES, PageRange, PageSet, is_zero};
use standfast_format::{Beneath, PageBatch};

/// Whose pages they are, the same in one checkpoint and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// The memory of a process.
    Process(ProcessIdentity),
    /// A memory object: device and inode.
    Object(u64, u64),
}

/// What the pages of all owners held.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// In the last committed generation.
    saved: Vec<Known>,
    /// At the last look; saved when its checkpoint is committed.
    seen: Vec<Known>,
}

/// What the pages of one owner held.
#[derive(Debug)]
struct Known {
    key: Key,
    /// Its number in the image.
    owner: u32,
    /// Ascending. Pages of zeros are not among them: an image holds nothing of those that could be inherited.
    pages: Vec<(Address, Checksum)>,
}

impl Hashes {
    /// A new checkpoint begins.
    pub(crate) fn begin(&mut self) {
        self.seen.clear();
    }

    /// Compares the pages of an owner, whose batches must come in ascending order.
    pub(crate) fn sieve(&mut self, key: Key, owner: u32) -> Sieve<'_> {
        let saved = self.saved.iter().find(|known| known.key == key);
        self.seen.push(Known { key, owner, pages: Vec::new() });
        let seen = &mut self.seen.last_mut().expect("it was just pushed").pages;
        let (was, saved) = saved.map_or((owner, &[][..]), |known| (known.owner, &known.pages));
        Sieve { was, saved, seen, unchanged: Vec::new() }
    }

    pub(crate) fn committed(&mut self) {
        self.saved = std::mem::take(&mut self.seen);
    }

    pub(crate) fn forget(&mut self) {
        self.saved.clear();
    }
}

/// Leaves out of the batches of one owner what has not changed.
#[derive(Debug)]
pub(crate) struct Sieve<'a> {
    /// The number that the owner had in the last committed generation.
    pub(crate) was: u32,
    saved: &'a [(Address, Checksum)],
    seen: &'a mut Vec<(Address, Checksum)>,
    unchanged: Vec<PageRange>,
}

impl Sieve<'_> {
    /// Leaves only the pages in the batch that have changed.
    pub(crate) fn sift(&mut self, batch: &mut PageBatch) {
        let mut left: Vec<(u32, PageRange, Beneath)> = Vec::new();
        let (mut from, mut to) = (0, 0);
        for (owner, range, beneath) in std::mem::take(&mut batch.ranges) {
            for page in 0..range.pages() {
                let place = PageRange::new(range.start().plus(page * PAGE_BYTES as u64), 1);
                if self.is_unchanged(place.start(), &batch.bytes[from..from + PAGE_BYTES]) {
                    self.unchanged.push(place);
                } else {
                    batch.bytes.copy_within(from..from + PAGE_BYTES, to);
                    to += PAGE_BYTES;
                    append(&mut left, (owner, place, beneath));
                }
                from += PAGE_BYTES;
            }
        }
        batch.bytes.truncate(to);
        batch.ranges = left;
    }

    fn is_unchanged(&mut self, at: Address, bytes: &[u8]) -> bool {
        if is_zero(bytes) {
            return false;
        }
        let checksum = Checksum::of(bytes);
        self.seen.push((at, checksum));
        let behind = self.saved.partition_point(|(address, _)| *address < at);
        self.saved = &self.saved[behind..];
        self.saved.first() == Some(&(at, checksum))
    }

    /// The pages that were left out.
    pub(crate) fn into_unchanged(self) -> PageSet {
        PageSet::of(self.unchanged)
    }
}

fn append(left: &mut Vec<(u32, PageRange, Beneath)>, (owner, place, beneath): (u32, PageRange, Beneath)) {
    match left.last_mut() {
        Some((last, range, kind)) if (*last, *kind, range.end()) == (owner, beneath, place.start()) => {
            *range = PageRange::new(range.start(), range.pages() + 1);
        }
        _ => left.push((owner, place, beneath)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::Object(1, 2);

    fn batch(start: u64, fills: &[u8]) -> PageBatch {
        let range = PageRange::new(Address::new(start), fills.len() as u64);
        PageBatch {
            ranges: vec![(0, range, Beneath::Zeros)],
            bytes: fills.iter().flat_map(|fill| [*fill; PAGE_BYTES]).collect(),
        }
    }

    /// Which pages have changed, by what they hold, and which have not.
    fn look(hashes: &mut Hashes, batches: Vec<PageBatch>) -> (Vec<u8>, u64) {
        hashes.begin();
        let mut sieve = hashes.sieve(KEY, 0);
        let mut changed = Vec::new();
        for mut batch in batches {
            sieve.sift(&mut batch);
            let pages: u64 = batch.ranges.iter().map(|(_, range, _)| range.pages()).sum();
            assert_eq!(pages as usize * PAGE_BYTES, batch.bytes.len());
            changed.extend(batch.bytes.chunks(PAGE_BYTES).map(|page| page[0]));
        }
        (changed, sieve.into_unchanged().pages())
    }

    #[test]
    fn only_pages_that_hold_something_else_than_the_committed_checkpoint_are_left() {
        let mut hashes = Hashes::default();
        assert_eq!(look(&mut hashes, vec![batch(0, &[1, 2, 3]), batch(0x8000, &[4])]), (vec![1, 2, 3, 4], 0));
        assert_eq!(look(&mut hashes, vec![batch(0, &[1, 2, 3])]), (vec![1, 2, 3], 0), "that one was not committed");
        hashes.committed();
        assert_eq!(look(&mut hashes, vec![batch(0, &[1, 9, 3, 4]), batch(0x8000, &[4])]), (vec![9, 4, 4], 2));
        hashes.committed();
        assert_eq!(look(&mut hashes, vec![batch(0x8000, &[4])]), (vec![], 1));
        hashes.forget();
        assert_eq!(look(&mut hashes, vec![batch(0x8000, &[4])]), (vec![4], 0));
    }

    #[test]
    fn a_page_of_zeros_is_never_left_out_since_an_image_holds_nothing_of_it() {
        let mut hashes = Hashes::default();
        look(&mut hashes, vec![batch(0, &[0, 1])]);
        hashes.committed();
        assert_eq!(look(&mut hashes, vec![batch(0, &[0, 1])]), (vec![0], 1));
    }
}
