//! Where a process keeps its shards: a sealed one, the next one as differences from it, and perhaps a local one.
//!
//! The trait has two halves. While an epoch is encoded or rebuilt, [`Process`](crate::Process) reads and writes pages
//! through it; these calls touch memory and return at once. The driver seals, acknowledges and keeps shards, in answer to
//! the effects of that name, because these may take as long as a disk does.
//!
//! A page that is read is the page that was written, or the shard store reports it as [`Damaged`]. A new epoch is made
//! from differences to the old one. If a damaged page were read as correct, the damage would spread to the checks of the
//! new epoch and could not be detected any more.

mod memory;

pub use memory::MemoryShardStore;

use crate::description::{Description, Fingerprint, Sums};
use crate::shard::{AHEAD, Damaged, Place, ShardId};
use crate::slots::SlotSet;
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;

/// A store of shards.
pub trait ShardStore {
    /// Reports whether there is such a shard, sealed or open.
    fn has(&self, shard: ShardId) -> bool;

    /// Reads a page of a shard and returns its fingerprint; a page that was never written is zeros.
    ///
    /// # Errors
    /// [`Damaged`] if it is not what was written; `page` may hold anything then.
    fn read(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// Returns the fingerprint of a page of a shard, without reading it.
    fn known(&self, shard: ShardId, place: Place) -> Fingerprint;

    /// Verifies every page of a shard that has not been verified since the survey.
    ///
    /// # Errors
    /// [`Damaged`]: the first page that is not what was written.
    fn verify(&self, shard: ShardId) -> Result<(), Damaged>;

    /// Reads a page of the base of a shard; zeros if there is no base.
    ///
    /// # Errors
    /// [`Damaged`]
    fn read_base(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// A hint that this page is about to be read.
    fn expect(&self, _shard: ShardId, _place: Place) {}

    /// Begins a shard. Pages that are not written are those of `base`. An existing shard of that name is replaced, and
    /// all shards based on it are deleted.
    fn open(&mut self, shard: ShardId, base: Option<ShardId>);

    /// Begins a shard of a local epoch, in the same way.
    fn open_local(&mut self, shard: ShardId, base: Option<ShardId>);

    /// Writes a page of a shard, with its fingerprint.
    fn write(&mut self, shard: ShardId, place: Place, page: &Page, known_by: Fingerprint);

    /// Stores the descriptions of the group's members with a shard.
    fn describe(&mut self, shard: ShardId, descriptions: Vec<Description>);

    /// Returns the descriptions stored with a shard, in the order of logical ranks.
    fn descriptions(&self, shard: ShardId) -> &[Description];
}

/// Why a shard cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is no such shard, or it has no description.
    #[error("there is no shard of {0}")]
    Missing(ShardId),
    /// A page is not what was written. This process counts as lost, and a new membership recovers its shard.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Its pages are what was written, but not what their owner had sealed.
    #[error("the shard of {shard} is not what was sealed, at slot {slot} or after it")]
    Different {
        /// The shard.
        shard: ShardId,
        /// First slot of the checksum block that differs.
        slot: u32,
    },
}

/// Passes the member's pages of a sealed shard to `take`, slot by slot, and returns their description: what a rollback
/// loads. Damage may be found only at the end, when all pages have been passed on. So no page may be trusted before this
/// returns.
///
/// # Errors
/// [`LoadError`]
pub fn load(
    shard_store: &dyn ShardStore,
    shard: ShardId,
    mut take: impl FnMut(u32, &Page),
) -> Result<Description, LoadError> {
    let mut page = [0; PAGE_BYTES];
    let used =
        shard_store.descriptions(shard).iter().find(|it| it.logical_rank == shard.logical_rank).map(|it| it.map.used());
    let mut ahead = used.iter().flat_map(SlotSet::iter).skip(AHEAD);
    let description = compared(shard_store, shard, |slot| {
        ahead.next().into_iter().for_each(|slot| shard_store.expect(shard, Place::Slot(slot)));
        let known_by = shard_store.read(shard, Place::Slot(slot), &mut page)?;
        take(slot, &page);
        Ok(known_by)
    })?;
    Ok(description.clone())
}

/// Checks by fingerprints that the pages that were written are those that their owner had sealed. It reads no page, since
/// each is verified when it is read.
///
/// # Errors
/// [`LoadError`]
pub(crate) fn compare(shard_store: &dyn ShardStore, shard: ShardId) -> Result<(), LoadError> {
    compared(shard_store, shard, |slot| Ok(shard_store.known(shard, Place::Slot(slot)))).map(drop)
}

/// Returns the member's description, if the pages in use match it.
fn compared(
    shard_store: &dyn ShardStore,
    shard: ShardId,
    mut known_by: impl FnMut(u32) -> Result<Fingerprint, Damaged>,
) -> Result<&Description, LoadError> {
    let description =
        shard_store.descriptions(shard).iter().find(|description| description.logical_rank == shard.logical_rank);
    let description = description.ok_or(LoadError::Missing(shard))?;
    let mut sums = Sums::default();
    for slot in description.map.used().iter() {
        sums.add(slot, known_by(slot)?);
    }
    match sums.first_difference(&description.sums) {
        None => Ok(description),
        Some(slot) => Err(LoadError::Different { shard, slot }),
    }
}
