//! The lock on stopping threads of the job: one of us at a time, since a thread has only one tracer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Held by one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct TracerLock {
    taken: Mutex<bool>,
    released: Condvar,
}

/// The held lock; dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct TracerLockGuard(Arc<TracerLock>);

impl TracerLock {
    /// Waits for the lock and takes it.
    pub(crate) fn take(self: &Arc<Self>) -> TracerLockGuard {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.released.wait_while(taken, |taken| *taken);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
        TracerLockGuard(Arc::clone(self))
    }
}

impl Drop for TracerLockGuard {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.released.notify_one();
    }
}
