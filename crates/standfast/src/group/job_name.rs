//! The name of a job of many processes. A file in the job's directory holds it as long as the job is not done.
//! Processes are found, killed and forgotten by it, so it is trusted only if no other user can have written it.

use crate::error::Error;
use rustix::fs::{Mode, OFlags, openat};
use standfast_store::{Directory, StoreError, create_directory, open_directory, random_token};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Action to report if that fails.
pub(super) const NAMING: &str = "write the job's name to its directory";

const NAME: &str = "job";
/// Longest name.
const BYTES_MAX: u64 = 1024;

/// Returns the name in a directory, if there is one.
///
/// # Errors
/// If other users own the directory, may write it, or control a link to it.
pub(super) fn job_name(directory: &Path) -> Result<Option<String>, Error> {
    let opened = match open_directory(directory) {
        Err(StoreError::StorageBackend { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::Store)?,
    };
    match open(&opened, OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => {
            file.and_then(read).map(|name| Some(name).filter(|name| !name.is_empty())).map_err(Error::system(NAMING))
        }
    }
}

/// Returns the name in a directory that must have one.
///
/// # Errors
/// As above, and if there is none.
pub(super) fn named_job(directory: &Path) -> Result<String, Error> {
    let none =
        || Error::Declined(format!("{} names no job\nhint: see standfast group run --help", directory.display()));
    job_name(directory)?.ok_or_else(none)
}

/// The job's name, with its locked file.
pub(super) struct JobName {
    directory: PathBuf,
    pub(super) text: String,
    pub(super) was_there: bool,
    _lock: File,
}

impl JobName {
    /// Takes the directory, creating it if necessary, and names the job unless it has a name.
    ///
    /// # Errors
    /// As for [`job_name`], and if another launcher holds the directory.
    pub(super) fn take(directory: &Path) -> Result<Self, Error> {
        let opened = create_directory(directory).map_err(Error::Store)?;
        Self::take_in(&opened, directory).map_err(Error::system(NAMING))
    }

    fn take_in(opened: &Directory, directory: &Path) -> io::Result<Self> {
        let mut file = open(opened, OFlags::RDWR | OFlags::CREATE)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another `standfast group run` supervises this job"));
            }
            locked => locked?,
        }
        let mut text = read(file.try_clone()?)?;
        let was_there = !text.is_empty();
        if !was_there {
            text = random_token();
            file.write_all(text.as_bytes())?;
        }
        Ok(Self { directory: directory.to_owned(), text, was_there, _lock: file })
    }

    /// Removes the name, since nothing needs it any more.
    pub(super) fn give_up(self) -> io::Result<()> {
        fs::remove_file(self.directory.join(NAME))?;
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }
}

/// Opens the file, after checking that it is a regular file that only this user may write.
fn open(directory: &Directory, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, NAME, flags, Mode::RUSR | Mode::WUSR)?);
    let status = file.metadata()?;
    if !status.is_file() || status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        return Err(io::Error::other("the file belongs to another user, or others may write it"));
    }
    Ok(file)
}

fn read(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_job_name_is_kept_and_released() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("job");
        assert_eq!(job_name(&directory).unwrap(), None);
        let taken = JobName::take(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(job_name(&directory).unwrap().as_deref(), Some(taken.text.as_str()));
        assert!(JobName::take(&directory).is_err_and(|error| error.to_string().contains("supervises")));
        let text = taken.text.clone();
        drop(taken);
        let again = JobName::take(&directory).unwrap();
        assert!(again.was_there && again.text == text);
        again.give_up().unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn a_directory_writable_by_others_is_refused_for_a_job_name() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("job");
        drop(JobName::take(&directory).unwrap());
        for mode in [0o770, 0o707] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            let refused = |error: Error| error.to_string().contains("others may write it");
            assert!(JobName::take(&directory).is_err_and(refused) && job_name(&directory).is_err_and(refused));
        }
    }

    #[test]
    fn a_job_name_in_a_link_pipe_or_writable_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (directory, name) = (place.path(), place.path().join(NAME));
        let others = |make: &dyn Fn()| {
            make();
            let refused = JobName::take(directory).is_err() && job_name(directory).is_err();
            fs::remove_file(&name).unwrap();
            refused
        };
        fs::write(place.path().join("else"), "name").unwrap();
        assert!(others(&|| symlink("else", &name).unwrap()));
        assert!(others(&|| {
            fs::write(&name, "name").unwrap();
            fs::set_permissions(&name, Permissions::from_mode(0o666)).unwrap();
        }));
        let fifo = || rustix::fs::mknodat(rustix::fs::CWD, &name, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(others(&fifo));
    }
}
