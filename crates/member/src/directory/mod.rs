//! The directory, a level that all nodes see. It has copies of the shards of some epochs, for when the nodes have lost
//! more than the code tolerates.
//!
//! ```text
//! ```text
//!   DIR/life                              the latest life that the job is known to have begun
//!   DIR/epoch-40-2-9f3c.../seat-3/state   a shard store with one shard, as in memory
//!                                 pages
//!                                 table-1
//! ```
//!
//! A logical rank's copy appears completely or not at all. An epoch is usable as soon as its copies suffice in every
//! group. Names of directories are for people: the content of a copy identifies it.

mod flush;
mod rebuild;
mod salvage;

pub(crate) use flush::Flush;
pub use rebuild::{Rebuilt, rebuild};
pub use salvage::{Salvaged, salvage};

use crate::error::MemberError;
use crate::plan_record::PlanRecord;
use crate::shard_store::{
    FileShardStore, ShardCopy, clear, make_directory, read_checked, read_state, sync, write_checked,
};
use standfast_format::manifest::JobId;
use standfast_group::{EpochId, EpochLevel, Life, LogicalRank, Plan, ShardId};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

const OWNER_ONLY: u32 = 0o700;
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// A directory with copies of epochs.
#[derive(Debug, Clone)]
pub struct LevelDirectory {
    path: PathBuf,
}

/// An epoch of which a directory, or a node's memory, holds copies or shards.
#[derive(Debug, Clone)]
pub struct HeldEpoch {
    /// The epoch.
    pub epoch: EpochId,
    /// The path of each logical rank's shard.
    pub logical_ranks: BTreeMap<LogicalRank, PathBuf>,
    pub(crate) plan: PlanRecord,
    /// The level of the epoch.
    pub(crate) level: EpochLevel,
    /// The latest life that any of the shard stores knows.
    pub(crate) life: Life,
}

impl HeldEpoch {
    /// Returns the number of members of the job.
    pub fn members(&self) -> usize {
        self.plan.members()
    }

    /// Reports whether each shard is stored by itself, so that every one of them is needed.
    pub fn is_local(&self) -> bool {
        self.level != EpochLevel::Encoded
    }

    /// Returns the logical ranks without a shard here.
    pub fn missing(&self) -> Vec<LogicalRank> {
        (0..self.members() as u32)
            .map(LogicalRank)
            .filter(|logical_rank| !self.logical_ranks.contains_key(logical_rank))
            .collect()
    }

    /// Returns the first group that lacks more than its code tolerates, and what it lacks; `None` if all can be rebuilt.
    ///
    /// # Errors
    /// If its plan is invalid.
    pub fn lacking(&self) -> Result<Option<(usize, Vec<LogicalRank>)>, MemberError> {
        let has = |logical_rank| self.logical_ranks.contains_key(&logical_rank);
        Ok(match self.level {
            EpochLevel::Encoded => self.plan()?.lacking(has),
            EpochLevel::Local(_) => self.plan()?.incomplete(has),
        })
    }

    /// Returns how many more logical ranks of any one group may be lost; `None` if too many are lost already.
    ///
    /// # Errors
    /// If its plan is invalid.
    pub fn tolerates(&self) -> Result<Option<usize>, MemberError> {
        let plan = self.plan()?;
        if self.is_local() {
            return Ok(self.lacking()?.is_none().then_some(0));
        }
        let left = (0..plan.groups().len()).map(|group| {
            let held = |position: &usize| self.logical_ranks.contains_key(&plan.logical_rank(group, *position));
            let layout = plan.layout(group);
            let lost = (0..layout.positions()).filter(|position| !held(position)).count();
            layout.code().tolerance().checked_sub(lost)
        });
        Ok(if self.lacking()?.is_some() { None } else { Some(left.map(Option::unwrap_or_default).min().unwrap_or(0)) })
    }

    /// Reads every page of every shard. Returns the logical ranks with good shards, and for the others the reason.
    pub fn verify(&self) -> Vec<(LogicalRank, Option<String>)> {
        let damage = |logical_rank: LogicalRank, path: &Path| -> Result<Option<String>, MemberError> {
            let good = FileShardStore::open_found(path)?.is_good(ShardId { epoch: self.epoch, logical_rank });
            Ok((!good).then(|| "pages or tables are not what was written".into()))
        };
        let verified = |(logical_rank, path): (&LogicalRank, &PathBuf)| (*logical_rank, damage(*logical_rank, path));
        let told = |(logical_rank, damage): (LogicalRank, Result<_, MemberError>)| {
            (logical_rank, damage.unwrap_or_else(|error| Some(error.to_string())))
        };
        self.logical_ranks.iter().map(verified).map(told).collect()
    }

    fn plan(&self) -> Result<Plan, MemberError> {
        self.plan.plan(self.epoch.job)
    }

    fn age(&self) -> (Life, u64) {
        (self.epoch.life, self.epoch.number)
    }
}

impl LevelDirectory {
    /// Creates a handle of the directory with this path, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns the epochs of which it holds anything, the newest first. An unreadable copy counts as lost.
    ///
    /// # Errors
    /// File system errors; a copy of another version.
    pub fn epochs(&self) -> Result<Vec<HeldEpoch>, MemberError> {
        self.check()?;
        let mut held = Vec::new();
        for folder in folders(&self.path, is_epoch_name)? {
            held.extend(held_in(&folder)?);
        }
        Ok(by_age(held))
    }

    /// Returns the epochs of one job in the same way.
    ///
    /// # Errors
    /// File system errors; if the directory belongs to another job.
    pub(crate) fn epochs_of(&self, job: JobId) -> Result<Vec<HeldEpoch>, MemberError> {
        let epochs = self.epochs()?;
        match epochs.iter().find(|held| held.epoch.job != job) {
            Some(foreign) => {
                let other = foreign.epoch.job;
                Err(MemberError::unusable(
                    &self.path,
                    format!("it holds checkpoints of job {other}, and this is job {job}\nhint: name another directory"),
                ))
            }
            None => Ok(epochs),
        }
    }

    /// Returns the latest life that is recorded here.
    ///
    /// # Errors
    /// File system errors; if the record is damaged.
    pub(crate) fn life(&self) -> Result<Life, MemberError> {
        self.check()?;
        let path = self.path.join("life");
        match read_checked(&path)? {
            None => Ok(Life::default()),
            Some(body) => minicbor::decode(&body).map_err(|error| MemberError::unusable(&path, error.to_string())),
        }
    }

    /// Records that a life has begun, so that no later one takes its number even when all memory is lost.
    ///
    /// # Errors
    /// File system errors.
    pub(crate) fn note_life(&self, life: Life) -> Result<(), MemberError> {
        self.make()?;
        let body = minicbor::to_vec(life).expect("a vector takes everything");
        write_checked(&self.path, "life", &body)?;
        sync(&self.path.join("life"))?;
        sync(&self.path)
    }

    /// Returns the path for the copy of a shard.
    pub(crate) fn place(&self, shard: ShardId) -> PathBuf {
        let EpochId { life, number, random, .. } = shard.epoch;
        self.path
            .join(format!("epoch-{number}-{}-{random:016x}", life.0))
            .join(format!("seat-{}", shard.logical_rank.0))
    }

    /// Writes the copy of a shard, unless it exists.
    ///
    /// # Errors
    /// File system errors; a damaged page.
    pub(crate) fn keep(&self, copy: &ShardCopy) -> Result<(), MemberError> {
        let place = self.place(copy.id());
        if place.join("state").exists() {
            return Ok(());
        }
        self.make()?;
        let folder = place.parent().expect("it was joined");
        make_directory(folder)?;
        copy.write(&place)?;
        sync(&self.path)
    }

    /// Replaces a logical rank's shard store in memory by its copy, or by an empty shard store if there is none.
    ///
    /// # Errors
    /// File system errors. The shard store in memory then stays, unless it could be replaced.
    pub(crate) fn fetch(&self, shard: ShardId, life: Life, to: &Path) -> Result<(), MemberError> {
        let from = self.place(shard);
        if !from.join("state").exists() {
            return clear(to);
        }
        let shard_store = FileShardStore::open_found(&from)?;
        if !shard_store
            .sealed()
            .iter()
            .any(|sealed| sealed.epoch == shard.epoch && sealed.logical_rank == shard.logical_rank)
        {
            return clear(to);
        }
        match shard_store.copy(shard).in_life(life).write(to) {
            // The checks of others may suffice.
            Err(MemberError::Damaged(_)) => clear(to),
            written => written,
        }
    }

    /// Removes epochs older than the newest encoded one that has the copies of all logical ranks.
    ///
    /// # Errors
    /// File system errors.
    pub(crate) fn prune(&self) -> Result<(), MemberError> {
        let epochs = self.epochs()?;
        let Some(whole) = epochs.iter().find(|held| !held.is_local() && held.missing().is_empty()) else {
            return Ok(());
        };
        epochs.iter().filter(|held| held.age() < whole.age()).try_for_each(remove)
    }

    /// Removes all epochs of a finished job, and interrupted copies.
    ///
    /// # Errors
    /// File system errors; if the directory belongs to another job.
    pub(crate) fn remove_all(&self, job: JobId) -> Result<(), MemberError> {
        self.epochs_of(job)?;
        folders(&self.path, is_epoch_name)?.iter().try_for_each(|folder| clear(folder))?;
        let _ = fs::remove_file(self.path.join("life"));
        // It may be a user's working directory.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }

    fn make(&self) -> Result<(), MemberError> {
        let made = DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(&self.path);
        made.map_err(MemberError::file(&self.path))?;
        self.check()
    }

    /// Refuses a directory to which others may have written: its content becomes the job's memory. A missing directory
    /// counts as empty.
    fn check(&self) -> Result<(), MemberError> {
        let found = match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(MemberError::file(&self.path))?,
        };
        if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & WRITTEN_BY_OTHERS == 0 {
            return Ok(());
        }
        Err(MemberError::unusable(
            &self.path,
            "it belongs to another user, or others may write it\nhint: name one that only you may write (chmod go-w)",
        ))
    }
}

/// Returns the epochs whose shard stores lie in this folder, the newest first.
pub(crate) fn held_in(folder: &Path) -> Result<Vec<HeldEpoch>, MemberError> {
    let mut held: BTreeMap<EpochId, HeldEpoch> = BTreeMap::new();
    for path in folders(folder, is_logical_rank_name)? {
        let state = match read_state(&path) {
            Ok(Some(state)) => state,
            // The file is valid, but of another version. It is not lost, and must not count as lost.
            Err(error @ MemberError::Unusable { .. }) => return Err(error),
            Ok(None) | Err(_) => continue,
        };
        if path != folder.join(format!("seat-{}", state.logical_rank.0)) {
            continue;
        }
        for shard in state.shards {
            let (epoch, level) = (shard.id.epoch, shard.level());
            let (plan, life) = (state.plan.clone(), state.life);
            let new = || HeldEpoch { epoch, logical_ranks: BTreeMap::new(), plan, level, life };
            let entry = held.entry(epoch).or_insert_with(new);
            entry.life = entry.life.max(state.life);
            entry.logical_ranks.insert(state.logical_rank, path.clone());
        }
    }
    Ok(by_age(held.into_values().collect()))
}

fn by_age(mut held: Vec<HeldEpoch>) -> Vec<HeldEpoch> {
    held.sort_by_key(|held| std::cmp::Reverse((held.age(), held.logical_ranks.len())));
    held
}

fn remove(held: &HeldEpoch) -> Result<(), MemberError> {
    let folder = held.logical_ranks.values().next().and_then(|logical_rank| logical_rank.parent());
    folder.map_or(Ok(()), clear)
}

/// Reports whether this is a name of an epoch's folder (see [`LevelDirectory::place`]). The directory may be a user's
/// working directory, with an unrelated `epoch-10` in it.
fn is_epoch_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let is_number = |text: &str| text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
    matches!(parts[..], ["epoch", number, life, random]
        if is_number(number) && is_number(life)
            && random.len() == 16 && u64::from_str_radix(random, 16).is_ok_and(|it| format!("{it:016x}") == random))
}

fn is_logical_rank_name(name: &str) -> bool {
    name.starts_with("seat-")
}

/// Returns the directories inside one that have a certain kind of name.
fn folders(within: &Path, is_named_so: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, MemberError> {
    let entries = match fs::read_dir(within) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(MemberError::file(within))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(MemberError::file(within))?.path();
        let named = path.file_name().and_then(|name| name.to_str()).is_some_and(&is_named_so);
        if named && path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_names_of_epochs_are_recognised_as_epochs() {
        assert!(is_epoch_name("epoch-40-2-9f3c000000000000"));
        for name in
            ["epoch-10", "epoch-10-best", "epoch-1-2-3", "epoch-01-2-9f3c000000000000", "epoch-1-2-9F3C000000000000"]
        {
            assert!(!is_epoch_name(name), "{name}");
        }
    }

    #[test]
    fn a_directory_writable_by_others_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new").join("directory");
        let directory = LevelDirectory::new(&path);
        assert!(directory.epochs().unwrap().is_empty() && directory.life().unwrap() == Life::default());
        directory.note_life(Life(3)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, OWNER_ONLY);
        assert_eq!(directory.life().unwrap(), Life(3));
        for mode in [0o770, 0o707] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(directory.epochs().is_err() && directory.life().is_err() && directory.note_life(Life(4)).is_err());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(directory.life().unwrap(), Life(3));
    }
}
