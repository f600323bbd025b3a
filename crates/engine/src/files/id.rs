//! The identity of a file, as the kernel distinguishes files.

use standfast_format::records::{FileIdentity, FileReference};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file, by its device and its inode number. The number of a deleted file is given to the next new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }

    /// Returns the file that a record names.
    pub(crate) fn of_reference(file: &FileReference) -> Self {
        Self::of_identity(&file.identity)
    }

    pub(crate) fn of_identity(identity: &FileIdentity) -> Self {
        Self { device: identity.device, inode: identity.inode }
    }
}
