//! A table of regions that was read once, and its consequences for pages (M9). A table may have a million regions, most
//! of which stay the same from one checkpoint to the next. Later changes are therefore applied on top, and only the
//! pages that they affect are examined.

use super::{Changes, Excluded, MaskedPages, Regions};
use crate::PageSet;
use std::sync::Arc;

/// The consequences of regions for pages, given the pages that the parent checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Whole pages that need not be saved.
    pub excluded: Excluded,
    /// The words of other pages that need not be saved.
    pub masked_pages: Arc<MaskedPages>,
}

impl Outline {
    fn of(regions: &Regions, held: Option<u64>) -> Self {
        Self { excluded: regions.excluded(held), masked_pages: Arc::new(regions.masked_pages(held)) }
    }

    /// Returns the outline of `other` for some pages, and this one for the rest.
    fn with(&self, pages: &PageSet, other: &Self) -> Self {
        let with = |here: &PageSet, there: &PageSet| here.difference(pages).union(there);
        let excluded = Excluded {
            dead: with(&self.excluded.dead, &other.excluded.dead),
            held: with(&self.excluded.held, &other.excluded.held),
        };
        Self { excluded, masked_pages: Arc::new(self.masked_pages.with(pages, &other.masked_pages)) }
    }
}

/// A table, up to some entry of its log.
#[derive(Debug, Clone, Default)]
pub struct DirectivesTable {
    made: u64,
    entries: usize,
    regions: Regions,
    newest_stamp: Option<u32>,
    /// Its consequences, and the `held` for which they were computed.
    outline: Option<(Option<u64>, Arc<Outline>)>,
}

impl DirectivesTable {
    /// Creates the table with this identity (`made`) and the first `entries` entries of its log.
    pub fn new(made: u64, entries: usize, regions: Regions) -> Self {
        let newest_stamp = regions.newest_stamp();
        Self { made, entries, regions, newest_stamp, outline: None }
    }

    /// Returns the table with further entries of its log, whose content is `changes`.
    #[must_use]
    pub fn changed_by(self, entries: usize, changes: &Changes) -> Self {
        if changes.is_empty() {
            self
        } else {
            Self::new(self.made, self.entries + entries, self.regions.changed_by(changes))
        }
    }

    /// Returns the identity of its base ([`super::DirectivesHeader::made`]).
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Returns how many entries of its log it includes.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns its regions.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Reports whether any of them are read-only.
    pub fn has_read_only(&self) -> bool {
        self.newest_stamp.is_some()
    }

    /// Returns the outline for a checkpoint whose parent was taken after `held` checkpoints; `None` if it has no
    /// parent.
    pub fn outline(&mut self, held: Option<u64>) -> &Arc<Outline> {
        // Regions declared before the parent checkpoint are equally held for any later parent.
        let held = held.and_then(|held| Some(held.min(u64::from(self.newest_stamp?))));
        if self.outline.as_ref().is_some_and(|(known, _)| *known != held) {
            self.outline = None;
        }
        let Self { regions, outline, .. } = self;
        &outline.get_or_insert_with(|| (held, Arc::new(Outline::of(regions, held)))).1
    }

    /// Returns the outline with `changes` applied as well.
    pub fn outline_with(&mut self, held: Option<u64>, changes: &Changes) -> Arc<Outline> {
        let known = Arc::clone(self.outline(held));
        if changes.is_empty() {
            return known;
        }
        let pages = changes.pages();
        let there = self.regions.within(&pages).changed_by(changes);
        Arc::new(known.with(&pages, &Outline::of(&there, held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates regions of a few pages, of all kinds, as stored in a log.
    fn some_log() -> impl Strategy<Value = Vec<u8>> {
        let entry = (0u64..0x6000, 1u64..0x2800, 0u64..3, 0u64..4).prop_map(|(start, length, kind, stamp)| {
            let stamp = if kind == 2 { stamp } else { 0 };
            [(start | stamp << 48 | kind << 62).to_le_bytes(), length.to_le_bytes()].concat()
        });
        proptest::collection::vec(entry, 0..12).prop_map(|entries| entries.concat())
    }

    proptest! {
        #[test]
        fn applying_changes_equals_decoding_the_whole_log(
            base in some_log(),
            changes in some_log(),
            helds in proptest::collection::vec(proptest::option::of(0u64..5), 1..5),
        ) {
            let mut table = DirectivesTable::new(1, base.len() / 16, Regions::decode([&base[..]]).unwrap());
            let said = Changes::decode([&changes[..]]).unwrap();
            let all = Regions::decode([&base[..], &changes[..]]).unwrap();
            // The calls follow each other: what one has cached must not affect the next.
            for held in &helds {
                let found = table.outline_with(*held, &said);
                prop_assert_eq!(&*found, &Outline::of(&all, *held));
                let mut read_again = table.clone().changed_by(changes.len() / 16, &said);
                prop_assert_eq!(&**read_again.outline(*held), &Outline::of(&all, *held));
            }
        }
    }
}
