//! A table of regions as it was read once, and what follows from it for pages (M9). A table may have a million regions, of
//! which most stay as they are from one checkpoint to the next: what was said since is put on top, and looks at the pages
//! that it speaks of and at no others.

use super::{Changes, Excluded, MaskedPages, Regions};
use crate::PageSet;
use std::sync::Arc;

/// What regions say about pages, as far as the checkpoint that is built upon holds these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Whole pages that need not be saved.
    pub excluded: Excluded,
    /// What of others need not.
    pub masked_pages: Arc<MaskedPages>,
}

impl Outline {
    fn of(regions: &Regions, held: Option<u64>) -> Self {
        Self { excluded: regions.excluded(held), masked_pages: Arc::new(regions.masked_pages(held)) }
    }

    /// Of some pages as the other says, and of the rest as this does.
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
    /// What follows from it, and for which `held`.
    outline: Option<(Option<u64>, Arc<Outline>)>,
}

impl DirectivesTable {
    /// The table that was made then, with so many entries of its log.
    pub fn new(made: u64, entries: usize, regions: Regions) -> Self {
        let newest_stamp = regions.newest_stamp();
        Self { made, entries, regions, newest_stamp, outline: None }
    }

    /// The same with further entries of its log, which say this.
    #[must_use]
    pub fn changed_by(self, entries: usize, changes: &Changes) -> Self {
        if changes.is_empty() {
            self
        } else {
            Self::new(self.made, self.entries + entries, self.regions.changed_by(changes))
        }
    }

    /// When it was made.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How many entries of its log are in it.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Its regions.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Whether some of them are read-only.
    pub fn has_read_only(&self) -> bool {
        self.newest_stamp.is_some()
    }

    /// What it says about pages to a checkpoint that builds upon one taken when there had been `held` checkpoints; `None` where it
    /// builds upon none.
    pub fn outline(&mut self, held: Option<u64>) -> &Arc<Outline> {
        // What was said before the checkpoint that is built upon is held by all later ones alike.
        let held = held.and_then(|held| Some(held.min(u64::from(self.newest_stamp?))));
        if self.outline.as_ref().is_some_and(|(known, _)| *known != held) {
            self.outline = None;
        }
        let Self { regions, outline, .. } = self;
        &outline.get_or_insert_with(|| (held, Arc::new(Outline::of(regions, held)))).1
    }

    /// The same when `changes` have been said as well.
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

    /// Regions of a few pages, of all kinds, as they stand in a log.
    fn some_log() -> impl Strategy<Value = Vec<u8>> {
        let entry = (0u64..0x6000, 1u64..0x2800, 0u64..3, 0u64..4).prop_map(|(start, length, kind, stamp)| {
            let stamp = if kind == 2 { stamp } else { 0 };
            [(start | stamp << 48 | kind << 62).to_le_bytes(), length.to_le_bytes()].concat()
        });
        proptest::collection::vec(entry, 0..12).prop_map(|entries| entries.concat())
    }

    proptest! {
        #[test]
        fn what_was_said_since_changes_what_it_speaks_of_as_if_all_had_been_read_again(
            base in some_log(),
            changes in some_log(),
            helds in proptest::collection::vec(proptest::option::of(0u64..5), 1..5),
        ) {
            let mut table = DirectivesTable::new(1, base.len() / 16, Regions::decode([&base[..]]).unwrap());
            let said = Changes::decode([&changes[..]]).unwrap();
            let all = Regions::decode([&base[..], &changes[..]]).unwrap();
            // One after the other: what is known from one must not count for the next.
            for held in &helds {
                let found = table.outline_with(*held, &said);
                prop_assert_eq!(&*found, &Outline::of(&all, *held));
                let mut read_again = table.clone().changed_by(changes.len() / 16, &said);
                prop_assert_eq!(&**read_again.outline(*held), &Outline::of(&all, *held));
            }
        }
    }
}
