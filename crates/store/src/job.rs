//! The directory of a job: opening and describing it, and reading and rewriting its manifest.

use crate::lease::{self, HostIdentity, Lease, LeaseRequest, LeaseState, Pulse};
use crate::level_directory::LevelDirectory;
use crate::names::{image_name, is_image_name};
use crate::rates::Encodings;
use crate::trust::check_trusted;
use crate::{Directory, StorageBackend, StoreError, random};
use standfast_format::manifest::{FileEnd, JobDescription, JobId, Manifest, Outcome, RunOptions};
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// The directory of a job. Reading needs nothing else; every write also needs the [`Lease`].
///
/// The threads of a process may share one value: one thread writes a checkpoint while another answers queries.
#[derive(Debug, Clone)]
pub struct JobDirectory {
    pub(crate) level_directory: Arc<LevelDirectory>,
}

impl JobDirectory {
    /// Opens the directory, and creates it (mode 0700) if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] if others own it or can write to it, [`StoreError::StorageBackend`].
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::create(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => StoreError::reading(path, source),
            _ => StoreError::writing(path, source),
        })?;
        Self::on(Arc::new(directory), HostIdentity::observe()?)
    }

    /// Opens an existing directory. [`JobDirectory::manifest`] reports whether it holds a job.
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

    /// Opens the directory of `storage_backend`, as seen from `host_identity`.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`], [`StoreError::StorageBackend`].
    pub fn on(storage_backend: Arc<dyn StorageBackend>, host_identity: HostIdentity) -> Result<Self, StoreError> {
        let status = storage_backend.status().map_err(|error| StoreError::reading(storage_backend.path(), error))?;
        check_trusted(storage_backend.path(), &status, host_identity.user)?;
        Ok(Self::within(Arc::clone(&storage_backend), storage_backend, Arc::new(host_identity)))
    }

    /// Creates a value for `storage_backend`, to be used by the holder of the lease in `home`.
    pub(crate) fn within(
        home: Arc<dyn StorageBackend>,
        storage_backend: Arc<dyn StorageBackend>,
        host_identity: Arc<HostIdentity>,
    ) -> Self {
        let level_directory = LevelDirectory::new(home, storage_backend, host_identity);
        Self { level_directory: Arc::new(level_directory) }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.level_directory.storage_backend.path()
    }

    /// Returns the manifest as first read, as read when the lease was taken, or as last written by this value.
    ///
    /// # Errors
    /// [`StoreError::NoJob`] if there is none; [`StoreError::Manifest`] and others if it cannot be read.
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        self.level_directory.manifest(&mut self.level_directory.known_manifest())
    }

    /// Returns the state of the lease: who supervises the job now.
    ///
    /// # Errors
    /// [`StoreError::StorageBackend`].
    pub fn lease_state(&self) -> Result<LeaseState, StoreError> {
        lease::lease_state(&self.level_directory.storage_backend, &self.level_directory.host_identity)
    }

    /// Takes the lease, removes what a dead writer left half written, and reads the manifest again.
    ///
    /// # Errors
    /// [`StoreError::Supervised`], [`StoreError::ProgramStillRuns`], [`StoreError::HeldElsewhere`],
    /// [`StoreError::HeldByNamesake`], [`StoreError::LeaseUnreadable`], [`StoreError::StorageBackend`].
    pub fn take_lease(&self, lease_request: LeaseRequest) -> Result<Lease, StoreError> {
        self.take_watched_lease(lease_request, None)
    }

    /// Takes a lease from another boot ([`LeaseState::OtherBoot`]), if its heartbeat still equals `watched`.
    ///
    /// # Errors
    /// [`StoreError::HeldByNamesake`] if the heartbeat differs; those of [`JobDirectory::take_lease`].
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

    /// Begins a new job here: writes its first manifest and removes the generations of the previous job.
    ///
    /// # Errors
    /// [`StoreError::NotAnImage`] if a user's file occupies the name of a checkpoint; also if the manifest cannot be
    /// written.
    pub fn begin(&self, lease: &Lease, description: JobDescription, options: RunOptions) -> Result<(), StoreError> {
        let manifest = Manifest::new(JobId::from_bytes(random::bytes()), description, options);
        let mut known = self.level_directory.known_manifest();
        // Every file that the earlier manifest names is ours, whatever its content is now.
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
        // That of an earlier job. No restart depends on it.
        let _ = self.remove_history();
        for name in &named {
            // A file that cannot be removed now becomes a leftover.
            let _ = self.level_directory.storage_backend.remove(name);
        }
        self.level_directory.clear_leftovers(Some(&manifest));
        Ok(())
    }

    /// Records the outcome of the job.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
    pub fn set_outcome(&self, lease: &Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.set_end(lease, outcome, Vec::new(), None)
    }

    /// Records the outcome of the job, when it ended, and the final state of the files that it wrote.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
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

    /// Sets which encodings blocks may use from now on. Before the first call nothing is encoded.
    pub fn set_encodings(&self, encodings: Encodings) {
        self.level_directory.set_encodings(encodings);
    }

    /// Sets how many threads compress and write a generation from now on. Before the first call there is one for each
    /// processor, and at most four.
    pub fn set_writers(&self, writers: NonZeroU32) {
        self.level_directory.rates.set_writers(writers);
    }

    /// Records that the job runs again, with these options.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
    pub fn begin_life(&self, lease: &Lease, options: RunOptions) -> Result<(), StoreError> {
        let begin = |manifest: &mut Manifest| {
            manifest.options = options;
            (manifest.outcome, manifest.ends, manifest.ended_nanoseconds) = (Outcome::Running, Vec::new(), None);
        };
        self.level_directory.update_manifest(lease.core(), begin).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_the_user_counts_as_a_leftover() {
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
