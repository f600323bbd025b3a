//! The directory, a level that all nodes see: copies of the shards of some epochs, for when the nodes have lost more than
//! the code bears.
//!
//! ```text
//!   DIR/life                              the latest life that the job is known to have begun
//!   DIR/epoch-40-2-9f3c.../seat-3/state   a shard store with one shard, as in memory; it says itself what it is
//!                                 pages
//!                                 table-1
//! ```
//!
//! A logical rank's copy appears whole or not at all; an epoch is of use as soon as the copies that are there suffice in every
//! group. Names of directories are for people: what a copy is stands in it.

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
    /// Which.
    pub epoch: EpochId,
    /// Where each logical rank's lies.
    pub logical_ranks: BTreeMap<LogicalRank, PathBuf>,
    pub(crate) plan: PlanRecord,
    /// How it is kept.
    pub(crate) level: EpochLevel,
    /// The latest life that one of the shard stores knows of.
    pub(crate) life: Life,
}

impl HeldEpoch {
    /// How many members the job has.
    pub fn members(&self) -> usize {
        self.plan.members()
    }

    /// Whether each shard stands for itself: every one of them is needed.
    pub fn is_local(&self) -> bool {
        self.level != EpochLevel::Encoded
    }

    /// Logical ranks of which nothing is held.
    pub fn missing(&self) -> Vec<LogicalRank> {
        (0..self.members() as u32)
            .map(LogicalRank)
            .filter(|logical_rank| !self.logical_ranks.contains_key(logical_rank))
            .collect()
    }

    /// The first group that lacks more than its code bears, and what it lacks; `None` where all can be rebuilt.
    ///
    /// # Errors
    /// Where its plan is none.
    pub fn lacking(&self) -> Result<Option<(usize, Vec<LogicalRank>)>, MemberError> {
        let has = |logical_rank| self.logical_ranks.contains_key(&logical_rank);
        Ok(match self.level {
            EpochLevel::Encoded => self.plan()?.lacking(has),
            EpochLevel::Local(_) => self.plan()?.incomplete(has),
        })
    }

    /// How many more logical ranks of any one group may be lost; `None` where that is too many already.
    ///
    /// # Errors
    /// Where its plan is none.
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

    /// Reads every page of every shard: whose is good, and why whose is not.
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
    /// The directory with this path, which need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The epochs that it holds anything of, the newest first. A copy that cannot be read is as good as lost.
    ///
    /// # Errors
    /// Those of the file system; a copy of another version.
    pub fn epochs(&self) -> Result<Vec<HeldEpoch>, MemberError> {
        self.check()?;
        let mut held = Vec::new();
        for folder in folders(&self.path, is_epoch_name)? {
            held.extend(held_in(&folder)?);
        }
        Ok(by_age(held))
    }

    /// The same of one job.
    ///
    /// # Errors
    /// Those of the file system; where it is another job's directory.
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

    /// The latest life that is noted here.
    ///
    /// # Errors
    /// Those of the file system; where the note is damaged.
    pub(crate) fn life(&self) -> Result<Life, MemberError> {
        self.check()?;
        let path = self.path.join("life");
        match read_checked(&path)? {
            None => Ok(Life::default()),
            Some(body) => minicbor::decode(&body).map_err(|error| MemberError::unusable(&path, error.to_string())),
        }
    }

    /// Notes that a life has begun, so that no later one takes its number even when all memory is lost.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn note_life(&self, life: Life) -> Result<(), MemberError> {
        self.make()?;
        let body = minicbor::to_vec(life).expect("a vector takes everything");
        write_checked(&self.path, "life", &body)?;
        sync(&self.path.join("life"))?;
        sync(&self.path)
    }

    /// Where the copy of a shard lies.
    pub(crate) fn place(&self, shard: ShardId) -> PathBuf {
        let EpochId { life, number, random, .. } = shard.epoch;
        self.path
            .join(format!("epoch-{number}-{}-{random:016x}", life.0))
            .join(format!("seat-{}", shard.logical_rank.0))
    }

    /// Writes the copy of a shard, unless it is there.
    ///
    /// # Errors
    /// Those of the file system; a damaged page.
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

    /// Puts the copy of a logical rank where its shard store in memory was, or an empty shard store where there is none.
    ///
    /// # Errors
    /// Those of the file system; what was in memory is there still, unless it could be replaced.
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
            // The others' checks may do.
            Err(MemberError::Damaged(_)) => clear(to),
            written => written,
        }
    }

    /// Removes epochs that are older than the newest encoded one of which every logical rank's copy is there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn prune(&self) -> Result<(), MemberError> {
        let epochs = self.epochs()?;
        let Some(whole) = epochs.iter().find(|held| !held.is_local() && held.missing().is_empty()) else {
            return Ok(());
        };
        epochs.iter().filter(|held| held.age() < whole.age()).try_for_each(remove)
    }

    /// Removes all epochs of a job that is done, and copies that were broken off.
    ///
    /// # Errors
    /// Those of the file system; where it is another job's directory.
    pub(crate) fn remove_all(&self, job: JobId) -> Result<(), MemberError> {
        self.epochs_of(job)?;
        folders(&self.path, is_epoch_name)?.iter().try_for_each(|folder| clear(folder))?;
        let _ = fs::remove_file(self.path.join("life"));
        // It may be somebody's working directory.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }

    fn make(&self) -> Result<(), MemberError> {
        let made = DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(&self.path);
        made.map_err(MemberError::file(&self.path))?;
        self.check()
    }

    /// Refuses a directory that others may have written to: what lies there becomes the job's memory. One that is not there
    /// holds nothing.
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
            "it belongs to another user, or others may write it\nhint: chmod go-w it",
        ))
    }
}

/// The epochs of which shard stores lie in this folder, the newest first.
pub(crate) fn held_in(folder: &Path) -> Result<Vec<HeldEpoch>, MemberError> {
    let mut held: BTreeMap<EpochId, HeldEpoch> = BTreeMap::new();
    for path in folders(folder, is_logical_rank_name)? {
        let state = match read_state(&path) {
            Ok(Some(state)) => state,
            // Sound, but of another version: it is not lost, and must not be taken for it.
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

/// Whether the folders of epochs are named so (see [`LevelDirectory::place`]). The directory may be somebody's working directory,
/// with an `epoch-10` of his own in it.
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

/// The directories within one whose names are of one kind.
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
    fn folders_of_the_users_are_not_taken_for_epochs() {
        assert!(is_epoch_name("epoch-40-2-9f3c000000000000"));
        for name in
            ["epoch-10", "epoch-10-best", "epoch-1-2-3", "epoch-01-2-9f3c000000000000", "epoch-1-2-9F3C000000000000"]
        {
            assert!(!is_epoch_name(name), "{name}");
        }
    }

    #[test]
    fn what_others_may_have_written_is_not_believed() {
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
