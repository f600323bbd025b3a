//! Keepsakes: copies of the executable and the libraries that a job runs from, so that an upgrade of the system does not
//! lose the job. Each is named for what it holds, and stays as long as the job's directory.

use crate::{JobDirectory, Lease, StoreError};
use standfast_core::Checksum;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Owner may read and execute: the copy of an executable is executed.
const MODE: u32 = 0o700;
/// Of the name of a file this much is in the name of its copy.
const NAME_BYTES_MAX: usize = 60;

impl JobDirectory {
    /// The copy of a file that held what `checksum` says, if there is one. Its content is not verified.
    pub fn keepsake(&self, checksum: Checksum, path: &Path) -> Option<PathBuf> {
        let kept = self.path().join(name_of(checksum, path));
        kept.is_file().then_some(kept)
    }

    /// Keeps a copy of a file, durably, unless there is one. File systems that can share the blocks do so.
    ///
    /// # Errors
    /// When the file cannot be read or the copy not be written.
    pub fn keep(&self, lease: &Lease, checksum: Checksum, path: &Path) -> Result<(), StoreError> {
        self.shelf.check_lease(lease.core());
        let name = name_of(checksum, path);
        let full = self.path().join(&name);
        if full.is_file() || path.parent() == Some(self.path()) {
            return Ok(());
        }
        let half_written = format!("{name}.tmp");
        let copy = || {
            let mut from = File::open(path)?;
            let mut to = File::create(self.path().join(&half_written))?;
            // Goes by copy_file_range(2), and so by reflink where that exists.
            std::io::copy(&mut from, &mut to)?;
            to.set_permissions(Permissions::from_mode(MODE))?;
            to.sync_all()?;
            self.shelf.medium.rename(&half_written, &name)?;
            self.shelf.medium.sync()
        };
        copy().map_err(|error| StoreError::writing(&full, error))
    }
}

/// `keepsake-0123456789abcdef0123456789abcdef-libc.so.6`
fn name_of(checksum: Checksum, path: &Path) -> String {
    let digits: String = checksum.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-+".contains(letter) { letter } else { '_' };
    format!("keepsake-{digits}-{}", name.chars().map(plain).take(NAME_BYTES_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Purpose};

    #[test]
    fn a_copy_is_found_by_what_it_holds_and_made_once() {
        let place = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&place.path().join("job")).unwrap();
        let lease = directory.take_lease(Claim { purpose: Purpose::Live, force: false }).unwrap();
        let program = place.path().join("my program");
        std::fs::write(&program, "first").unwrap();
        let checksum = Checksum::of(b"first");
        assert_eq!(directory.keepsake(checksum, &program), None);
        directory.keep(&lease, checksum, &program).unwrap();
        std::fs::write(&program, "second").unwrap();
        directory.keep(&lease, checksum, &program).unwrap();
        let kept = directory.keepsake(checksum, &program).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"first");
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(directory.keepsake(Checksum::of(b"second"), &program), None);
        let before = std::fs::read_dir(directory.path()).unwrap().count();
        directory.keep(&lease, checksum, &kept).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before, "a copy is not copied");
    }
}
