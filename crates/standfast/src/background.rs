//! Work on a thread of its own, whose end an event loop can poll for.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{self, JoinHandle};

/// Work under way.
#[derive(Debug)]
pub(crate) struct Background<T> {
    thread: JoinHandle<T>,
    ended: PipeReader,
}

impl<T: Send + 'static> Background<T> {
    /// Starts it.
    pub(crate) fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (ended, ends) = io::pipe()?;
        let work = move || {
            // Closed when the thread is through, however that comes about: this is what the event loop polls.
            let _ends = ends;
            work()
        };
        Ok(Self { thread: thread::Builder::new().name(name.into()).spawn(work)?, ended })
    }

    /// Waits for its end. An error is its panic.
    pub(crate) fn join(self) -> thread::Result<T> {
        self.thread.join()
    }
}

impl<T> AsFd for Background<T> {
    /// Polls as hung up once the work is through.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}
