//! The history of a job: a file of lines, to which each life appends what happened to it. It outlives the checkpoints that
//! it tells of.
//!
//! No restart depends on it, so nothing waits for the disk: after a power failure the last lines may be missing or broken. A
//! reader passes over lines that it does not understand.

use crate::names::{EARLIER_HISTORY, HISTORY};
use crate::trust::open_trusted;
use crate::{JobDirectory, Lease, StorageBackend, StoreError};
use std::io;

/// When the file has grown to this length, it becomes the earlier history, and the one before that goes. A line has some 700
/// bytes, so that the last 6,000 checkpoints are there at least.
const HISTORY_BYTES_MAX: u64 = 4 << 20;

impl JobDirectory {
    /// Appends a line to the job's history. The line must not contain line breaks.
    ///
    /// # Errors
    /// [`StoreError::StorageBackend`].
    pub fn append_history(&self, lease: &Lease, line: &str) -> Result<(), StoreError> {
        self.level_directory.check_lease(lease.core());
        let storage_backend = &self.level_directory.storage_backend;
        let append = || {
            make_room(&**storage_backend)?;
            // One write, so that readers never see half of a line.
            storage_backend.append(HISTORY, format!("{line}\n").as_bytes())
        };
        lease
            .core()
            .guarding(|| append().map_err(|error| StoreError::writing(&self.level_directory.path_of(HISTORY), error)))
    }

    /// Returns the job's history: its lines, oldest first. The last one may be incomplete.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`], [`StoreError::StorageBackend`].
    pub fn history(&self) -> Result<String, StoreError> {
        Ok(self.earlier_history()? + &self.read_history(HISTORY, 0)?)
    }

    /// Returns the earlier part of the history, to which nothing is appended any more.
    ///
    /// # Errors
    /// As for [`JobDirectory::history`].
    pub fn earlier_history(&self) -> Result<String, StoreError> {
        self.read_history(EARLIER_HISTORY, 0)
    }

    /// Returns the whole lines that were appended after the first `offset` bytes of the newer part of the history, and the offset
    /// after them. `None` if the file is shorter: another one has taken its place.
    ///
    /// # Errors
    /// As for [`JobDirectory::history`].
    pub fn history_after(&self, offset: u64) -> Result<Option<(String, u64)>, StoreError> {
        let length = self.history_bytes()?;
        if length < offset {
            return Ok(None);
        }
        let mut text = if length == offset { String::new() } else { self.read_history(HISTORY, offset)? };
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        let end = offset + text.len() as u64;
        Ok(Some((text, end)))
    }

    /// Removes the history.
    pub(crate) fn remove_history(&self) -> Result<(), StoreError> {
        for name in [HISTORY, EARLIER_HISTORY] {
            match self.level_directory.storage_backend.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::writing(&self.level_directory.path_of(name), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn history_bytes(&self) -> Result<u64, StoreError> {
        match self.level_directory.storage_backend.open(HISTORY).and_then(|file| file.status()) {
            Ok(status) => Ok(status.bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(StoreError::reading(&self.level_directory.path_of(HISTORY), error)),
        }
    }

    fn read_history(&self, name: &str, offset: u64) -> Result<String, StoreError> {
        let path = self.level_directory.path_of(name);
        let opened =
            open_trusted(&*self.level_directory.storage_backend, name, self.level_directory.host_identity.user);
        let (file, status) = match opened {
            Err(StoreError::StorageBackend { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(String::new());
            }
            other => other?,
        };
        // Lines may be appended meanwhile. A file that is longer than this cannot be ours.
        let length = status.bytes.saturating_sub(offset).min(2 * HISTORY_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, offset).map_err(|error| StoreError::reading(&path, error))?;
        // JSON needs no other signs. What damage has put there keeps its length.
        bytes.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        Ok(String::from_utf8(bytes).expect("all of it is ASCII now"))
    }
}

fn make_room(storage_backend: &dyn StorageBackend) -> io::Result<()> {
    match storage_backend.open(HISTORY).and_then(|file| file.status()) {
        Ok(status) if status.bytes >= HISTORY_BYTES_MAX => storage_backend.rename(HISTORY, EARLIER_HISTORY),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseRequest, Purpose};
    use standfast_format::manifest::{JobDescription, RunOptions};

    #[test]
    fn a_history_keeps_its_newest_lines_and_goes_with_the_job() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        directory.begin(&lease, JobDescription::default(), RunOptions::default()).unwrap();
        assert_eq!(directory.history().unwrap(), "");
        directory.append_history(&lease, "one").unwrap();
        directory.append_history(&lease, "two").unwrap();
        assert_eq!(directory.history().unwrap(), "one\ntwo\n");
        let long = "x".repeat(HISTORY_BYTES_MAX as usize);
        for line in [&long, "three", &long, "four"] {
            directory.append_history(&lease, line).unwrap();
        }
        let history = directory.history().unwrap();
        assert!(history.starts_with("three\n") && history.ends_with("\nfour\n"), "the oldest lines are gone");
        assert_eq!(directory.foreign_names(&[]).unwrap(), Vec::<String>::new());
        directory.begin(&lease, JobDescription::default(), RunOptions::default()).unwrap();
        assert_eq!(directory.history().unwrap(), "", "another job begins");
        directory.append_history(&lease, "one").unwrap();
        assert_eq!(directory.remove_job(lease, &[]).unwrap().left, Vec::<String>::new());
        assert!(!directory.path().exists());
    }

    #[test]
    fn a_reader_follows_what_is_appended() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(place.path()).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        assert_eq!(directory.history_after(0).unwrap(), Some((String::new(), 0)));
        directory.append_history(&lease, "one").unwrap();
        assert_eq!(directory.history_after(0).unwrap(), Some(("one\n".to_owned(), 4)));
        directory.append_history(&lease, "two").unwrap();
        let path = place.path().join(HISTORY);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "thr").unwrap();
        assert_eq!(directory.history_after(4).unwrap(), Some(("two\n".to_owned(), 8)), "the last line is not whole");
        assert_eq!(directory.history_after(8).unwrap(), Some((String::new(), 8)));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(directory.history_after(8).unwrap(), None);
    }

    /// A power failure may leave anything at the end of the file.
    #[test]
    fn a_damaged_history_is_read_as_far_as_it_goes() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(place.path()).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        directory.append_history(&lease, "one").unwrap();
        let path = place.path().join(HISTORY);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([0, 0xff, 0xfe, b'{']);
        std::fs::write(&path, bytes).unwrap();
        assert!(directory.history().unwrap().starts_with("one\n"));
    }
}
