//! Partial sums on their way through a process: what has come, and its own share. They lie in one buffer, sum by sum, and of
//! each the stripes in which there will be something, as they travel: what comes first becomes the buffer, and the buffer
//! becomes what is sent on.
//!
//! A sum that is used here and goes no further may stand in the parts as they came, as long as these have different stripes: of
//! small epochs nearly all have, and nothing is copied.
//!
//! Beside each page stands the syndrome that it should have, the sum of those of its shares, whatever has befallen the page on
//! its way or in memory. Whoever uses the page looks whether it has it, and nobody before.

use super::plan::{Share, Sum};
use super::{Pages, TransferError};
use crate::buffers::Buffers;
use crate::layout::Layout;
use crate::shard::{AHEAD, Damaged};
use standfast_core::delta::Page;
use standfast_core::erasure::Combiner;
use standfast_core::{PAGE_BYTES, Syndrome};

/// Pages of a share that are added at once: what a processor's first cache holds.
pub(super) type PageBlock = [Page; 4];

/// Partial sums in the making.
#[derive(Debug, Default)]
pub(super) struct Accumulator {
    /// Empty as long as nothing is in it.
    bytes: Vec<u8>,
    /// What each page should leave.
    syndromes: Vec<Syndrome>,
    /// Stripes that each sum has, one bit each.
    stripes: u64,
    /// Those of them in which there is something already; the bytes of others may be anything.
    begun: u64,
    /// In place of the bytes: parts of the only sum as they came, of other stripes each.
    kept: Vec<Kept>,
    /// Parts that have not come.
    pub(super) missing: usize,
    /// Whether the process's own share is to be added.
    pub(super) owes: bool,
}

/// Pages of some stripes.
#[derive(Debug)]
pub(super) struct Kept {
    /// One bit each.
    pub(super) stripes: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) syndromes: Vec<Syndrome>,
}

impl Kept {
    /// How many pages stand before that of a stripe; `None` where it has none.
    fn at(&self, stripe: usize) -> Option<usize> {
        (self.stripes >> stripe & 1 == 1).then(|| before(self.stripes, stripe))
    }
}

impl Accumulator {
    /// For sums with these stripes.
    pub(super) fn new(stripes: u64, missing: usize, owes: bool) -> Self {
        Self { bytes: Vec::new(), syndromes: Vec::new(), stripes, begun: 0, kept: Vec::new(), missing, owes }
    }

    fn sum_bytes(&self) -> usize {
        self.stripes.count_ones() as usize * PAGE_BYTES
    }

    /// The stripes that each sum has.
    pub(super) fn stripes(&self) -> u64 {
        self.stripes
    }

    /// How many stripes stand before this one.
    fn before(&self, stripe: usize) -> usize {
        before(self.stripes, stripe)
    }

    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.kept.iter().map(|kept| kept.bytes.len()).sum::<usize>()
    }

    /// Room for so many sums, unless something has come already.
    pub(super) fn make_room(&mut self, sums: usize, buffers: &Buffers) {
        if self.bytes.is_empty() {
            self.bytes = buffers.take(sums * self.sum_bytes());
            self.syndromes = vec![Syndrome::default(); self.bytes.len() / PAGE_BYTES];
        }
    }

    /// Makes zeros of those of these stripes, one bit each, in which there is nothing yet.
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

    /// Keeps what has come for some stripes of the only sum as it is, if nothing has come but other stripes; gives it back
    /// otherwise.
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

    /// Copies what is kept to where more can be added.
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

    /// Makes zeros of stripes in which there is nothing.
    pub(super) fn begin_rest(&mut self, buffers: &Buffers) {
        let kept = self.kept_stripes();
        if kept != self.stripes {
            self.gather(buffers);
            self.begin_stripes(self.stripes);
        }
    }

    /// Takes what has come for all stripes as it is, if it is the first; gives it back otherwise.
    pub(super) fn begin_with(&mut self, bytes: Vec<u8>, syndromes: &[Syndrome]) -> Option<Vec<u8>> {
        if self.bytes.is_empty() && self.kept.is_empty() {
            (self.bytes, self.begun) = (bytes, self.stripes);
            self.syndromes = syndromes.to_vec();
            None
        } else {
            Some(bytes)
        }
    }

    /// Adds a page that has come to one of the sums; its syndrome is what its sender says.
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

    /// What stands in a stripe of the only sum has been added to.
    fn add_syndrome(&mut self, stripe: usize, syndrome: Syndrome) {
        let at = self.at(0, stripe);
        self.syndromes[at] ^= syndrome;
    }

    /// Where a page stands among all of them.
    fn at(&self, sum: usize, stripe: usize) -> usize {
        sum * self.stripes.count_ones() as usize + self.before(stripe)
    }

    /// Adds shares of a column to all sums, to stripes that stand beside each other.
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
        // What a share that was multiplied has added is what the page leaves more than before.
        self.each_syndrome(combiner, before, shares.len(), |page, plain, _| match plain {
            true => Syndrome::default(),
            false => Syndrome::of(page),
        });
    }

    /// Adds to the syndromes of so many stripes of all sums what is said of a page, whether shares are added to its sum as they
    /// are, and which of the stripes it is.
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

    /// The page of the only sum in a stripe, to become its first share; `None` where there are more sums, or shares.
    fn first(&mut self, stripe: usize) -> Option<&mut Page> {
        if self.bytes.len() != self.sum_bytes() || self.begun >> stripe & 1 == 1 {
            return None;
        }
        self.begun |= 1 << stripe;
        let at = self.before(stripe);
        self.bytes.as_chunks_mut().0.get_mut(at)
    }

    /// One of the sums. What stands in stripes that nobody has begun may be anything.
    pub(super) fn sum(&self, sum: usize) -> &[u8] {
        &self.bytes[sum * self.sum_bytes()..][..self.sum_bytes()]
    }

    /// The syndromes of one of the sums, in some of the stripes.
    pub(super) fn syndromes_in(&self, stripes: u64, sum: usize) -> impl Iterator<Item = Syndrome> {
        let syndromes = ones(self.stripes).zip(&self.syndromes[self.at(sum, 0)..]);
        syndromes.filter(move |(stripe, _)| stripes >> stripe & 1 == 1).map(|(_, syndrome)| *syndrome)
    }

    /// The pages of one of the sums, each of them what its shares come to.
    pub(super) fn proved(&self, sum: usize) -> impl Iterator<Item = Result<&Page, TransferError>> {
        ones(self.stripes).map(move |stripe| {
            let (page, syndrome) = self.page(sum, stripe);
            if Syndrome::of(page) == syndrome { Ok(page) } else { Err(TransferError::Altered) }
        })
    }

    /// The page of a stripe, and what it should leave.
    fn page(&self, sum: usize, stripe: usize) -> (&Page, Syndrome) {
        let kept = self.kept.iter().find_map(|kept| Some((&kept.bytes, &kept.syndromes, kept.at(stripe)?)));
        let (bytes, syndromes, at) = kept.unwrap_or_else(|| (&self.bytes, &self.syndromes, self.at(sum, stripe)));
        (&bytes.as_chunks().0[at], syndromes[at])
    }

    /// Takes all pages as what they should be: they have just been made of others.
    pub(super) fn renew_syndromes(&mut self) {
        self.syndromes = self.bytes.as_chunks().0.iter().map(Syndrome::of).collect();
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

/// How many stripes stand before one.
fn before(stripes: u64, stripe: usize) -> usize {
    (stripes & ((1 << stripe) - 1)).count_ones() as usize
}

/// The ones of some bits, ascending.
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
        fn a_sum_is_the_same_whether_parts_are_kept_or_copied(stripes: u32, parts in prop::collection::vec((any::<u32>(), any::<bool>()), 0..5)) {
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
