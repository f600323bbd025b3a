//! Saved binaries: copies of the executable and libraries from which a job runs, so that a system upgrade does not lose
//! the job. Each is named after its content, and stays as long as the job's directory.

use crate::names::SAVED_BINARY_PREFIX;
use crate::random::temporary_name;
use crate::shared_binaries::SharedBinaries;
use crate::{JobDirectory, Lease, StoreError};
use standfast_core::Checksum;
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The owner may also execute, since the copy of an executable is executed.
const MODE: u32 = 0o700;
/// Length of the part of the original file name that the name of its copy contains.
const NAME_BYTES_MAX: usize = 60;

/// Number of files that are open at once.
const COPIES_AT_ONCE: usize = 64;

/// An executable or a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary<'a> {
    /// Its checksum.
    pub checksum: Checksum,
    /// Where it is.
    pub path: &'a Path,
}

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

    /// Keeps durable copies of files, unless there are some. Links another job's copy if there is one. Otherwise it copies,
    /// and file systems that can share the blocks do so.
    ///
    /// # Errors
    /// If a file cannot be read or a copy cannot be written. Others may have been kept.
    pub fn keep(&self, lease: &Lease, binaries: &[Binary<'_>]) -> Result<(), StoreError> {
        self.level_directory.check_lease(lease.core());
        // The same file may be named twice.
        let mut missing = BTreeMap::new();
        for binary in binaries {
            let name = name_of(binary.checksum, binary.path);
            if !self.path().join(&name).is_file() && binary.path.parent() != Some(self.path()) {
                missing.insert(name, binary.path);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let place = self.level_directory.shared_binaries.get();
        let shared = place.and_then(|place| SharedBinaries::open(place));
        let is_linked = |name: &String, path: &mut &Path| {
            shared.as_ref().and_then(|shared| shared.link_to(name, path, &self.path().join(name))).is_some()
        };
        missing.retain(|name, path| !is_linked(name, path));
        let missing: Vec<_> = missing.into_iter().collect();
        missing.chunks(COPIES_AT_ONCE).try_for_each(|some| self.copy(some))?;
        let synced = self.level_directory.storage_backend.sync();
        synced.map_err(|error| StoreError::writing(self.path(), error))?;
        if let Some(shared) = shared.filter(|_| !missing.is_empty()) {
            missing.iter().for_each(|(name, _)| shared.add(name, &self.path().join(name)));
            shared.sweep();
        }
        Ok(())
    }

    /// Copies files to these names. All are written before the first is made durable: file systems with a journal write it
    /// once then.
    fn copy(&self, files: &[(String, &Path)]) -> Result<(), StoreError> {
        let writing = |name: &str| {
            let full = self.path().join(name);
            move |error| StoreError::writing(&full, error)
        };
        let (mut copies, mut copied) = (Vec::new(), Ok(()));
        for (name, path) in files {
            match HalfWritten::of(self, name, path).map_err(writing(name)) {
                Ok(copy) => copies.push(copy),
                // The others are kept nevertheless.
                Err(error) => copied = copied.and(Err(error)),
            }
        }
        copies.iter().try_for_each(|copy| copy.file.sync_all().map_err(writing(copy.name)))?;
        let named = copies.into_iter().try_for_each(|copy| {
            let name = copy.name;
            copy.rename().map_err(writing(name))
        });
        copied.and(named)
    }
}

/// A copy under a temporary name. If it is dropped, it is removed.
struct HalfWritten<'a> {
    directory: &'a JobDirectory,
    file: File,
    temporary: Option<String>,
    name: &'a str,
}

impl<'a> HalfWritten<'a> {
    fn of(directory: &'a JobDirectory, name: &'a str, path: &Path) -> io::Result<Self> {
        let mut from = File::open(path)?;
        let temporary = temporary_name(name);
        let file = File::create_new(directory.path().join(&temporary))?;
        let mut copy = Self { directory, file, temporary: Some(temporary), name };
        // This uses copy_file_range(2), and thus reflinks if the file system has them.
        io::copy(&mut from, &mut copy.file)?;
        copy.file.set_permissions(Permissions::from_mode(MODE))?;
        Ok(copy)
    }

    /// Gives it its name.
    fn rename(mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        self.directory.level_directory.storage_backend.rename(temporary, self.name)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for HalfWritten<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The next holder of the lease removes the file if this fails.
            let _ = self.directory.level_directory.storage_backend.remove(temporary);
        }
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
        let keep = |path: &Path| directory.keep(&lease, &[Binary { checksum, path }]).unwrap();
        keep(&program);
        std::fs::write(&program, "second").unwrap();
        keep(&program);
        let kept = directory.saved_binary(checksum, &program).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"first");
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(directory.saved_binary(Checksum::of(b"second"), &program), None);
        let before = std::fs::read_dir(directory.path()).unwrap().count();
        keep(&kept);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before, "a copy is not copied");
    }

    #[test]
    fn more_binaries_than_may_be_open_are_kept_and_a_missing_one_leaves_nothing_half_written() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        let programs: Vec<_> = (0..COPIES_AT_ONCE + 2).map(|number| place.path().join(number.to_string())).collect();
        let binary = |path| Binary { checksum: Checksum::of(Path::new(path).as_os_str().as_encoded_bytes()), path };
        let binaries: Vec<_> = programs.iter().map(|path| binary(path)).collect();
        programs.iter().for_each(|path| std::fs::write(path, path.as_os_str().as_encoded_bytes()).unwrap());
        let last = programs.last().unwrap();
        std::fs::remove_file(last).unwrap();
        let before = std::fs::read_dir(directory.path()).unwrap().count();
        let refused = directory.keep(&lease, &binaries).unwrap_err();
        assert!(refused.to_string().contains(&name_of(binary(last).checksum, last)), "{refused}");
        std::fs::write(last, last.as_os_str().as_encoded_bytes()).unwrap();
        directory.keep(&lease, &[&binaries[..], &binaries[..]].concat()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before + binaries.len());
        for Binary { checksum, path } in binaries {
            let kept = directory.saved_binary(checksum, path).unwrap();
            assert_eq!(std::fs::read(kept).unwrap(), path.as_os_str().as_encoded_bytes());
        }
    }

    /// Creates a job in `place` that shares its copies and has kept one of `program`.
    fn job_with_copy(place: &Path, name: &str, program: &Path) -> PathBuf {
        let directory = JobDirectory::create(&place.join(name)).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false }).unwrap();
        directory.share_binaries_in(&place.join("cache/binaries"));
        let checksum = Checksum::of(&std::fs::read(program).unwrap());
        directory.keep(&lease, &[Binary { checksum, path: program }]).unwrap();
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
