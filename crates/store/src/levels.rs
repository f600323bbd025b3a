//! The level in memory: a directory on a memory file system that holds a job's newest checkpoints. The job's own
//! directory holds the checkpoints that survive the machine (D18, H3).
//!
//! ```text
//! PLACE/                                        as the user named it: /dev/shm
//!   standfast-JOB-HOME-LEVEL/                   0700: the level, named for the job, its directory and itself
//!     manifest                                  the authoritative list of generations on this level
//!     generation-00000012.image
//! DIR/manifest                                  names the level that counts
//! ```
//!
//! A level belongs to a chain of lives that saw each other's checkpoints. If a job is continued without its level, on
//! another machine for example, the directory names another level from then on. The old level is never used again,
//! since it holds an abandoned past. A copy of the job's directory cannot use it either, since the copy has another
//! inode number.
//!
//! A generation number stands for the same contents on every level, and no number is used twice. The lease stays in the
//! directory, whichever level is written.

use crate::guest::ReadOnly;
use crate::{Directory, GenerationChoice, JobDirectory, Lease, Selector, Skipped, StorageBackend, StoreError, random};
use standfast_format::manifest::{GenerationNumber, JobId, LevelId, Manifest, MemoryPlace};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A level of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The job's directory.
    Directory,
    /// The level in memory.
    Memory,
}

/// The levels of a job: its directory, and optionally one in memory.
#[derive(Debug, Clone)]
pub struct Levels {
    /// The job's directory.
    pub directory: JobDirectory,
    /// The level in memory.
    pub memory: Option<JobDirectory>,
    /// The number after the last one issued. A level whose manifest has become unreadable may have used that one.
    next: Arc<AtomicU64>,
}

impl Levels {
    /// Combines these levels.
    pub fn new(directory: JobDirectory, memory: Option<JobDirectory>) -> Self {
        Self { directory, memory, next: Arc::default() }
    }

    /// Opens the level that the directory's manifest names. If that level is unavailable, also returns why.
    ///
    /// # Errors
    /// If there is no job in the directory, or its manifest cannot be read.
    pub fn open(directory: JobDirectory) -> Result<(Self, Option<StoreError>), StoreError> {
        let manifest = directory.manifest()?;
        let named = manifest.memory.as_ref().and_then(|memory| Some((memory, memory.level?)));
        let Some((memory, level)) = named else { return Ok((Self::new(directory, None), None)) };
        let opened = directory.open_level(&manifest, memory, level);
        let (memory, missing) = match opened {
            Ok(memory) => (Some(memory), None),
            Err(error) => (None, Some(error)),
        };
        Ok((Self::new(directory, memory), missing))
    }

    /// Returns the levels, fastest first.
    pub fn each(&self) -> impl Iterator<Item = (Level, &JobDirectory)> {
        let memory = self.memory.iter().map(|memory| (Level::Memory, memory));
        memory.chain(std::iter::once((Level::Directory, &self.directory)))
    }

    /// Returns the lowest number that the job's next generation may get. With two levels each number is issued once,
    /// even if the checkpoint fails: a level that fails may have kept the number.
    ///
    /// # Errors
    /// If the directory's manifest cannot be read.
    pub fn next(&self) -> Result<GenerationNumber, StoreError> {
        let here = self.directory.manifest()?.next;
        let Some(memory) = &self.memory else { return Ok(here) };
        let there = memory.manifest().map_or(here, |manifest| manifest.next);
        let floor = GenerationNumber::new(self.next.load(Ordering::Relaxed)).unwrap_or(here);
        let number = here.max(there).max(floor);
        self.next.store(number.next().get(), Ordering::Relaxed);
        Ok(number)
    }

    /// Chooses the newest good generation of all levels. If both levels have it, the one in memory wins.
    ///
    /// # Errors
    /// As for [`JobDirectory::choose`].
    pub fn choose(&self, selector: Selector) -> Result<(Level, GenerationChoice), StoreError> {
        let Some(memory) = &self.memory else {
            return self.directory.choose(selector).map(|choice| (Level::Directory, choice));
        };
        let mut skipped = Vec::new();
        let in_memory = memory.choose(selector);
        let in_directory = self.directory.choose(selector);
        let (level, mut choice) = match (in_memory, in_directory) {
            (Ok(memory), Ok(directory)) if directory.number > memory.number => {
                skipped.extend(memory.skipped.into_iter().filter(|it| it.number > directory.number));
                (Level::Directory, directory)
            }
            (Ok(memory), Ok(directory)) => {
                skipped.extend(directory.skipped.into_iter().filter(|it| it.number > memory.number));
                (Level::Memory, memory)
            }
            (Ok(memory), Err(error)) => {
                skipped.extend(skipped_of(error).into_iter().filter(|it| it.number > memory.number));
                (Level::Memory, memory)
            }
            (Err(error), Ok(directory)) => {
                skipped.extend(skipped_of(error));
                (Level::Directory, directory)
            }
            (Err(in_memory), Err(in_directory)) => return Err(worse(in_memory, in_directory)),
        };
        choice.skipped.extend(skipped);
        choice.skipped.sort_by_key(|it| std::cmp::Reverse(it.number));
        Ok((level, choice))
    }

    /// Records on all levels that the job continued from this generation.
    ///
    /// # Errors
    /// If a manifest cannot be rewritten.
    pub fn mark_superseded_after(&self, lease: &Lease, number: GenerationNumber) -> Result<(), StoreError> {
        // Memory goes first: if the directory then fails, nothing of the job's past in it has been superseded.
        self.each().try_for_each(|(_, level)| level.mark_superseded_after(lease, number))
    }

    /// Reports whether continuing from `number` would change which generations are superseded on any level.
    ///
    /// # Errors
    /// If a manifest cannot be read.
    pub fn differs_from_life_at(&self, number: GenerationNumber) -> Result<bool, StoreError> {
        let differs = |manifest: &Manifest| {
            manifest.generations.iter().any(|it| it.number >= number && it.superseded != (it.number > number))
        };
        self.each().try_fold(false, |found, (_, level)| Ok(found || differs(&level.manifest()?)))
    }

    /// Creates a level in memory below `place` for the new life, and records it in the job's directory. Removes the
    /// levels that earlier lives of this job left there.
    ///
    /// # Errors
    /// If the level cannot be created: `place` does not exist, is full, or denies access.
    pub fn make_memory(&mut self, lease: &Lease, place: &Path) -> Result<(), StoreError> {
        let manifest = self.directory.manifest()?;
        let home = self.directory.level_directory.home_inode()?;
        clear_place(place, &prefix(manifest.job, home));
        let level = LevelId::from_bytes(random::bytes());
        let path = place.join(format!("{}{level}", prefix(manifest.job, home)));
        let storage_backend = Directory::create(&path).map_err(|source| StoreError::writing(&path, source))?;
        let memory = self.directory.level_on(Arc::new(storage_backend))?;
        memory.begin_level(lease, &manifest)?;
        let record = MemoryPlace { place: place.as_os_str().as_bytes().into(), level: Some(level), home };
        self.directory.set_memory(lease, Some(record))?;
        self.memory = Some(memory);
        Ok(())
    }

    /// Removes what a dead writer left half written in memory.
    pub fn clear_leftovers(&self, lease: &Lease) {
        if let Some(memory) = &self.memory {
            memory.level_directory.check_lease(lease.core());
            memory.level_directory.clear_leftovers(memory.manifest().ok().as_ref());
        }
    }

    /// Frees the memory: first removes the level from the directory's manifest, then removes its files. If `remember`
    /// is set, the manifest keeps the place, so that the job uses it again.
    ///
    /// # Errors
    /// If the directory's manifest cannot be rewritten; the level then stays.
    pub fn discard_memory(&mut self, lease: &Lease, remember: bool) -> Result<(), StoreError> {
        let recorded = self.directory.manifest()?.memory;
        let remembered = recorded.map(|it| MemoryPlace { level: None, ..it }).filter(|_| remember);
        self.directory.set_memory(lease, remembered)?;
        if let Some(memory) = self.memory.take() {
            remove_level(memory.path());
        }
        Ok(())
    }
}

/// Returns the skipped generations that an error lists.
fn skipped_of(error: StoreError) -> Vec<Skipped> {
    match error {
        StoreError::NoneGood { skipped, .. } => skipped,
        _ => Vec::new(),
    }
}

/// Returns the more informative of two errors.
fn worse(in_memory: StoreError, in_directory: StoreError) -> StoreError {
    match (in_memory, in_directory) {
        (StoreError::NoCheckpoint(_) | StoreError::NoSuchGeneration { .. }, directory) => directory,
        (memory, StoreError::NoCheckpoint(_) | StoreError::NoSuchGeneration { .. }) => memory,
        (StoreError::NoneGood { mut skipped, .. }, StoreError::NoneGood { directory, skipped: others }) => {
            skipped.extend(others);
            StoreError::NoneGood { directory, skipped }
        }
        (_, directory) => directory,
    }
}

/// Returns the common name prefix of all levels of the job in the directory with this inode number.
fn prefix(job: JobId, home: u64) -> String {
    format!("standfast-{job}-{home:x}-")
}

/// Removes the levels of earlier lives of a job. Other jobs' levels are not touched.
fn clear_place(place: &Path, prefix: &str) {
    let names = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let ours = names.filter(|name| name.to_str().is_some_and(|name| name.starts_with(prefix)));
    ours.for_each(|name| remove_level(&place.join(name)));
}

/// Removes a level. Files that cannot be removed cost memory; the job tries again when it begins another level there.
fn remove_level(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

impl JobDirectory {
    /// Opens a storage backend as a level of this job.
    pub(crate) fn level_on(&self, storage_backend: Arc<dyn StorageBackend>) -> Result<Self, StoreError> {
        let level_directory = &self.level_directory;
        let status = storage_backend.status().map_err(|error| StoreError::reading(storage_backend.path(), error))?;
        crate::trust::check_trusted(storage_backend.path(), &status, level_directory.host_identity.user)?;
        let level = Self::within(
            Arc::clone(&level_directory.storage_backend),
            storage_backend,
            Arc::clone(&level_directory.host_identity),
        );
        level.set_encodings(level_directory.encodings());
        Ok(level)
    }

    /// Writes the first manifest of a level, derived from the job's manifest.
    pub(crate) fn begin_level(&self, lease: &Lease, job: &Manifest) -> Result<(), StoreError> {
        let mut manifest = Manifest::new(job.job, job.description.clone(), job.options);
        manifest.next = job.next;
        self.level_directory.write_manifest(lease.core(), &mut self.level_directory.known_manifest(), &manifest)
    }

    /// Opens the level that the manifest names.
    fn open_level(&self, manifest: &Manifest, memory: &MemoryPlace, level: LevelId) -> Result<Self, StoreError> {
        let place = PathBuf::from(std::ffi::OsStr::from_bytes(&memory.place.0));
        let path = place.join(format!("{}{level}", prefix(manifest.job, memory.home)));
        if memory.home != self.level_directory.home_inode()? {
            return Err(StoreError::WrongImage(path));
        }
        let storage_backend = Directory::open(&path).map_err(|source| StoreError::reading(&path, source))?;
        let storage_backend: Arc<dyn StorageBackend> =
            if self.is_of_another_user() { Arc::new(ReadOnly(storage_backend)) } else { Arc::new(storage_backend) };
        let opened = self.level_on(storage_backend)?;
        if opened.manifest()?.job != manifest.job {
            return Err(StoreError::WrongImage(path));
        }
        Ok(opened)
    }

    /// Records where in memory checkpoints go.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
    pub fn set_memory(&self, lease: &Lease, memory: Option<MemoryPlace>) -> Result<(), StoreError> {
        self.level_directory.update_manifest(lease.core(), |manifest| manifest.memory = memory).map(drop)
    }
}

impl crate::level_directory::LevelDirectory {
    /// Returns the inode number of the directory.
    fn home_inode(&self) -> Result<u64, StoreError> {
        let status =
            self.storage_backend.status().map_err(|error| StoreError::reading(self.storage_backend.path(), error))?;
        Ok(status.inode)
    }
}
