//! A process as the engine names it and as the lease does: the same two numbers, since neither room knows the other.

use standfast_engine as engine;
use standfast_store as store;

/// As the lease names it.
pub(crate) fn in_lease(process: engine::ProcessIdentity) -> store::ProcessIdentity {
    store::ProcessIdentity { pid: process.pid, start_time: process.start_time }
}

/// As the engine names it.
pub(crate) fn in_engine(process: store::ProcessIdentity) -> engine::ProcessIdentity {
    engine::ProcessIdentity { pid: process.pid, start_time: process.start_time }
}
