//! Records of folders: directories that go with the job, with all that is in them, open or not.

use super::Bytes;
use minicbor::{Decode, Encode};

/// A directory that is saved with all below it.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct SavedFolder {
    /// Its absolute path.
    #[n(0)]
    pub path: Bytes,
    /// What it holds, directories before what is in them; the folder itself comes first. Nothing where it was not
    /// there.
    #[n(1)]
    pub entries: Vec<FolderEntry>,
    /// Whether it holds more than stands here, which is none of the job's: only what the job was seen to write was saved.
    #[n(2)]
    pub is_part: Option<bool>,
}

/// One name in a folder.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its path below the folder; empty for the folder itself.
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
    /// What it is.
    #[n(4)]
    pub item: FolderItem,
}

/// What a name in a folder stands for.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub enum FolderItem {
    /// A directory.
    #[n(0)]
    Directory,
    /// A regular file.
    #[n(1)]
    File {
        /// What it held: position in [`super::JobState::objects`], of a mapped file that is saved whole.
        #[n(0)]
        object: u32,
    },
    /// A symbolic link.
    #[n(2)]
    Link {
        /// Where it leads.
        #[n(0)]
        target: Bytes,
    },
}
