//! Tails: the parts that a restart cut off files that had grown since the checkpoint. Each tail is kept beside the
//! image from which the job was restarted, and is removed with it.

use crate::level_directory::LevelDirectory;
use crate::names::image_stem;
use crate::{JobDirectory, Lease, StoreError};
use standfast_format::manifest::GenerationNumber;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Maximum bytes kept of a tail, counted from its beginning. A program that writes more will write it again, and the disk
/// is needed for other things.
pub const TAIL_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of tails kept per generation: a job that dies right after each restart must not fill the disk.
const TAILS_MAX: u32 = 9999;
/// Length of the part of the original file name that the name of its tail contains.
const NAME_BYTES_MAX: usize = 100;
const COPY_BYTES: usize = 1 << 20;

/// The part of a file to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptTail {
    /// Offset of its beginning.
    pub start: u64,
    /// Its length. Bytes beyond the end of the file are left out.
    pub bytes: u64,
}

impl JobDirectory {
    /// Keeps a durable copy of the `tail` of `file`, and returns its path.
    ///
    /// # Errors
    /// If the file cannot be read or the copy cannot be written.
    pub fn keep_tail(
        &self,
        lease: &Lease,
        number: GenerationNumber,
        path: &Path,
        file: &File,
        tail: KeptTail,
    ) -> Result<PathBuf, StoreError> {
        self.level_directory.check_lease(lease.core());
        let name = self.level_directory.name_of_tail(number, path)?;
        let full = self.level_directory.path_of(&name);
        let kept =
            self.level_directory.storage_backend.create(&name).map_err(|error| StoreError::writing(&full, error))?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut copied = 0;
        while copied < tail.bytes {
            let room = usize::try_from(tail.bytes - copied).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            let got = file
                .read_at(&mut buffer[..room], tail.start + copied)
                .map_err(|error| StoreError::reading(path, error))?;
            if got == 0 {
                break;
            }
            kept.write_at(&buffer[..got], copied).map_err(|error| StoreError::writing(&full, error))?;
            copied += got as u64;
        }
        kept.sync()
            .and_then(|()| self.level_directory.storage_backend.sync())
            .map_err(|error| StoreError::writing(&full, error))?;
        Ok(full)
    }

    /// Keeps a file under another name, without a copy, before its name at `path` is removed. Returns `None` if that is
    /// impossible.
    ///
    /// # Errors
    /// If the content cannot be made durable.
    pub fn keep_file(
        &self,
        lease: &Lease,
        number: GenerationNumber,
        path: &Path,
        file: &File,
    ) -> Result<Option<PathBuf>, StoreError> {
        self.level_directory.check_lease(lease.core());
        let name = self.level_directory.name_of_tail(number, path)?;
        let full = self.level_directory.path_of(&name);
        if std::fs::hard_link(path, &full).is_err() {
            return Ok(None);
        }
        let key = |status: Metadata| (status.dev(), status.ino());
        let is_it =
            full.symlink_metadata().map(key).is_ok_and(|kept| file.metadata().map(key).is_ok_and(|it| it == kept));
        if !is_it {
            // Somebody has put another file at `path` meanwhile.
            let _ = self.level_directory.storage_backend.remove(&name);
            return Ok(None);
        }
        let synced = file.sync_all().and_then(|()| self.level_directory.storage_backend.sync());
        synced.map_err(|error| StoreError::writing(&full, error))?;
        Ok(Some(full))
    }

    /// Returns the tails kept beside the image of a generation, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn tails(&self, number: GenerationNumber) -> Result<Vec<PathBuf>, StoreError> {
        let names =
            self.level_directory.storage_backend.list().map_err(|error| StoreError::reading(self.path(), error))?;
        let mut tails: Vec<_> = names.into_iter().filter(|name| name.starts_with(&tail_prefix(number))).collect();
        tails.sort_unstable();
        Ok(tails.into_iter().map(|name| self.level_directory.path_of(&name)).collect())
    }
}

impl LevelDirectory {
    fn name_of_tail(&self, number: GenerationNumber, path: &Path) -> Result<String, StoreError> {
        let prefix = tail_prefix(number);
        let origin = plain_name(path);
        let taken =
            self.storage_backend.list().map_err(|error| StoreError::reading(self.storage_backend.path(), error))?;
        let place_of = |name: &String| name.strip_prefix(&prefix)?.split_once('-')?.0.parse().ok();
        let places: BTreeSet<u32> = taken.iter().filter_map(place_of).collect();
        let place = (1..TAILS_MAX).find(|place| !places.contains(place)).unwrap_or(TAILS_MAX);
        for name in taken.iter().filter(|name| name.starts_with(&format!("{prefix}{TAILS_MAX:02}-"))) {
            // The last place is reused. If the old tail cannot be removed, creating the new one fails.
            let _ = self.storage_backend.remove(name);
        }
        Ok(format!("{prefix}{place:02}-{origin}"))
    }

    /// Removes the tails of generations for which `is_kept` returns false.
    pub(crate) fn clear_tails(&self, is_kept: impl Fn(GenerationNumber) -> bool) {
        for name in self.storage_backend.list().unwrap_or_default() {
            if tail_generation(&name).is_some_and(|number| !is_kept(number)) {
                // A tail only costs space: a removal that fails is tried again next time.
                let _ = self.storage_backend.remove(&name);
            }
        }
    }
}

/// Reports whether this is the name of a tail.
pub(crate) fn is_tail(name: &str) -> bool {
    tail_generation(name).is_some()
}

/// Returns the prefix of a generation's tails, such as `generation-00000007.tail-`.
fn tail_prefix(number: GenerationNumber) -> String {
    format!("{}.tail-", image_stem(number))
}

fn tail_generation(name: &str) -> Option<GenerationNumber> {
    let (generation, _) = name.strip_prefix("generation-")?.split_once(".tail-")?;
    let number = GenerationNumber::new(generation.parse().ok()?)?;
    name.starts_with(&tail_prefix(number)).then_some(number)
}

/// Returns the last part of a path, limited to characters that are safe in any name.
fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-+".contains(letter) { letter } else { '_' };
    name.chars().map(plain).take(NAME_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseRequest, Purpose};
    use std::io::Write;

    fn number(number: u64) -> GenerationNumber {
        GenerationNumber::new(number).unwrap()
    }

    #[test]
    fn a_file_that_is_kept_by_another_name_outlives_its_own() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        let path = place.path().join("result");
        std::fs::write(&path, "all of it").unwrap();
        let file = File::open(&path).unwrap();
        let kept = directory.keep_file(&lease, number(3), &path, &file).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"all of it");
        assert_eq!(directory.tails(number(3)).unwrap(), [kept]);
        // The path now names another file.
        std::fs::write(&path, "another").unwrap();
        assert_eq!(directory.keep_file(&lease, number(3), &path, &file).unwrap(), None);
        assert_eq!(directory.tails(number(3)).unwrap().len(), 1);
    }

    #[test]
    fn kept_tails_get_distinct_names_and_go_with_their_generation() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(b"kept so far; cut off").unwrap();
        let path = Path::new("/var/my log");
        let first = directory.keep_tail(&lease, number(7), path, &log, KeptTail { start: 12, bytes: 8 }).unwrap();
        let second = directory.keep_tail(&lease, number(7), path, &log, KeptTail { start: 0, bytes: 4 }).unwrap();
        directory.keep_tail(&lease, number(8), path, &log, KeptTail { start: 0, bytes: 4 }).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), b" cut off");
        assert_eq!(directory.tails(number(7)).unwrap(), [first.clone(), second]);
        assert!(first.ends_with("generation-00000007.tail-01-my_log"), "{first:?}");
        directory.level_directory.clear_tails(|kept| kept == number(8));
        assert!(directory.tails(number(7)).unwrap().is_empty());
        assert_eq!(directory.tails(number(8)).unwrap().len(), 1);
    }

    #[test]
    fn a_job_that_dies_at_once_after_each_restart_does_not_fill_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(b"again").unwrap();
        // Those of earlier restarts.
        for place in 1..TAILS_MAX - 1 {
            File::create(directory.path().join(format!("{}{place:02}-log", tail_prefix(number(1))))).unwrap();
        }
        for _ in 0..5 {
            directory.keep_tail(&lease, number(1), Path::new("log"), &log, KeptTail { start: 0, bytes: 5 }).unwrap();
        }
        assert_eq!(directory.tails(number(1)).unwrap().len(), TAILS_MAX as usize);
    }
}
