//! What distinguishes one memory object from another.

use standfast_format::records::FileReference;
use standfast_linux::proc::Map;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The identity of a memory object. The kernel shows System V segments on the device of files in memory, with their ids
/// as inodes. So only the kind distinguishes a segment from a memfd with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ObjectKey {
    /// A file, on a disk or in memory.
    File {
        /// As the path or the descriptor shows it.
        device: u64,
        /// Within the device.
        inode: u64,
    },
    /// A System V segment, by its id.
    Segment(i32),
}

impl ObjectKey {
    pub(crate) fn of_file(status: &Metadata) -> Self {
        Self::File { device: status.dev(), inode: status.ino() }
    }

    pub(crate) fn of_reference(file: &FileReference) -> Self {
        Self::File { device: file.identity.device, inode: file.identity.inode }
    }

    pub(crate) fn of_map(map: &Map) -> Self {
        Self::File { device: map.device, inode: map.inode }
    }

    pub(crate) fn of_segment(map: &Map) -> Self {
        Self::Segment(map.inode as i32)
    }
}
