//! The program of a simulated member: regions of bytes that change, grow, shrink, disappear and return. A number in its
//! state determines all of this. So after a rollback the program repeats what it did, and its content can be compared
//! byte for byte.

use fastrand::Rng;
use standfast_core::delta::Page;
use standfast_core::{Checksum, PAGE_BYTES};
use standfast_group::{
    LoadError, MemoryShardStore, Payload, RegionId, ShardId, ShardStore as _, SlotMap, SlotSet, load,
};
use std::collections::BTreeMap;

/// The region that holds the program's own number.
const HEAD: RegionId = RegionId(0);

/// The size of a program and its behaviour between checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Pages of its largest region.
    pub pages_max: u32,
    /// If set, this many pages of each region change each time and regions stay, so that memory can be calculated;
    /// `None`: at random.
    pub steady: Option<u32>,
    /// An injected fault: the program does not report slots that are given back.
    pub forgets_removed: bool,
}

/// A program and its state.
#[derive(Clone, Debug)]
pub struct Program {
    habits: Habits,
    map: SlotMap,
    regions: BTreeMap<RegionId, Vec<u8>>,
    changed: SlotSet,
    /// The page in each slot.
    pages: BTreeMap<u32, (RegionId, u32)>,
}

impl Program {
    /// Creates a program in its initial state.
    pub fn new(habits: Habits, seed: u64) -> Self {
        let (map, regions) = (SlotMap::default(), BTreeMap::new());
        let mut program = Self { habits, map, regions, changed: SlotSet::default(), pages: BTreeMap::new() };
        program.resize(HEAD, 8);
        program.set_number(seed);
        let mut random = Rng::with_seed(seed);
        for id in 1..=3 {
            let pages = if habits.steady.is_some() { habits.pages_max } else { random.u32(0..=habits.pages_max) };
            program.resize(RegionId(id), pages as usize * PAGE_BYTES);
        }
        if habits.steady.is_some() {
            program.write_first(habits.pages_max, &mut random);
        }
        program.index();
        program
    }

    /// Computes until the next checkpoint.
    pub fn compute(&mut self) {
        let number = u64::from_le_bytes(self.regions[&HEAD][..8].try_into().expect("the head has eight bytes"));
        let mut random = Rng::with_seed(number);
        self.set_number(random.u64(..));
        match self.habits.steady {
            Some(pages) => self.write_first(pages, &mut random),
            None => (0..random.usize(0..12)).for_each(|_| self.touch(&mut random)),
        }
        self.index();
    }

    /// Writes into the first pages of every region.
    fn write_first(&mut self, pages: u32, random: &mut Rng) {
        let ids: Vec<_> = self.regions.keys().copied().filter(|id| *id != HEAD).collect();
        for (id, page) in ids.iter().flat_map(|id| (0..pages).map(move |page| (*id, page))) {
            self.write(id, page as usize * PAGE_BYTES, &random.u64(1..).to_le_bytes());
        }
    }

    fn touch(&mut self, random: &mut Rng) {
        let id = RegionId(random.u64(1..6));
        match random.u32(..10) {
            0 => self.remove(id),
            1 | 2 => {
                let bytes = random.usize(..=self.habits.pages_max as usize * PAGE_BYTES);
                self.resize(id, bytes);
            }
            _ => {
                let Some(length) = self.regions.get(&id).map(Vec::len).filter(|length| *length >= 8) else { return };
                let wide = random.u8(..4) == 0;
                let bytes = if wide { random.usize(8..=length.min(3 * PAGE_BYTES)) } else { 8 };
                let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
                let at = random.usize(..=length - bytes);
                self.write(id, at, &data);
            }
        }
    }

    fn write(&mut self, id: RegionId, at: usize, data: &[u8]) {
        let region = self.map.region(id).expect("the region is there");
        let pages = at / PAGE_BYTES..(at + data.len()).div_ceil(PAGE_BYTES);
        pages.for_each(|page| self.changed.insert(region.slot(page as u32).expect("the page is in the region")));
        self.regions.get_mut(&id).expect("the region is there")[at..at + data.len()].copy_from_slice(data);
    }

    fn resize(&mut self, id: RegionId, bytes: usize) {
        let old = self.regions.entry(id).or_default();
        let before = old.len();
        old.resize(bytes, 0);
        let freed = self.map.resize(id, bytes as u64).expect("programs here are small");
        if !self.habits.forgets_removed {
            self.changed.extend(&freed);
        }
        // These are new pages, and the last page before or after the change, which is cut or continued.
        let region = self.map.region(id).expect("it is there now");
        let edge = before.min(bytes) / PAGE_BYTES;
        (edge as u32..region.pages())
            .for_each(|page| self.changed.insert(region.slot(page).expect("it is one of its")));
    }

    fn remove(&mut self, id: RegionId) {
        self.regions.remove(&id);
        let freed = self.map.remove(id);
        if !self.habits.forgets_removed {
            self.changed.extend(&freed);
        }
    }

    fn set_number(&mut self, number: u64) {
        self.write(HEAD, 0, &number.to_le_bytes());
    }

    fn index(&mut self) {
        let pages = |region: &standfast_group::SlotRegion| {
            let id = region.id;
            let slots = region.extents.iter().flat_map(|extent| extent.first..extent.first + extent.slots);
            (0..).zip(slots).map(move |(page, slot)| (slot, (id, page))).collect::<Vec<_>>()
        };
        self.pages = self.map.regions().iter().flat_map(pages).collect();
    }

    /// Records that an epoch contains all changes.
    pub fn is_saved(&mut self) {
        self.changed = SlotSet::default();
    }

    /// Returns a hash of the complete state.
    pub fn fingerprint(&self) -> Checksum {
        let mut bytes = Vec::new();
        for (id, content) in &self.regions {
            bytes.extend(id.0.to_le_bytes());
            bytes.extend((content.len() as u64).to_le_bytes());
            bytes.extend(content);
        }
        Checksum::of(&bytes)
    }

    /// Returns the number of pages in use.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Restores the state in a shard. If the shard is local, `differs_from` is the encoded one, if there is one, to which
    /// the next differences refer.
    ///
    /// # Errors
    /// [`LoadError`]
    pub fn restored(
        habits: Habits,
        shard_store: &MemoryShardStore,
        shard: ShardId,
        differs_from: Option<Option<ShardId>>,
    ) -> Result<Self, LoadError> {
        let mut content = BTreeMap::new();
        let description = load(shard_store, shard, |slot, page| {
            content.insert(slot, *page);
        })?;
        let map = description.map;
        let mut regions = BTreeMap::new();
        for region in map.regions() {
            let slots = region.extents.iter().flat_map(|extent| extent.first..extent.first + extent.slots);
            let mut bytes: Vec<u8> = slots.flat_map(|slot| content[&slot]).collect();
            bytes.truncate(region.bytes as usize);
            regions.insert(region.id, bytes);
        }
        let mut changed = SlotSet::default();
        if let Some(encoded) = differs_from {
            let descriptions = encoded.map_or(&[][..], |encoded| shard_store.descriptions(encoded));
            let before = descriptions.iter().filter(|description| description.logical_rank == shard.logical_rank);
            before.for_each(|description| changed.extend(&description.map.used()));
            changed.extend(&map.used());
        }
        let pages = BTreeMap::new();
        let mut program = Self { habits, map, regions, changed, pages };
        program.index();
        Ok(program)
    }
}

impl Payload for Program {
    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn changed(&self) -> SlotSet {
        self.changed.clone()
    }

    fn read(&self, slot: u32, page: &mut Page) {
        let (id, number) = self.pages[&slot];
        let content = &self.regions[&id][number as usize * PAGE_BYTES..];
        let length = content.len().min(PAGE_BYTES);
        page[..length].copy_from_slice(&content[..length]);
        page[length..].fill(0);
    }
}
