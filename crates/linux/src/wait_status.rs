//! How a task ended or why it stopped, as reported by wait(2).

/// A wait status as the kernel encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// Reports whether the task ended, by exit or signal.
    pub fn has_ended(self) -> bool {
        !libc::WIFSTOPPED(self.0)
    }

    pub(crate) fn event(self) -> i32 {
        self.0 >> 16
    }

    pub(crate) fn signal(self) -> i32 {
        libc::WSTOPSIG(self.0)
    }
}
