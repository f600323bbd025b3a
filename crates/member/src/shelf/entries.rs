//! Which page of a piece stands in which frame, at hand. Millions of them are looked up in each epoch, here and there, so they
//! lie by number and not in a tree: those of a piece that has most of them one behind the other, where one is found by one look
//! at memory; those of a piece that has few in stretches of a few, which take little.

use super::Entry;
use standfast_group::Place;

/// Numbers that lie together.
const STRETCH: usize = 4;
/// In place of a stretch's number where there is none.
const NONE: u32 = u32::MAX;
/// All lie one behind the other as soon as one stretch in so many is there: that takes hardly more then.
const OF_STRETCHES: usize = 4;
/// Of fewer stretches it does not matter.
const STRETCHES_MIN: usize = 64;

type Stretch = [Option<Entry>; STRETCH];

/// Entries of a piece by their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    slots: Row,
    /// By check.
    checks: Vec<Row>,
}

/// Entries by number.
#[derive(Clone, Debug)]
struct Row {
    form: Form,
    entries: usize,
}

#[derive(Clone, Debug)]
enum Form {
    /// Few of them.
    Sparse {
        /// For each stretch of numbers which of the stretches below it is.
        index: Vec<u32>,
        /// In the order in which they came.
        stretches: Vec<Stretch>,
    },
    /// One behind the other.
    Dense(Vec<Option<Entry>>),
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

impl Default for Row {
    fn default() -> Self {
        Self { form: Form::Sparse { index: Vec::new(), stretches: Vec::new() }, entries: 0 }
    }
}

impl Row {
    fn get(&self, number: u32) -> Option<Entry> {
        let number = number as usize;
        match &self.form {
            Form::Dense(all) => all.get(number).copied().flatten(),
            Form::Sparse { index, stretches } => {
                stretches.get(*index.get(number / STRETCH)? as usize)?[number % STRETCH]
            }
        }
    }

    fn insert(&mut self, number: u32, entry: Entry) -> Option<Entry> {
        let before = self.place(number as usize).replace(entry);
        self.entries += usize::from(before.is_none());
        before
    }

    fn place(&mut self, number: usize) -> &mut Option<Entry> {
        self.gather();
        self.scatter(number);
        match &mut self.form {
            Form::Dense(all) => {
                if all.len() <= number {
                    all.resize(number + 1, None);
                }
                &mut all[number]
            }
            Form::Sparse { index, stretches } => {
                let at = number / STRETCH;
                if index.len() <= at {
                    index.resize(at + 1, NONE);
                }
                if index[at] == NONE {
                    index[at] = stretches.len() as u32;
                    stretches.push([None; STRETCH]);
                }
                &mut stretches[index[at] as usize][number % STRETCH]
            }
        }
    }

    /// Lays all one behind the other, if there are many by now.
    fn gather(&mut self) {
        let Form::Sparse { index, stretches } = &self.form else { return };
        if stretches.len() < STRETCHES_MIN || stretches.len() * OF_STRETCHES < index.len() {
            return;
        }
        let mut all = vec![None; index.len() * STRETCH];
        present(index).for_each(|(first, at)| all[first as usize..][..STRETCH].copy_from_slice(&stretches[at]));
        self.form = Form::Dense(all);
    }

    /// Lays them in stretches again, if this number is so far away that all between would take more.
    fn scatter(&mut self, number: usize) {
        let Form::Dense(all) = &self.form else { return };
        if number < all.len().max(self.entries * STRETCH * OF_STRETCHES) {
            return;
        }
        let (mut index, mut stretches) = (vec![NONE; all.len().div_ceil(STRETCH)], Vec::new());
        for (at, entries) in index.iter_mut().zip(all.chunks(STRETCH)) {
            if entries.iter().any(Option::is_some) {
                let mut stretch = [None; STRETCH];
                stretch[..entries.len()].copy_from_slice(entries);
                *at = stretches.len() as u32;
                stretches.push(stretch);
            }
        }
        self.form = Form::Sparse { index, stretches };
    }

    fn retain(&mut self, is_kept: impl Fn(u32, Entry) -> bool) {
        let mut retain = |first: u32, entries: &mut [Option<Entry>]| {
            for (number, entry) in (first..).zip(entries) {
                let gone = entry.take_if(|entry| !is_kept(number, *entry));
                self.entries -= usize::from(gone.is_some());
            }
        };
        match &mut self.form {
            Form::Dense(all) => retain(0, all),
            Form::Sparse { index, stretches } => {
                present(index).for_each(|(first, at)| retain(first, &mut stretches[at]));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        let (dense, index, stretches) = match &self.form {
            Form::Dense(all) => (&all[..], &[][..], &[][..]),
            Form::Sparse { index, stretches } => (&[][..], &index[..], &stretches[..]),
        };
        numbered(0, dense).chain(present(index).flat_map(|(first, at)| numbered(first, &stretches[at])))
    }
}

/// Those that are there, with their numbers.
fn numbered(first: u32, entries: &[Option<Entry>]) -> impl Iterator<Item = (u32, Entry)> + '_ {
    (first..).zip(entries).filter_map(|(number, entry)| Some((number, (*entry)?)))
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
        for _ in 0..3000 {
            // Far away now and then, when there are many in a row.
            let number = if random.u32(..800) == 0 { random.u32(..1 << 20) } else { random.u32(..300) };
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
