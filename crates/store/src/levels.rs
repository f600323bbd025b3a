//! The level in memory: a directory of a memory file system that has a job's newest checkpoints, beside the job's own
//! directory, which has those that outlive the machine (D18, H3).
//!
//! ```text
//! PLACE/                                        as the user named it: /dev/shm
//!   standfast-JOB-HOME-LEVEL/                   0700: the level, named for the job, its directory and itself
//!     manifest                                  which generations are here: the truth about this level
//!     generation-00000012.image
//! DIR/manifest                                  names the level that counts
//! ```
//!
//! A level belongs to a chain of lives that saw each other's checkpoints. Where a job was continued without it (on another
//! machine, say) the directory names another level from then on, and this one is never taken again: it holds a past that
//! was given up. Nor is it taken by a copy of the job's directory, which has another inode number.
//!
//! A generation's number stands for the same contents on whichever level it is, and no number is given twice in them.
//! The lease stays in the directory, whatever level is written.

use crate::guest::ReadOnly;
use crate::{Directory, GenerationChoice, JobDirectory, Lease, Selector, Skipped, StorageBackend, StoreError, random};
use standfast_format::manifest::{GenerationNumber, JobId, LevelId, Manifest, MemoryPlace};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The job's directory.
    Directory,
    /// The one in memory.
    Memory,
}

/// The levels of a job: its directory, and one in memory where there is one.
#[derive(Debug, Clone)]
pub struct Levels {
    /// The job's directory.
    pub directory: JobDirectory,
    /// The one in memory.
    pub memory: Option<JobDirectory>,
    /// The number behind the last one that was given. A level whose manifest cannot be read any more may have it.
    next: Arc<AtomicU64>,
}

impl Levels {
    /// These levels.
    pub fn new(directory: JobDirectory, memory: Option<JobDirectory>) -> Self {
        Self { directory, memory, next: Arc::default() }
    }

    /// The directory, and the level that its manifest names. Why that one cannot be had comes beside it.
    ///
    /// # Errors
    /// When there is no job in the directory, or its manifest cannot be read.
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

    /// The levels, quickest first.
    pub fn each(&self) -> impl Iterator<Item = (Level, &JobDirectory)> {
        let memory = self.memory.iter().map(|memory| (Level::Memory, memory));
        memory.chain(std::iter::once((Level::Directory, &self.directory)))
    }

    /// The number that the job's next generation gets at least. With two levels each is given once, also where nothing
    /// comes of it: a level that fails may have kept it.
    ///
    /// # Errors
    /// When the directory's manifest cannot be read.
    pub fn next(&self) -> Result<GenerationNumber, StoreError> {
        let here = self.directory.manifest()?.next;
        let Some(memory) = &self.memory else { return Ok(here) };
        let there = memory.manifest().map_or(here, |manifest| manifest.next);
        let floor = GenerationNumber::new(self.next.load(Ordering::Relaxed)).unwrap_or(here);
        let number = here.max(there).max(floor);
        self.next.store(number.next().get(), Ordering::Relaxed);
        Ok(number)
    }

    /// Chooses a generation: the newest good one of all levels, in memory rather than in the directory where it is in both.
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

    /// Notes on all levels that the job was continued from this generation.
    ///
    /// # Errors
    /// When a manifest cannot be rewritten.
    pub fn mark_superseded_after(&self, lease: &Lease, number: GenerationNumber) -> Result<(), StoreError> {
        // Memory first: should the second fail, nothing of the job's past in the directory is set aside.
        self.each().try_for_each(|(_, level)| level.mark_superseded_after(lease, number))
    }

    /// Whether a generation lies on some level that was set aside or would have to be, were the job continued from `number`.
    ///
    /// # Errors
    /// When a manifest cannot be read.
    pub fn differs_from_life_at(&self, number: GenerationNumber) -> Result<bool, StoreError> {
        let differs = |manifest: &Manifest| {
            manifest.generations.iter().any(|it| it.number >= number && it.superseded != (it.number > number))
        };
        self.each().try_fold(false, |found, (_, level)| Ok(found || differs(&level.manifest()?)))
    }

    /// Makes a level in memory for the life that begins, below `place`, and has the job's directory name it. What earlier
    /// lives of this job left there goes.
    ///
    /// # Errors
    /// When it cannot be made: the place does not exist, is full, or its owner does not let us.
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

    /// Clears away what a dead writer left half done in memory.
    pub fn clear_leftovers(&self, lease: &Lease) {
        if let Some(memory) = &self.memory {
            memory.level_directory.check_lease(lease.core());
            memory.level_directory.clear_leftovers(memory.manifest().ok().as_ref());
        }
    }

    /// Gives the memory back: the directory names no level any more, then the files go. The place is remembered where the
    /// job is to use it again.
    ///
    /// # Errors
    /// When the directory's manifest cannot be rewritten; the level then stays.
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

/// What an error says about generations that were passed over.
fn skipped_of(error: StoreError) -> Vec<Skipped> {
    match error {
        StoreError::NoneGood { skipped, .. } => skipped,
        _ => Vec::new(),
    }
}

/// Of two errors that which tells more.
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

/// How the names begin of all levels of a job that has this directory.
fn prefix(job: JobId, home: u64) -> String {
    format!("standfast-{job}-{home:x}-")
}

/// Removes the levels of earlier lives of a job. Those of others are not touched.
fn clear_place(place: &Path, prefix: &str) {
    let names = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let ours = names.filter(|name| name.to_str().is_some_and(|name| name.starts_with(prefix)));
    ours.for_each(|name| remove_level(&place.join(name)));
}

/// Removes a level. What cannot be removed costs memory and is tried again when the job begins another one there.
fn remove_level(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

impl JobDirectory {
    /// The level of this job behind a storage backend.
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

    /// Writes the first manifest of a level of the job with this one.
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

    /// Notes where in memory checkpoints go.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_memory(&self, lease: &Lease, memory: Option<MemoryPlace>) -> Result<(), StoreError> {
        self.level_directory.update_manifest(lease.core(), |manifest| manifest.memory = memory).map(drop)
    }
}

impl crate::level_directory::LevelDirectory {
    /// Inode number of the directory.
    fn home_inode(&self) -> Result<u64, StoreError> {
        let status =
            self.storage_backend.status().map_err(|error| StoreError::reading(self.storage_backend.path(), error))?;
        Ok(status.inode)
    }
}
