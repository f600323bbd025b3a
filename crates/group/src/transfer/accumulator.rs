//! Partial sums on their way through a process: what has come, and its own share. They lie in one buffer, sum by sum, and of
//! each the rows in which there will be something, as they travel: what comes first becomes the buffer, and the buffer becomes
//! what is sent on.

use super::Pages;
use super::plan::{Share, Sum};
use crate::buffers::Buffers;
use crate::layout::Layout;
use crate::shelf::{AHEAD, Damaged};
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;

/// Pages of a share that are added at once: what a processor's first cache holds.
pub(super) type Stretch = [Page; 4];

/// Partial sums in the making.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    /// Empty as long as nothing is in it.
    bytes: Vec<u8>,
    /// Rows that each sum has, one bit each.
    rows: u64,
    /// Those of them in which there is something already; the bytes of others may be anything.
    begun: u64,
    /// Parts that have not come.
    pub(super) missing: usize,
    /// Whether the process's own share is to be added.
    pub(super) owes: bool,
}

impl Accumulator {
    /// For sums with these rows.
    pub(super) fn new(rows: u64, missing: usize, owes: bool) -> Self {
        Self { bytes: Vec::new(), rows, begun: 0, missing, owes }
    }

    fn sum_bytes(&self) -> usize {
        self.rows.count_ones() as usize * PAGE_BYTES
    }

    /// The rows that each sum has.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many rows stand before this one.
    fn before(&self, row: usize) -> usize {
        (self.rows & ((1 << row) - 1)).count_ones() as usize
    }

    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Room for so many sums, unless something has come already.
    pub(super) fn make_room(&mut self, sums: usize, buffers: &Buffers) {
        if self.bytes.is_empty() {
            self.bytes = buffers.take(sums * self.sum_bytes());
        }
    }

    /// Makes zeros of those of these rows, one bit each, in which there is nothing yet.
    pub(super) fn begin_rows(&mut self, rows: u64) {
        let absent = rows & !self.begun;
        if absent == 0 {
            return;
        }
        self.begun |= absent;
        let length = self.sum_bytes();
        for sum in self.bytes.chunks_exact_mut(length) {
            let pages = ones(self.rows).zip(sum.as_chunks_mut::<PAGE_BYTES>().0);
            pages.filter(|(row, _)| absent >> row & 1 == 1).for_each(|(_, page)| page.fill(0));
        }
    }

    /// Takes what has come for all rows as it is, if it is the first; gives it back otherwise.
    pub(super) fn begin_with(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if self.bytes.is_empty() {
            (self.bytes, self.begun) = (bytes, self.rows);
            None
        } else {
            Some(bytes)
        }
    }

    /// Adds a page to one of the sums.
    pub(super) fn add(&mut self, sum: usize, row: usize, page: &Page) {
        if let Some(first) = self.first(row) {
            first.copy_from_slice(page);
            return;
        }
        self.begin_rows(1 << row);
        let at = sum * self.sum_bytes() + self.before(row) * PAGE_BYTES;
        self.bytes[at..at + PAGE_BYTES].iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
    }

    /// The page of the only sum in a row, to become its first share; `None` where there are more sums, or shares.
    fn first(&mut self, row: usize) -> Option<&mut Page> {
        if self.bytes.len() != self.sum_bytes() || self.begun >> row & 1 == 1 {
            return None;
        }
        self.begun |= 1 << row;
        let at = self.before(row);
        self.bytes.as_chunks_mut().0.get_mut(at)
    }

    /// One of the sums. What stands in rows that nobody has begun may be anything.
    pub(super) fn sum(&self, sum: usize) -> &[u8] {
        &self.bytes[sum * self.sum_bytes()..][..self.sum_bytes()]
    }

    /// All of them.
    pub(super) fn sums_mut(&mut self) -> Vec<&mut [u8]> {
        let length = self.sum_bytes();
        self.bytes.chunks_exact_mut(length).collect()
    }

    /// The sums, one behind the other.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The ones of some bits, ascending.
pub(super) fn ones(bits: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |at| bits >> at & 1 == 1)
}

/// Adds a contributor's share, run by run of rows in which it has something.
pub(super) fn add_share(
    sum: &Sum,
    piece: usize,
    index: usize,
    layout: &Layout,
    accumulator: &mut Accumulator,
    pages: &mut dyn Pages,
    stretch: &mut Stretch,
) -> Result<(), Damaged> {
    let contributor = &sum.contributors[index];
    let rows = sum.piece_rows(piece);
    let own = |at: &usize| contributor.own(piece) >> at & 1 == 1;
    let mut ahead = (0..rows.len()).filter(own).skip(AHEAD);
    let mut read = |at: usize, page: &mut Page| {
        if let Some(ahead) = ahead.next() {
            pages.expect(contributor.position, contributor.place(layout, rows[ahead]));
        }
        match contributor.share {
            Share::Column(column) => pages.column(contributor.position, layout.slot(column, rows[at]), page),
            Share::Check { check, .. } => pages.check(contributor.position, check, rows[at], page),
        }
    };
    let is_plain = sum.combiner.is_plain();
    let mut start = 0;
    while let Some(first) = (start..rows.len()).find(own) {
        if is_plain && let Some(page) = accumulator.first(first) {
            read(first, page)?;
            start = first + 1;
            continue;
        }
        let most = rows.len().min(first + stretch.len());
        let end = (first..most).find(|at| !own(at)).unwrap_or(most);
        for (at, page) in (first..end).zip(stretch.iter_mut()) {
            read(at, page)?;
        }
        match contributor.share {
            Share::Column(column) => {
                accumulator.begin_rows(u64::MAX >> (u64::BITS as usize - (end - first)) << first);
                let at = accumulator.before(first) * PAGE_BYTES;
                let range = at..at + (end - first) * PAGE_BYTES;
                let sums = accumulator.sums_mut().into_iter().map(|sum| &mut sum[range.clone()]);
                sum.combiner.add(column, stretch[..end - first].as_flattened(), &mut sums.collect::<Vec<_>>());
            }
            Share::Check { sum, .. } => {
                (first..end).zip(stretch.iter()).for_each(|(row, page)| accumulator.add(sum, row, page));
            }
        }
        start = end;
    }
    Ok(())
}
