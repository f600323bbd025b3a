//! The memory that a program has registered, as a payload: pages in slots, and which of them may have changed.
//!
//! A region is *tracked* if the kernel can report the writes to it, and *compared* if it cannot see them all. Compared
//! are memory shared with other processes, and memory that another tracker uses. All regions are compared while a device
//! or io_uring may write to this process's memory past its page tables. All pages of a compared region count as changed;
//! comparison with the shard of the epoch before finds the real differences (D7).

use crate::error::MemberError;
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, PageRange};
use standfast_group::{LoadError, Payload, RegionId, ShardId, ShardStore, SlotMap, SlotSet, load};
use standfast_linux::proc::Map;
use standfast_linux::{OwnWrites, Pid, RegisteredMemory};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How changes are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RegionTracking {
    /// By the kernel's write tracking if it is reliable, otherwise by comparison.
    #[default]
    Auto,
    /// By comparison.
    Compare,
}

#[derive(Debug)]
struct Held {
    memory: RegisteredMemory,
    tracked: bool,
}

/// The registered memory of one member.
#[derive(Debug)]
pub struct RegisteredRegions {
    map: SlotMap,
    held: BTreeMap<RegionId, Held>,
    /// Excluded pages of regions: in an epoch they are zeros, and a restore does not touch them.
    excluded: BTreeMap<RegionId, SlotSet>,
    /// Regions in the shard to which this process rolls back that are not restored yet, with their lengths.
    awaited: BTreeMap<RegionId, u64>,
    /// Slots that may differ from the last encoded epoch.
    changed: SlotSet,
    /// Slots that may differ from it in the local epoch to which this process rolls back.
    differs: SlotSet,
    /// The region and page of each slot.
    places: Vec<Option<(RegionId, u32)>>,
    writes: Option<OwnWrites>,
}

impl RegisteredRegions {
    /// Creates an empty set of regions.
    pub fn new(tracking: RegionTracking) -> Self {
        let writes = match tracking {
            RegionTracking::Auto => OwnWrites::new().ok(),
            RegionTracking::Compare => None,
        };
        Self {
            map: SlotMap::default(),
            held: BTreeMap::new(),
            excluded: BTreeMap::new(),
            awaited: BTreeMap::new(),
            changed: SlotSet::default(),
            differs: SlotSet::default(),
            places: Vec::new(),
            writes,
        }
    }

    /// Adopts the map of a shard to which this process rolls back. Its regions must be registered and restored. If the
    /// shard is of a local epoch, `differs` are the slots that may differ from the encoded one.
    pub(crate) fn adopt(&mut self, map: SlotMap, differs: SlotSet) {
        (self.changed, self.differs) = (differs.clone(), differs);
        self.awaited = map.regions().iter().map(|region| (region.id, region.bytes)).collect();
        self.map = map;
        self.index();
    }

    /// Returns the length in bytes that a region has in the epoch to be restored, as long as it is not restored.
    pub fn recorded(&self, id: RegionId) -> Option<u64> {
        self.awaited.get(&id).copied()
    }

    /// Registers memory under a number. If the number is registered already, replaces its memory or length.
    ///
    /// # Errors
    /// If it overlaps another region, or does not have the length that must be restored into it.
    pub fn protect(&mut self, id: RegionId, memory: RegisteredMemory) -> Result<(), MemberError> {
        let bytes = memory.bytes() as u64;
        let refused = |reason| Err(MemberError::Region { id: id.0, reason });
        if let Some(recorded) = self.recorded(id).filter(|recorded| *recorded != bytes) {
            return refused(format!(
                "{bytes} bytes are registered, and the epoch to restore has {recorded}\n\
                 hint: register as many, restore, then register the new length"
            ));
        }
        let overlapping = self.held.iter().find(|(other, held)| **other != id && held.memory.overlaps(&memory));
        if let Some((other, _)) = overlapping {
            return refused(format!("it overlaps region {}", other.0));
        }
        if self.held.get(&id).is_some_and(|held| held.memory == memory) {
            return Ok(());
        }
        if self.recorded(id).is_none() {
            let freed = self.map.resize(id, bytes)?;
            self.changed.extend(&freed);
        }
        self.forget(id);
        let tracked = self.track(&memory);
        self.held.insert(id, Held { memory, tracked });
        self.index();
        self.all_changed(id);
        Ok(())
    }

    /// Removes a region: no later epoch contains it.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn unprotect(&mut self, id: RegionId) -> Result<(), MemberError> {
        if !self.held.contains_key(&id) && self.awaited.remove(&id).is_none() {
            return Err(MemberError::Region { id: id.0, reason: "it is not registered".into() });
        }
        self.forget(id);
        let freed = self.map.remove(id);
        self.changed.extend(&freed);
        self.index();
        Ok(())
    }

    /// Excludes the whole pages of a region that lie between these bytes of it, or includes them again. Registering the
    /// region with another address or length includes all of it.
    ///
    /// # Errors
    /// If it is not registered, or is not that long.
    pub fn set_excluded(&mut self, id: RegionId, bytes: Range<usize>, exclude: bool) -> Result<(), MemberError> {
        let refused = |reason: String| MemberError::Region { id: id.0, reason };
        let held = self.held.get(&id).ok_or_else(|| refused("it is not registered".into()))?;
        let length = held.memory.bytes();
        if bytes.start > bytes.end || bytes.end > length {
            return Err(refused(format!("it has {length} bytes, not {}", bytes.end)));
        }
        let end = if bytes.end == length { length.div_ceil(PAGE_BYTES) } else { bytes.end / PAGE_BYTES };
        let pages: SlotSet = (bytes.start.div_ceil(PAGE_BYTES) as u32..end as u32).collect();
        let before = self.excluded.remove(&id).unwrap_or_default();
        let (others, both) = before.iter().partition::<Vec<u32>, _>(|page| !pages.contains(*page));
        let slots = self.slots(id);
        for page in pages.iter().filter(|page| both.binary_search(page).is_ok() != exclude) {
            self.changed.insert(slots[page as usize]);
        }
        let kept: SlotSet = others.into_iter().chain(pages.iter().filter(|_| exclude)).collect();
        if kept.iter().next().is_some() {
            self.excluded.insert(id, kept);
        }
        Ok(())
    }

    /// Checks that all regions to be restored are registered.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub(crate) fn check_registered(&self) -> Result<(), MemberError> {
        match self.awaited.iter().find(|(id, _)| !self.held.contains_key(id)) {
            Some((id, bytes)) => {
                let reason = format!(
                    "the epoch to restore has {bytes} bytes of it, and it is not registered\nhint: register it first"
                );
                Err(MemberError::Region { id: id.0, reason })
            }
            None => Ok(()),
        }
    }

    /// Fills the registered regions from a shard. All its regions must be registered. They count as restored only when
    /// the other processes are done as well.
    ///
    /// # Errors
    /// [`MemberError::Load`] if the shard is damaged.
    pub(crate) fn fill(&mut self, shard_store: &dyn ShardStore, shard: ShardId) -> Result<(), MemberError> {
        let awaited: BTreeSet<RegionId> = self.awaited.keys().copied().collect();
        let loaded = load(shard_store, shard, |slot, page| {
            let Some((id, number)) = self.place(slot).filter(|(id, _)| awaited.contains(id)) else { return };
            if self.is_excluded(id, number) {
                return;
            }
            self.held[&id].memory.write(number as usize * PAGE_BYTES, page);
        });
        RegisteredMemory::finish_writing();
        loaded.map_err(|error: LoadError| MemberError::Load(error))?;
        self.scan();
        for id in awaited {
            if self.held[&id].tracked {
                self.unchanged(id);
            }
        }
        self.changed.extend(&self.differs);
        Ok(())
    }

    /// Records that all processes have restored the epoch.
    pub(crate) fn is_restored(&mut self) {
        self.awaited.clear();
    }

    /// Checks that the epoch has been restored, or that there was nothing to restore.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub(crate) fn check_restored(&self) -> Result<(), MemberError> {
        match self.awaited.first_key_value() {
            Some((id, _)) => {
                let reason =
                    "it has not been restored yet, and a checkpoint now would lose it\nhint: restore it first".into();
                Err(MemberError::Region { id: id.0, reason })
            }
            None => Ok(()),
        }
    }

    /// Records the pages that were written since the last scan. A scan resets what it sees, and a page may belong to
    /// several regions: what it finds for one of them counts for all.
    pub(crate) fn scan(&mut self) {
        let (tracked, mut unknown): (Vec<RegionId>, Vec<RegionId>) =
            self.held.keys().partition(|id| self.held[*id].tracked);
        let places: Vec<PageRange> = tracked.iter().map(|id| self.held[id].memory.pages()).collect();
        let seen = self.writes.as_ref().map(|writes| writes.scan(&places)).unwrap_or_default();
        let mut written = Vec::new();
        let mut let_go = Vec::new();
        for (id, seen) in tracked.into_iter().zip(seen) {
            match seen {
                Some(seen) => written.extend(seen),
                None => let_go.push(id),
            }
        }
        if self.writes.as_ref().is_some_and(|writes| !writes.is_blind()) {
            // The mapping was replaced, or has become a part of another one.
            let_go.iter().for_each(|id| self.track_again(*id));
        }
        unknown.append(&mut let_go);
        let ids: Vec<RegionId> = self.held.keys().copied().collect();
        ids.into_iter().for_each(|id| self.note_written(id, &written));
        unknown.into_iter().for_each(|id| self.all_changed(id));
    }

    /// Records that an encoded epoch contains all changes.
    pub(crate) fn is_encoded(&mut self) {
        (self.changed, self.differs) = (SlotSet::default(), SlotSet::default());
    }

    fn track(&self, memory: &RegisteredMemory) -> bool {
        let pages = memory.pages();
        self.writes.as_ref().is_some_and(|writes| is_private(pages) && writes.track(pages).is_ok())
    }

    /// Starts to track a region again that the kernel does not track any more.
    fn track_again(&mut self, id: RegionId) {
        let tracked = self.track(&self.held[&id].memory);
        self.held.get_mut(&id).expect("the caller has it").tracked = tracked;
    }

    fn forget(&mut self, id: RegionId) {
        self.excluded.remove(&id);
        let Some(held) = self.held.remove(&id) else { return };
        let Some(writes) = self.writes.as_ref().filter(|_| held.tracked) else { return };
        let pages = held.memory.pages();
        writes.ignore(pages);
        // Neighbours may share pages with it.
        for other in self.held.values_mut().filter(|other| other.tracked && other.memory.pages().overlaps(pages)) {
            other.tracked = writes.track(other.memory.pages()).is_ok();
        }
        let touched = self.held.iter().filter(|(_, other)| other.memory.pages().overlaps(pages)).map(|(id, _)| *id);
        let touched: Vec<RegionId> = touched.collect();
        touched.into_iter().for_each(|id| self.all_changed(id));
    }

    fn note_written(&mut self, id: RegionId, written: &[PageRange]) {
        let memory = self.held[&id].memory;
        for range in written {
            let bytes = memory.within(*range);
            if !bytes.is_empty() {
                self.note_changed(id, bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES));
            }
        }
    }

    fn all_changed(&mut self, id: RegionId) {
        self.note_changed(id, 0..usize::MAX);
    }

    /// Marks pages of a region as changed, as far as it has them.
    fn note_changed(&mut self, id: RegionId, pages: Range<usize>) {
        let excluded = self.excluded.get(&id);
        let mut first = 0;
        for extent in self.map.region(id).iter().flat_map(|region| &region.extents) {
            let end = first + extent.slots as usize;
            let here = pages.start.clamp(first, end)..pages.end.clamp(first, end);
            let slot = |page: usize| extent.first + (page - first) as u32;
            match excluded {
                None => self.changed.insert_range(slot(here.start)..slot(here.end)),
                Some(excluded) => {
                    let included = here.filter(|page| !excluded.contains(*page as u32));
                    included.for_each(|page| self.changed.insert(slot(page)));
                }
            }
            first = end;
        }
    }

    fn is_excluded(&self, id: RegionId, page: u32) -> bool {
        self.excluded.get(&id).is_some_and(|excluded| excluded.contains(page))
    }

    /// Marks a region as unchanged, since it holds what the epoch has. Pages that are excluded now keep their mark: the
    /// epoch may contain them.
    fn unchanged(&mut self, id: RegionId) {
        let included = |(page, _): &(u32, u32)| !self.is_excluded(id, *page);
        let slots: SlotSet = (0..).zip(self.slots(id)).filter(included).map(|(_, slot)| slot).collect();
        self.changed = self.changed.iter().filter(|slot| !slots.contains(*slot)).collect();
    }

    fn slots(&self, id: RegionId) -> Vec<u32> {
        let extents = self.map.region(id).into_iter().flat_map(|region| &region.extents);
        extents.flat_map(|extent| extent.first..extent.first + extent.slots).collect()
    }

    fn place(&self, slot: u32) -> Option<(RegionId, u32)> {
        self.places.get(slot as usize).copied().flatten()
    }

    fn index(&mut self) {
        self.places = vec![None; self.map.end() as usize];
        let ids: Vec<RegionId> = self.map.regions().iter().map(|region| region.id).collect();
        for id in ids {
            for (page, slot) in (0..).zip(self.slots(id)) {
                self.places[slot as usize] = Some((id, page));
            }
        }
    }
}

impl Payload for RegisteredRegions {
    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn changed(&self) -> SlotSet {
        self.changed.clone()
    }

    fn read(&self, slot: u32, page: &mut Page) {
        let place = self.place(slot).filter(|(id, number)| !self.is_excluded(*id, *number));
        let held = place.and_then(|(id, number)| Some((self.held.get(&id)?, number)));
        match held {
            Some((held, number)) => held.memory.read(number as usize * PAGE_BYTES, page),
            None => page.fill(0),
        }
    }

    fn expect(&self, slot: u32) {
        if let Some((id, number)) = self.place(slot)
            && let Some(held) = self.held.get(&id)
        {
            held.memory.expect(number as usize * PAGE_BYTES);
        }
    }
}

/// Reports whether only this process can write to these of its pages.
fn is_private(pages: PageRange) -> bool {
    let Ok(mappings) = Map::of(Pid::own()) else { return false };
    let touched: Vec<_> = mappings.iter().filter(|mapping| mapping.range().overlaps(pages)).collect();
    !touched.is_empty() && touched.iter().all(|mapping| !mapping.shared && mapping.inode == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_page_counts_for_all_regions_that_share_it() {
        let memory = RegisteredMemory::leaked(4 * PAGE_BYTES);
        let parts = [memory.part(0, 100), memory.part(100, PAGE_BYTES), memory.part(100 + PAGE_BYTES, 50)];
        let mut regions = RegisteredRegions::new(RegionTracking::Auto);
        for (id, part) in (0..).zip(parts) {
            regions.protect(RegionId(id), part).unwrap();
        }
        regions.scan();
        regions.is_encoded();
        for part in parts {
            part.write(part.bytes() - 1, &[1]);
        }
        regions.scan();
        let changed = regions.changed();
        for id in 0..3 {
            let last = *regions.slots(RegionId(id)).last().unwrap();
            assert!(changed.contains(last), "region {id}");
        }
    }
}
