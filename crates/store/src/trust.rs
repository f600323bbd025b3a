//! Decides whether a file can be trusted. An image becomes a running program, so nobody else may have written it.

use crate::{Directory, FileStatus, StorageBackend, StorageFile, StoreError};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

/// Rejects files and directories that belong to another user or that others can write to.
pub(crate) fn check_trusted(path: &Path, status: &FileStatus, user: u32) -> Result<(), StoreError> {
    let untrusted = |fault, hint| Err(StoreError::Untrusted { path: path.to_owned(), fault, hint });
    if status.owner != user {
        return untrusted(
            format!("it belongs to user {}, not to user {user} who runs this", status.owner),
            format!("run this as user {}, or copy the directory", status.owner),
        );
    }
    if status.mode & 0o022 != 0 {
        return untrusted(
            format!("others may write it (mode {:o})", status.mode),
            "if you are sure that nobody has, run chmod go-w on it".into(),
        );
    }
    Ok(())
}

/// Opens a directory that does not hold a single job, such as one of `standfast group`, under the rules for a job's
/// directory.
///
/// # Errors
/// [`StoreError::Untrusted`] if others own it, can write to it or have redirected the path;
/// [`StoreError::StorageBackend`].
pub fn open_directory(path: &Path) -> Result<Directory, StoreError> {
    checked(path, Directory::open(path).map_err(|source| StoreError::reading(path, source))?)
}

/// Opens such a directory, and creates it (mode 0700) if there is none.
///
/// # Errors
/// As for [`open_directory`].
pub fn create_directory(path: &Path) -> Result<Directory, StoreError> {
    checked(path, Directory::create(path).map_err(|source| StoreError::writing(path, source))?)
}

fn checked(path: &Path, directory: Directory) -> Result<Directory, StoreError> {
    let status = directory.status().map_err(|source| StoreError::reading(path, source))?;
    check_trusted(path, &status, rustix::process::geteuid().as_raw())?;
    Ok(directory)
}

/// Opens a file for reading after checking that it is a regular file of `user` that nobody else may write.
pub(crate) fn open_trusted(
    storage_backend: &dyn StorageBackend,
    name: &str,
    user: u32,
) -> Result<(Arc<dyn StorageFile>, FileStatus), StoreError> {
    let path = storage_backend.path().join(name);
    let read = |source| StoreError::reading(&path, source);
    let file = match storage_backend.open(name) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(StoreError::Untrusted {
                path,
                fault: "it is a symbolic link".into(),
                hint: "put the file itself in its place".into(),
            });
        }
        other => other.map_err(read)?,
    };
    let status = file.status().map_err(read)?;
    if !status.is_regular {
        return Err(StoreError::Untrusted { path, fault: "it is not a regular file".into(), hint: "remove it".into() });
    }
    check_trusted(&path, &status, user)?;
    Ok((file, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn status(owner: u32, mode: u32) -> FileStatus {
        FileStatus { inode: 1, is_regular: true, owner, mode, bytes: 0, links: 1, modified: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn only_own_files_that_others_cannot_write_are_trusted() {
        let trusted = |owner, mode, user| check_trusted(Path::new("f"), &status(owner, mode), user).is_ok();
        assert!(trusted(7, 0o600, 7) && trusted(7, 0o644, 7) && trusted(0, 0o700, 0));
        assert!(!trusted(8, 0o600, 7), "somebody else's");
        assert!(!trusted(0, 0o600, 7), "root's, and we are not root");
        assert!(!trusted(7, 0o600, 0), "a user's, and we are root");
        assert!(!trusted(7, 0o620, 7) && !trusted(7, 0o602, 7) && !trusted(7, 0o777, 7), "writable by others");
    }
}
