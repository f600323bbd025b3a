//! A copy to the directory in the background, while the program continues. A node runs one copy at a time, so that copies
//! do not compete for bandwidth.

use super::LevelDirectory;
use crate::error::MemberError;
use crate::shard_store::ShardCopy;
use std::fs::File;
use std::path::Path;
use std::thread::JoinHandle;

/// A copy in progress. Dropping it waits for its end, so no thread writes to the directory without the member's
/// knowledge.
#[derive(Debug)]
pub(crate) struct Flush(Option<JoinHandle<Result<(), MemberError>>>);

impl Flush {
    /// Begins a copy. Processes of a node take turns by a lock on `node`, a directory that all of them see.
    ///
    /// # Errors
    /// If no thread can be started, or the lock cannot be opened.
    pub(crate) fn begin(directory: &LevelDirectory, copy: ShardCopy, node: &Path) -> Result<Self, MemberError> {
        let turn = File::open(node).map_err(MemberError::file(node))?;
        let (into, folder) = (directory.clone(), node.to_owned());
        let write = move || {
            turn.lock().map_err(MemberError::file(&folder))?;
            into.keep(&copy)?;
            into.prune()
        };
        let thread = std::thread::Builder::new().name("standfast-flush".into()).spawn(write);
        thread.map(|thread| Self(Some(thread))).map_err(MemberError::file(node))
    }

    /// Reports whether the copy has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the copy.
    ///
    /// # Errors
    /// Why the copy failed.
    pub(crate) fn end(mut self) -> Result<(), MemberError> {
        let panicked = || Err(MemberError::Disagreement("the copying thread has panicked".into()));
        self.0.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| panicked()))
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.take().map(JoinHandle::join);
    }
}
