//! The words of partly excluded pages that need not be saved, for each such page (L11: "partial pages are legal").
//!
//! A word is saved unless a program has excluded all of its bytes. Dead words may be restored with any content. Held
//! words are left to the parent checkpoint, so a page with held words needs the page of the parent.

use super::{Region, Regions, Usage};
use crate::{Address, MASK_WORD_BYTES, Mask, PAGE_BYTES, PageRange, PageSet};
use std::sync::Arc;

/// Pages with words that do not count, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaskedPages(Vec<MaskedPage>);

/// A page with words that do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedPage {
    /// Its address.
    pub page: Address,
    /// The words that are dead.
    pub dead: Mask,
    /// The words that are dead or held.
    pub out: Mask,
}

impl MaskedPage {
    /// Reports whether it needs the page of the parent checkpoint.
    pub fn is_held(&self) -> bool {
        self.dead != self.out
    }
}

impl Regions {
    /// Returns the words that a checkpoint need not save. Its parent was taken after `held` checkpoints; `None` if it
    /// has no parent. The result assumes that the parent holds the pages ([`MaskedPages::where_held`]). Pages wholly
    /// within one region are not included.
    pub fn masked_pages(&self, held: Option<u64>) -> MaskedPages {
        let mut masked_pages = MaskedPages::default();
        for region in self.all() {
            let is_held = match region.usage {
                Usage::Included => continue,
                Usage::Dead => false,
                Usage::ReadOnly { .. } if held.is_some_and(|held| region.usage.is_held(held)) => true,
                Usage::ReadOnly { .. } => continue,
            };
            edges(region).for_each(|page| masked_pages.add(region, page, is_held));
        }
        masked_pages
    }
}

/// Returns the pages that a region covers only in part.
fn edges(region: &Region) -> impl Iterator<Item = Address> + use<> {
    const PAGE: u64 = PAGE_BYTES as u64;
    let (first, last) = (region.start - region.start % PAGE, (region.end - 1) / PAGE * PAGE);
    let (starts_inside, ends_inside) = (region.start > first, region.end < last + PAGE);
    let first = (starts_inside || (first == last && ends_inside)).then_some(first);
    let last = (ends_inside && first != Some(last)).then_some(last);
    first.into_iter().chain(last).map(Address::new)
}

impl MaskedPages {
    fn add(&mut self, region: &Region, page: Address, is_held: bool) {
        const WORD: u64 = MASK_WORD_BYTES as u64;
        let start = region.start.saturating_sub(page.get());
        let end = (region.end - page.get()).min(PAGE_BYTES as u64);
        let words = start.div_ceil(WORD) as usize..(end / WORD) as usize;
        if words.is_empty() {
            return;
        }
        if self.0.last().is_none_or(|last| last.page != page) {
            self.0.push(MaskedPage { page, dead: Mask::NONE, out: Mask::NONE });
        }
        let last = self.0.last_mut().expect("there is one");
        last.out.add(words.clone());
        if !is_held {
            last.dead.add(words);
        }
    }

    /// Returns the same masks, given that the parent checkpoint holds exactly these pages.
    #[must_use]
    pub fn where_held(self: &Arc<Self>, pages: &PageSet) -> Arc<Self> {
        let lacking =
            PageSet::of(self.0.iter().filter(|masked_page| masked_page.is_held()).map(|it| PageRange::new(it.page, 1)));
        let lacking = lacking.difference(pages);
        if lacking.is_empty() {
            return Arc::clone(self);
        }
        let mut lacking = lacking.ranges();
        let present = |masked_page: &MaskedPage| {
            while let [first, rest @ ..] = lacking
                && first.end() <= masked_page.page
            {
                lacking = rest;
            }
            let is_lacking = lacking.first().is_some_and(|range| range.contains(masked_page.page));
            let out = if is_lacking { masked_page.dead } else { masked_page.out };
            (!out.is_empty()).then_some(MaskedPage { out, ..*masked_page })
        };
        Arc::new(Self(self.0.iter().filter_map(present).collect()))
    }

    /// Returns the masks of `others` for these pages, and its own for the rest.
    #[must_use]
    pub(super) fn with(&self, pages: &PageSet, others: &Self) -> Self {
        let mut ranges = pages.ranges();
        let stays = |masked_page: &&MaskedPage| {
            while let [first, rest @ ..] = ranges
                && first.end() <= masked_page.page
            {
                ranges = rest;
            }
            !ranges.first().is_some_and(|range| range.contains(masked_page.page))
        };
        let mut all: Vec<_> = self.0.iter().filter(stays).chain(&others.0).copied().collect();
        all.sort_unstable_by_key(|masked_page| masked_page.page);
        Self(all)
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all of them.
    pub fn all(&self) -> &[MaskedPage] {
        &self.0
    }

    /// Returns those within a range.
    pub fn within(&self, range: PageRange) -> &[MaskedPage] {
        let from = self.0.partition_point(|masked_page| masked_page.page < range.start());
        let rest = &self.0[from..];
        &rest[..rest.partition_point(|masked_page| masked_page.page < range.end())]
    }

    /// Returns the pages.
    pub fn pages(&self) -> PageSet {
        PageSet::of(self.0.iter().map(|masked_page| PageRange::new(masked_page.page, 1)))
    }

    /// Returns the pages with words that count now but did not count in `then`.
    pub fn revived_since(&self, then: &Self) -> PageSet {
        if std::ptr::eq(self, then) {
            return PageSet::default();
        }
        let mut now = &self.0[..];
        let revived = then.0.iter().filter(|was| {
            now = &now[now.partition_point(|masked_page| masked_page.page < was.page)..];
            let out = now
                .first()
                .filter(|masked_page| masked_page.page == was.page)
                .map_or(Mask::NONE, |masked_page| masked_page.out);
            !was.out.is_within(out)
        });
        PageSet::of(revived.map(|was| PageRange::new(was.page, 1)))
    }
}
