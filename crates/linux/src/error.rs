//! Errors of traced tasks.

use crate::{Tid, WaitStatus};
use std::io;

/// The reason why a task could not be stopped, inspected or moved.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task ended; the status is present if this process has reaped it.
    #[error("task {tid} ended")]
    Ended {
        /// The task.
        tid: Tid,
        /// Its status, if this call consumed it: no other call can get it any more.
        status: Option<WaitStatus>,
    },
    /// The task did not stop before the deadline.
    #[error("task {tid} did not stop in time")]
    TimedOut {
        /// The task.
        tid: Tid,
    },
    /// The kernel refused a request.
    #[error("{action} of task {tid}: {source}")]
    Kernel {
        /// The task.
        tid: Tid,
        /// The request.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl TaskError {
    /// Converts an error of a ptrace request: ESRCH means that the task is gone (or was never ours).
    pub(crate) fn of(tid: Tid, action: &'static str, source: io::Error) -> Self {
        if source.raw_os_error() == Some(libc::ESRCH) {
            Self::Ended { tid, status: None }
        } else {
            Self::Kernel { tid, action, source }
        }
    }
}
