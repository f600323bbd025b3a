//! What is known about a job's files, from one checkpoint to the next.

use crate::files::{Digests, FileId, Writers};
use crate::folders::Folders;
use crate::listing::Listing;
use standfast_format::records::FileReference;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Copied files with code, by device and inode, as they were when they were copied.
pub(crate) type Kept = HashMap<FileId, FileReference>;

/// What is known about a job's files.
#[derive(Debug, Default)]
pub(crate) struct JobFiles {
    /// Their known contents.
    pub(crate) digests: Digests,
    /// Other processes that write to them.
    pub(crate) writers: Writers,
    /// Copied files with code, in case they are replaced.
    kept: Mutex<Kept>,
    /// Directories that are saved with everything in them.
    folders: Mutex<Folders>,
    /// Files that it has been seen to write through shared mappings.
    written: Mutex<BTreeSet<FileId>>,
    /// The contents of the directories in which it works.
    pub(crate) listing: Listing,
}

impl JobFiles {
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn folders(&self) -> MutexGuard<'_, Folders> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn written(&self) -> MutexGuard<'_, BTreeSet<FileId>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
