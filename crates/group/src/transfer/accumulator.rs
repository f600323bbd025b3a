//! Partial sums on their way through a process: what has come, and its own share. They lie in one buffer, sum by sum, and of
//! each the rows in which there will be something, as they travel: what comes first becomes the buffer, and the buffer becomes
//! what is sent on.
//!
//! A sum that is used here and goes no further may stand in the parts as they came, as long as these have different rows: of
//! small epochs nearly all have, and nothing is copied.
//!
//! Beside each page stands the residue that it should have, the sum of those of its shares, whatever has befallen the page on
//! its way or in memory. Whoever uses the page looks whether it has it, and nobody before.

use super::plan::{Share, Sum};
use super::{Pages, TransferError};
use crate::buffers::Buffers;
use crate::layout::Layout;
use crate::shelf::{AHEAD, Damaged};
use standfast_core::delta::Page;
use standfast_core::erasure::Combiner;
use standfast_core::{PAGE_BYTES, Residue};

/// Pages of a share that are added at once: what a processor's first cache holds.
pub(super) type Stretch = [Page; 4];

/// Partial sums in the making.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    /// Empty as long as nothing is in it.
    bytes: Vec<u8>,
    /// What each page should leave.
    residues: Vec<Residue>,
    /// Rows that each sum has, one bit each.
    rows: u64,
    /// Those of them in which there is something already; the bytes of others may be anything.
    begun: u64,
    /// In place of the bytes: parts of the only sum as they came, of other rows each.
    kept: Vec<Kept>,
    /// Parts that have not come.
    pub(super) missing: usize,
    /// Whether the process's own share is to be added.
    pub(super) owes: bool,
}

/// Pages of some rows.
#[derive(Debug)]
pub(super) struct Kept {
    /// One bit each.
    pub(super) rows: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) residues: Vec<Residue>,
}

impl Kept {
    /// How many pages stand before that of a row; `None` where it has none.
    fn at(&self, row: usize) -> Option<usize> {
        (self.rows >> row & 1 == 1).then(|| before(self.rows, row))
    }
}

impl Accumulator {
    /// For sums with these rows.
    pub(super) fn new(rows: u64, missing: usize, owes: bool) -> Self {
        Self { bytes: Vec::new(), residues: Vec::new(), rows, begun: 0, kept: Vec::new(), missing, owes }
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
        before(self.rows, row)
    }

    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.kept.iter().map(|kept| kept.bytes.len()).sum::<usize>()
    }

    /// Room for so many sums, unless something has come already.
    pub(super) fn make_room(&mut self, sums: usize, buffers: &Buffers) {
        if self.bytes.is_empty() {
            self.bytes = buffers.take(sums * self.sum_bytes());
            self.residues = vec![Residue::default(); self.bytes.len() / PAGE_BYTES];
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

    /// Keeps what has come for some rows of the only sum as it is, if nothing has come but other rows; gives it back otherwise.
    pub(super) fn keep(&mut self, part: Kept) -> Option<Kept> {
        if self.bytes.is_empty() && self.kept_rows() & part.rows == 0 {
            self.kept.push(part);
            None
        } else {
            Some(part)
        }
    }

    fn kept_rows(&self) -> u64 {
        self.kept.iter().fold(0, |rows, kept| rows | kept.rows)
    }

    /// Copies what is kept to where more can be added.
    pub(super) fn gather(&mut self, buffers: &Buffers) {
        let kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            self.make_room(1, buffers);
        }
        for Kept { rows, bytes, residues } in kept {
            let pages = bytes.as_chunks().0.iter().zip(residues);
            ones(rows).zip(pages).for_each(|(row, (page, residue))| self.add(0, row, page, residue));
            buffers.put(bytes);
        }
    }

    /// Makes zeros of rows in which there is nothing.
    pub(super) fn begin_rest(&mut self, buffers: &Buffers) {
        let kept = self.kept_rows();
        if kept != self.rows {
            self.gather(buffers);
            self.begin_rows(self.rows);
        }
    }

    /// Takes what has come for all rows as it is, if it is the first; gives it back otherwise.
    pub(super) fn begin_with(&mut self, bytes: Vec<u8>, residues: &[Residue]) -> Option<Vec<u8>> {
        if self.bytes.is_empty() && self.kept.is_empty() {
            (self.bytes, self.begun) = (bytes, self.rows);
            self.residues = residues.to_vec();
            None
        } else {
            Some(bytes)
        }
    }

    /// Adds a page that has come to one of the sums; its residue is what its sender says.
    pub(super) fn add(&mut self, sum: usize, row: usize, page: &Page, residue: Residue) {
        let at = self.at(sum, row);
        self.residues[at] ^= residue;
        if let Some(first) = self.first(row) {
            first.copy_from_slice(page);
            return;
        }
        self.begin_rows(1 << row);
        self.bytes[at * PAGE_BYTES..][..PAGE_BYTES].iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
    }

    /// What stands in a row of the only sum has been added to.
    fn add_residue(&mut self, row: usize, residue: Residue) {
        let at = self.at(0, row);
        self.residues[at] ^= residue;
    }

    /// Where a page stands among all of them.
    fn at(&self, sum: usize, row: usize) -> usize {
        sum * self.rows.count_ones() as usize + self.before(row)
    }

    /// Adds shares of a column to all sums, to rows that stand beside each other.
    fn add_column(&mut self, combiner: &Combiner, column: usize, first: usize, shares: &[Page]) {
        let (begun, before) = (self.begun, self.before(first));
        self.begin_rows(u64::MAX >> (u64::BITS as usize - shares.len()) << first);
        let is_begun = |at: usize| begun >> (first + at) & 1 == 1;
        self.each_residue(combiner, before, shares.len(), |page, plain, at| match plain {
            true => Residue::of(&shares[at]),
            false if is_begun(at) => Residue::of(page),
            false => Residue::default(),
        });
        let range = before * PAGE_BYTES..(before + shares.len()) * PAGE_BYTES;
        let sums = self.sums_mut().into_iter().map(|sum| &mut sum[range.clone()]);
        combiner.add(column, shares.as_flattened(), &mut sums.collect::<Vec<_>>());
        // What a share that was multiplied has added is what the page leaves more than before.
        self.each_residue(combiner, before, shares.len(), |page, plain, _| match plain {
            true => Residue::default(),
            false => Residue::of(page),
        });
    }

    /// Adds to the residues of so many rows of all sums what is said of a page, whether shares are added to its sum as they
    /// are, and which of the rows it is.
    fn each_residue(
        &mut self,
        combiner: &Combiner,
        before: usize,
        count: usize,
        of: impl Fn(&Page, bool, usize) -> Residue,
    ) {
        let rows = self.rows.count_ones() as usize;
        let pages = self.bytes.as_chunks().0;
        for (sum, plain) in combiner.plain().iter().enumerate() {
            for at in 0..count {
                let place = sum * rows + before + at;
                self.residues[place] ^= of(&pages[place], *plain, at);
            }
        }
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

    /// The residues of one of the sums, in some of the rows.
    pub(super) fn residues_in(&self, rows: u64, sum: usize) -> impl Iterator<Item = Residue> {
        let residues = ones(self.rows).zip(&self.residues[self.at(sum, 0)..]);
        residues.filter(move |(row, _)| rows >> row & 1 == 1).map(|(_, residue)| *residue)
    }

    /// The pages of one of the sums, each of them what its shares come to.
    pub(super) fn proved(&self, sum: usize) -> impl Iterator<Item = Result<&Page, TransferError>> {
        ones(self.rows).map(move |row| {
            let (page, residue) = self.page(sum, row);
            if Residue::of(page) == residue { Ok(page) } else { Err(TransferError::Altered) }
        })
    }

    /// The page of a row, and what it should leave.
    fn page(&self, sum: usize, row: usize) -> (&Page, Residue) {
        let kept = self.kept.iter().find_map(|kept| Some((&kept.bytes, &kept.residues, kept.at(row)?)));
        let (bytes, residues, at) = kept.unwrap_or_else(|| (&self.bytes, &self.residues, self.at(sum, row)));
        (&bytes.as_chunks().0[at], residues[at])
    }

    /// Takes all pages as what they should be: they have just been made of others.
    pub(super) fn renew_residues(&mut self) {
        self.residues = self.bytes.as_chunks().0.iter().map(Residue::of).collect();
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

    /// All that is to be used again.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        [self.bytes].into_iter().chain(self.kept.into_iter().map(|kept| kept.bytes))
    }
}

/// How many rows stand before one.
fn before(rows: u64, row: usize) -> usize {
    (rows & ((1 << row) - 1)).count_ones() as usize
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
            let residue = Residue::of(page);
            accumulator.add_residue(first, residue);
            start = first + 1;
            continue;
        }
        let most = rows.len().min(first + stretch.len());
        let end = (first..most).find(|at| !own(at)).unwrap_or(most);
        for (at, page) in (first..end).zip(stretch.iter_mut()) {
            read(at, page)?;
        }
        match contributor.share {
            Share::Column(column) => accumulator.add_column(&sum.combiner, column, first, &stretch[..end - first]),
            Share::Check { sum, .. } => {
                (first..end).zip(stretch.iter()).for_each(|(row, page)| {
                    accumulator.add(sum, row, page, Residue::of(page));
                });
            }
        }
        start = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(seed: u64) -> Page {
        std::array::from_fn(|at| (seed.wrapping_mul(at as u64 + 1) >> 24) as u8)
    }

    proptest! {
        #[test]
        fn a_sum_is_the_same_whether_parts_are_kept_or_copied(rows: u32, parts in prop::collection::vec((any::<u32>(), any::<bool>()), 0..5)) {
            let (rows, buffers) = (u64::from(rows), Buffers::default());
            let mut accumulator = Accumulator::new(rows, 0, false);
            let mut sums = [[0; PAGE_BYTES]; 32];
            for (part, (of, may_be_kept)) in (1..).zip(parts) {
                let of = u64::from(of) & rows;
                let pages: Vec<Page> = ones(of).map(|row| page(part << 32 | row as u64)).collect();
                for (row, page) in ones(of).zip(&pages) {
                    sums[row].iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
                }
                let residues = pages.iter().map(Residue::of).collect();
                let kept = Kept { rows: of, bytes: pages.as_flattened().to_vec(), residues };
                if let Some(part) = if may_be_kept { accumulator.keep(kept) } else { Some(kept) } {
                    accumulator.gather(&buffers);
                    accumulator.make_room(1, &buffers);
                    let pages = part.bytes.as_chunks().0.iter().zip(part.residues);
                    ones(of).zip(pages).for_each(|(row, (page, residue))| accumulator.add(0, row, page, residue));
                }
            }
            prop_assert!(accumulator.bytes() <= rows.count_ones() as usize * PAGE_BYTES, "no more than the sum takes");
            accumulator.make_room(usize::from(accumulator.kept.is_empty()), &buffers);
            accumulator.begin_rest(&buffers);
            let found: Vec<Page> = accumulator.proved(0).map(|page| *page.unwrap()).collect();
            prop_assert!(found.iter().eq(ones(rows).map(|row| &sums[row])));
            prop_assert_eq!(accumulator.bytes(), accumulator.into_buffers().map(|bytes| bytes.len()).sum::<usize>());
        }
    }
}
