//! The directory of a job: opened, described, its manifest read and rewritten.

use crate::encode::{Encodings, Rates};
use crate::lease::{self, HostIdentity, Lease, LeaseCore, LeaseRequest, LeaseState, Pulse};
use crate::prepare::{Pool, Slot};
use crate::random::{CLOCK_STEM, LEASE_STEM, MANIFEST_STEM, temporary_name, temporary_stem};
use crate::saved_binaries::is_saved_binary;
use crate::trust::{check_trusted, open_trusted};
use crate::{Directory, StorageBackend, StoreError, random};
use standfast_format::image::{MAGIC_BYTES, is_image};
use standfast_format::manifest::{
    self, FileEnd, Generation, GenerationNumber, JobDescription, JobId, MANIFEST_BYTES_MAX, Manifest, ManifestError,
    Outcome, RunOptions,
};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const MANIFEST: &str = "manifest";

/// The directory of a job. Reading needs no more than this; whatever writes also takes the [`Lease`].
///
/// One value may be shared by the threads of a process: a checkpoint is written on one while another answers questions.
#[derive(Debug, Clone)]
pub struct JobDirectory {
    pub(crate) level_directory: Arc<LevelDirectory>,
}

impl JobDirectory {
    /// Opens the directory, which is created (mode 0700) where it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] when others own it or may write it, [`StoreError::StorageBackend`].
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::create(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => StoreError::reading(path, source),
            _ => StoreError::writing(path, source),
        })?;
        Self::on(Arc::new(directory), HostIdentity::observe()?)
    }

    /// Opens a directory that exists. Whether there is a job in it, [`JobDirectory::manifest`] tells.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`], [`StoreError::Untrusted`], [`StoreError::StorageBackend`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::NoDirectory(path.to_owned()),
            _ => StoreError::reading(path, source),
        })?;
        Self::on(Arc::new(directory), HostIdentity::observe()?)
    }

    /// Opens whatever stands behind `storage_backend`, as seen from `host_identity`.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`], [`StoreError::StorageBackend`].
    pub fn on(storage_backend: Arc<dyn StorageBackend>, host_identity: HostIdentity) -> Result<Self, StoreError> {
        let status = storage_backend.status().map_err(|error| StoreError::reading(storage_backend.path(), error))?;
        check_trusted(storage_backend.path(), &status, host_identity.user)?;
        Ok(Self::within(Arc::clone(&storage_backend), storage_backend, Arc::new(host_identity)))
    }

    /// What stands behind `storage_backend`, for whoever holds the lease that lies in `home`.
    pub(crate) fn within(
        home: Arc<dyn StorageBackend>,
        storage_backend: Arc<dyn StorageBackend>,
        host_identity: Arc<HostIdentity>,
    ) -> Self {
        let level_directory = LevelDirectory {
            home,
            storage_backend,
            host_identity,
            manifest: Mutex::new(None),
            bad: Mutex::new(BTreeMap::new()),
            busy: AtomicBool::new(false),
            coalescing: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            parents: Mutex::new(BTreeMap::new()),
            pool: Pool::default(),
            encodings: Mutex::default(),
            rates: Rates::default(),
            shared_binaries: OnceLock::new(),
        };
        Self { level_directory: Arc::new(level_directory) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.level_directory.storage_backend.path()
    }

    /// The manifest as it was when first asked for, when the lease was taken, or when this value last wrote it.
    ///
    /// # Errors
    /// [`StoreError::NoJob`] where there is none; [`StoreError::Manifest`] and others where it cannot be read.
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        self.level_directory.manifest(&mut self.level_directory.known_manifest())
    }

    /// Who supervises the job now.
    ///
    /// # Errors
    /// [`StoreError::StorageBackend`].
    pub fn lease_state(&self) -> Result<LeaseState, StoreError> {
        lease::lease_state(&self.level_directory.storage_backend, &self.level_directory.host_identity)
    }

    /// Takes the lease, clears away what a dead writer left half done and reads the manifest again.
    ///
    /// # Errors
    /// [`StoreError::Supervised`], [`StoreError::ProgramStillRuns`], [`StoreError::HeldElsewhere`], [`StoreError::HeldByNamesake`],
    /// [`StoreError::LeaseUnreadable`], [`StoreError::StorageBackend`].
    pub fn take_lease(&self, lease_request: LeaseRequest) -> Result<Lease, StoreError> {
        self.take_watched_lease(lease_request, None)
    }

    /// The same of a lease that was taken in another boot ([`LeaseState::OtherBoot`]), if its heartbeat still is `watched`.
    ///
    /// # Errors
    /// [`StoreError::HeldByNamesake`] if it is not; those of [`JobDirectory::take_lease`].
    pub fn take_watched_lease(
        &self,
        lease_request: LeaseRequest,
        watched: Option<&Pulse>,
    ) -> Result<Lease, StoreError> {
        let lease = Lease::take(
            Arc::clone(&self.level_directory.storage_backend),
            Arc::clone(&self.level_directory.host_identity),
            lease_request,
            watched,
        )?;
        let manifest = self.level_directory.read_manifest().ok();
        self.level_directory.clear_leftovers(manifest.as_ref());
        *self.level_directory.known_manifest() = manifest;
        Ok(lease)
    }

    /// Begins a new job here: writes a first manifest and removes the generations of a job that was here before.
    ///
    /// # Errors
    /// [`StoreError::NotAnImage`] where a file of the user's has the name of a checkpoint; when the manifest cannot be written.
    pub fn begin(&self, lease: &Lease, description: JobDescription, options: RunOptions) -> Result<(), StoreError> {
        let manifest = Manifest::new(JobId::from_bytes(random::bytes()), description, options);
        let mut known = self.level_directory.known_manifest();
        // What an earlier manifest names is ours whatever has become of it.
        let named: Vec<String> = known.iter().flat_map(|earlier| &earlier.generations).map(image_name).collect();
        let names =
            self.level_directory.storage_backend.list().map_err(|error| StoreError::reading(self.path(), error))?;
        let is_foreign =
            |name: &&String| is_image_name(name) && !named.contains(name) && !self.level_directory.is_image(name);
        if let Some(foreign) = names.iter().find(is_foreign) {
            return Err(StoreError::NotAnImage(self.level_directory.path_of(foreign)));
        }
        self.level_directory.write_manifest(lease.core(), &mut known, &manifest)?;
        drop(known);
        for name in &named {
            // What cannot be removed now is a leftover from now on.
            let _ = self.level_directory.storage_backend.remove(name);
        }
        self.level_directory.clear_leftovers(Some(&manifest));
        Ok(())
    }

    /// Notes how the job stands.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_outcome(&self, lease: &Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.set_end(lease, outcome, Vec::new(), None)
    }

    /// Notes how the job ended, and how the files stood then that it wrote.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_end(
        &self,
        lease: &Lease,
        outcome: Outcome,
        ends: Vec<FileEnd>,
        ended_nanoseconds: Option<i64>,
    ) -> Result<(), StoreError> {
        let set = |manifest: &mut Manifest| {
            (manifest.outcome, manifest.ends) = (outcome, ends);
            manifest.ended_nanoseconds = ended_nanoseconds;
        };
        self.level_directory.update_manifest(lease.core(), set).map(drop)
    }

    /// Says how blocks may be encoded that are written from now on; nothing is encoded before that.
    pub fn set_encodings(&self, encodings: Encodings) {
        *self.level_directory.encodings.lock().unwrap_or_else(PoisonError::into_inner) = encodings;
    }

    /// Notes other options of the run.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn set_options(&self, lease: &Lease, options: RunOptions) -> Result<(), StoreError> {
        self.level_directory.update_manifest(lease.core(), |manifest| manifest.options = options).map(drop)
    }
}

/// What the clones of a [`JobDirectory`] and the checkpoints in the making share.
#[derive(Debug)]
pub(crate) struct LevelDirectory {
    /// Where the lease lies: in the job's directory, whichever level this is.
    home: Arc<dyn StorageBackend>,
    pub(crate) storage_backend: Arc<dyn StorageBackend>,
    pub(crate) host_identity: Arc<HostIdentity>,
    manifest: Mutex<Option<Manifest>>,
    /// Generations that proved to be bad, and whether by damage: they do not count as kept.
    bad: Mutex<BTreeMap<GenerationNumber, bool>>,
    /// Whether a generation is in the making.
    pub(crate) busy: AtomicBool,
    /// Whether generations are being coalesced.
    pub(crate) coalescing: AtomicBool,
    /// Whether a generation is being copied to here from another level.
    pub(crate) flushing: AtomicBool,
    /// The parents of generations in the making, which must stay.
    parents: Mutex<BTreeMap<Slot, GenerationNumber>>,
    /// Buffers that one checkpoint leaves to the next.
    pub(crate) pool: Pool,
    encodings: Mutex<Encodings>,
    /// How fast the level is, and what encodings come to.
    pub(crate) rates: Rates,
    /// Where jobs of this user share the binaries that they save, if they do.
    pub(crate) shared_binaries: OnceLock<PathBuf>,
}

impl LevelDirectory {
    /// That the lease is the one under which this is written.
    pub(crate) fn check_lease(&self, lease: &LeaseCore) {
        assert!(lease.is_of(&self.home), "the lease is that of this directory");
    }

    /// How blocks may be encoded.
    pub(crate) fn encodings(&self) -> Encodings {
        *self.encodings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes upon which generation the one in the making builds.
    pub(crate) fn set_parent(&self, slot: Slot, parent: Option<GenerationNumber>) {
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        match parent {
            Some(parent) => parents.insert(slot, parent),
            None => parents.remove(&slot),
        };
    }

    /// The parents of generations in the making.
    pub(crate) fn parents(&self) -> Vec<GenerationNumber> {
        self.parents.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    /// Full path of a file, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.storage_backend.path().join(name)
    }

    pub(crate) fn read_manifest(&self) -> Result<Manifest, StoreError> {
        let path = self.path_of(MANIFEST);
        let (file, status) = match open_trusted(&*self.storage_backend, MANIFEST, self.host_identity.user) {
            Err(StoreError::StorageBackend { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NoJob(self.storage_backend.path().to_owned()));
            }
            other => other?,
        };
        let length = usize::try_from(status.bytes).unwrap_or(usize::MAX);
        if length > MANIFEST_BYTES_MAX {
            return Err(StoreError::Manifest { path, source: ManifestError::TooLong(length) });
        }
        let mut bytes = vec![0; length];
        file.read_at(&mut bytes, 0).map_err(|error| StoreError::reading(&path, error))?;
        manifest::unseal(&bytes).map_err(|source| StoreError::Manifest { path, source })
    }

    pub(crate) fn manifest(&self, known: &mut KnownManifest<'_>) -> Result<Manifest, StoreError> {
        if known.is_none() {
            **known = Some(self.read_manifest()?);
        }
        Ok(known.clone().expect("it has just been read"))
    }

    /// Changes the manifest, on the disk and in memory, unless the change leaves it as it was. Returns what it is now.
    pub(crate) fn update_manifest(
        &self,
        lease: &LeaseCore,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<Manifest, StoreError> {
        let mut known = self.known_manifest();
        let before = self.manifest(&mut known)?;
        let mut manifest = before.clone();
        change(&mut manifest);
        if manifest != before {
            self.write_manifest(lease, &mut known, &manifest)?;
        }
        Ok(manifest)
    }

    /// Replaces the manifest. After an error it may be the old one or the new; memory then has whichever the directory
    /// shows.
    pub(crate) fn write_manifest(
        &self,
        lease: &LeaseCore,
        known: &mut KnownManifest<'_>,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.check_lease(lease);
        let path = self.path_of(MANIFEST);
        let sealed = manifest::seal(manifest).map_err(|source| StoreError::Manifest { path: path.clone(), source })?;
        let replace = || self.replace_manifest(&sealed).map_err(|error| StoreError::writing(&path, error));
        let written = lease.guarding(replace);
        **known = match &written {
            Ok(()) => Some(manifest.clone()),
            Err(_) => self.read_manifest().ok(),
        };
        written
    }

    fn replace_manifest(&self, sealed: &[u8]) -> io::Result<()> {
        let temporary = temporary_name(MANIFEST_STEM);
        let file = self.storage_backend.create(&temporary)?;
        let complete = file.write_at(sealed, 0).and_then(|()| file.sync());
        if let Err(error) = complete.and_then(|()| self.storage_backend.rename(&temporary, MANIFEST)) {
            // What cannot be removed now, the next holder of the lease removes.
            let _ = self.storage_backend.remove(&temporary);
            return Err(error);
        }
        self.storage_backend.sync()
    }

    /// Removes half-written files and images that the manifest does not name, and nothing of the user's. Without a manifest that can be read
    /// nobody knows which images those are, so all stay.
    pub(crate) fn clear_leftovers(&self, manifest: Option<&Manifest>) {
        let generations = manifest.map(|manifest| &manifest.generations);
        let is_named = |name: &str| generations.is_none_or(|all| all.iter().any(|it| image_name(it) == name));
        let leftover =
            |name: &str| is_half_written(name) || (is_image_name(name) && !is_named(name) && self.is_image(name));
        // Leftovers cost room and nothing else: what cannot be removed is tried again next time.
        for name in self.storage_backend.list().unwrap_or_default().iter().filter(|name| leftover(name)) {
            let _ = self.storage_backend.remove(name);
        }
        // Those of generations in memory are kept here too.
        let may_be = |manifest: &Manifest, number| manifest.memory.is_some() || manifest.generation(number).is_some();
        self.clear_tails(|number| manifest.is_none_or(|manifest| may_be(manifest, number)));
    }

    /// Whether a file is an image, or was before it was damaged. What others have given such a name begins otherwise.
    fn is_image(&self, name: &str) -> bool {
        let mut beginning = [0; MAGIC_BYTES];
        let read = self.storage_backend.open(name).and_then(|file| file.read_at(&mut beginning, 0));
        read.is_ok() && is_image(beginning)
    }

    /// Whether the file of a generation is there, as long as it should be.
    pub(crate) fn has_image(&self, generation: &Generation) -> bool {
        let status = self.storage_backend.open(&image_name(generation)).and_then(|file| file.status());
        status.is_ok_and(|status| status.bytes == generation.file_bytes)
    }

    /// Whether the manifest names a generation, for all that is known: after a failed write only the directory tells which
    /// manifest it is, and one that cannot be read may name it.
    pub(crate) fn may_name(&self, number: GenerationNumber) -> bool {
        self.known_manifest().as_ref().is_none_or(|manifest| manifest.generation(number).is_some())
    }

    pub(crate) fn bad_generations(&self) -> MutexGuard<'_, BTreeMap<GenerationNumber, bool>> {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_manifest(&self) -> KnownManifest<'_> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The manifest as this process knows it, while nobody else in this process reads or changes it.
pub(crate) type KnownManifest<'a> = MutexGuard<'a, Option<Manifest>>;

const IMAGE_PREFIX: &str = "generation-";
const IMAGE_SUFFIX: &str = ".image";

/// The name of the file that holds a generation.
pub(crate) fn image_name(generation: &Generation) -> String {
    image_name_of(generation.number, generation.revision)
}

/// The name of the file of a generation that has been coalesced `revision` times.
pub(crate) fn image_name_of(number: GenerationNumber, revision: u32) -> String {
    let stem = image_stem(number);
    if revision == 0 { format!("{stem}{IMAGE_SUFFIX}") } else { format!("{stem}.{revision}{IMAGE_SUFFIX}") }
}

/// How the names of all files begin that belong to a generation.
pub(crate) fn image_stem(number: GenerationNumber) -> String {
    format!("{IMAGE_PREFIX}{:08}", number.get())
}

/// Whether [`image_name`] gives such names: serves clearing up only, never to find out which generations there are.
pub(crate) fn is_image_name(name: &str) -> bool {
    let parts = || {
        let stem = name.strip_prefix(IMAGE_PREFIX)?.strip_suffix(IMAGE_SUFFIX)?;
        let (number, revision) = stem.split_once('.').unwrap_or((stem, "0"));
        Some((GenerationNumber::new(number.parse().ok()?)?, revision.parse().ok()?))
    };
    parts().is_some_and(|(number, revision)| image_name_of(number, revision) == name)
}

/// Whether the store names files so before they are complete.
pub(crate) fn is_half_written(name: &str) -> bool {
    let is_ours = |stem: &str| {
        [LEASE_STEM, CLOCK_STEM, MANIFEST_STEM].contains(&stem) || is_image_name(stem) || is_saved_binary(stem)
    };
    temporary_stem(name).is_some_and(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_store_gives_are_taken_for_generations() {
        for number in [1, 42, 99_999_999, 123_456_789_012] {
            let number = GenerationNumber::new(number).unwrap();
            assert!((0..3).all(|revision| is_image_name(&image_name_of(number, revision))));
        }
        for name in [
            "generation-1.image",
            "generation-00000000.image",
            "generation-.image",
            "generation-+0000001.image",
            "generation-00000001.0.image",
            "generation-00000001.01.image",
            "generation-00000001.1.1.image",
        ] {
            assert!(!is_image_name(name), "{name}");
        }
    }

    #[test]
    fn of_the_users_files_none_is_taken_for_a_leftover() {
        let place = tempfile::tempdir().unwrap();
        let token = crate::random_token();
        let ours = [
            format!("lease.{token}.tmp"),
            format!("clock.{token}.tmp"),
            format!("manifest.{token}.tmp"),
            format!("generation-00000001.image.{token}.tmp"),
            format!("generation-00000001.2.image.{token}.tmp"),
            format!("keepsake-{token}-libc.so.6.{token}.tmp"),
        ];
        let theirs = [
            "thesis.tmp".to_owned(),
            "manifest.tmp".to_owned(),
            ".tmp".to_owned(),
            format!("thesis.{token}.tmp"),
            format!("keepsake-{token}.tmp"),
            format!("generation-1.image.{token}.tmp"),
        ];
        for name in ours.iter().chain(&theirs) {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        let directory = JobDirectory::create(place.path()).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: crate::Purpose::Live, force: false }).unwrap();
        directory.begin(&lease, JobDescription::default(), RunOptions::default()).unwrap();
        lease.release().unwrap();
        assert!(ours.iter().all(|name| !place.path().join(name).exists()));
        assert!(theirs.iter().all(|name| place.path().join(name).exists()));
    }
}
