//! Removes a job that is no longer needed: everything that the store put into the directory, and nothing else. First
//! the manifest drops all generations, then the images go. The manifest and the lease go last.

use crate::lease::{LEASE, LOCK};
use crate::names::{EARLIER_HISTORY, HISTORY, is_half_written, is_image_name, is_saved_binary};
use crate::shared_binaries::SharedBinaries;
use crate::tails::is_tail;
use crate::{JobDirectory, Lease, LeaseRequest, StoreError};
use standfast_format::manifest::MANIFEST_NAME;
use std::sync::Arc;

/// The content of a job's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holdings {
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Bytes that their removal frees. Binaries shared with other jobs do not count.
    pub bytes: u64,
}

/// The result of removing a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Names that do not belong to Standfast. The directory stays because of them.
    pub left: Vec<String>,
}

impl JobDirectory {
    /// Returns how much [`JobDirectory::remove_checkpoints`] would remove from the directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn holdings(&self) -> Result<Holdings, StoreError> {
        let shared = self.level_directory.shared_binaries.get().and_then(|place| SharedBinaries::find(place));
        let mut holdings = Holdings::default();
        for name in self.names()?.iter().filter(|name| is_kept(name)) {
            let Ok(status) = self.level_directory.storage_backend.open(name).and_then(|file| file.status()) else {
                continue;
            };
            holdings.checkpoints += u64::from(is_image_name(name));
            let is_shared = is_saved_binary(name)
                && status.links > 1
                && !shared.as_ref().is_some_and(|shared| shared.has_only_one_job(name, &status));
            holdings.bytes += if is_shared { 0 } else { status.bytes };
        }
        Ok(holdings)
    }

    /// Removes all checkpoints and everything kept beside them: the saved binaries and the tails of files. The manifest
    /// still records the job and how it ended.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten; the checkpoints then stay.
    pub fn remove_checkpoints(&self, lease: &Lease) -> Result<(), StoreError> {
        self.level_directory.update_manifest(lease.core(), |manifest| manifest.generations.clear())?;
        self.remove_kept()
    }

    /// Checks whether the lease could be taken, without taking it.
    ///
    /// # Errors
    /// As for [`JobDirectory::take_lease`].
    pub fn would_grant(&self, lease_request: LeaseRequest) -> Result<(), StoreError> {
        crate::lease::would_grant(
            &self.level_directory.storage_backend,
            &self.level_directory.host_identity,
            lease_request,
        )
    }

    /// Returns the names in the directory that are neither the store's nor among `others`.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn foreign_names(&self, others: &[&str]) -> Result<Vec<String>, StoreError> {
        let is_ours = |name: &String| {
            [MANIFEST_NAME, HISTORY, EARLIER_HISTORY, LEASE, LOCK].contains(&name.as_str())
                || others.contains(&name.as_str())
                || is_kept(name)
                || is_half_written(name)
        };
        Ok(self.names()?.into_iter().filter(|name| !is_ours(name)).collect())
    }

    /// Removes the job: its checkpoints, all other files of the store, the files named in `others`, and finally the
    /// directory, if it is then empty.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn remove_job(&self, lease: Lease, others: &[&str]) -> Result<Cleaned, StoreError> {
        match self.remove_checkpoints(&lease) {
            // An unreadable manifest names no checkpoints.
            Err(StoreError::Manifest { .. } | StoreError::NoJob(_)) => self.remove_kept()?,
            other => other?,
        }
        let storage_backend = &self.level_directory.storage_backend;
        let ours = self.names()?.into_iter().filter(|name| others.contains(&name.as_str()) || is_half_written(name));
        for name in ours.chain([MANIFEST_NAME.to_owned()]) {
            remove(storage_backend, &name)
                .map_err(|error| StoreError::writing(&self.level_directory.path_of(&name), error))?;
        }
        self.remove_history()?;
        lease.release()?;
        remove(storage_backend, LOCK)
            .map_err(|error| StoreError::writing(&self.level_directory.path_of(LOCK), error))?;
        let left = self.foreign_names(others)?;
        if left.is_empty() {
            // Somebody may meanwhile have begun another job in it, or use it as a working directory.
            let _ = std::fs::remove_dir(self.path());
        }
        Ok(Cleaned { left })
    }

    fn remove_kept(&self) -> Result<(), StoreError> {
        for name in self.names()?.iter().filter(|name| is_kept(name)) {
            remove(&self.level_directory.storage_backend, name)
                .map_err(|error| StoreError::writing(&self.level_directory.path_of(name), error))?;
        }
        self.level_directory.storage_backend.sync().map_err(|error| StoreError::writing(self.path(), error))?;
        let shared = self.level_directory.shared_binaries.get().and_then(|place| SharedBinaries::find(place));
        shared.iter().for_each(SharedBinaries::sweep);
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.level_directory.storage_backend.list().map_err(|error| StoreError::reading(self.path(), error))
    }
}

fn remove(storage_backend: &Arc<dyn crate::StorageBackend>, name: &str) -> std::io::Result<()> {
    match storage_backend.remove(name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn is_kept(name: &str) -> bool {
    is_image_name(name) || is_tail(name) || is_saved_binary(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use std::path::Path;

    const LIVE: LeaseRequest = LeaseRequest { purpose: Purpose::Live, force: false };

    fn job(path: &Path) -> (JobDirectory, Lease) {
        let directory = JobDirectory::create(path).unwrap();
        let lease = directory.take_lease(LIVE).unwrap();
        directory.begin(&lease, Default::default(), Default::default()).unwrap();
        let half_written = crate::random::temporary_name("lease");
        for name in ["generation-00000001.image", "generation-00000001.tail-01-log", &half_written] {
            std::fs::write(path.join(name), "1234").unwrap();
        }
        (directory, lease)
    }

    #[test]
    fn removing_a_job_removes_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job");
        let (directory, lease) = job(&path);
        assert_eq!(directory.holdings().unwrap(), Holdings { checkpoints: 1, bytes: 8 });
        assert_eq!(directory.remove_job(lease, &[]).unwrap(), Cleaned::default());
        assert!(!path.exists());
    }

    #[test]
    fn files_of_others_stay_in_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job");
        let (directory, lease) = job(&path);
        for name in ["mine.tmp", "generation-of-people.image", "control"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        let mut cleaned = directory.remove_job(lease, &["control"]).unwrap();
        cleaned.left.sort();
        assert_eq!(cleaned.left, ["generation-of-people.image", "mine.tmp"]);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
    }

    #[test]
    fn a_job_without_checkpoints_keeps_its_manifest() {
        let place = tempfile::tempdir().unwrap();
        let (directory, lease) = job(&place.path().join("job"));
        let known = directory.manifest().unwrap();
        directory.remove_checkpoints(&lease).unwrap();
        assert_eq!(directory.holdings().unwrap(), Holdings::default());
        assert_eq!(JobDirectory::open(directory.path()).unwrap().manifest().unwrap(), known);
        assert!(directory.would_grant(LIVE).is_err(), "it is held");
    }
}
