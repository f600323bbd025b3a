//! Which page of a piece stands in which frame, at hand. Millions of them are looked up in each epoch, nearly always in
//! order, so they lie by number and not in a tree; a piece that has few takes little.

use super::Entry;
use standfast_group::Place;

/// Numbers that lie together.
const STRETCH: usize = 4;

/// In place of a stretch's number where there is none.
const NONE: u32 = u32::MAX;

type Stretch = [Option<Entry>; STRETCH];

/// Entries of a piece by their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    slots: Row,
    /// By check.
    checks: Vec<Row>,
}

/// Entries by number.
#[derive(Clone, Debug, Default)]
struct Row {
    /// For each stretch of numbers which of the stretches below it is.
    index: Vec<u32>,
    /// In the order in which they came.
    stretches: Vec<Stretch>,
    entries: usize,
}

impl Entries {
    pub(crate) fn get(&self, place: Place) -> Option<Entry> {
        match place {
            Place::Slot(slot) => self.slots.get(slot),
            Place::Check { check, row } => self.checks.get(check as usize)?.get(row),
        }
    }

    /// Returns the entry that was there.
    pub(crate) fn insert(&mut self, place: Place, entry: Entry) -> Option<Entry> {
        match place {
            Place::Slot(slot) => self.slots.insert(slot, entry),
            Place::Check { check, row } => {
                let checks = self.checks.len().max(check as usize + 1);
                self.checks.resize_with(checks, Row::default);
                self.checks[check as usize].insert(row, entry)
            }
        }
    }

    /// In the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, Entry)> + '_ {
        let slots = self.slots.iter().map(|(slot, entry)| (Place::Slot(slot), entry));
        let checks = (0..).zip(&self.checks);
        let checks =
            checks.flat_map(|(check, rows)| rows.iter().map(move |(row, entry)| (Place::Check { check, row }, entry)));
        slots.chain(checks)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.entries + self.checks.iter().map(|row| row.entries).sum::<usize>()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = Entry> + '_ {
        self.iter().map(|(_, entry)| entry)
    }

    /// Forgets those that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Place, Entry) -> bool) {
        self.slots.retain(|slot, entry| is_kept(Place::Slot(slot), entry));
        for (check, rows) in (0..).zip(&mut self.checks) {
            rows.retain(|row, entry| is_kept(Place::Check { check, row }, entry));
        }
    }
}

impl Extend<(Place, Entry)> for Entries {
    fn extend<I: IntoIterator<Item = (Place, Entry)>>(&mut self, entries: I) {
        for (place, entry) in entries {
            self.insert(place, entry);
        }
    }
}

impl FromIterator<(Place, Entry)> for Entries {
    fn from_iter<I: IntoIterator<Item = (Place, Entry)>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all
    }
}

impl Row {
    fn get(&self, number: u32) -> Option<Entry> {
        let stretch = self.index.get(number as usize / STRETCH)?;
        self.stretches.get(*stretch as usize)?[number as usize % STRETCH]
    }

    fn insert(&mut self, number: u32, entry: Entry) -> Option<Entry> {
        let at = number as usize / STRETCH;
        if self.index.len() <= at {
            self.index.resize(at + 1, NONE);
        }
        if self.index[at] == NONE {
            self.index[at] = self.stretches.len() as u32;
            self.stretches.push([None; STRETCH]);
        }
        let before = self.stretches[self.index[at] as usize][number as usize % STRETCH].replace(entry);
        self.entries += usize::from(before.is_none());
        before
    }

    fn retain(&mut self, is_kept: impl Fn(u32, Entry) -> bool) {
        for (first, at) in present(&self.index) {
            for (number, entry) in (first..).zip(&mut self.stretches[at]) {
                let gone = entry.take_if(|entry| !is_kept(number, *entry));
                self.entries -= usize::from(gone.is_some());
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        present(&self.index).flat_map(|(first, at)| {
            let entries = (first..).zip(&self.stretches[at]);
            entries.filter_map(|(number, entry)| Some((number, (*entry)?)))
        })
    }
}

/// The first number of each stretch that there is, and where that lies.
fn present(index: &[u32]) -> impl Iterator<Item = (u32, usize)> + '_ {
    let firsts = (0..).step_by(STRETCH);
    firsts.zip(index).filter(|(_, at)| **at != NONE).map(|(first, at)| (first, *at as usize))
}

#[cfg(test)]
mod tests {
    use super::super::Frame;
    use super::*;
    use standfast_core::Checksum;
    use std::collections::BTreeMap;

    #[test]
    fn entries_are_as_in_a_tree() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut entries, mut tree) = (Entries::default(), BTreeMap::new());
        for _ in 0..2000 {
            let number = random.u32(..300);
            let place = match random.u32(..4) {
                0 => Place::Slot(number),
                check => Place::Check { check: check - 1, row: number },
            };
            let frame = if random.bool() { Frame::Zero } else { Frame::At(random.u32(..)) };
            let entry = Entry { frame, checksum: Checksum::default() };
            assert_eq!(entries.insert(place, entry), tree.insert(place, entry), "seed {seed}");
            assert_eq!(entries.get(place), Some(entry), "seed {seed}");
        }
        assert!(entries.iter().eq(tree.clone()), "seed {seed}");
        assert_eq!(entries.len(), tree.len(), "seed {seed}");
        entries.retain(|_, entry| entry.frame != Frame::Zero);
        tree.retain(|_, entry| entry.frame != Frame::Zero);
        assert!(entries.iter().eq(tree), "seed {seed}");
    }
}
