//! EVENODD (Blaum, Brady, Bruck and Menon 1994): two checks that tolerate the loss of any two pieces, using only XOR.
//!
//! A page is one self-contained column of p - 1 cells. Here p is a prime, at least the number of members, and p - 1
//! divides the page. Columns without a member are zero. The second check adds along diagonals of slope one. To each of
//! its cells it also adds the sum of the diagonal that has no cell of its own (the *adjuster*):
//!
//! ```text
//! P[l] = sum over j of x_j[l]
//! Q[l] = S + sum over j of x_j[(l - j) mod p],   S = sum over j of x_j[(p - 1 - j) mod p],   x_j[p - 1] = 0
//! ```
//!
//! MPI programs cannot choose this code yet: it is here to complete the forms of diskless checkpointing in groups.

use super::kernel::xor;
use crate::PAGE_BYTES;

/// Primes whose p - 1 divides 4096.
const PRIMES: [usize; 3] = [5, 17, 257];

/// Largest number of members.
pub(super) const MEMBERS_MAX: usize = 257;

/// The code for some prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EvenOdd {
    prime: usize,
    cell: usize,
}

impl EvenOdd {
    /// Creates the code with the smallest prime that has room for `members` members. Panics beyond [`MEMBERS_MAX`].
    pub(super) fn new(members: usize) -> Self {
        let prime = PRIMES.into_iter().find(|prime| *prime >= members).expect("at most 257 members");
        Self { prime, cell: PAGE_BYTES / (prime - 1) }
    }

    /// Adds a member's page to the second check.
    pub(super) fn add_diagonals(self, member: usize, page: &[u8], sum: &mut [u8]) {
        self.add_shifted(member, page, sum);
        self.add_adjuster(self.adjuster_cell(member, page), sum);
    }

    /// Computes the second check of all members. The adjuster is summed first and added once.
    pub(super) fn combine_diagonals(self, pages: &[&[u8]], sum: &mut [u8]) {
        let mut adjuster = [0u8; PAGE_BYTES];
        let adjuster = &mut adjuster[..self.cell];
        sum.fill(0);
        for (member, page) in pages.iter().enumerate() {
            self.add_shifted(member, page, sum);
            if let Some(cell) = self.adjuster_cell(member, page) {
                xor(adjuster, cell);
            }
        }
        self.add_adjuster(Some(adjuster), sum);
    }

    /// Adds the shifted cells: cell l of the sum gets cell l - j of the page, in two pieces around the gap.
    fn add_shifted(self, member: usize, page: &[u8], sum: &mut [u8]) {
        let turn = member * self.cell;
        xor(&mut sum[turn.min(PAGE_BYTES)..], &page[..PAGE_BYTES.saturating_sub(turn)]);
        if member > 1 {
            let low = turn - self.cell;
            xor(&mut sum[..low], &page[PAGE_BYTES - low..]);
        }
    }

    /// Returns the one cell of the page that is on the adjuster's diagonal; the first member has none.
    fn adjuster_cell(self, member: usize, page: &[u8]) -> Option<&[u8]> {
        (member > 0).then(|| &page[(self.prime - 1 - member) * self.cell..][..self.cell])
    }

    fn add_adjuster(self, adjuster: Option<&[u8]>, sum: &mut [u8]) {
        let Some(adjuster) = adjuster.filter(|cell| !crate::is_zero(cell)) else { return };
        // A short cell is processed as an array, so that the loop runs over the whole sum.
        if self.cell == 16 {
            let cell: &[u8; 16] = adjuster.try_into().expect("the cell has 16 bytes");
            let (cells, _) = sum.as_chunks_mut::<16>();
            cells.iter_mut().for_each(|sum| sum.iter_mut().zip(cell).for_each(|(sum, byte)| *sum ^= byte));
        } else {
            sum.chunks_exact_mut(self.cell).for_each(|sum| xor(sum, adjuster));
        }
    }

    /// Recovers a page from what it added to the second check.
    pub(super) fn solve_from_diagonals(self, member: usize, sum: &mut [u8]) {
        let mut page = [0u8; PAGE_BYTES];
        // Diagonal j - 1 passes through the cell that is always zero, so it holds only the adjuster.
        let adjuster = if member == 0 { [0u8; PAGE_BYTES] } else { self.repeated(sum, member - 1) };
        for cell in 0..self.prime - 1 {
            let diagonal = (cell + member) % self.prime;
            let target = &mut page[cell * self.cell..][..self.cell];
            if diagonal < self.prime - 1 {
                target.copy_from_slice(&sum[diagonal * self.cell..][..self.cell]);
            }
            xor(target, &adjuster[..self.cell]);
        }
        sum.copy_from_slice(&page);
    }

    fn repeated(self, sum: &[u8], cell: usize) -> [u8; PAGE_BYTES] {
        let mut out = [0u8; PAGE_BYTES];
        out[..self.cell].copy_from_slice(&sum[cell * self.cell..][..self.cell]);
        out
    }

    /// Recovers two pages from what they added to both checks, by the zigzag of the paper's section 3. `first` and
    /// `second` are members, `first < second`. Their pages replace the two sums.
    pub(super) fn solve_both(self, first: usize, second: usize, parity: &mut [u8], diagonals: &mut [u8]) {
        let (p, cell) = (self.prime, self.cell);
        let mut adjuster = [0u8; PAGE_BYTES];
        let adjuster = &mut adjuster[..cell];
        parity.chunks_exact(cell).chain(diagonals.chunks_exact(cell)).for_each(|it| xor(adjuster, it));
        let mut known = [0u8; PAGE_BYTES];
        let mut other = [0u8; PAGE_BYTES];
        let mut row = p - 1;
        let mut last = [0u8; PAGE_BYTES];
        for _ in 0..p - 1 {
            // This is the diagonal through `row` of the first page. Its cell that is not the first page's is the
            // second's.
            let diagonal = (row + first) % p;
            let next = (diagonal + p - second) % p;
            let found = &mut last[..cell];
            xor(found, adjuster);
            if diagonal < p - 1 {
                xor(found, &diagonals[diagonal * cell..][..cell]);
            }
            other[next * cell..][..cell].copy_from_slice(found);
            xor(found, &parity[next * cell..][..cell]);
            known[next * cell..][..cell].copy_from_slice(found);
            row = next;
        }
        parity.copy_from_slice(&known);
        diagonals.copy_from_slice(&other);
    }
}
