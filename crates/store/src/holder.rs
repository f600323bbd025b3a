//! The holder of a job's lease.

/// A process identity that distinguishes a process from later ones with the same process id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

/// The holder of a lease, as recorded in the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Host name.
    pub host: String,
    /// Boot id of the host.
    pub boot_id: String,
    /// Inode number of the pid namespace.
    pub pid_namespace: u64,
    /// The supervisor.
    pub supervisor: ProcessIdentity,
    /// The program, once it runs.
    pub program: Option<ProcessIdentity>,
}
