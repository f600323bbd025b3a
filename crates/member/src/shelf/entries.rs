//! Which page of a piece stands in which frame, at hand. Millions of them are looked up in each epoch, nearly always in
//! order, so they lie by number and not in a tree; a piece that has few takes little.

use super::Entry;
use standfast_group::Place;

/// Numbers that lie together.
const STRETCH: usize = 4;

type Stretch = Box<[Option<Entry>; STRETCH]>;

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
    stretches: Vec<Option<Stretch>>,
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
        let stretch = self.stretches.get(number as usize / STRETCH)?.as_ref()?;
        stretch[number as usize % STRETCH]
    }

    fn insert(&mut self, number: u32, entry: Entry) -> Option<Entry> {
        let index = number as usize / STRETCH;
        if self.stretches.len() <= index {
            self.stretches.resize(index + 1, None);
        }
        let stretch = self.stretches[index].get_or_insert_with(|| Box::new([None; STRETCH]));
        let before = stretch[number as usize % STRETCH].replace(entry);
        self.entries += usize::from(before.is_none());
        before
    }

    fn retain(&mut self, is_kept: impl Fn(u32, Entry) -> bool) {
        let stretches = self.stretches.iter_mut().enumerate();
        for (index, stretch) in stretches.filter_map(|(index, stretch)| Some((index, stretch.as_mut()?))) {
            for (at, entry) in stretch.iter_mut().enumerate() {
                let gone = entry.take_if(|entry| !is_kept((index * STRETCH + at) as u32, *entry));
                self.entries -= usize::from(gone.is_some());
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        let stretches =
            self.stretches.iter().enumerate().filter_map(|(index, stretch)| Some((index, stretch.as_ref()?)));
        stretches.flat_map(|(index, stretch)| {
            let first = index * STRETCH;
            let entries = stretch.iter().enumerate();
            entries.filter_map(move |(at, entry)| Some(((first + at) as u32, (*entry)?)))
        })
    }
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
