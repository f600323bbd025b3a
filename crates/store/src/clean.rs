//! What a job keeps, and its removal when nobody needs it any more: all that the store has put into the directory, and
//! nothing else. First the manifest names no generation any more, then the images go, the manifest and the lease last.

use crate::lease::{LEASE, LOCK};
use crate::names::{MANIFEST, is_half_written, is_image_name, is_saved_binary};
use crate::shared_binaries::SharedBinaries;
use crate::tails::is_tail;
use crate::{JobDirectory, Lease, LeaseRequest, StoreError};
use std::path::Path;
use std::sync::Arc;

/// What the directory of a job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holdings {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes that their removal gives back. Binaries that other jobs share do not count.
    pub bytes: u64,
}

/// What has become of a directory that was cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Names in it that are none of Standfast's; it stays because of them.
    pub left: Vec<String>,
}

impl JobDirectory {
    /// How much there is in the directory that [`JobDirectory::remove_checkpoints`] removes.
    ///
    /// # Errors
    /// When the directory cannot be read.
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

    /// Removes all checkpoints, with what was kept beside them: the binaries, and what was cut off files. That there was a
    /// job, and how it ended, remains known.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten; the checkpoints then stay.
    pub fn remove_checkpoints(&self, lease: &Lease) -> Result<(), StoreError> {
        self.level_directory.update_manifest(lease.core(), |manifest| manifest.generations.clear())?;
        self.remove_kept()
    }

    /// Whether the lease could be had, without taking it.
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

    /// Names in the directory that are neither the store's nor among `others`.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn foreign_names(&self, others: &[&str]) -> Result<Vec<String>, StoreError> {
        let is_ours = |name: &String| {
            [MANIFEST, LEASE, LOCK].contains(&name.as_str())
                || others.contains(&name.as_str())
                || is_kept(name)
                || is_half_written(name)
        };
        Ok(self.names()?.into_iter().filter(|name| !is_ours(name)).collect())
    }

    /// Removes the job: its checkpoints, then everything that the store has put into the directory and what is named in
    /// `others`, then the directory itself, if nothing else is in it.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_job(&self, lease: Lease, others: &[&str]) -> Result<Cleaned, StoreError> {
        match self.remove_checkpoints(&lease) {
            // What cannot be read names no checkpoints.
            Err(StoreError::Manifest { .. } | StoreError::NoJob(_)) => self.remove_kept()?,
            other => other?,
        }
        let storage_backend = &self.level_directory.storage_backend;
        let ours = self.names()?.into_iter().filter(|name| others.contains(&name.as_str()) || is_half_written(name));
        for name in ours.chain([MANIFEST.to_owned()]) {
            remove(storage_backend, &name)
                .map_err(|error| StoreError::writing(&self.level_directory.path_of(&name), error))?;
        }
        lease.release()?;
        remove(storage_backend, LOCK)
            .map_err(|error| StoreError::writing(&self.level_directory.path_of(LOCK), error))?;
        let left = self.foreign_names(others)?;
        if left.is_empty() {
            // Somebody may have begun another job in it by now, or work there.
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

/// Removes the binaries in `place` that no job shares any more.
pub fn sweep_shared_binaries(place: &Path) {
    SharedBinaries::find(place).iter().for_each(SharedBinaries::sweep);
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
    fn a_job_goes_with_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job");
        let (directory, lease) = job(&path);
        assert_eq!(directory.holdings().unwrap(), Holdings { checkpoints: 1, bytes: 8 });
        assert_eq!(directory.remove_job(lease, &[]).unwrap(), Cleaned::default());
        assert!(!path.exists());
    }

    #[test]
    fn what_is_none_of_ours_stays() {
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
    fn without_its_checkpoints_a_job_is_still_known() {
        let place = tempfile::tempdir().unwrap();
        let (directory, lease) = job(&place.path().join("job"));
        let known = directory.manifest().unwrap();
        directory.remove_checkpoints(&lease).unwrap();
        assert_eq!(directory.holdings().unwrap(), Holdings::default());
        assert_eq!(JobDirectory::open(directory.path()).unwrap().manifest().unwrap(), known);
        assert!(directory.would_grant(LIVE).is_err(), "it is held");
    }
}
