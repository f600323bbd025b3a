//! Saved binaries: copies of the executable and libraries from which a job runs, so that a system upgrade does not lose
//! the job. Each is named after its content, and stays as long as the job's directory.

use crate::names::SAVED_BINARY_PREFIX;
use crate::random::temporary_name;
use crate::shared_binaries::SharedBinaries;
use crate::{JobDirectory, Lease, StoreError};
use standfast_core::Checksum;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The owner may also execute, since the copy of an executable is executed.
const MODE: u32 = 0o700;
/// Length of the part of the original file name that the name of its copy contains.
const NAME_BYTES_MAX: usize = 60;

impl JobDirectory {
    /// Returns the path of the copy of a file with this checksum, if there is one. Does not verify its content.
    pub fn saved_binary(&self, checksum: Checksum, path: &Path) -> Option<PathBuf> {
        let kept = self.path().join(name_of(checksum, path));
        kept.is_file().then_some(kept)
    }

    /// Shares the copies that this job keeps with other jobs of its user, through the directory at `place`.
    pub fn share_binaries_in(&self, place: &Path) {
        // This is set once per life.
        let _ = self.level_directory.shared_binaries.set(place.to_owned());
    }

    /// Keeps a durable copy of a file, unless there is one. Links another job's copy if there is one. Otherwise it
    /// copies, and file systems that can share the blocks do so.
    ///
    /// # Errors
    /// If the file cannot be read or the copy cannot be written.
    pub fn keep(&self, lease: &Lease, checksum: Checksum, path: &Path) -> Result<(), StoreError> {
        self.level_directory.check_lease(lease.core());
        let name = name_of(checksum, path);
        let full = self.path().join(&name);
        if full.is_file() || path.parent() == Some(self.path()) {
            return Ok(());
        }
        let shared = self.level_directory.shared_binaries.get().and_then(|place| SharedBinaries::open(place));
        let is_linked = shared.as_ref().and_then(|shared| shared.link_to(&name, path, &full)).is_some();
        if is_linked {
            return self.level_directory.storage_backend.sync().map_err(|error| StoreError::writing(&full, error));
        }
        self.copy(&name, path).map_err(|error| StoreError::writing(&full, error))?;
        shared.iter().for_each(|shared| shared.add(&name, &full));
        Ok(())
    }

    fn copy(&self, name: &str, path: &Path) -> io::Result<()> {
        let half_written = temporary_name(name);
        let copy = || {
            let mut from = File::open(path)?;
            let mut to = File::create_new(self.path().join(&half_written))?;
            // This uses copy_file_range(2), and thus reflinks if the file system has them.
            io::copy(&mut from, &mut to)?;
            to.set_permissions(Permissions::from_mode(MODE))?;
            to.sync_all()?;
            self.level_directory.storage_backend.rename(&half_written, name)?;
            self.level_directory.storage_backend.sync()
        };
        let copied = copy();
        if copied.is_err() {
            // The next holder of the lease removes the file if this fails.
            let _ = self.level_directory.storage_backend.remove(&half_written);
        }
        copied
    }
}

/// Returns the name of a copy: the prefix, the checksum as 32 hexadecimal digits, and a plain form of the original
/// name.
fn name_of(checksum: Checksum, path: &Path) -> String {
    let digits: String = checksum.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-+".contains(letter) { letter } else { '_' };
    format!("{SAVED_BINARY_PREFIX}{digits}-{}", name.chars().map(plain).take(NAME_BYTES_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::is_saved_binary;
    use crate::{LeaseRequest, Purpose};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_saved_binary_is_found_by_its_checksum_and_saved_once() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        let program = place.path().join("my program");
        std::fs::write(&program, "first").unwrap();
        let checksum = Checksum::of(b"first");
        assert_eq!(directory.saved_binary(checksum, &program), None);
        directory.keep(&lease, checksum, &program).unwrap();
        std::fs::write(&program, "second").unwrap();
        directory.keep(&lease, checksum, &program).unwrap();
        let kept = directory.saved_binary(checksum, &program).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"first");
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(directory.saved_binary(Checksum::of(b"second"), &program), None);
        let before = std::fs::read_dir(directory.path()).unwrap().count();
        directory.keep(&lease, checksum, &kept).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before, "a copy is not copied");
    }

    /// Creates a job in `place` that shares its copies and has kept one of `program`.
    fn job_with_copy(place: &Path, name: &str, program: &Path) -> PathBuf {
        let directory = JobDirectory::create(&place.join(name)).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        directory.share_binaries_in(&place.join("cache/binaries"));
        let checksum = Checksum::of(&std::fs::read(program).unwrap());
        directory.keep(&lease, checksum, program).unwrap();
        directory.saved_binary(checksum, program).unwrap()
    }

    fn links(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().nlink()
    }

    #[test]
    fn jobs_share_one_copy_and_the_last_one_removes_it() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        std::fs::write(&program, "the program").unwrap();
        let (first, second) =
            (job_with_copy(place.path(), "first", &program), job_with_copy(place.path(), "second", &program));
        assert_eq!(std::fs::metadata(&first).unwrap().ino(), std::fs::metadata(&second).unwrap().ino());
        assert_eq!((links(&first), links(&program)), (3, 1), "two jobs and the shared name, not the program itself");
        let shared = SharedBinaries::find(&place.path().join("cache/binaries")).unwrap();
        let count = || std::fs::read_dir(place.path().join("cache/binaries")).unwrap().count();
        for (copy, left) in [(&first, 1), (&second, 0)] {
            std::fs::remove_file(copy).unwrap();
            shared.sweep();
            assert_eq!(count(), left);
        }
    }

    #[test]
    fn a_tampered_copy_is_not_linked_and_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        std::fs::write(&program, "the program").unwrap();
        let first = job_with_copy(place.path(), "first", &program);
        std::fs::write(&first, "the pr0gram").unwrap();
        let second = job_with_copy(place.path(), "second", &program);
        assert_eq!(std::fs::read(&second).unwrap(), b"the program");
        let third = job_with_copy(place.path(), "third", &program);
        assert_eq!(std::fs::metadata(&second).unwrap().ino(), std::fs::metadata(&third).unwrap().ino());
    }

    #[test]
    fn a_cache_that_others_can_enter_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        std::fs::write(&program, "the program").unwrap();
        let cache = place.path().join("cache/binaries");
        std::fs::create_dir_all(&cache).unwrap();
        std::fs::set_permissions(&cache, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(links(&job_with_copy(place.path(), "first", &program)), 1);
        std::fs::remove_dir(&cache).unwrap();
        std::os::unix::fs::symlink(&program, &cache).unwrap();
        assert_eq!(links(&job_with_copy(place.path(), "second", &program)), 1);
        std::fs::remove_dir_all(place.path().join("cache")).unwrap();
        std::fs::write(place.path().join("cache"), "").unwrap();
        assert_eq!(links(&job_with_copy(place.path(), "third", &program)), 1);
    }

    #[test]
    fn only_names_of_saved_binaries_are_recognised() {
        assert!(is_saved_binary(&name_of(Checksum::of(b"x"), Path::new("/lib/libc.so.6"))));
        for name in ["keepsake", "keepsake-", "keepsake-12-libc", "keepsake-of-my-grandmother-and-her-old-cat.jpg"] {
            assert!(!is_saved_binary(name), "{name}");
        }
    }
}
