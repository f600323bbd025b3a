//! Records of what a job finds in the file system by its name and counts on: directories on the way to its files, named
//! pipes, the files of sockets. A restart makes again what is gone.

use super::Bytes;
use minicbor::{Decode, Encode};

/// What a path led to at the checkpoint; a symbolic link stands for itself.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct Surrounding {
    /// Absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Type and permissions, as `st_mode` has them.
    #[n(1)]
    pub mode: u32,
    /// Its owner.
    #[n(2)]
    pub user: u32,
    /// Its group.
    #[n(3)]
    pub group: u32,
    /// Device that holds it: a directory on another one than its parent is a mount point.
    #[n(4)]
    pub device: u64,
    /// Of a directory: whether there is nothing in it that a restart could not make again.
    #[n(5)]
    pub empty: bool,
    /// Of a working directory: whether it had been removed, and the path leads nowhere.
    #[n(6)]
    pub removed: bool,
}
