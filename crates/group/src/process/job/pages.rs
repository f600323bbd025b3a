//! The pages of a group that a process reads and writes for a transfer: those in its store, and the program's current
//! pages.

use super::super::read_now;
use super::super::staging::Staging;
use crate::description::Fingerprint;
use crate::payload::Payload;
use crate::plan::RecoveryMode;
use crate::shard::{Damaged, Place, ShardId};
use crate::shard_store::ShardStore;
use crate::transfer::Pages;
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;

/// The pages of this process, for a transfer.
pub(super) struct LogicalRankPages<'p> {
    pub(super) payload: &'p mut dyn Payload,
    pub(super) shard_store: &'p mut dyn ShardStore,
    /// The shard of each position, for a rebuild.
    pub(super) shards: Vec<ShardId>,
    /// The shard in the making, for a new epoch.
    pub(super) live: Option<Live<'p>>,
}

/// The shard of this logical rank that is being made.
pub(super) struct Live<'p> {
    pub(super) shard: ShardId,
    pub(super) base: Option<ShardId>,
    /// Whether checks are made in full.
    pub(super) full: bool,
    pub(super) recovery_mode: RecoveryMode,
    /// The staging of a member.
    pub(super) staging: Option<&'p mut Staging>,
}

impl LogicalRankPages<'_> {
    /// Reads a page in a recovery. Damage counts against this shard, even if the shard shares the page with its base.
    fn read_old(&self, position: usize, place: Place, page: &mut Page) -> Result<(), Damaged> {
        let shard = self.shards[position];
        self.shard_store.read(shard, place, page).map(drop).map_err(|_| Damaged { shard, place })
    }
}

impl Pages for LogicalRankPages<'_> {
    fn column(&mut self, position: usize, slot: u32, page: &mut Page) -> Result<(), Damaged> {
        let Some(Live { shard, full, recovery_mode, staging, .. }) = &mut self.live else {
            return self.read_old(position, Place::Slot(slot), page);
        };
        let staging = staging.as_deref_mut().expect("only members add columns, and they lay their shards");
        if staging.lacks(slot) {
            staging.stage(slot, self.payload, self.shard_store, page);
            return Ok(());
        }
        if *full {
            return self.shard_store.read(*shard, Place::Slot(slot), page).map(drop);
        }
        let mut before = [0; PAGE_BYTES];
        self.shard_store.read_base(*shard, Place::Slot(slot), &mut before)?;
        read_now(self.payload, staging.used(), slot, page);
        let place = Place::Slot(slot);
        // What was staged bypassed the caches. It is the same page unless it was written since.
        if *recovery_mode == RecoveryMode::Relaunch && Fingerprint::of(page) != self.shard_store.known(*shard, place) {
            self.shard_store.read(*shard, place, page)?;
        }
        page.iter_mut().zip(&before).for_each(|(byte, before)| *byte ^= before);
        Ok(())
    }

    fn check(&mut self, position: usize, check: usize, stripe: u32, page: &mut Page) -> Result<(), Damaged> {
        self.read_old(position, Place::Check { check: check as u32, stripe }, page)
    }

    fn take_check(
        &mut self,
        position: usize,
        check: usize,
        stripe: u32,
        page: &Page,
        update: bool,
    ) -> Result<(), Damaged> {
        let place = Place::Check { check: check as u32, stripe };
        let shard = self.live.as_ref().map_or_else(|| self.shards[position], |live| live.shard);
        if !update {
            self.shard_store.write(shard, place, page, Fingerprint::of(page));
            return Ok(());
        }
        let mut sum = [0; PAGE_BYTES];
        self.shard_store.read(shard, place, &mut sum)?;
        sum.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
        self.shard_store.write(shard, place, &sum, Fingerprint::of(&sum));
        Ok(())
    }

    fn take_column(&mut self, position: usize, slot: u32, page: &Page) {
        self.shard_store.write(self.shards[position], Place::Slot(slot), page, Fingerprint::of(page));
    }

    fn expect(&self, position: usize, place: Place) {
        let Some(Live { shard, base, staging, .. }) = &self.live else {
            return self.shard_store.expect(self.shards[position], place);
        };
        match (place, staging, base) {
            (Place::Check { .. }, ..) => self.shard_store.expect(*shard, place),
            (Place::Slot(slot), Some(staging), _) if staging.lacks(slot) => self.payload.expect(slot),
            // A difference needs both sides: the program's page may have been read long ago.
            (Place::Slot(slot), _, Some(base)) => {
                self.shard_store.expect(*base, place);
                self.payload.expect(slot);
            }
            (Place::Slot(_), _, None) => {}
        }
    }
}
