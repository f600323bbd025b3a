//! State of one level of a job that all parts of the store share: its location, its manifest, and the writes in
//! progress.

use crate::lease::{HostIdentity, LeaseCore};
use crate::names::{image_name, is_half_written, is_image_name};
use crate::pool::Pool;
use crate::random::{MANIFEST_STEM, temporary_name};
use crate::rates::{Encodings, Rates};
use crate::trust::open_trusted;
use crate::{StorageBackend, StoreError};
use standfast_format::image::{MAGIC_BYTES, is_image};
use standfast_format::manifest::{
    self, Generation, GenerationNumber, MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, ManifestError,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// State that the clones of a [`crate::JobDirectory`] and the checkpoints in progress share.
#[derive(Debug)]
pub(crate) struct LevelDirectory {
    /// The job's directory, which holds the lease whichever level this is.
    home: Arc<dyn StorageBackend>,
    pub(crate) storage_backend: Arc<dyn StorageBackend>,
    pub(crate) host_identity: Arc<HostIdentity>,
    manifest: Mutex<Option<Manifest>>,
    /// Generations that proved bad, and whether the cause was damage. They do not count as kept.
    bad: Mutex<BTreeMap<GenerationNumber, bool>>,
    /// Whether a checkpoint is being written.
    pub(crate) busy: AtomicBool,
    /// Whether generations are being coalesced.
    pub(crate) coalescing: AtomicBool,
    /// Whether a generation is being copied here from another level.
    pub(crate) flushing: AtomicBool,
    /// The parents of generations in progress, which must stay.
    parents: Mutex<BTreeMap<Slot, GenerationNumber>>,
    /// Buffers that one checkpoint passes on to the next.
    pub(crate) pool: Pool,
    encodings: Mutex<Encodings>,
    /// The speed of the level, and the measured yield of encodings.
    pub(crate) rates: Rates,
    /// Directory in which jobs of this user share saved binaries, if they do.
    pub(crate) shared_binaries: OnceLock<PathBuf>,
}

impl LevelDirectory {
    /// Creates a level whose lease is in `home`.
    pub(crate) fn new(
        home: Arc<dyn StorageBackend>,
        storage_backend: Arc<dyn StorageBackend>,
        host_identity: Arc<HostIdentity>,
    ) -> Self {
        Self {
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
        }
    }

    /// Sets which encodings blocks may use from now on.
    pub(crate) fn set_encodings(&self, encodings: Encodings) {
        *self.encodings.lock().unwrap_or_else(PoisonError::into_inner) = encodings;
    }

    /// Asserts that the lease belongs to this directory.
    pub(crate) fn check_lease(&self, lease: &LeaseCore) {
        assert!(lease.is_of(&self.home), "the lease is that of this directory");
    }

    /// Returns which encodings blocks may use.
    pub(crate) fn encodings(&self) -> Encodings {
        *self.encodings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the parent of the generation in progress.
    pub(crate) fn set_parent(&self, slot: Slot, parent: Option<GenerationNumber>) {
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        match parent {
            Some(parent) => parents.insert(slot, parent),
            None => parents.remove(&slot),
        };
    }

    /// Returns the parents of generations in progress.
    pub(crate) fn parents(&self) -> Vec<GenerationNumber> {
        self.parents.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    /// Returns the full path of a file, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.storage_backend.path().join(name)
    }

    pub(crate) fn read_manifest(&self) -> Result<Manifest, StoreError> {
        let path = self.path_of(MANIFEST_NAME);
        let (file, status) = match open_trusted(&*self.storage_backend, MANIFEST_NAME, self.host_identity.user) {
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

    /// Changes the manifest on disk and in memory, if the change has any effect. Returns the current manifest.
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

    /// Replaces the manifest. After an error the directory may have the old or the new one; memory then has the one
    /// that the directory shows.
    pub(crate) fn write_manifest(
        &self,
        lease: &LeaseCore,
        known: &mut KnownManifest<'_>,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.check_lease(lease);
        let path = self.path_of(MANIFEST_NAME);
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
        if let Err(error) = complete.and_then(|()| self.storage_backend.rename(&temporary, MANIFEST_NAME)) {
            // The next holder of the lease removes the file if this fails.
            let _ = self.storage_backend.remove(&temporary);
            return Err(error);
        }
        self.storage_backend.sync()
    }

    /// Removes half-written files and images that the manifest does not name, but no file of the user's. If the
    /// manifest is unreadable, all images stay, since it is unknown which of them it names.
    pub(crate) fn clear_leftovers(&self, manifest: Option<&Manifest>) {
        let generations = manifest.map(|manifest| &manifest.generations);
        let is_named = |name: &str| generations.is_none_or(|all| all.iter().any(|it| image_name(it) == name));
        let leftover =
            |name: &str| is_half_written(name) || (is_image_name(name) && !is_named(name) && self.is_image(name));
        // Leftovers only cost space: a removal that fails is tried again next time.
        for name in self.storage_backend.list().unwrap_or_default().iter().filter(|name| leftover(name)) {
            let _ = self.storage_backend.remove(name);
        }
        // The tails of generations in memory are kept here too.
        let may_be = |manifest: &Manifest, number| manifest.memory.is_some() || manifest.generation(number).is_some();
        self.clear_tails(|number| manifest.is_none_or(|manifest| may_be(manifest, number)));
    }

    /// Reports whether a file is an image, even a damaged one. A foreign file of the same name begins with other bytes.
    pub(crate) fn is_image(&self, name: &str) -> bool {
        let mut beginning = [0; MAGIC_BYTES];
        let read = self.storage_backend.open(name).and_then(|file| file.read_at(&mut beginning, 0));
        read.is_ok() && is_image(beginning)
    }

    /// Reports whether the file of a generation exists and has the expected length.
    pub(crate) fn has_image(&self, generation: &Generation) -> bool {
        let status = self.storage_backend.open(&image_name(generation)).and_then(|file| file.status());
        status.is_ok_and(|status| status.bytes == generation.file_bytes)
    }

    /// Reports whether the manifest may name a generation. After a failed write only the directory shows which manifest
    /// is current, and an unreadable one may name it.
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

/// The manifest as this process knows it, locked against all other threads of the process.
pub(crate) type KnownManifest<'a> = MutexGuard<'a, Option<Manifest>>;

/// The purpose for which a file is written. Only one file of each kind is written at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// A new generation.
    Checkpoint,
    /// A generation that is becoming full.
    Coalescing,
    /// A generation that is being copied from another level.
    Flushing,
}

impl Slot {
    pub(crate) fn of(self, level_directory: &LevelDirectory) -> &AtomicBool {
        match self {
            Self::Checkpoint => &level_directory.busy,
            Self::Coalescing => &level_directory.coalescing,
            Self::Flushing => &level_directory.flushing,
        }
    }
}
