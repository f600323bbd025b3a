//! The description of a member's shard of an epoch: its slot map, and sums that identify its pages.
//!
//! Every logical rank of the group keeps a copy of every member's description. A lost member's pages are computed from
//! the checks, but its slot map and sums must be known before. Pages are checked by *checksum blocks* of 64:
//!
//! ```text
//! sum of a checksum block = the sum over its pages that are not zero of XXH3(page) x (2 x place + 1)   modulo 2^128
//! ```
//!
//! A change updates the sum from the old and the new page, without the other 63. The sum also changes when pages trade
//! places. It guards against accidents, as the checksums of an image do.

use crate::identity::LogicalRank;
use crate::slots::{CHECKSUM_BLOCK_SLOTS, SlotError, SlotMap, SlotSet};
use minicbor::{Decode, Encode};
use standfast_core::delta::Page;
use standfast_core::{Checksum, is_zero};

/// The fingerprint of a page: its XXH3, or that it is zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(Option<Checksum>);

impl Fingerprint {
    /// The fingerprint of a page of zeros.
    pub const ZEROS: Self = Self(None);

    /// Computes the fingerprint of a page.
    pub fn of(page: &Page) -> Self {
        Self((!is_zero(page)).then(|| Checksum::of(page)))
    }

    /// Returns the fingerprint of a page that is not zeros and has this checksum.
    pub const fn of_checksum(checksum: Checksum) -> Self {
        Self(Some(checksum))
    }

    /// Returns the checksum; `None` for zeros.
    pub const fn checksum(self) -> Option<Checksum> {
        self.0
    }

    /// Returns what the page adds to the sum of its checksum block.
    fn in_checksum_block(self, slot: u32) -> u128 {
        let place = u128::from(slot % CHECKSUM_BLOCK_SLOTS);
        self.0.map_or(0, |checksum| u128::from_le_bytes(checksum.to_bytes()).wrapping_mul(2 * place + 1))
    }
}

/// One sum for each checksum block of slots; checksum blocks beyond the end are zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sums(Vec<u128>);

impl Sums {
    /// Updates the sum for a changed page.
    pub fn change(&mut self, slot: u32, before: Fingerprint, now: Fingerprint) {
        let checksum_block = (slot / CHECKSUM_BLOCK_SLOTS) as usize;
        if self.0.len() <= checksum_block {
            self.0.resize(checksum_block + 1, 0);
        }
        let sum = &mut self.0[checksum_block];
        *sum = sum.wrapping_sub(before.in_checksum_block(slot)).wrapping_add(now.in_checksum_block(slot));
    }

    /// Returns the sums of the checksum blocks that contain one of the slots.
    fn of(&self, slots: &SlotSet) -> Self {
        Self(slots.checksum_blocks().map(|checksum_block| self.0[checksum_block]).collect())
    }

    /// Replaces the sums of the checksum blocks that contain one of the slots.
    fn replace(&mut self, slots: &SlotSet, sums: &Self) {
        slots.checksum_blocks().zip(&sums.0).for_each(|(checksum_block, sum)| self.0[checksum_block] = *sum);
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|sum| sum.to_le_bytes()).collect::<Vec<_>>().into_flattened()
    }

    fn checksum(&self) -> Checksum {
        Checksum::of(&self.to_bytes())
    }

    /// Adds a page to a sum that does not contain it yet.
    pub fn add(&mut self, slot: u32, page: Fingerprint) {
        self.change(slot, Fingerprint::ZEROS, page);
    }

    /// Returns the first slot of the first checksum block that differs.
    pub fn first_difference(&self, other: &Self) -> Option<u32> {
        let checksum_blocks = self.0.len().max(other.0.len());
        let sum = |sums: &Self, at: usize| sums.0.get(at).copied().unwrap_or(0);
        let checksum_block = (0..checksum_blocks).find(|at| sum(self, *at) != sum(other, *at))?;
        Some(checksum_block as u32 * CHECKSUM_BLOCK_SLOTS)
    }
}

impl<C> Encode<C> for Sums {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.to_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Sums {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let (sums, rest) = decoder.bytes()?.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(minicbor::decode::Error::message("a sum has 16 bytes"));
        }
        Ok(Self(sums.iter().map(|sum| u128::from_le_bytes(*sum)).collect()))
    }
}

/// The description of a member's shard, kept by every logical rank of its group.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Description {
    /// The owner of the shard.
    #[n(0)]
    pub logical_rank: LogicalRank,
    /// The map from slots to pages.
    #[n(1)]
    pub map: SlotMap,
    /// The sums of its slots.
    #[n(2)]
    pub sums: Sums,
    /// Number of slots that may hold something: those in use now, and formerly used ones that are zeros now.
    #[n(3)]
    pub slots: u32,
}

/// The changes to a description from one epoch to the next: an unchanged page takes one bit.
#[derive(Encode, Decode, Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeltaDescriptor {
    /// The owner of the shard.
    #[n(0)]
    pub logical_rank: LogicalRank,
    /// The map from slots to pages.
    #[n(1)]
    pub map: SlotMap,
    /// Slots whose content changed.
    #[n(2)]
    pub changed: SlotSet,
    /// The sums of the checksum blocks that contain changed slots.
    #[n(3)]
    pub sums: Sums,
    /// As in [`Description::slots`].
    #[n(4)]
    pub slots: u32,
    /// XXH3 of all sums, including the unchanged ones.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub checksum: [u8; 16],
}

impl DeltaDescriptor {
    /// Creates the delta descriptor of a description whose `changed` slots differ from the previous one.
    pub fn new(description: &Description, changed: SlotSet) -> Self {
        let Description { logical_rank, map, sums, slots } = description;
        let checksum = sums.checksum().to_bytes();
        Self {
            logical_rank: *logical_rank,
            map: map.clone(),
            sums: sums.of(&changed),
            slots: *slots,
            checksum,
            changed,
        }
    }

    /// Applies it to the previous description and returns the new one; `None` if the owner had a different previous
    /// description.
    pub fn upon(&self, before: Option<&Description>) -> Option<Description> {
        let Self { logical_rank, ref map, slots, .. } = *self;
        let sums = before.map_or_else(Sums::default, |before| before.sums.clone());
        let mut description = Description { logical_rank, map: map.clone(), sums, slots };
        description.complete();
        description.sums.replace(&self.changed, &self.sums);
        (description.slots == slots && description.sums.checksum().to_bytes() == self.checksum).then_some(description)
    }

    /// Checks a delta descriptor from outside.
    ///
    /// # Errors
    /// [`SlotError::Senseless`], as [`Description::check`].
    pub fn check(&self) -> Result<(), SlotError> {
        self.map.check()?;
        if self.map.end() > self.slots || self.changed.end() > self.slots {
            return Err(SlotError::Senseless("slots have changed that the member has not"));
        }
        if self.changed.checksum_blocks().count() != self.sums.0.len() {
            return Err(SlotError::Senseless("it has not as many sums as checksum blocks that changed"));
        }
        Ok(())
    }
}

impl Description {
    /// Checks a description from outside.
    ///
    /// # Errors
    /// [`SlotError::Senseless`] if its map is invalid, or the number of its sums does not match the slots: their number
    /// bounds what is allocated for the slots.
    pub fn check(&self) -> Result<(), SlotError> {
        self.map.check()?;
        if self.map.end() > self.slots || self.slots.div_ceil(CHECKSUM_BLOCK_SLOTS) as usize != self.sums.0.len() {
            return Err(SlotError::Senseless("it has not as many sums as checksum blocks of slots"));
        }
        Ok(())
    }

    /// Extends the sums to the number of slots.
    pub(crate) fn complete(&mut self) {
        self.slots = self.slots.max(self.map.end());
        self.sums.0.resize(self.slots.div_ceil(CHECKSUM_BLOCK_SLOTS) as usize, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::RegionId;

    #[test]
    fn updated_sums_equal_full_ones_and_detect_swapped_pages() {
        let page = |byte: u8| Fingerprint::of(&[byte; 4096]);
        let mut sums = Sums::default();
        for slot in 0..200 {
            sums.add(slot, page(slot as u8));
        }
        let mut changed = sums.clone();
        changed.change(70, page(70), page(9));
        assert_eq!(changed.first_difference(&sums), Some(64));
        changed.change(70, page(9), page(70));
        assert_eq!(changed, sums);
        changed.change(3, page(3), page(4));
        changed.change(4, page(4), page(3));
        assert_eq!(changed.first_difference(&sums), Some(0), "two pages that trade places are noticed");
    }

    #[test]
    fn zero_pages_add_nothing() {
        let mut sums = Sums::default();
        sums.add(1000, Fingerprint::of(&[0; 4096]));
        assert_eq!(sums.first_difference(&Sums::default()), None);
    }

    #[test]
    fn a_description_with_too_few_sums_is_refused() {
        let mut map = SlotMap::default();
        map.resize(RegionId(1), 65 * 4096).unwrap();
        let mut description = Description { logical_rank: LogicalRank(0), map, sums: Sums::default(), slots: 0 };
        assert!(description.check().is_err());
        description.complete();
        assert!(description.check().is_ok());
        description.slots = u32::MAX;
        assert!(description.check().is_err());
    }
}
