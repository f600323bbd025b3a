//! Records of paths that a job relies on in the file system: directories on the way to its files, named pipes and
//! socket files. A restart recreates those that are missing.

use super::Bytes;
use minicbor::{Decode, Encode};

/// The target of a path at the checkpoint. A symbolic link is recorded itself, not its target.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct Surrounding {
    /// Absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Type and permissions, as in `st_mode`.
    #[n(1)]
    pub mode: u32,
    /// Its owner.
    #[n(2)]
    pub user: u32,
    /// Its group.
    #[n(3)]
    pub group: u32,
    /// Device that holds it. A directory on another device than its parent is a mount point.
    #[n(4)]
    pub device: u64,
    /// For a directory: whether it holds nothing that a restart could not recreate.
    #[n(5)]
    pub empty: bool,
    /// For a working directory: whether it had been removed, so that the path leads nowhere.
    #[n(6)]
    pub removed: bool,
}
