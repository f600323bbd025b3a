//! Files that the program writes, which a checkpoint must make durable.

use std::fs::File;
use std::path::PathBuf;

/// A file that the job has open for writing.
#[derive(Debug)]
pub struct Output {
    /// Where it is.
    pub path: PathBuf,
    /// The file, opened for reading if that is allowed. A descriptor that shares the program's open file would keep its
    /// locks, and a writable one would prevent the file from being executed.
    pub file: File,
}
