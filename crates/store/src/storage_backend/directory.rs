//! A directory on a file system.

use super::large_transfers::LargeTransfers;
use super::{FileStatus, LockGuard, StorageBackend, StorageFile, way};
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A directory on a file system, held open. If its path comes to name another directory, this still refers to the old
/// one.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Directory {
    /// Creates the directory, accessible only to its owner, unless it exists; then opens it.
    ///
    /// # Errors
    /// As for [`Directory::open`].
    pub fn create(path: &Path) -> io::Result<Self> {
        let end = Self::way_to(path)?;
        if end.make()? {
            end.sync()?;
        }
        Ok(Self { path: path.to_owned(), descriptor: end.open()? })
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// The error of the file system; of kind `PermissionDenied` if another user's symbolic link is on the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), descriptor: Self::way_to(path)?.open()? })
    }

    fn way_to(path: &Path) -> io::Result<way::End> {
        way::follow(path, rustix::process::geteuid().as_raw())
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let descriptor = fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(descriptor))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl StorageBackend for Directory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        Ok(Arc::new(DirectoryFile::of(file)))
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?.write_all(bytes)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(DirectoryFile::of(self.open_file(name, OFlags::RDONLY)?)))
    }

    fn status(&self) -> io::Result<FileStatus> {
        Ok(status_of(&fs::fstat(&self.descriptor)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::linkat(&self.descriptor, from, &self.descriptor, to, AtFlags::empty())?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.descriptor)? {
            // A name that is not UTF-8 is not one of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.descriptor)?)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
        loop {
            match fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Box::new(DirectoryLock { _file: file })),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The lock ends when the file is closed.
#[derive(Debug)]
struct DirectoryLock {
    _file: File,
}

impl LockGuard for DirectoryLock {}

#[derive(Debug)]
struct DirectoryFile {
    file: File,
    large_transfers: LargeTransfers,
}

impl DirectoryFile {
    fn of(file: File) -> Self {
        Self { file, large_transfers: LargeTransfers::default() }
    }
}

impl StorageFile for DirectoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(feature = "planted-faults")]
        super::disk_speed::wait_for(bytes.len());
        self.large_transfers.write_at(&self.file, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.large_transfers.read_at(&self.file, bytes, offset)
    }

    fn touch(&self) -> io::Result<()> {
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        Ok(fs::futimens(&self.file, &now)?)
    }

    fn status(&self) -> io::Result<FileStatus> {
        Ok(status_of(&fs::fstat(&self.file)?))
    }

    fn sync(&self) -> io::Result<()> {
        // This includes the length and the place on the disk. Access times are not worth a write.
        self.file.sync_data()
    }
}

fn status_of(stat: &Stat) -> FileStatus {
    let since_1970 = Duration::new(stat.st_mtime.unsigned_abs(), stat.st_mtime_nsec as u32);
    FileStatus {
        inode: stat.st_ino,
        is_regular: fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile,
        owner: stat.st_uid,
        mode: stat.st_mode & 0o7777,
        bytes: stat.st_size.unsigned_abs(),
        links: stat.st_nlink,
        modified: SystemTime::UNIX_EPOCH + since_1970,
    }
}
