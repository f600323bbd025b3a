//! The one door to the disk: everything that the store does to files goes through [`StorageBackend`].
//!
//! [`Directory`] is the real one. Tests put one behind it that fails or loses power after any number of operations.

mod directory;
mod way;

pub use directory::Directory;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A directory of files, flat. Names are single components.
pub trait StorageBackend: fmt::Debug + Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> &Path;

    /// Creates a file that did not exist, readable and writable by its owner only.
    ///
    /// # Errors
    /// As the file system says, of kind `AlreadyExists` where the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens a file for reading. A symbolic link is not followed.
    ///
    /// # Errors
    /// As the file system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Looks at the directory itself.
    ///
    /// # Errors
    /// As the file system says.
    fn status(&self) -> io::Result<FileStatus>;

    /// Gives a file another name, in place of a file that may have had it.
    ///
    /// # Errors
    /// As the file system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a second name that must be free.
    ///
    /// # Errors
    /// As the file system says, of kind `AlreadyExists` where the name is taken.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away.
    ///
    /// # Errors
    /// As the file system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All names.
    ///
    /// # Errors
    /// As the file system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names durable: after this, creations, renames and removals so far survive a loss of power.
    ///
    /// # Errors
    /// As the file system says.
    fn sync(&self) -> io::Result<()>;

    /// Waits for the lock of this name and holds it until the guard is dropped, across processes and machines.
    ///
    /// # Errors
    /// As the file system says, also where it has no locks.
    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>>;
}

/// A lock, held until this is dropped.
pub trait LockGuard: fmt::Debug + Send {}

/// An open file. Several threads may read and write it at the same time.
pub trait StorageFile: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// As the file system says.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// As the file system says, of kind `UnexpectedEof` where the file is shorter.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Sets the time of last modification to now, by the clock of whoever keeps the file.
    ///
    /// # Errors
    /// As the file system says.
    fn touch(&self) -> io::Result<()>;

    /// Looks at the file.
    ///
    /// # Errors
    /// As the file system says.
    fn status(&self) -> io::Result<FileStatus>;

    /// Makes the content durable: what was written before the call began.
    ///
    /// # Errors
    /// As the file system says. After a failure nothing is known about what has become durable.
    fn sync(&self) -> io::Result<()>;
}

/// What the file system says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Inode number.
    pub inode: u64,
    /// Whether it is a regular file.
    pub is_regular: bool,
    /// Its owner.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
    /// Its length.
    pub bytes: u64,
    /// How many names it has; none once it has been removed or replaced.
    pub links: u64,
    /// Last modification.
    pub modified: SystemTime,
}
