//! Where a process keeps its shards: one sealed, and beside it the next one as what differs from it, and maybe a local one
//! as well.
//!
//! The trait has two halves. While an epoch is encoded or rebuilt, [`Process`](crate::Process) reads and writes pages
//! through it; these calls touch memory and return at once. Sealing, marking and keeping are the driver's, in answer to
//! the actions of that name, because they may take as long as a disk does.
//!
//! A page that is read is the page that was written, or the shard store says that it is [`Damaged`]. A new epoch is made from
//! differences to the old one: were a damaged page read as if it were right, the damage would go on into the checks of
//! the new epoch, and nobody could tell any more.

mod memory;

pub use memory::MemoryShardStore;

use crate::description::{Description, Fingerprint, Sums};
use crate::shard::{AHEAD, Damaged, Place, ShardId};
use crate::slots::SlotSet;
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;

/// A place for shards.
pub trait ShardStore {
    /// Whether there is such a shard, sealed or open.
    fn has(&self, shard: ShardId) -> bool;

    /// A page of a shard, and what it is known by; zeros where none was written.
    ///
    /// # Errors
    /// [`Damaged`] where it is not what was written; `page` may hold anything then.
    fn read(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// What a page of a shard is known by, without looking at it.
    fn known(&self, shard: ShardId, place: Place) -> Fingerprint;

    /// Looks at every page of a shard that has not been looked at since the survey.
    ///
    /// # Errors
    /// [`Damaged`]: the first that is not what was written.
    fn verify(&self, shard: ShardId) -> Result<(), Damaged>;

    /// A page of the base of a shard; zeros where it has none.
    ///
    /// # Errors
    /// [`Damaged`]
    fn read_base(&self, shard: ShardId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged>;

    /// A hint: this page is about to be read.
    fn expect(&self, _shard: ShardId, _place: Place) {}

    /// Begins a shard. Pages that are not written are those of `base`. A shard of that name that is there is
    /// replaced, and what it is the base of goes with it.
    fn open(&mut self, shard: ShardId, base: Option<ShardId>);

    /// Begins a shard of a local epoch, in the same way.
    fn open_local(&mut self, shard: ShardId, base: Option<ShardId>);

    /// Writes a page of a shard, which is known by this.
    fn write(&mut self, shard: ShardId, place: Place, page: &Page, known_by: Fingerprint);

    /// Lays the descriptions of the group's members beside a shard.
    fn describe(&mut self, shard: ShardId, descriptions: Vec<Description>);

    /// The descriptions beside a shard, in the order of logical ranks.
    fn descriptions(&self, shard: ShardId) -> &[Description];
}

/// Why a shard cannot be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is no such shard, or nothing says what it is.
    #[error("there is no shard of {0}")]
    Missing(ShardId),
    /// A page is not what was written: this process counts as lost, and a new membership recovers its shard.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Its pages are what was written, and not what their owner had sealed.
    #[error("the shard of {shard} is not what was sealed, at slot {slot} or after it")]
    Different {
        /// Which shard.
        shard: ShardId,
        /// First slot of the checksum block that differs.
        slot: u32,
    },
}

/// The member's pages of a sealed shard, slot by slot, and their description: what a rollback loads. All pages have been
/// handed over when damage is found at the end, so nothing may be believed before this returns.
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

/// Whether the pages that were written are those that their owner had sealed, by what they are known by: no page is looked
/// at, since each is verified when it is read.
///
/// # Errors
/// [`LoadError`]
pub(crate) fn compare(shard_store: &dyn ShardStore, shard: ShardId) -> Result<(), LoadError> {
    compared(shard_store, shard, |slot| Ok(shard_store.known(shard, Place::Slot(slot)))).map(drop)
}

/// The member's description, if the pages in use are what it says.
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
