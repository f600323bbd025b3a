//! A member's own shard of an epoch in the making. Staging looks at each changed page once, and with relaunch writes it
//! into the shard.
//!
//! If checks are updated by differences, all pages are staged before the first byte moves, since only real changes
//! travel. If checks are made in full, a page is staged when its share is added, and so it is read from memory only once.

use super::read_now;
use crate::description::{Description, Fingerprint, Sums};
use crate::payload::Payload;
use crate::plan::RecoveryMode;
use crate::shard::{AHEAD, Place, ShardId};
use crate::shard_store::ShardStore;
use crate::slots::{SlotMap, SlotSet};
use crate::transfer::WORTH;
use standfast_core::delta::Page;
use standfast_core::{PAGE_BYTES, words};

/// Sampling interval: one of this many changed pages is examined to estimate what the whole epoch is like.
const SAMPLED: usize = 64;
/// Checks are made in full if at least this share of all pages has changed, and at least this share of those throughout.
/// Full checks read and send the other pages for nothing.
const MOST: (usize, usize) = (7, 8);

/// What is known of the shard so far.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    shard: ShardId,
    base: Option<ShardId>,
    recovery_mode: RecoveryMode,
    map: SlotMap,
    used: SlotSet,
    sums: Sums,
    slots: u32,
    /// Slots that may have changed.
    candidates: SlotSet,
    /// Candidates that have been examined.
    staged: SlotSet,
    /// Examined slots that have changed.
    changed: SlotSet,
}

impl Staging {
    /// Creates the staging of a shard, with no page staged yet.
    ///
    /// # Errors
    /// If the payload leaves out a slot that must have changed.
    pub(super) fn new(
        shard: ShardId,
        base: Option<ShardId>,
        recovery_mode: RecoveryMode,
        payload: &dyn Payload,
        shard_store: &dyn ShardStore,
    ) -> Result<Self, String> {
        let before = base.map_or(&[][..], |base| shard_store.descriptions(base));
        let before = before.iter().find(|description| description.logical_rank == shard.logical_rank).cloned();
        let (sums, slots, used_before) = before.map_or_else(Default::default, |it| (it.sums, it.slots, it.map.used()));
        let map = payload.map().clone();
        let (candidates, used) = (payload.changed(), map.used());
        if let Some(slot) = used.in_just_one(&used_before).iter().find(|slot| !candidates.contains(*slot)) {
            return Err(format!(
                "slot {slot} was given out or given back, and the payload does not count it as changed"
            ));
        }
        let candidates = candidates.iter().filter(|slot| used.contains(*slot) || used_before.contains(*slot)).collect();
        let (staged, changed) = (SlotSet::default(), SlotSet::default());
        Ok(Self { shard, base, recovery_mode, map, used, sums, slots, candidates, staged, changed })
    }

    /// Returns the slots that may have changed, and these together with all others that may hold something.
    pub(super) fn write_set(&self) -> (SlotSet, SlotSet) {
        let mut held = self.candidates.clone();
        held.extend(&self.used);
        (self.candidates.clone(), held)
    }

    /// Returns the slots in use.
    pub(super) fn used(&self) -> &SlotSet {
        &self.used
    }

    /// Reports whether this slot still has to be staged.
    pub(super) fn lacks(&self, slot: u32) -> bool {
        self.candidates.contains(slot) && !self.staged.contains(slot)
    }

    /// Examines a slot, writes it to the shard if it has changed, and leaves its content in `now`.
    pub(super) fn stage(&mut self, slot: u32, payload: &dyn Payload, shard_store: &mut dyn ShardStore, now: &mut Page) {
        self.staged.insert(slot);
        read_now(payload, &self.used, slot, now);
        // The old page is read and verified later, when a difference to it is made.
        let before = self.base.map_or(Fingerprint::ZEROS, |base| shard_store.known(base, Place::Slot(slot)));
        let known_by = Fingerprint::of(now);
        if known_by == before {
            return;
        }
        self.changed.insert(slot);
        self.sums.change(slot, before, known_by);
        if self.recovery_mode == RecoveryMode::Relaunch {
            shard_store.write(self.shard, Place::Slot(slot), now, known_by);
        }
    }

    /// Stages all remaining slots.
    pub(super) fn stage_rest(&mut self, payload: &dyn Payload, shard_store: &mut dyn ShardStore) {
        let mut now = [0; PAGE_BYTES];
        let left = self.candidates.in_just_one(&self.staged);
        let mut ahead = left.iter().skip(AHEAD);
        for slot in left.iter() {
            ahead.next().into_iter().for_each(|slot| payload.expect(slot));
            self.stage(slot, payload, shard_store, &mut now);
        }
    }

    /// Returns the description of the shard once all slots are staged, and the slots that changed.
    pub(super) fn described(&self) -> (Description, SlotSet) {
        let (map, sums) = (self.map.clone(), self.sums.clone());
        let mut description = Description { logical_rank: self.shard.logical_rank, map, sums, slots: self.slots };
        description.complete();
        (description, self.changed.clone())
    }
}

/// Reports whether full checks take less work: nearly all pages have changed since the shard of the epoch before, and a
/// sample shows so much change in each that their differences take as much room as the pages themselves.
pub(super) fn prefers_full(
    before: Option<ShardId>,
    in_words: bool,
    payload: &dyn Payload,
    shard_store: &dyn ShardStore,
) -> bool {
    let (candidates, used) = (payload.changed(), payload.map().used());
    let is_most = |part: usize, all: usize| part * MOST.1 >= all * MOST.0;
    let changed: Vec<u32> = candidates.iter().filter(|slot| used.contains(*slot)).collect();
    if changed.is_empty() || !is_most(changed.len(), used.len()) {
        return false;
    }
    let (mut now, mut then) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    let sample: Vec<u32> = changed.iter().copied().step_by(SAMPLED).collect();
    let is_other = |slot: &&u32| {
        payload.read(**slot, &mut now);
        let place = Place::Slot(**slot);
        if Fingerprint::of(&now) == before.map_or(Fingerprint::ZEROS, |before| shard_store.known(before, place)) {
            return false;
        }
        if !in_words {
            return true;
        }
        then.fill(0);
        // If the old page is damaged, the epoch reports it.
        let is_read = before.is_none_or(|before| shard_store.read(before, place, &mut then).is_ok());
        then.iter_mut().zip(&now).for_each(|(byte, now)| *byte ^= now);
        is_read && words::packed_bytes(&then).is_none_or(|bytes| bytes * WORTH.1 >= PAGE_BYTES * WORTH.0)
    };
    is_most(sample.iter().filter(is_other).count(), sample.len())
}
