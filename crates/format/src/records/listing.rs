//! Records of directories in which the job works: what was in them at the checkpoint, though the job did not have it open.
//! By these a restart knows what programs have appended since to files that they open, write and close each time.

use super::{Bytes, FileDigest, FileIdentity};
use minicbor::{Decode, Encode};

/// A directory and all names in it.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct ListedDirectory {
    /// Its absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Device that holds it.
    #[n(1)]
    pub device: u64,
    /// Inode number.
    #[n(2)]
    pub inode: u64,
    /// Whether others are likely to write there as well: a home directory, one that anybody may write to, the working
    /// directory of a process outside the job. A change there says nothing about whose it is.
    #[n(3)]
    pub is_shared: bool,
    /// The regular files in it.
    #[n(4)]
    pub files: Vec<ListedFile>,
    /// The names of everything else in it.
    #[n(5)]
    pub others: Vec<Bytes>,
}

/// A regular file in a listed directory.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct ListedFile {
    /// Its name in the directory.
    #[n(0)]
    pub name: Bytes,
    /// Length in bytes.
    #[n(1)]
    pub length: u64,
    /// Which file it was, and when it was last touched.
    #[n(2)]
    pub identity: FileIdentity,
    /// When it was created, in nanoseconds since 1970, where the file system tells.
    #[n(3)]
    pub born_nanoseconds: Option<i64>,
    /// What it held; absent where that was not read, since there was too much.
    #[n(4)]
    pub digest: Option<FileDigest>,
    /// Whether a process of the job has been seen to have it open for writing.
    #[n(5)]
    pub is_written: bool,
}
