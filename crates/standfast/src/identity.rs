//! Converts the identity of a process between engine and lease. It is the same two numbers, but neither crate knows the
//! other.

use standfast_engine as engine;
use standfast_linux::Pid;
use standfast_store as store;

/// Converts to the type of the lease.
pub(crate) fn in_lease(process: engine::ProcessIdentity) -> store::ProcessIdentity {
    store::ProcessIdentity { pid: process.pid.get(), start_time: process.start_time }
}

/// Converts to the type of the engine.
pub(crate) fn in_engine(process: store::ProcessIdentity) -> engine::ProcessIdentity {
    engine::ProcessIdentity { pid: Pid::new(process.pid), start_time: process.start_time }
}
