//! Records of folders: directories that are saved with the job, with all their contents, open or not.

use super::Bytes;
use minicbor::{Decode, Encode};

/// A directory that is saved with everything below it.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct SavedFolder {
    /// Its absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Its contents, with each directory before its entries; the folder itself comes first. Empty if the folder did not
    /// exist.
    #[n(1)]
    pub entries: Vec<FolderEntry>,
    /// Whether the folder holds more than is recorded here, not belonging to the job: only what the job was seen to
    /// write was saved.
    #[n(2)]
    pub is_part: Option<bool>,
}

/// One name in a folder.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its path relative to the folder; empty for the folder itself.
    #[n(0)]
    pub name: Bytes,
    /// Its permissions.
    #[n(1)]
    pub mode: u32,
    /// Its owner.
    #[n(2)]
    pub user: u32,
    /// Its group.
    #[n(3)]
    pub group: u32,
    /// Its kind.
    #[n(4)]
    pub item: FolderItem,
}

/// The kind of a name in a folder.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub enum FolderItem {
    /// A directory.
    #[n(0)]
    Directory,
    /// A regular file.
    #[n(1)]
    File {
        /// Its content: position in [`super::JobState::objects`] of a mapped file that is saved whole.
        #[n(0)]
        object: u32,
    },
    /// A symbolic link.
    #[n(2)]
    Link {
        /// The target of the link.
        #[n(0)]
        target: Bytes,
    },
}
