//! Records of directories in which the job works: their contents at the checkpoint, even if the job did not have them
//! open. They tell a restart what programs have appended since to files that they open, write and close each time.

use super::{Bytes, FileDigest, FileIdentity};
use minicbor::{Decode, Encode};

/// A directory and all its names.
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
    /// Whether others are likely to write there as well: a home directory, a directory that anybody may write to, or
    /// the working directory of a process outside the job. A change there may be anybody's.
    #[n(3)]
    pub is_shared: bool,
    /// Its regular files.
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
    /// Its identity and times.
    #[n(2)]
    pub identity: FileIdentity,
    /// Time of its creation, in nanoseconds since 1970, if the file system records it.
    #[n(3)]
    pub born_nanoseconds: Option<i64>,
    /// Digest of its content; absent if there was too much to read.
    #[n(4)]
    pub digest: Option<FileDigest>,
    /// Whether a process of the job was seen to have it open for writing.
    #[n(5)]
    pub is_written: bool,
}
