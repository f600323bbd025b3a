//! In-memory index of a shard: the frame of each page. Each epoch looks up millions of entries at random, so they are
//! arranged by number and not in a tree. A shard that has most numbers stores them in one array, and finds an entry by
//! one memory access. A shard that has few stores them in chunks of a few, which take little memory.

use super::Entry;
use standfast_group::Place;

/// Numbers in one chunk.
const CHUNK: usize = 4;
/// Index entry of a chunk that does not exist.
const NONE: u32 = u32::MAX;
/// Entries move to one array as soon as one chunk in this many exists: by then the array takes hardly more memory.
const OF_CHUNKS: usize = 4;
/// With fewer chunks, the form does not matter.
const CHUNKS_MIN: usize = 64;

type Chunk = [Option<Entry>; CHUNK];

/// Entries of a shard by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    slots: Numbered,
    /// Entries of each check.
    checks: Vec<Numbered>,
}

/// Entries by number.
#[derive(Clone, Debug)]
struct Numbered {
    form: Form,
    entries: usize,
}

#[derive(Clone, Debug)]
enum Form {
    /// For few entries.
    Sparse {
        /// Index of each chunk of numbers in `chunks`.
        index: Vec<u32>,
        /// Chunks in the order of their first insertion.
        chunks: Vec<Chunk>,
    },
    /// An array of all numbers.
    Dense(Vec<Option<Entry>>),
}

impl Entries {
    pub(crate) fn get(&self, place: Place) -> Option<Entry> {
        match place {
            Place::Slot(slot) => self.slots.get(slot),
            Place::Check { check, stripe } => self.checks.get(check as usize)?.get(stripe),
        }
    }

    /// Inserts an entry and returns the previous one.
    pub(crate) fn insert(&mut self, place: Place, entry: Entry) -> Option<Entry> {
        match place {
            Place::Slot(slot) => self.slots.insert(slot, entry),
            Place::Check { check, stripe } => {
                let checks = self.checks.len().max(check as usize + 1);
                self.checks.resize_with(checks, Numbered::default);
                self.checks[check as usize].insert(stripe, entry)
            }
        }
    }

    /// Iterates in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, Entry)> + '_ {
        let slots = self.slots.iter().map(|(slot, entry)| (Place::Slot(slot), entry));
        let checks = (0..).zip(&self.checks);
        let checks = checks.flat_map(|(check, stripes)| {
            stripes.iter().map(move |(stripe, entry)| (Place::Check { check, stripe }, entry))
        });
        slots.chain(checks)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.slots.entries + self.checks.iter().map(|stripe| stripe.entries).sum::<usize>()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = Entry> + '_ {
        self.iter().map(|(_, entry)| entry)
    }

    /// Removes all entries for which `is_kept` is false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Place, Entry) -> bool) {
        self.slots.retain(|slot, entry| is_kept(Place::Slot(slot), entry));
        for (check, stripes) in (0..).zip(&mut self.checks) {
            stripes.retain(|stripe, entry| is_kept(Place::Check { check, stripe }, entry));
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

impl Default for Numbered {
    fn default() -> Self {
        Self { form: Form::Sparse { index: Vec::new(), chunks: Vec::new() }, entries: 0 }
    }
}

impl Numbered {
    fn get(&self, number: u32) -> Option<Entry> {
        let number = number as usize;
        match &self.form {
            Form::Dense(all) => all.get(number).copied().flatten(),
            Form::Sparse { index, chunks } => chunks.get(*index.get(number / CHUNK)? as usize)?[number % CHUNK],
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
            Form::Sparse { index, chunks } => {
                let at = number / CHUNK;
                if index.len() <= at {
                    index.resize(at + 1, NONE);
                }
                if index[at] == NONE {
                    index[at] = chunks.len() as u32;
                    chunks.push([None; CHUNK]);
                }
                &mut chunks[index[at] as usize][number % CHUNK]
            }
        }
    }

    /// Moves the entries to one array, if there are many by now.
    fn gather(&mut self) {
        let Form::Sparse { index, chunks } = &self.form else { return };
        if chunks.len() < CHUNKS_MIN || chunks.len() * OF_CHUNKS < index.len() {
            return;
        }
        let mut all = vec![None; index.len() * CHUNK];
        present(index).for_each(|(first, at)| all[first as usize..][..CHUNK].copy_from_slice(&chunks[at]));
        self.form = Form::Dense(all);
    }

    /// Moves the entries back to chunks, if this number is so far away that the numbers between would take more memory.
    fn scatter(&mut self, number: usize) {
        let Form::Dense(all) = &self.form else { return };
        if number < all.len().max(self.entries * CHUNK * OF_CHUNKS) {
            return;
        }
        let (mut index, mut chunks) = (vec![NONE; all.len().div_ceil(CHUNK)], Vec::new());
        for (at, entries) in index.iter_mut().zip(all.chunks(CHUNK)) {
            if entries.iter().any(Option::is_some) {
                let mut chunk = [None; CHUNK];
                chunk[..entries.len()].copy_from_slice(entries);
                *at = chunks.len() as u32;
                chunks.push(chunk);
            }
        }
        self.form = Form::Sparse { index, chunks };
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
            Form::Sparse { index, chunks } => {
                present(index).for_each(|(first, at)| retain(first, &mut chunks[at]));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        let (dense, index, chunks) = match &self.form {
            Form::Dense(all) => (&all[..], &[][..], &[][..]),
            Form::Sparse { index, chunks } => (&[][..], &index[..], &chunks[..]),
        };
        numbered(0, dense).chain(present(index).flat_map(|(first, at)| numbered(first, &chunks[at])))
    }
}

/// Returns the existing entries with their numbers.
fn numbered(first: u32, entries: &[Option<Entry>]) -> impl Iterator<Item = (u32, Entry)> + '_ {
    (first..).zip(entries).filter_map(|(number, entry)| Some((number, (*entry)?)))
}

/// Returns the first number of each existing chunk, and its index.
fn present(index: &[u32]) -> impl Iterator<Item = (u32, usize)> + '_ {
    let firsts = (0..).step_by(CHUNK);
    firsts.zip(index).filter(|(_, at)| **at != NONE).map(|(first, at)| (first, *at as usize))
}

#[cfg(test)]
mod tests {
    use super::super::Frame;
    use super::*;
    use standfast_core::Checksum;
    use std::collections::BTreeMap;

    #[test]
    fn entries_agree_with_a_btree_map() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut entries, mut tree) = (Entries::default(), BTreeMap::new());
        for _ in 0..3000 {
            // Sometimes far away, when there are many in a stripe.
            let number = if random.u32(..800) == 0 { random.u32(..1 << 20) } else { random.u32(..300) };
            let place = match random.u32(..4) {
                0 => Place::Slot(number),
                check => Place::Check { check: check - 1, stripe: number },
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
