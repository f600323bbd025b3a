//! Memory for the next step of a frame file, taken in another thread while the earlier steps are filled. Most of the
//! cost of a frame is that the kernel clears it, and on a virtual machine that the host has to find it.

use super::take_memory;
use std::fs::File;
use std::io;
use std::thread::{Builder, JoinHandle};

/// A step that is being taken.
#[derive(Debug)]
pub(super) struct Ahead(JoinHandle<io::Result<()>>);

impl Ahead {
    /// Begins to take a step. Returns `None` if no thread can be made: the step is then taken when it is needed.
    pub(super) fn begin(file: &File, step: u64) -> Option<Self> {
        let file = file.try_clone().ok()?;
        let take = move || take_memory(&file, step);
        Builder::new().name("standfast-frames".into()).spawn(take).ok().map(Self)
    }

    /// Waits until the step has been taken.
    ///
    /// # Errors
    /// Those of the file system; a part of the step may have been taken then.
    pub(super) fn end(self) -> io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread that takes memory has panicked")))
    }
}
