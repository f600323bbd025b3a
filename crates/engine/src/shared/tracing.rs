//! What stopping a job's threads needs, from one freeze to the next.

use crate::tracer_lock::TracerLock;
use crate::waits::Waits;
use standfast_linux::{Pid, WaitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What stopping a job's threads needs.
#[derive(Debug)]
pub(crate) struct JobTracing {
    pub(crate) main: MainProcess,
    /// The waits in which its threads have been found.
    waits: Mutex<Waits>,
    /// The lock on stopping its threads.
    pub(crate) tracer_lock: Arc<TracerLock>,
    /// Whether a thread hung in the kernel at the look before a freeze.
    pub(crate) has_sleepers: AtomicBool,
}

/// The main process of a job, whose end is the end of the job.
#[derive(Debug)]
pub(crate) struct MainProcess {
    /// Its pid as this process sees it.
    pub(crate) pid: Pid,
    /// Its exit status, if a tracer has reaped it along the way.
    status: Mutex<Option<WaitStatus>>,
}

impl JobTracing {
    pub(super) fn new(main: Pid) -> Self {
        Self {
            main: MainProcess { pid: main, status: Mutex::default() },
            waits: Mutex::default(),
            tracer_lock: Arc::default(),
            has_sleepers: AtomicBool::default(),
        }
    }

    pub(crate) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MainProcess {
    pub(crate) fn keep_status(&self, status: WaitStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// Returns the exit status, if a tracer has reaped it along the way.
    pub(crate) fn take_status(&self) -> Option<WaitStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
