//! Partial sums on their way through a process: what has come, and its own share.

use super::Pages;
use super::plan::{Share, Sum};
use crate::layout::Layout;
use crate::shelf::Damaged;
use standfast_core::PAGE_BYTES;

/// Partial sums in the making.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    pub(super) sums: Vec<Vec<u8>>,
    /// Parts that have not come.
    pub(super) missing: usize,
    /// Whether the process's own share is to be added.
    pub(super) owes: bool,
}

impl Accumulator {
    /// Zeros for the rows of a piece, unless something has come already.
    pub(super) fn make_room(&mut self, sums: usize, rows: usize) {
        if self.sums.is_empty() {
            self.sums = vec![vec![0; rows * PAGE_BYTES]; sums];
        }
    }
}

/// Adds a contributor's share, run by run of rows in which it has something.
pub(super) fn add_share(
    sum: &Sum,
    piece: usize,
    index: usize,
    layout: &Layout,
    accumulator: &mut Accumulator,
    pages: &mut dyn Pages,
) -> Result<(), Damaged> {
    let contributor = &sum.contributors[index];
    let rows = sum.piece_rows(piece);
    let own = |at: &usize| contributor.own(piece) >> at & 1 == 1;
    let mut run = Vec::with_capacity(rows.len() * PAGE_BYTES);
    let mut start = 0;
    while let Some(first) = (start..rows.len()).find(own) {
        let end = (first..rows.len()).find(|at| !own(at)).unwrap_or(rows.len());
        run.resize((end - first) * PAGE_BYTES, 0);
        for (row, page) in rows[first..end].iter().zip(run.as_chunks_mut::<PAGE_BYTES>().0) {
            match contributor.share {
                Share::Column(column) => pages.column(contributor.position, layout.slot(column, *row), page)?,
                Share::Check { check, .. } => pages.check(contributor.position, check, *row, page)?,
            }
        }
        let range = first * PAGE_BYTES..end * PAGE_BYTES;
        match contributor.share {
            Share::Column(column) => {
                let sums = accumulator.sums.iter_mut().map(|sum| &mut sum[range.clone()]);
                sum.combiner.add(column, &run, &mut sums.collect::<Vec<_>>());
            }
            Share::Check { sum, .. } => {
                accumulator.sums[sum][range].iter_mut().zip(&run).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
        start = end;
    }
    Ok(())
}
