//! Which file something is, as the kernel tells files apart.

use standfast_format::records::{FileIdentity, FileReference};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file, by its device and its number there. The number of one that is gone is given to the next that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }

    /// As a record names it.
    pub(crate) fn of_reference(file: &FileReference) -> Self {
        Self::of_identity(&file.identity)
    }

    pub(crate) fn of_identity(identity: &FileIdentity) -> Self {
        Self { device: identity.device, inode: identity.inode }
    }
}
