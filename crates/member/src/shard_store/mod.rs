//! A shard store in files of a memory file system: its shards outlive their process.
//!
//! ```text
//!   seat-3/pages      frames of one page each; the tables say whose they are
//!   seat-3/table-17   the frame of each page, with checksums; it adds to the tables before it
//!   seat-3/state      the sealed shards, each as a list of tables; the plan; the life
//! ```
//!
//! Only `state` is ever replaced, by a new file under its name. The files that it names are written before; files that it
//! no longer names are removed and reused afterwards. So whenever the process is killed, the files are in the old or in
//! the new state.

mod checked;
mod copy;
mod entries;
mod frames;
mod pages;
mod room;
mod table;
#[cfg(test)]
mod tests;
mod verified;

use crate::error::MemberError;
use crate::plan_record::PlanRecord;
pub(crate) use checked::{make_directory, read_checked, write_checked};
pub(crate) use copy::{ShardCopy, clear, make_durable, sync};
use entries::Entries;
use frames::Frames;
use minicbor::{Decode, Encode};
use standfast_core::delta::Page;
use standfast_format::manifest::JobId;
use standfast_group::{
    Damaged, Description, EpochId, EpochLevel, Fingerprint, Holding, Life, LogicalRank, Place, ShardId, ShardStore,
    Sums, Survey, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
pub(crate) use table::{Entry, Frame};

/// Tables of a shard before they are merged into one: each is a file with the descriptions of the whole group.
const TABLES_MAX: usize = 32;
/// A shard's tables are merged before they contain this many times its entries.
const LISTED_MAX: usize = 4;

/// Version of the files.
const VERSION: u32 = 2;

/// The content of `state`.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    #[n(0)]
    version: u32,
    #[n(1)]
    pub(crate) job: JobId,
    #[n(2)]
    pub(crate) logical_rank: LogicalRank,
    #[n(3)]
    pub(crate) plan: PlanRecord,
    #[n(4)]
    pub(crate) life: Life,
    /// Whether an epoch may have been promised since the job last began.
    #[n(5)]
    promised: bool,
    #[n(6)]
    pub(crate) shards: Vec<SealedShard>,
}

/// A shard that is sealed.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedShard {
    #[n(0)]
    pub(crate) id: ShardId,
    #[n(1)]
    pub(crate) acknowledged: bool,
    /// Numbers of its tables, the oldest first; later ones override earlier ones.
    #[n(2)]
    tables: Vec<u64>,
    #[n(3)]
    base: Option<ShardId>,
    /// Whether its epoch is local.
    #[n(4)]
    is_local: bool,
}

impl SealedShard {
    /// Returns the level of its epoch.
    pub(crate) fn level(&self) -> EpochLevel {
        if self.is_local { EpochLevel::Local(self.base.map(|base| base.epoch)) } else { EpochLevel::Encoded }
    }
}

/// The in-memory form of a shard: its differences from its base.
#[derive(Debug, Default)]
struct Shard {
    base: Option<ShardId>,
    is_local: bool,
    entries: Entries,
    descriptions: Vec<Description>,
    /// Empty while the shard is open.
    tables: Vec<u64>,
    /// Number of entries in the tables, including those that later tables override.
    listed: usize,
    sealed: bool,
    acknowledged: bool,
}

impl Shard {
    /// Returns the frames of its own pages.
    fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.values().filter_map(|entry| entry.frame.number())
    }
}

/// The shards of one logical rank, in a directory of their own.
#[derive(Debug)]
pub struct FileShardStore {
    directory: PathBuf,
    frames: Frames,
    shards: BTreeMap<ShardId, Shard>,
    state: State,
    next_table: u64,
    /// Why a page could not be written since the last seal.
    failed: Option<String>,
    /// Whether there were shards, but neither one of them nor the state that names them can be read.
    is_unreadable: bool,
}

impl FileShardStore {
    /// Opens the shard store of a logical rank, or creates it.
    ///
    /// # Errors
    /// [`MemberError`]: file system errors, or another process uses it, or it belongs to another job.
    pub(crate) fn open(
        directory: &Path,
        job: JobId,
        logical_rank: LogicalRank,
        plan: &PlanRecord,
    ) -> Result<Self, MemberError> {
        make_directory(directory)?;
        let frames = Frames::open(directory)?;
        let fresh = || State {
            version: VERSION,
            job,
            logical_rank,
            plan: plan.clone(),
            life: Life::default(),
            promised: false,
            shards: Vec::new(),
        };
        let read = read_state(directory)?;
        let is_unreadable = read.is_none() && directory.join("state").exists();
        let mut state = read.unwrap_or_else(fresh);
        if state.job != job || state.logical_rank != logical_rank {
            return Err(MemberError::unusable(
                directory,
                format!("it holds logical rank {} of job {}", state.logical_rank.0, state.job),
            ));
        }
        if state.plan != *plan {
            // Shards of another plan do not fit those of the other processes.
            state.shards.clear();
            state.plan = plan.clone();
        }
        let mut shard_store = Self {
            directory: directory.to_owned(),
            frames,
            shards: BTreeMap::new(),
            next_table: 0,
            failed: None,
            is_unreadable,
            state,
        };
        shard_store.load()?;
        Ok(shard_store)
    }

    /// Reads the tables, frees the frames that they do not name, and removes what was never sealed.
    fn load(&mut self) -> Result<(), MemberError> {
        self.next_table = table::highest(&self.directory)? + 1;
        for sealed in self.state.shards.clone() {
            let mut shard = Shard {
                base: sealed.base,
                is_local: sealed.is_local,
                tables: sealed.tables.clone(),
                sealed: true,
                acknowledged: sealed.acknowledged,
                ..Shard::default()
            };
            // A shard with unreadable tables is lost, like one with damaged pages; the other shards are not.
            let read = sealed.tables.iter().try_for_each(|number| -> Result<(), MemberError> {
                shard.descriptions = table::read(&self.directory, *number, &mut shard.entries)?;
                Ok(())
            });
            let within = |entry: Entry| entry.frame.number().is_none_or(|number| number < self.frames.count());
            shard.listed = shard.entries.len();
            if read.is_ok() && shard.entries.values().all(within) {
                self.shards.insert(sealed.id, shard);
            }
        }
        let gone: Vec<ShardId> = self.shards.keys().copied().collect();
        self.shards.retain(|_, shard| shard.base.is_none_or(|base| gone.contains(&base)));
        self.frames.set_used(self.shards.values().flat_map(Shard::frames));
        self.is_unreadable |= self.state.promised && !self.state.shards.is_empty() && self.shards.is_empty();
        // If nothing can be read, keep the files: they may be worth examining.
        if self.is_unreadable { Ok(()) } else { self.remove_unnamed_tables() }
    }

    /// Opens the existing shard store in a directory, whoever its owner is.
    ///
    /// # Errors
    /// As [`Self::open`]; and if there is none.
    pub(crate) fn open_found(directory: &Path) -> Result<Self, MemberError> {
        let state =
            read_state(directory)?.ok_or_else(|| MemberError::unusable(directory, "it holds no shard store"))?;
        Self::open(directory, state.job, state.logical_rank, &state.plan)
    }

    /// Returns the latest life that it knows.
    pub(crate) fn life(&self) -> Life {
        self.state.life
    }

    /// Reports whether it had shards of which none can be read: the job had begun, whatever the others have.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Returns the sealed shards, the oldest first, verified or not.
    pub(crate) fn sealed(&self) -> Vec<Holding> {
        self.shards.iter().filter(|(_, shard)| shard.sealed).map(|(id, shard)| holding(id, shard)).collect()
    }

    /// Deletes open shards and lists the sealed ones.
    pub fn survey(&mut self) -> Survey {
        let open: Vec<ShardId> = self.shards.iter().filter(|(_, shard)| !shard.sealed).map(|(id, _)| *id).collect();
        open.into_iter().for_each(|id| self.drop_shard(id));
        self.frames.begin_verifying();
        let whole = self.shards.iter().filter(|(id, _)| self.is_whole(**id));
        let unpromised = self.state.life != Life::default() && !self.state.promised;
        Survey { life: self.state.life, holdings: whole.map(|(id, shard)| holding(id, shard)).collect(), unpromised }
    }

    /// Reports whether there is such a sealed shard, with every page as it was written.
    pub(crate) fn is_good(&self, id: ShardId) -> bool {
        self.shards.get(&id).is_some_and(|shard| shard.sealed) && self.is_whole(id) && self.verify(id).is_ok()
    }

    /// Reports whether there is such a shard that is open.
    pub(crate) fn is_open(&self, id: ShardId) -> bool {
        self.shards.get(&id).is_some_and(|shard| !shard.sealed)
    }

    /// Seals the open shard of an epoch.
    ///
    /// # Errors
    /// If one of its pages, or the seal itself, could not be written.
    pub fn seal(&mut self, work: Work) -> Result<(), MemberError> {
        self.frames.settle()?;
        if let Some(reason) = self.failed.take() {
            return Err(MemberError::unusable(&self.directory, reason));
        }
        let open = |(id, shard): (&ShardId, &Shard)| (id.epoch == work.epoch && !shard.sealed).then_some(*id);
        let ids: Vec<ShardId> = self.shards.iter().filter_map(open).collect();
        for id in &ids {
            let number = self.take_table_number();
            let shard = &self.shards[id];
            table::write(&self.directory, number, &shard.entries, &shard.descriptions)?;
            let shard = self.shards.get_mut(id).expect("it was looked at a moment ago");
            (shard.tables, shard.listed) = (vec![number], shard.entries.len());
            shard.sealed = true;
        }
        // A recovery continues only after all processes have acknowledged it.
        self.state.promised |= !work.recovery && !ids.is_empty();
        self.save_state()?;
        self.frames.give_back_replaced();
        Ok(())
    }

    /// Records that all processes have sealed an epoch.
    ///
    /// # Errors
    /// File system errors.
    pub fn acknowledge(&mut self, epoch: EpochId) -> Result<(), MemberError> {
        self.state.promised = true;
        self.shards.iter_mut().filter(|(id, _)| id.epoch == epoch).for_each(|(_, shard)| shard.acknowledged = true);
        self.save_state()
    }

    /// Deletes all shards but one, which absorbs the pages of its base. A local shard keeps its base as a separate shard.
    ///
    /// # Errors
    /// File system errors; the shards are then unchanged.
    pub fn keep(
        &mut self,
        epoch: Option<EpochId>,
        logical_rank: Option<LogicalRank>,
        life: Life,
    ) -> Result<(), MemberError> {
        let kept = epoch
            .zip(logical_rank)
            .map(|(epoch, logical_rank)| ShardId { epoch, logical_rank })
            .filter(|id| self.has(*id));
        let local = kept.filter(|id| self.shards[id].is_local);
        let beside = local.and_then(|id| self.shards[&id].base);
        if let Some(id) = kept.filter(|_| local.is_none()) {
            self.take_up_base(id)?;
        }
        self.frames.end_verifying();
        self.state.life = life;
        self.state.promised = epoch.is_some();
        let stays = |id: ShardId| Some(id) == kept || Some(id) == beside;
        let others: Vec<ShardId> = self.shards.keys().copied().filter(|id| !stays(*id)).collect();
        let names: Vec<SealedShard> = self.sealed_shards().filter(|shard| stays(shard.id)).collect();
        self.write_state(names)?;
        let is_given_up = others.iter().any(|id| Some(id.epoch) > epoch);
        others.into_iter().for_each(|id| self.drop_shard(id));
        self.frames.give_back_replaced();
        if is_given_up {
            self.shrink()?;
        }
        self.remove_unnamed_tables()
    }

    /// Gives back the memory of an abandoned epoch: there may have been too little for all.
    fn shrink(&mut self) -> Result<(), MemberError> {
        self.frames.shrink(self.shards.values().flat_map(Shard::frames))
    }

    /// Adds the base's pages to the shard, except those that it has itself.
    fn take_up_base(&mut self, id: ShardId) -> Result<(), MemberError> {
        let Some(base) = self.shards[&id].base else { return Ok(()) };
        let Some(base) = self.shards.remove(&base) else {
            return Err(MemberError::unusable(&self.directory, format!("the base of {id} is gone")));
        };
        let shard = self.shards.remove(&id).expect("the caller has looked");
        // If the shard has all of them again, its own tables are sufficient.
        let has_all = shard.entries.len() >= base.entries.len()
            && base.entries.iter().all(|(place, _)| shard.entries.get(place).is_some());
        if has_all {
            self.frames.give_back(base.frames());
            self.shards.insert(id, Shard { base: None, ..shard });
            return self.merge_tables(id);
        }
        let (mut tables, mut entries) = (base.tables, base.entries);
        tables.extend(&shard.tables);
        let listed = base.listed + shard.listed;
        for (place, entry) in shard.entries.iter() {
            let before = entries.insert(place, entry).and_then(|before| before.frame.number());
            self.frames.give_back(before);
        }
        let shard = Shard { base: None, entries, tables, listed, ..shard };
        self.shards.insert(id, shard);
        self.merge_tables(id)
    }

    /// Merges the tables into one, so that the next start need not read them all, and they take little space.
    fn merge_tables(&mut self, id: ShardId) -> Result<(), MemberError> {
        let Shard { tables, listed, entries, .. } = &self.shards[&id];
        if tables.len() < TABLES_MAX && *listed < LISTED_MAX * entries.len().max(1) {
            return Ok(());
        }
        let shard = self.shards.get_mut(&id).expect("the caller has it");
        shard.entries.retain(|_, entry| entry.frame != Frame::Zero);
        let number = self.take_table_number();
        let shard = &self.shards[&id];
        table::write(&self.directory, number, &shard.entries, &shard.descriptions)?;
        let shard = self.shards.get_mut(&id).expect("as above");
        (shard.tables, shard.listed) = (vec![number], shard.entries.len());
        Ok(())
    }

    /// Returns how many pages it holds, of the member's own and of checks.
    pub fn pages(&self) -> (usize, usize) {
        let places = || {
            let held = |shard: &'_ Shard| -> Vec<Place> {
                shard.entries.iter().filter(|(_, entry)| entry.frame != Frame::Zero).map(|(place, _)| place).collect()
            };
            self.shards.values().flat_map(held)
        };
        let own = places().filter(|place| matches!(place, Place::Slot(_))).count();
        (own, places().count() - own)
    }

    fn sealed_shards(&self) -> impl Iterator<Item = SealedShard> + '_ {
        let sealed = |(id, shard): (&ShardId, &Shard)| SealedShard {
            id: *id,
            acknowledged: shard.acknowledged,
            tables: shard.tables.clone(),
            base: shard.base,
            is_local: shard.is_local,
        };
        self.shards.iter().filter(|(_, shard)| shard.sealed).map(sealed)
    }

    fn save_state(&mut self) -> Result<(), MemberError> {
        let shards = self.sealed_shards().collect();
        self.write_state(shards)
    }

    fn write_state(&mut self, shards: Vec<SealedShard>) -> Result<(), MemberError> {
        self.state.shards = shards;
        let body = minicbor::to_vec(&self.state).expect("a vector takes everything");
        write_checked(&self.directory, "state", &body)
    }

    fn take_table_number(&mut self) -> u64 {
        self.next_table += 1;
        self.next_table - 1
    }

    fn remove_unnamed_tables(&self) -> Result<(), MemberError> {
        let named: BTreeSet<u64> = self.state.shards.iter().flat_map(|shard| shard.tables.iter().copied()).collect();
        table::remove_others(&self.directory, &named)
    }

    fn drop_shard(&mut self, id: ShardId) {
        let Some(shard) = self.shards.remove(&id) else { return };
        self.frames.give_back(shard.frames());
    }

    /// A sealed shard may be found again as long as its frames are not overwritten.
    fn replace_shard(&mut self, id: ShardId) {
        if self.is_open(id) {
            return self.drop_shard(id);
        }
        let Some(shard) = self.shards.remove(&id) else { return };
        self.frames.replace(shard.frames());
    }

    fn entry(&self, id: ShardId, place: Place) -> Option<Entry> {
        let shard = self.shards.get(&id)?;
        shard.entries.get(place).or_else(|| self.entry(shard.base?, place))
    }

    fn read_entry(
        &self,
        id: ShardId,
        place: Place,
        entry: Option<Entry>,
        page: &mut Page,
    ) -> Result<Fingerprint, Damaged> {
        let Some(entry @ Entry { frame: Frame::At(number), checksum }) = entry else {
            page.fill(0);
            return Ok(Fingerprint::ZEROS);
        };
        page.copy_from_slice(self.frames.content(number));
        if self.frames.is_intact(number, page, checksum) {
            Ok(entry.known_by())
        } else {
            Err(Damaged { shard: id, place })
        }
    }

    /// Returns the entries of a shard, and those of its base that it does not override.
    fn entries_of(&self, id: ShardId) -> impl Iterator<Item = (Place, Entry)> + '_ {
        let shard = self.shards.get(&id);
        let own = shard.into_iter().flat_map(|shard| shard.entries.iter());
        let base = shard.and_then(|shard| self.shards.get(&shard.base?));
        let below = base.into_iter().flat_map(|base| base.entries.iter());
        let is_shown = move |(place, _): &(Place, Entry)| shard.is_none_or(|shard| shard.entries.get(*place).is_none());
        own.chain(below.filter(is_shown))
    }

    /// Reports whether the checksums of the member's own pages match its description.
    fn is_whole(&self, id: ShardId) -> bool {
        let mut own = Sums::default();
        self.entries_of(id).for_each(|(place, entry)| {
            if let Place::Slot(slot) = place {
                own.add(slot, entry.known_by());
            }
        });
        let descriptions = self.descriptions(id);
        let described = descriptions.iter().find(|description| description.logical_rank == id.logical_rank);
        described.is_none_or(|described| own.first_difference(&described.sums).is_none()) && !descriptions.is_empty()
    }
}

fn holding(id: &ShardId, shard: &Shard) -> Holding {
    let base = shard.base.map(|base| base.epoch);
    let level = if shard.is_local { EpochLevel::Local(base) } else { EpochLevel::Encoded };
    Holding { epoch: id.epoch, logical_rank: id.logical_rank, acknowledged: shard.acknowledged, level }
}

/// Reads the state of a shard store that may belong to another process; `None` if there is none yet, or it is damaged:
/// then its shards count as lost.
pub(crate) fn read_state(directory: &Path) -> Result<Option<State>, MemberError> {
    let path = directory.join("state");
    let body = match read_checked(&path) {
        Ok(Some(body)) => body,
        Ok(None) | Err(MemberError::Unusable { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let state: State = minicbor::decode(&body).map_err(|error| MemberError::unusable(&path, error.to_string()))?;
    if state.version != VERSION {
        let reason = format!("it is of version {}, and this library writes version {VERSION}", state.version);
        return Err(MemberError::unusable(&path, reason));
    }
    Ok(Some(state))
}
