//! Read-only access for root to another user's job. Root trusts nothing in the directory, follows no link out of it,
//! and writes nothing. It does not even write the file from which the owner learns the time of a file server. Only the
//! owner can restart such a job or change anything about it.
//!
//! Files must belong to the owner of the directory, and nobody else may be able to write them: the owner trusts them on
//! the same terms. The decoders are pure and bounded, but their bounds suit the largest machines. A guest reads less.

use crate::job::JobDirectory;
use crate::{Directory, FileStatus, HostIdentity, LockGuard, StorageBackend, StorageFile, StoreError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum bytes of tables and state of an image that a guest reads. A job of 1 TiB has about a quarter of that. More
/// would only serve to exhaust the guest's memory.
pub(crate) const TAIL_BYTES_MAX: u64 = 1 << 30;

const ROOT: u32 = 0;

impl JobDirectory {
    /// Opens a directory to inspect the job in it. Root may open another user's directory; the returned value then
    /// cannot write anything.
    ///
    /// # Errors
    /// As for [`JobDirectory::open`].
    pub fn look(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::NoDirectory(path.to_owned()),
            _ => StoreError::reading(path, source),
        })?;
        let owner = directory.status().map_err(|source| StoreError::reading(path, source))?.owner;
        let host_identity = HostIdentity::observe()?;
        if host_identity.user != ROOT || owner == ROOT {
            return Self::on(Arc::new(directory), host_identity);
        }
        Self::on(Arc::new(ReadOnly(directory)), HostIdentity { user: owner, is_guest: true, ..host_identity })
    }

    /// Reports whether the job belongs to another user and can only be inspected.
    pub fn is_of_another_user(&self) -> bool {
        self.level_directory.host_identity.is_guest
    }
}

/// A directory through which nothing can be changed.
#[derive(Debug)]
pub(crate) struct ReadOnly(pub(crate) Directory);

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user and is open for reading only"))
}

impl StorageBackend for ReadOnly {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn StorageFile>> {
        refused()
    }

    fn append(&self, _: &str, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        // The file is opened for reading only.
        self.0.open(name)
    }

    fn status(&self) -> io::Result<FileStatus> {
        self.0.status()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn link(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn lock(&self, _: &str) -> io::Result<Box<dyn LockGuard>> {
        refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseRequest, Purpose};

    #[test]
    fn a_guest_reads_and_changes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job");
        let directory = JobDirectory::create(&path).unwrap();
        let lease_request = LeaseRequest { purpose: Purpose::Live, force: true };
        let lease = directory.take_lease(lease_request).unwrap();
        directory.begin(&lease, Default::default(), Default::default()).unwrap();
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        let guest = HostIdentity { is_guest: true, ..HostIdentity::observe().unwrap() };
        let looked_at = JobDirectory::on(Arc::new(ReadOnly(Directory::open(&path).unwrap())), guest).unwrap();
        assert_eq!(looked_at.manifest().unwrap(), directory.manifest().unwrap());
        looked_at.lease_state().unwrap();
        assert!(looked_at.take_lease(lease_request).is_err() && looked_at.is_of_another_user());
        assert_eq!(names(), before);
    }
}
