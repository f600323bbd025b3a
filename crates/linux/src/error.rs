//! What can go wrong with a traced task.

use crate::WaitStatus;
use std::io;

/// Why a task could not be stopped, looked at or moved.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// It ended; with its status where this process has reaped it.
    #[error("task {tid} ended")]
    Ended {
        /// The task.
        tid: i32,
        /// Its status, if this call consumed it: nobody else will get it any more.
        status: Option<WaitStatus>,
    },
    /// It did not stop before the deadline.
    #[error("task {tid} did not stop in time")]
    TimedOut {
        /// The task.
        tid: i32,
    },
    /// The kernel said no.
    #[error("{action} of task {tid}: {source}")]
    Kernel {
        /// The task.
        tid: i32,
        /// What was being done.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl TaskError {
    /// An error of a ptrace request: ESRCH means that the task is gone (or was never ours).
    pub(crate) fn of(tid: i32, action: &'static str, source: io::Error) -> Self {
        if source.raw_os_error() == Some(libc::ESRCH) {
            Self::Ended { tid, status: None }
        } else {
            Self::Kernel { tid, action, source }
        }
    }
}
