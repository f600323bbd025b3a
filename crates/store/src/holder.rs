//! Who holds the lease of a job.

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

/// Who holds a lease, as the lease tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Host name.
    pub host: String,
    /// Identity of the boot.
    pub boot_id: String,
    /// Inode number of the pid namespace.
    pub pid_namespace: u64,
    /// The supervisor.
    pub supervisor: ProcessIdentity,
    /// The program, once it runs.
    pub program: Option<ProcessIdentity>,
}
