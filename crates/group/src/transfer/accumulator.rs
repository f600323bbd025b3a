//! Partial sums on their way through a process: what has arrived, plus its own share. They are in one buffer, sum by sum.
//! Each sum has only the stripes that will contain something, in the same form as on the wire: the first part that
//! arrives becomes the buffer, and the buffer becomes the message that is sent on.
//!
//! If a sum is used here and goes no further, it may stay in the parts as they arrived, as long as their stripes differ.
//! In small epochs nearly all do, and nothing is copied.
//!
//! Each page has the syndrome that it should have: the sum of the syndromes of its shares, whatever happened to the page
//! on its way or in memory. Only the final user of a page compares the two.

use super::plan::{Share, Sum};
use super::{Pages, TransferError};
use crate::buffers::Buffers;
use crate::layout::Layout;
use crate::shard::{AHEAD, Damaged};
use standfast_core::delta::Page;
use standfast_core::erasure::Combiner;
use standfast_core::{PAGE_BYTES, Syndrome};

/// Pages of a share that are added at once: what a processor's first-level cache holds.
pub(super) type PageBlock = [Page; 4];

/// Partial sums in the making.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    /// Empty as long as no sum is in it.
    bytes: Vec<u8>,
    /// Expected syndrome of each page.
    syndromes: Vec<Syndrome>,
    /// Stripes of each sum, one bit each.
    stripes: u64,
    /// Stripes that contain something already; the bytes of others may be anything.
    begun: u64,
    /// Used instead of `bytes`: parts of the only sum as they arrived, with different stripes each.
    kept: Vec<Kept>,
    /// Number of parts that have not arrived.
    pub(super) missing: usize,
    /// Whether the process's own share still has to be added.
    pub(super) owes: bool,
}

/// Pages of some stripes.
#[derive(Debug)]
pub(super) struct Kept {
    /// The stripes, one bit each.
    pub(super) stripes: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) syndromes: Vec<Syndrome>,
}

impl Kept {
    /// Returns how many pages precede that of a stripe; `None` if it has none.
    fn at(&self, stripe: usize) -> Option<usize> {
        (self.stripes >> stripe & 1 == 1).then(|| before(self.stripes, stripe))
    }
}

impl Accumulator {
    /// Creates an accumulator for sums with these stripes.
    pub(super) fn new(stripes: u64, missing: usize, owes: bool) -> Self {
        Self { bytes: Vec::new(), syndromes: Vec::new(), stripes, begun: 0, kept: Vec::new(), missing, owes }
    }

    fn sum_bytes(&self) -> usize {
        self.stripes.count_ones() as usize * PAGE_BYTES
    }

    /// Returns the stripes of each sum.
    pub(super) fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Returns how many stripes precede this one.
    fn before(&self, stripe: usize) -> usize {
        before(self.stripes, stripe)
    }

    /// Returns the bytes that it occupies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.kept.iter().map(|kept| kept.bytes.len()).sum::<usize>()
    }

    /// Makes room for this many sums, unless there is some already.
    pub(super) fn make_room(&mut self, sums: usize, buffers: &Buffers) {
        if self.bytes.is_empty() {
            self.bytes = buffers.take(sums * self.sum_bytes());
            self.syndromes = vec![Syndrome::default(); self.bytes.len() / PAGE_BYTES];
        }
    }

    /// Fills those of these stripes with zeros that contain nothing yet.
    pub(super) fn begin_stripes(&mut self, stripes: u64) {
        let absent = stripes & !self.begun;
        if absent == 0 {
            return;
        }
        self.begun |= absent;
        let length = self.sum_bytes();
        for sum in self.bytes.chunks_exact_mut(length) {
            let pages = ones(self.stripes).zip(sum.as_chunks_mut::<PAGE_BYTES>().0);
            pages.filter(|(stripe, _)| absent >> stripe & 1 == 1).for_each(|(_, page)| page.fill(0));
        }
    }

    /// Keeps a part of the only sum as it arrived, if only parts with other stripes have arrived; otherwise gives it
    /// back.
    pub(super) fn keep(&mut self, part: Kept) -> Option<Kept> {
        if self.bytes.is_empty() && self.kept_stripes() & part.stripes == 0 {
            self.kept.push(part);
            None
        } else {
            Some(part)
        }
    }

    fn kept_stripes(&self) -> u64 {
        self.kept.iter().fold(0, |stripes, kept| stripes | kept.stripes)
    }

    /// Copies the kept parts to the buffer, where more can be added.
    pub(super) fn gather(&mut self, buffers: &Buffers) {
        let kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            self.make_room(1, buffers);
        }
        for Kept { stripes, bytes, syndromes } in kept {
            let pages = bytes.as_chunks().0.iter().zip(syndromes);
            ones(stripes).zip(pages).for_each(|(stripe, (page, syndrome))| self.add(0, stripe, page, syndrome));
            buffers.put(bytes);
        }
    }

    /// Fills stripes with zeros that contain nothing.
    pub(super) fn begin_rest(&mut self, buffers: &Buffers) {
        let kept = self.kept_stripes();
        if kept != self.stripes {
            self.gather(buffers);
            self.begin_stripes(self.stripes);
        }
    }

    /// Takes a part with all stripes as the buffer, if it is the first; otherwise gives it back.
    pub(super) fn begin_with(&mut self, bytes: Vec<u8>, syndromes: &[Syndrome]) -> Option<Vec<u8>> {
        if self.bytes.is_empty() && self.kept.is_empty() {
            (self.bytes, self.begun) = (bytes, self.stripes);
            self.syndromes = syndromes.to_vec();
            None
        } else {
            Some(bytes)
        }
    }

    /// Adds a page that has arrived to one of the sums, with the syndrome that its sender stated.
    pub(super) fn add(&mut self, sum: usize, stripe: usize, page: &Page, syndrome: Syndrome) {
        let at = self.at(sum, stripe);
        self.syndromes[at] ^= syndrome;
        if let Some(first) = self.first(stripe) {
            first.copy_from_slice(page);
            return;
        }
        self.begin_stripes(1 << stripe);
        self.bytes[at * PAGE_BYTES..][..PAGE_BYTES].iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
    }

    /// Adds to the syndrome of a stripe of the only sum.
    fn add_syndrome(&mut self, stripe: usize, syndrome: Syndrome) {
        let at = self.at(0, stripe);
        self.syndromes[at] ^= syndrome;
    }

    /// Returns the index of a page among all pages.
    fn at(&self, sum: usize, stripe: usize) -> usize {
        sum * self.stripes.count_ones() as usize + self.before(stripe)
    }

    /// Adds shares of a column to adjoining stripes of all sums.
    fn add_column(&mut self, combiner: &Combiner, column: usize, first: usize, shares: &[Page]) {
        let (begun, before) = (self.begun, self.before(first));
        self.begin_stripes(u64::MAX >> (u64::BITS as usize - shares.len()) << first);
        let is_begun = |at: usize| begun >> (first + at) & 1 == 1;
        self.each_syndrome(combiner, before, shares.len(), |page, plain, at| match plain {
            true => Syndrome::of(&shares[at]),
            false if is_begun(at) => Syndrome::of(page),
            false => Syndrome::default(),
        });
        let range = before * PAGE_BYTES..(before + shares.len()) * PAGE_BYTES;
        let sums = self.sums_mut().into_iter().map(|sum| &mut sum[range.clone()]);
        combiner.add(column, shares.as_flattened(), &mut sums.collect::<Vec<_>>());
        // A share that was multiplied adds the difference between the syndromes of the page after and before.
        self.each_syndrome(combiner, before, shares.len(), |page, plain, _| match plain {
            true => Syndrome::default(),
            false => Syndrome::of(page),
        });
    }

    /// Adds to the syndromes of `count` stripes of all sums. The closure computes the addend from a page, whether shares
    /// are added to its sum unchanged, and the index of the stripe.
    fn each_syndrome(
        &mut self,
        combiner: &Combiner,
        before: usize,
        count: usize,
        of: impl Fn(&Page, bool, usize) -> Syndrome,
    ) {
        let stripes = self.stripes.count_ones() as usize;
        let pages = self.bytes.as_chunks().0;
        for (sum, plain) in combiner.plain().iter().enumerate() {
            for at in 0..count {
                let place = sum * stripes + before + at;
                self.syndromes[place] ^= of(&pages[place], *plain, at);
            }
        }
    }

    /// Returns the page of the only sum in a stripe, to become its first share; `None` if there are more sums, or shares.
    fn first(&mut self, stripe: usize) -> Option<&mut Page> {
        if self.bytes.len() != self.sum_bytes() || self.begun >> stripe & 1 == 1 {
            return None;
        }
        self.begun |= 1 << stripe;
        let at = self.before(stripe);
        self.bytes.as_chunks_mut().0.get_mut(at)
    }

    /// Returns one of the sums. Stripes that were not begun may contain anything.
    pub(super) fn sum(&self, sum: usize) -> &[u8] {
        &self.bytes[sum * self.sum_bytes()..][..self.sum_bytes()]
    }

    /// Returns the syndromes of one of the sums, in some of the stripes.
    pub(super) fn syndromes_in(&self, stripes: u64, sum: usize) -> impl Iterator<Item = Syndrome> {
        let syndromes = ones(self.stripes).zip(&self.syndromes[self.at(sum, 0)..]);
        syndromes.filter(move |(stripe, _)| stripes >> stripe & 1 == 1).map(|(_, syndrome)| *syndrome)
    }

    /// Returns the pages of one of the sums, each compared with its syndrome.
    pub(super) fn proved(&self, sum: usize) -> impl Iterator<Item = Result<&Page, TransferError>> {
        ones(self.stripes).map(move |stripe| {
            let (page, syndrome) = self.page(sum, stripe);
            if Syndrome::of(page) == syndrome { Ok(page) } else { Err(TransferError::Altered) }
        })
    }

    /// Returns the page of a stripe and its expected syndrome.
    fn page(&self, sum: usize, stripe: usize) -> (&Page, Syndrome) {
        let kept = self.kept.iter().find_map(|kept| Some((&kept.bytes, &kept.syndromes, kept.at(stripe)?)));
        let (bytes, syndromes, at) = kept.unwrap_or_else(|| (&self.bytes, &self.syndromes, self.at(sum, stripe)));
        (&bytes.as_chunks().0[at], syndromes[at])
    }

    /// Recomputes all syndromes from the pages, which have just been computed from others.
    pub(super) fn renew_syndromes(&mut self) {
        self.syndromes = self.bytes.as_chunks().0.iter().map(Syndrome::of).collect();
    }

    /// Returns all sums.
    pub(super) fn sums_mut(&mut self) -> Vec<&mut [u8]> {
        let length = self.sum_bytes();
        self.bytes.chunks_exact_mut(length).collect()
    }

    /// Returns the buffer with the sums, one after the other.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns all buffers, to be used again.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        [self.bytes].into_iter().chain(self.kept.into_iter().map(|kept| kept.bytes))
    }
}

/// Returns how many stripes precede one.
fn before(stripes: u64, stripe: usize) -> usize {
    (stripes & ((1 << stripe) - 1)).count_ones() as usize
}

/// Returns the positions of the bits that are set, ascending.
pub(super) fn ones(bits: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |at| bits >> at & 1 == 1)
}

/// Adds a contributor's share, run by run of stripes in which it has something.
pub(super) fn add_share(
    sum: &Sum,
    piece: usize,
    index: usize,
    layout: &Layout,
    accumulator: &mut Accumulator,
    pages: &mut dyn Pages,
    block: &mut PageBlock,
) -> Result<(), Damaged> {
    let contributor = &sum.contributors[index];
    let stripes = sum.piece_stripes(piece);
    let own = |at: &usize| contributor.own(piece) >> at & 1 == 1;
    let mut ahead = (0..stripes.len()).filter(own).skip(AHEAD);
    let mut read = |at: usize, page: &mut Page| {
        if let Some(ahead) = ahead.next() {
            pages.expect(contributor.position, contributor.place(layout, stripes[ahead]));
        }
        match contributor.share {
            Share::Column(column) => pages.column(contributor.position, layout.slot(column, stripes[at]), page),
            Share::Check { check, .. } => pages.check(contributor.position, check, stripes[at], page),
        }
    };
    let is_plain = sum.combiner.is_plain();
    let mut start = 0;
    while let Some(first) = (start..stripes.len()).find(own) {
        if is_plain && let Some(page) = accumulator.first(first) {
            read(first, page)?;
            let syndrome = Syndrome::of(page);
            accumulator.add_syndrome(first, syndrome);
            start = first + 1;
            continue;
        }
        let most = stripes.len().min(first + block.len());
        let end = (first..most).find(|at| !own(at)).unwrap_or(most);
        for (at, page) in (first..end).zip(block.iter_mut()) {
            read(at, page)?;
        }
        match contributor.share {
            Share::Column(column) => accumulator.add_column(&sum.combiner, column, first, &block[..end - first]),
            Share::Check { sum, .. } => {
                (first..end).zip(block.iter()).for_each(|(stripe, page)| {
                    accumulator.add(sum, stripe, page, Syndrome::of(page));
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
        fn sums_of_kept_and_copied_parts_are_equal(stripes: u32, parts in prop::collection::vec((any::<u32>(), any::<bool>()), 0..5)) {
            let (stripes, buffers) = (u64::from(stripes), Buffers::default());
            let mut accumulator = Accumulator::new(stripes, 0, false);
            let mut sums = [[0; PAGE_BYTES]; 32];
            for (part, (of, may_be_kept)) in (1..).zip(parts) {
                let of = u64::from(of) & stripes;
                let pages: Vec<Page> = ones(of).map(|stripe| page(part << 32 | stripe as u64)).collect();
                for (stripe, page) in ones(of).zip(&pages) {
                    sums[stripe].iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
                }
                let syndromes = pages.iter().map(Syndrome::of).collect();
                let kept = Kept { stripes: of, bytes: pages.as_flattened().to_vec(), syndromes };
                if let Some(part) = if may_be_kept { accumulator.keep(kept) } else { Some(kept) } {
                    accumulator.gather(&buffers);
                    accumulator.make_room(1, &buffers);
                    let pages = part.bytes.as_chunks().0.iter().zip(part.syndromes);
                    ones(of).zip(pages).for_each(|(stripe, (page, syndrome))| accumulator.add(0, stripe, page, syndrome));
                }
            }
            prop_assert!(accumulator.bytes() <= stripes.count_ones() as usize * PAGE_BYTES, "no more than the sum takes");
            accumulator.make_room(usize::from(accumulator.kept.is_empty()), &buffers);
            accumulator.begin_rest(&buffers);
            let found: Vec<Page> = accumulator.proved(0).map(|page| *page.unwrap()).collect();
            prop_assert!(found.iter().eq(ones(stripes).map(|stripe| &sums[stripe])));
            prop_assert_eq!(accumulator.bytes(), accumulator.into_buffers().map(|bytes| bytes.len()).sum::<usize>());
        }
    }
}
