//! The store as the protocol sees it: pages by shard and place.

use super::{Entry, FileShardStore, Frame, Shard};
use standfast_core::Checksum;
use standfast_core::delta::Page;
use standfast_group::{AHEAD, Damaged, Description, Fingerprint, Place, ShardId, ShardStore};
use std::collections::VecDeque;

impl ShardStore for FileShardStore {
    fn has(&self, shard: ShardId) -> bool {
        self.shards.contains_key(&shard)
    }

    fn read(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        self.read_entry(shard, place, self.entry(shard, place), page)
    }

    fn verify(&self, shard: ShardId) -> Result<(), Damaged> {
        let scan = |(place, number, checksum): (Place, u32, Checksum)| {
            let is_intact = self.frames.is_intact(number, self.frames.content(number), checksum);
            if is_intact { Ok(()) } else { Err(Damaged { shard, place }) }
        };
        let mut expected = VecDeque::with_capacity(AHEAD + 1);
        self.entries_of(shard).try_for_each(|(place, entry)| {
            let Some(number) = entry.frame.number().filter(|number| !self.frames.is_verified(*number)) else {
                return Ok(());
            };
            self.frames.expect(number);
            expected.push_back((place, number, entry.checksum));
            let next = if expected.len() > AHEAD { expected.pop_front() } else { None };
            next.map_or(Ok(()), scan)
        })?;
        expected.into_iter().try_for_each(scan)
    }

    fn known(&self, shard: ShardId, place: Place) -> Fingerprint {
        self.entry(shard, place).map_or(Fingerprint::ZEROS, Entry::known_by)
    }

    fn read_base(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        let base = self.shards.get(&shard).and_then(|shard| shard.base);
        let entry = base.and_then(|base| self.entry(base, place));
        self.read_entry(base.unwrap_or(shard), place, entry, page)
    }

    fn expect(&self, shard: ShardId, place: Place) {
        if let Some(Entry { frame: Frame::At(number), .. }) = self.entry(shard, place) {
            self.frames.expect(number);
        }
    }

    fn open(&mut self, shard: ShardId, base: Option<ShardId>) {
        // Shards based on the one that is replaced would get the wrong base.
        let above: Vec<ShardId> =
            self.shards.iter().filter(|(_, it)| it.base == Some(shard)).map(|(id, _)| *id).collect();
        above.into_iter().chain([shard]).for_each(|id| self.replace_shard(id));
        self.failed = None;
        self.shards.insert(shard, Shard { base, ..Shard::default() });
    }

    fn open_local(&mut self, shard: ShardId, base: Option<ShardId>) {
        self.open(shard, base);
        self.shards.get_mut(&shard).expect("it has just been opened").is_local = true;
    }

    fn write(&mut self, id: ShardId, place: Place, page: &Page, known_by: Fingerprint) {
        let before = self.shards[&id].entries.get(place).map(|entry| entry.frame);
        let own = before.and_then(Frame::number);
        let entry = if let Some(checksum) = known_by.checksum() {
            let number = match own.map_or_else(|| self.frames.take(), Ok) {
                Ok(number) => number,
                Err(reason) => {
                    self.failed.get_or_insert(reason);
                    return;
                }
            };
            self.frames.write(number, page);
            Entry { frame: Frame::At(number), checksum }
        } else {
            self.frames.give_back(own);
            Entry::zero()
        };
        self.shards.get_mut(&id).expect("a shard is opened before it is written").entries.insert(place, entry);
    }

    fn describe(&mut self, shard: ShardId, descriptions: Vec<Description>) {
        self.shards.get_mut(&shard).expect("a shard is opened before it is described").descriptions = descriptions;
    }

    fn descriptions(&self, shard: ShardId) -> &[Description] {
        self.shards.get(&shard).map_or(&[], |shard| &shard.descriptions)
    }
}
