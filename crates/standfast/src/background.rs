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
    /// Starts it.
    pub(crate) fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (ended, ends) = io::pipe()?;
        let work = move || {
            // Closed when the thread is through, however that comes about: this is what the event loop polls.
            let _ends = ends;
            work()
        };
        // The event loop hears of children; a thread that traces them would be woken by each of their stops.
        let was_held = hold_child_signal(true);
        let thread = thread::Builder::new().name(name.into()).spawn(work);
        hold_child_signal(was_held);
        Ok(Self { thread: thread?, ended })
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
