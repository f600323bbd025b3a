//! Who may stop threads of the job: one of us at a time, since a thread has one tracer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Passed from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// A turn; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Turn>);

impl Turn {
    /// Waits for it.
    pub(crate) fn take(self: &Arc<Self>) -> Taken {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.given_back.wait_while(taken, |taken| *taken);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
        Taken(Arc::clone(self))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.given_back.notify_one();
    }
}
