//! Copies of all descriptors of a frozen job, for systems that forbid pidfd_getfd(2) or kcmp(2), as the seccomp profiles
//! of containers do. The collection makes them (`collect/passing.rs`).

use standfast_linux::Pid;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Copies of the descriptors of a process, by their numbers there.
pub(crate) type CopiedDescriptors = BTreeMap<i32, OwnedFd>;

/// The copied descriptors of each process; `None` if they can be taken one by one.
#[derive(Debug, Default)]
pub(crate) struct TakenDescriptors(pub(crate) Option<BTreeMap<Pid, Arc<CopiedDescriptors>>>);

impl TakenDescriptors {
    /// Returns those of a process; `None` if they can be taken one by one. Our own ones can, in any case.
    pub(crate) fn of_process(&self, pid: Pid) -> Option<Arc<CopiedDescriptors>> {
        self.0.as_ref().map(|taken| taken.get(&pid).cloned().unwrap_or_default())
    }
}
