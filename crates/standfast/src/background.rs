//! Work on a thread of its own, whose end an event loop can poll for.

use standfast_engine::hold_child_signal;
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
    /// Starts the work.
    pub(crate) fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (ended, ends) = io::pipe()?;
        let work = move || {
            // Closed when the thread ends for any reason. The event loop polls for this.
            let _ends = ends;
            work()
        };
        // The event loop handles SIGCHLD. A thread that traces children would be woken by each of their stops.
        let was_held = hold_child_signal(true);
        let thread = thread::Builder::new().name(name.into()).spawn(work);
        hold_child_signal(was_held);
        Ok(Self { thread: thread?, ended })
    }

    /// Waits for the work to end. An error is its panic.
    pub(crate) fn join(self) -> thread::Result<T> {
        self.thread.join()
    }
}

impl<T> AsFd for Background<T> {
    /// Returns a descriptor that polls as hung up when the work has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}
