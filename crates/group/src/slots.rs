//! Slots: the numbers of a member's pages in the code, and the map from slots to pages.
//!
//! A page keeps its slot for as long as its region has it, whatever other regions do. A region that grows takes free
//! slots, one that shrinks gives its last ones back, and no other page moves. So a resize changes only the pages that it
//! must. The checks still contain what a slot held before it was given back. Freeing or reusing a slot therefore counts
//! as a change, and the difference removes the old content.

use minicbor::{Decode, Encode};
use standfast_core::PAGE_BYTES;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Slots covered by one sum.
pub const CHECKSUM_BLOCK_SLOTS: u32 = 64;

/// Most slots of one member: 16 TiB. A slot's number has 32 bits.
pub const SLOTS_MAX: u32 = u32::MAX;

/// A set of slots, one bit each. That bit is all an unchanged page costs on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SlotSet(Vec<u64>);

impl SlotSet {
    /// Returns the slots below `end`.
    pub fn all(end: u32) -> Self {
        let mut set = Self::default();
        set.insert_range(0..end);
        set
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot % 64);
    }

    /// Adds a run of slots.
    pub fn insert_range(&mut self, slots: Range<u32>) {
        let Some(last) = slots.clone().next_back() else { return };
        let (first_word, last_word) = ((slots.start / u64::BITS) as usize, (last / u64::BITS) as usize);
        if self.0.len() <= last_word {
            self.0.resize(last_word + 1, 0);
        }
        for (index, word) in (first_word..).zip(&mut self.0[first_word..=last_word]) {
            let from = if index == first_word { slots.start % u64::BITS } else { 0 };
            let to = if index == last_word { last % u64::BITS } else { u64::BITS - 1 };
            *word |= u64::MAX << from & u64::MAX >> (u64::BITS - 1 - to);
        }
    }

    /// Returns which of up to 64 slots from `first` on are in the set, one bit each.
    pub(crate) fn bits(&self, first: u32, slots: u32) -> u64 {
        let (word, shift) = (first as usize / 64, first % 64);
        let at = |word: usize| self.0.get(word).copied().unwrap_or(0);
        let above = if shift == 0 { 0 } else { at(word + 1) << (u64::BITS - shift) };
        (at(word) >> shift | above) & u64::MAX >> (u64::BITS - slots)
    }

    /// Adds slots from `first` on, one for each bit that is set.
    pub(crate) fn insert_bits(&mut self, first: u32, bits: u64) {
        let (word, shift) = (first as usize / 64, first % 64);
        let above = if shift == 0 { 0 } else { bits >> (u64::BITS - shift) };
        for (word, bits) in [(word, bits << shift), (word + 1, above)] {
            if bits != 0 {
                if self.0.len() <= word {
                    self.0.resize(word + 1, 0);
                }
                self.0[word] |= bits;
            }
        }
    }

    /// Adds another set.
    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Returns the slots that are in exactly one of the two sets.
    #[must_use]
    pub fn in_just_one(&self, other: &Self) -> Self {
        let mut words = vec![0; self.0.len().max(other.0.len())];
        for set in [self, other] {
            words.iter_mut().zip(&set.0).for_each(|(word, bits)| *word ^= bits);
        }
        Self(words)
    }

    /// Reports whether the set contains the slot.
    pub fn contains(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Returns how many slots the set contains.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                (bit < 64).then(|| {
                    left &= left - 1;
                    index as u32 * 64 + bit
                })
            })
        })
    }

    /// Returns the checksum blocks that contain at least one of the slots.
    pub(crate) fn checksum_blocks(&self) -> impl Iterator<Item = usize> + '_ {
        // A word has as many bits as a checksum block has slots.
        const { assert!(CHECKSUM_BLOCK_SLOTS == u64::BITS) }
        self.0.iter().enumerate().filter(|(_, word)| **word != 0).map(|(checksum_block, _)| checksum_block)
    }

    /// Returns the number after the last slot; 0 if there is none.
    pub fn end(&self) -> u32 {
        let last = self.0.iter().rposition(|word| *word != 0);
        last.map_or(0, |index| index as u32 * u64::BITS + (u64::BITS - self.0[index].leading_zeros()))
    }

    /// Encodes the set as bytes, without zeros at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        bytes
    }

    /// Decodes a set from bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |piece: &[u8]| {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            u64::from_le_bytes(word)
        };
        Self(bytes.chunks(8).map(word).collect())
    }
}

impl<C> Encode<C> for SlotSet {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.to_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for SlotSet {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(Self::from_bytes(decoder.bytes()?))
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

/// A member's name for a piece of its state: a registered region, a mapping.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cbor(transparent)]
pub struct RegionId(#[n(0)] pub u64);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Adjoining slots for adjoining pages.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// First slot.
    #[n(0)]
    pub first: u32,
    /// Number of slots.
    #[n(1)]
    pub slots: u32,
}

/// A region and the slots of its pages, in page order.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotRegion {
    /// The region.
    #[n(0)]
    pub id: RegionId,
    /// Its length in bytes; the rest of its last page counts as zeros.
    #[n(1)]
    pub bytes: u64,
    /// Its slots.
    #[n(2)]
    pub extents: Vec<Extent>,
}

impl SlotRegion {
    /// Returns the slot of the page with this number.
    pub fn slot(&self, page: u32) -> Option<u32> {
        let mut left = page;
        for extent in &self.extents {
            if left < extent.slots {
                return Some(extent.first + left);
            }
            left -= extent.slots;
        }
        None
    }

    /// Returns the number of its pages.
    pub fn pages(&self) -> u32 {
        self.extents.iter().map(|extent| extent.slots).sum()
    }
}

/// The map from slots to pages.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SlotMap {
    /// Regions, ascending by id.
    #[n(0)]
    regions: Vec<SlotRegion>,
    /// All slots in use are below this number.
    #[n(1)]
    end: u32,
}

/// Why a slot map is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// No free slot numbers are left.
    #[error("a member has room for {SLOTS_MAX} pages, which is not enough for region {0}")]
    Full(RegionId),
    /// Two pages in one slot, a slot beyond the end, regions out of order, or lengths that do not fit.
    #[error("the slot map is inconsistent: {0}")]
    Senseless(&'static str),
}

impl SlotMap {
    /// Returns the regions, ascending by id.
    pub fn regions(&self) -> &[SlotRegion] {
        &self.regions
    }

    /// Returns the region with this id.
    pub fn region(&self, id: RegionId) -> Option<&SlotRegion> {
        self.regions.binary_search_by_key(&id, |region| region.id).ok().map(|index| &self.regions[index])
    }

    /// Returns a number above all slots in use.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Returns the slots in use.
    pub fn used(&self) -> SlotSet {
        let mut used = SlotSet::default();
        let extents = self.regions.iter().flat_map(|region| &region.extents);
        extents.for_each(|extent| used.insert_range(extent.first..extent.first + extent.slots));
        used
    }

    /// Registers a region, or changes its length; pages that stay keep their slots. Returns the slots that were given
    /// back: they now hold zeros, and count as changed.
    ///
    /// # Errors
    /// [`SlotError::Full`]; the map is then unchanged.
    pub fn resize(&mut self, id: RegionId, bytes: u64) -> Result<SlotSet, SlotError> {
        let full = || SlotError::Full(id);
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES as u64)).map_err(|_| full())?;
        let place = self.regions.binary_search_by_key(&id, |region| region.id);
        let mut region = match place {
            Ok(index) => self.regions[index].clone(),
            Err(_) => SlotRegion { id, bytes: 0, extents: Vec::new() },
        };
        region.bytes = bytes;
        let before = region.pages();
        let freed = if pages < before { cut(&mut region.extents, before - pages) } else { SlotSet::default() };
        if pages > before {
            let taken = self.free(pages - before).ok_or_else(full)?;
            taken.into_iter().for_each(|extent| append(&mut region.extents, extent));
        }
        let end = region.extents.iter().map(|extent| extent.first + extent.slots).max().unwrap_or(0);
        self.end = self.end.max(end);
        match place {
            Ok(index) => self.regions[index] = region,
            Err(index) => self.regions.insert(index, region),
        }
        Ok(freed)
    }

    /// Removes a region, and returns the slots that it gives back.
    pub fn remove(&mut self, id: RegionId) -> SlotSet {
        let Ok(index) = self.regions.binary_search_by_key(&id, |region| region.id) else { return SlotSet::default() };
        let region = self.regions.remove(index);
        let slots = region.extents.iter().flat_map(|extent| extent.first..extent.first + extent.slots);
        slots.collect()
    }

    /// Returns free runs with `wanted` slots in total, the lowest first.
    fn free(&self, mut wanted: u32) -> Option<Vec<Extent>> {
        let mut taken: Vec<_> = self.regions.iter().flat_map(|region| &region.extents).collect();
        taken.sort_unstable_by_key(|extent| extent.first);
        let mut found = Vec::new();
        let mut first = 0;
        for extent in taken {
            let slots = wanted.min(extent.first - first);
            if slots > 0 {
                found.push(Extent { first, slots });
                wanted -= slots;
            }
            first = extent.first + extent.slots;
        }
        if wanted > 0 {
            first.checked_add(wanted)?;
            found.push(Extent { first, slots: wanted });
        }
        Some(found)
    }

    /// Checks that [`SlotMap::resize`] and [`SlotMap::remove`] could have produced this map. Used for maps from outside.
    ///
    /// # Errors
    /// [`SlotError::Senseless`]
    pub fn check(&self) -> Result<(), SlotError> {
        let refused = |reason| Err(SlotError::Senseless(reason));
        if !self.regions.is_sorted_by(|one, two| one.id < two.id) {
            return refused("its regions are out of order");
        }
        let mut extents = BTreeMap::new();
        for region in &self.regions {
            let mut pages = 0_u64;
            for extent in &region.extents {
                let Some(end) = extent.first.checked_add(extent.slots) else { return refused("a slot has no number") };
                if extent.slots == 0 || end > self.end || extents.insert(extent.first, end).is_some() {
                    return refused("slots are beyond its end, in use twice, or none");
                }
                pages += u64::from(extent.slots);
            }
            if region.bytes.div_ceil(PAGE_BYTES as u64) != pages {
                return refused("a region has not as many slots as pages");
            }
        }
        let overlap = extents.iter().zip(extents.iter().skip(1)).any(|((_, end), (first, _))| end > first);
        if overlap { refused("two pages are in one slot") } else { Ok(()) }
    }
}

/// Removes this many slots from the end.
fn cut(extents: &mut Vec<Extent>, mut slots: u32) -> SlotSet {
    let mut freed = SlotSet::default();
    while slots > 0 {
        let last = extents.last_mut().expect("no more is cut than there is");
        let part = slots.min(last.slots);
        last.slots -= part;
        slots -= part;
        freed.insert_range(last.first + last.slots..last.first + last.slots + part);
        if last.slots == 0 {
            extents.pop();
        }
    }
    freed
}

fn append(extents: &mut Vec<Extent>, extent: Extent) {
    match extents.last_mut() {
        Some(last) if last.first + last.slots == extent.first => last.slots += extent.slots,
        _ => extents.push(extent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_slot_set_round_trips_through_bytes() {
        let set: SlotSet = [0, 7, 64, 1000].into_iter().collect();
        assert_eq!(set.to_bytes().len(), 126);
        assert!(SlotSet::from_bytes(&set.to_bytes()).iter().eq([0, 7, 64, 1000]));
        assert!(set.contains(64) && !set.contains(65) && set.len() == 4);
        assert!(SlotSet::default().is_empty() && SlotSet::default().to_bytes().is_empty());
    }

    proptest! {
        #[test]
        fn ranges_insert_the_same_slots_as_one_by_one(one in 0_u32..300, to in 0_u32..300, other in 0_u32..300, end in 0_u32..300) {
            let (mut left, mut right) = (SlotSet::default(), SlotSet::default());
            left.insert_range(one..to);
            right.insert_range(other..end);
            prop_assert!(left.iter().eq(one..to) && right.iter().eq(other..end));
            let apart = (0..300).filter(|slot| (one..to).contains(slot) != (other..end).contains(slot));
            prop_assert!(left.in_just_one(&right).iter().eq(apart));
        }

        #[test]
        fn bits_agree_with_reading_slots_one_by_one(first in 0_u32..200, slots in 1_u32..65, to in 0_u32..200, bits: u64) {
            let set: SlotSet = (0..150).filter(|slot| slot % 3 == 1 || slot % 7 == 2).collect();
            let bits = bits & u64::MAX >> (u64::BITS - slots);
            let one_by_one = (0..slots).filter(|at| set.contains(first + at)).fold(0, |bits, at| bits | 1 << at);
            prop_assert_eq!(set.bits(first, slots), one_by_one);
            let (mut inserted, mut expected) = (set.clone(), set);
            inserted.insert_bits(to, bits);
            (0..slots).filter(|at| bits >> at & 1 == 1).for_each(|at| expected.insert(to + at));
            prop_assert_eq!(inserted, expected);
        }

        #[test]
        fn a_resize_moves_no_page_that_stays(changes in proptest::collection::vec((0u64..4, 0u64..9), 1..30)) {
            let mut map = SlotMap::default();
            let mut kept: BTreeMap<(u64, u32), u32> = BTreeMap::new();
            for (id, pages) in changes {
                let before = map.used();
                let freed = if pages == 0 { map.remove(RegionId(id)) } else {
                    map.resize(RegionId(id), pages * 4096 - 5).unwrap()
                };
                map.check().unwrap();
                let used: BTreeSet<_> = map.used().iter().collect();
                prop_assert!(before.iter().all(|slot| used.contains(&slot) != freed.contains(slot)));
                kept.retain(|(region, page), _| *region != id || u64::from(*page) < pages);
                for region in map.regions() {
                    for page in 0..region.pages() {
                        let slot = region.slot(page).unwrap();
                        prop_assert_eq!(*kept.entry((region.id.0, page)).or_insert(slot), slot);
                    }
                }
                prop_assert_eq!(kept.len(), used.len());
            }
        }
    }

    #[test]
    fn inconsistent_slot_maps_are_refused() {
        let region = |id, bytes, extents: &[(u32, u32)]| SlotRegion {
            id: RegionId(id),
            bytes,
            extents: extents.iter().map(|(first, slots)| Extent { first: *first, slots: *slots }).collect(),
        };
        let map = |regions, end| SlotMap { regions, end };
        assert!(map(vec![region(1, 8192, &[(3, 2)])], 5).check().is_ok());
        assert!(map(vec![region(1, 8192, &[(3, 2)])], 4).check().is_err());
        assert!(map(vec![region(1, 9000, &[(3, 2)])], 5).check().is_err());
        assert!(map(vec![region(1, 8192, &[(0, 2)]), region(2, 4096, &[(1, 1)])], 5).check().is_err());
        assert!(map(vec![region(2, 4096, &[(0, 1)]), region(1, 4096, &[(1, 1)])], 5).check().is_err());
        assert!(map(vec![region(1, 8192, &[(u32::MAX, 2)])], 5).check().is_err());
        let mut full = map(vec![region(1, 4096, &[(u32::MAX - 1, 1)])], u32::MAX);
        assert!(full.resize(RegionId(0), (u64::from(u32::MAX) - 1) * 4096).is_ok());
        assert!(full.resize(RegionId(2), 4096).is_err());
    }
}
