//! The only access to the disk: every file operation of the store goes through [`StorageBackend`].
//!
//! [`Directory`] is the real implementation. Tests use one that fails or loses power after any number of operations.

mod directory;
#[cfg(feature = "planted-faults")]
mod disk_speed;
mod large_transfers;
mod way;

pub use directory::Directory;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A flat directory of files. Names are single path components.
pub trait StorageBackend: fmt::Debug + Send + Sync {
    /// Returns the path of the directory, for messages.
    fn path(&self) -> &Path;

    /// Creates a file that must not exist yet, readable and writable only by its owner.
    ///
    /// # Errors
    /// The error of the file system, of kind `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Appends to a file, which is made as by [`StorageBackend::create`] if it does not exist.
    ///
    /// # Errors
    /// The error of the file system.
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Opens a file for reading, without following a symbolic link.
    ///
    /// # Errors
    /// The error of the file system.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Returns the status of the directory itself.
    ///
    /// # Errors
    /// The error of the file system.
    fn status(&self) -> io::Result<FileStatus>;

    /// Renames a file, and replaces a file that already has the new name.
    ///
    /// # Errors
    /// The error of the file system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a second name, which must be free.
    ///
    /// # Errors
    /// The error of the file system, of kind `AlreadyExists` if the name is taken.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// The error of the file system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns all names.
    ///
    /// # Errors
    /// The error of the file system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names durable: earlier creations, renames and removals then survive a power loss.
    ///
    /// # Errors
    /// The error of the file system.
    fn sync(&self) -> io::Result<()>;

    /// Waits for the lock of this name and holds it until the guard is dropped, across processes and machines.
    ///
    /// # Errors
    /// The error of the file system, also if it does not support locks.
    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>>;
}

/// A lock that is held until the guard is dropped.
pub trait LockGuard: fmt::Debug + Send {}

/// An open file. Several threads may read and write it at the same time.
pub trait StorageFile: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The error of the file system.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `bytes` with the content from `offset` on.
    ///
    /// # Errors
    /// The error of the file system, of kind `UnexpectedEof` if the file is shorter.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Sets the modification time to now, by the clock of the machine that stores the file.
    ///
    /// # Errors
    /// The error of the file system.
    fn touch(&self) -> io::Result<()>;

    /// Returns the status of the file.
    ///
    /// # Errors
    /// The error of the file system.
    fn status(&self) -> io::Result<FileStatus>;

    /// Makes the content written before this call durable.
    ///
    /// # Errors
    /// The error of the file system. After a failure it is unknown what has become durable.
    fn sync(&self) -> io::Result<()>;
}

/// The status of a file as the file system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Inode number.
    pub inode: u64,
    /// Whether it is a regular file.
    pub is_regular: bool,
    /// User id of its owner.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of its names; 0 once it has been removed or replaced.
    pub links: u64,
    /// Time of the last modification.
    pub modified: SystemTime,
}
