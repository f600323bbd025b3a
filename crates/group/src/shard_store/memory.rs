//! A shard store in the memory of its process. A store that must outlive its process keeps the same shards elsewhere.

use super::{Damaged, Place, ShardId, ShardStore};
use crate::decide::Holding;
use crate::description::{Description, Fingerprint, Sums};
use crate::identity::{EpochId, EpochLevel, Life, LogicalRank};
use crate::protocol::{Survey, Work};
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, is_zero};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Shard {
    base: Option<ShardId>,
    is_local: bool,
    pages: BTreeMap<Place, Stored>,
    descriptions: Vec<Description>,
    sealed: bool,
    acknowledged: bool,
}

/// A page and its fingerprint when it was written.
#[derive(Clone, Debug)]
struct Stored {
    page: Box<Page>,
    known_by: Fingerprint,
}

impl Stored {
    fn is_intact(&self) -> bool {
        Fingerprint::of(&self.page) == self.known_by
    }
}

/// A shard store in memory: enough for recovery in place, and what the simulator uses. It keeps a fingerprint of 16 bytes
/// with each page.
#[derive(Clone, Debug, Default)]
pub struct MemoryShardStore {
    shards: BTreeMap<ShardId, Shard>,
    life: Life,
    /// Whether an epoch may have been promised since the job last began.
    promised: bool,
}

impl MemoryShardStore {
    /// Lists the shards: [`ProtocolEffect::Survey`](crate::ProtocolEffect::Survey). An open shard belongs to work that was abandoned, and
    /// is deleted.
    pub fn survey(&mut self) -> Survey {
        self.shards.retain(|_, shard| shard.sealed);
        let good = self.shards.iter().filter(|(id, _)| self.is_whole(**id));
        let holding = |(id, shard): (&ShardId, &Shard)| {
            let base = shard.base.map(|base| base.epoch);
            let level = if shard.is_local { EpochLevel::Local(base) } else { EpochLevel::Encoded };
            Holding { epoch: id.epoch, logical_rank: id.logical_rank, acknowledged: shard.acknowledged, level }
        };
        let unpromised = self.life != Life::default() && !self.promised;
        Survey { life: self.life, holdings: good.map(holding).collect(), unpromised }
    }

    /// Seals the open shard of an epoch.
    pub fn seal(&mut self, work: Work) {
        for (_, shard) in self.shards.iter_mut().filter(|(id, shard)| id.epoch == work.epoch && !shard.sealed) {
            shard.sealed = true;
            // A recovery continues only after all processes have acknowledged it.
            self.promised |= !work.recovery;
        }
    }

    /// Records that all processes have sealed an epoch.
    pub fn acknowledge(&mut self, epoch: EpochId) {
        self.promised = true;
        self.shards.iter_mut().filter(|(id, _)| id.epoch == epoch).for_each(|(_, shard)| shard.acknowledged = true);
    }

    /// Deletes all shards but one, which absorbs the pages of its base. A local shard keeps its base as a separate shard.
    pub fn keep(&mut self, epoch: Option<EpochId>, logical_rank: Option<LogicalRank>, life: Life) {
        self.life = life;
        self.promised = epoch.is_some();
        let kept = epoch.zip(logical_rank).map(|(epoch, logical_rank)| ShardId { epoch, logical_rank });
        if let Some((id, base)) = kept.and_then(|id| Some((id, self.shards.get(&id).filter(|it| it.is_local)?.base))) {
            return self.shards.retain(|other, _| *other == id || Some(*other) == base);
        }
        let kept = kept.and_then(|id| self.shards.remove(&id).map(|shard| (id, shard)));
        let mut others = std::mem::take(&mut self.shards);
        let Some((id, mut shard)) = kept else { return };
        if let Some(mut base) = shard.base.take().and_then(|base| others.remove(&base)) {
            assert!(base.base.is_none(), "a shard stands at most one above the one that is kept");
            base.pages.append(&mut shard.pages);
            shard.pages = base.pages;
        }
        shard.pages.retain(|_, stored| !is_zero(&stored.page[..]));
        self.shards.insert(id, shard);
    }

    /// Returns how many pages it holds: the members' own pages, and pages of checks.
    pub fn pages(&self) -> (usize, usize) {
        let places = || self.shards.values().flat_map(|shard| shard.pages.keys());
        let own = places().filter(|place| matches!(place, Place::Slot(_))).count();
        (own, places().count() - own)
    }

    /// Returns its shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.shards.keys().copied()
    }

    /// Flips a bit of a stored page, as a bad disk would. Reports whether there was a page to damage.
    pub fn damage(&mut self, choice: usize) -> bool {
        let mut pages: Vec<_> = self.shards.values_mut().flat_map(|shard| shard.pages.values_mut()).collect();
        if pages.is_empty() {
            return false;
        }
        let index = choice % pages.len();
        pages[index].page[choice % PAGE_BYTES] ^= 1 << (choice % 8);
        true
    }

    /// Reports whether the fingerprints of the member's own pages match its description. A shard without descriptions
    /// cannot be used.
    fn is_whole(&self, id: ShardId) -> bool {
        let mut own = Sums::default();
        for (place, stored) in self.all_pages(id) {
            if let Place::Slot(slot) = place {
                own.add(slot, stored.known_by);
            }
        }
        let descriptions = &self.shards[&id].descriptions;
        let described = descriptions.iter().find(|description| description.logical_rank == id.logical_rank);
        let right = described.is_none_or(|described| own.first_difference(&described.sums).is_none());
        right && !descriptions.is_empty()
    }

    fn all_pages(&self, id: ShardId) -> BTreeMap<Place, &Stored> {
        let Some(shard) = self.shards.get(&id) else { return BTreeMap::new() };
        let mut pages = shard.base.map(|base| self.all_pages(base)).unwrap_or_default();
        pages.extend(shard.pages.iter().map(|(place, stored)| (*place, stored)));
        pages
    }
}

impl ShardStore for MemoryShardStore {
    fn has(&self, shard: ShardId) -> bool {
        self.shards.contains_key(&shard)
    }

    fn read(&self, id: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        let Some(shard) = self.shards.get(&id) else {
            page.fill(0);
            return Ok(Fingerprint::ZEROS);
        };
        let Some(stored) = shard.pages.get(&place) else { return self.read_base(id, place, page) };
        page.copy_from_slice(&stored.page[..]);
        if stored.is_intact() { Ok(stored.known_by) } else { Err(Damaged { shard: id, place }) }
    }

    fn known(&self, id: ShardId, place: Place) -> Fingerprint {
        let Some(shard) = self.shards.get(&id) else { return Fingerprint::ZEROS };
        match (shard.pages.get(&place), shard.base) {
            (Some(stored), _) => stored.known_by,
            (None, Some(base)) => self.known(base, place),
            (None, None) => Fingerprint::ZEROS,
        }
    }

    fn verify(&self, id: ShardId) -> Result<(), Damaged> {
        let damaged = self.all_pages(id).into_iter().find(|(_, stored)| !stored.is_intact());
        damaged.map_or(Ok(()), |(place, _)| Err(Damaged { shard: id, place }))
    }

    fn read_base(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        match self.shards.get(&shard).and_then(|shard| shard.base) {
            Some(base) => self.read(base, place, page),
            None => {
                page.fill(0);
                Ok(Fingerprint::ZEROS)
            }
        }
    }

    fn open(&mut self, shard: ShardId, base: Option<ShardId>) {
        // Shards based on the one that is replaced would get the wrong base.
        self.shards.retain(|_, other| other.base != Some(shard));
        self.shards.insert(shard, Shard { base, ..Shard::default() });
    }

    fn open_local(&mut self, shard: ShardId, base: Option<ShardId>) {
        self.open(shard, base);
        self.shards.get_mut(&shard).expect("it has just been opened").is_local = true;
    }

    fn write(&mut self, shard: ShardId, place: Place, page: &Page, known_by: Fingerprint) {
        let shard = self.shards.get_mut(&shard).expect("a shard is opened before it is written");
        if shard.base.is_none() && known_by == Fingerprint::ZEROS {
            shard.pages.remove(&place);
        } else {
            shard.pages.insert(place, Stored { page: Box::new(*page), known_by });
        }
    }

    fn describe(&mut self, shard: ShardId, descriptions: Vec<Description>) {
        self.shards.get_mut(&shard).expect("a shard is opened before it is described").descriptions = descriptions;
    }

    fn descriptions(&self, shard: ShardId) -> &[Description] {
        self.shards.get(&shard).map_or(&[], |shard| &shard.descriptions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SlotMap;
    use standfast_format::manifest::JobId;

    fn shard(number: u64) -> ShardId {
        let epoch = EpochId { job: JobId::from_bytes([1; 16]), life: Life(1), number, random: number };
        ShardId { epoch, logical_rank: LogicalRank(0) }
    }

    fn new(number: u64) -> Work {
        Work { epoch: shard(number).epoch, recovery: false, level: EpochLevel::Encoded }
    }

    /// Adds a shard with one page of a check, and no page of its own.
    fn add(shard_store: &mut MemoryShardStore, id: ShardId, base: Option<ShardId>, byte: u8) {
        shard_store.open(id, base);
        let page = [byte; PAGE_BYTES];
        shard_store.write(id, Place::Check { check: 0, stripe: u32::from(byte) }, &page, Fingerprint::of(&page));
        let (map, sums) = (SlotMap::default(), Sums::default());
        shard_store.describe(id, vec![Description { logical_rank: LogicalRank(1), map, sums, slots: 0 }]);
    }

    fn numbers(shard_store: &mut MemoryShardStore) -> Vec<u64> {
        shard_store.survey().holdings.iter().map(|holding| holding.epoch.number).collect()
    }

    #[test]
    fn a_survey_lists_only_sealed_shards_and_verify_finds_damage() {
        let mut shard_store = MemoryShardStore::default();
        add(&mut shard_store, shard(1), None, 1);
        shard_store.seal(new(1));
        add(&mut shard_store, shard(2), Some(shard(1)), 2);
        assert_eq!(numbers(&mut shard_store), [1]);
        shard_store.seal(new(2));
        assert!(!shard_store.has(shard(2)), "a seal that comes late finds nothing");
        shard_store.open(shard(3), Some(shard(1)));
        shard_store.seal(new(3));
        assert_eq!(numbers(&mut shard_store), [1], "nothing says what the third is");
        assert_eq!(shard_store.verify(shard(1)), Ok(()));
        shard_store.damage(0);
        assert_eq!(numbers(&mut shard_store), [1]);
        assert_eq!(shard_store.verify(shard(1)).map_err(|damaged| damaged.shard), Err(shard(1)));
    }

    #[test]
    fn a_first_life_has_promised_nothing_until_it_acknowledges() {
        let mut shard_store = MemoryShardStore::default();
        assert!(!shard_store.survey().unpromised, "it was not there");
        shard_store.keep(None, Some(LogicalRank(0)), Life(1));
        add(&mut shard_store, shard(1), None, 1);
        shard_store.seal(Work { recovery: true, ..new(1) });
        assert!(shard_store.survey().unpromised);
        shard_store.acknowledge(shard(1).epoch);
        assert!(!shard_store.survey().unpromised);
        shard_store.keep(None, Some(LogicalRank(0)), Life(2));
        add(&mut shard_store, shard(2), None, 1);
        shard_store.seal(new(2));
        assert!(!shard_store.survey().unpromised, "others may have acknowledged it and gone on");
    }

    #[test]
    fn a_local_shard_keeps_its_encoded_base() {
        let mut shard_store = MemoryShardStore::default();
        add(&mut shard_store, shard(1), None, 1);
        shard_store.seal(new(1));
        for number in [2, 3] {
            shard_store.open_local(shard(number), Some(shard(1)));
            let (map, sums) = (SlotMap::default(), Sums::default());
            shard_store
                .describe(shard(number), vec![Description { logical_rank: LogicalRank(1), map, sums, slots: 0 }]);
            shard_store.seal(new(number));
            shard_store.keep(Some(shard(number).epoch), Some(LogicalRank(0)), Life(1));
            assert_eq!(numbers(&mut shard_store), [1, number]);
        }
        let level = EpochLevel::Local(Some(shard(1).epoch));
        assert_eq!(shard_store.survey().holdings[1].level, level);
        add(&mut shard_store, shard(4), Some(shard(1)), 4);
        shard_store.seal(new(4));
        shard_store.keep(Some(shard(4).epoch), Some(LogicalRank(0)), Life(1));
        assert_eq!(numbers(&mut shard_store), [4]);
        assert_eq!(shard_store.pages(), (0, 2));
    }

    #[test]
    fn replacing_a_shard_removes_those_based_on_it() {
        let mut shard_store = MemoryShardStore::default();
        add(&mut shard_store, shard(1), None, 1);
        add(&mut shard_store, shard(2), Some(shard(1)), 2);
        [1, 2].into_iter().for_each(|number| shard_store.seal(new(number)));
        assert_eq!(numbers(&mut shard_store), [1, 2]);
        add(&mut shard_store, shard(1), None, 9);
        assert!(numbers(&mut shard_store).is_empty());
    }
}
