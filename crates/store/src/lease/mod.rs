//! The lease: who looks after a job, so that it never has two lives at the same time.

use crate::StoreError;
use std::fmt;
use std::time::Duration;

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

/// Tells about the processes of this machine.
pub trait Processes: fmt::Debug + Send + Sync {
    /// When the process of this number started; `None` if there is none, or only its exit status is left of it.
    fn start_time(&self, pid: i32) -> Option<u64>;
}

/// The processes that `/proc` shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemProcesses;

impl Processes for SystemProcesses {
    fn start_time(&self, _pid: i32) -> Option<u64> {
        unimplemented!("skeleton")
    }
}

/// Where this process is.
#[derive(Debug)]
pub struct Here {
    /// Host name.
    pub host: String,
    /// Identity of the boot, `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Inode number of the pid namespace.
    pub pid_namespace: u64,
    /// This process.
    pub supervisor: ProcessIdentity,
    /// The other processes.
    pub processes: Box<dyn Processes>,
}

impl Here {
    /// Where this process is in truth.
    ///
    /// # Errors
    /// [`StoreError::Medium`] when `/proc` does not tell.
    pub fn observe() -> Result<Self, StoreError> {
        unimplemented!("skeleton")
    }
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

/// How things stand with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody holds the lease.
    Free,
    /// A live supervisor holds it.
    Supervised(Holder),
    /// The supervisor is gone and the program runs on.
    Orphaned(Holder, ProcessIdentity),
    /// Supervisor and program are gone.
    Abandoned(Holder),
    /// It is held where one cannot look from here, last heard of so long ago.
    Elsewhere(Holder, Duration),
    /// There is a lease that cannot be understood.
    Unreadable,
}

/// What the lease is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To give the job a new life: it must not have one.
    Live,
    /// To look after a program whose supervisor is gone: it may run.
    Adopt,
}

/// How the lease is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// What for.
    pub purpose: Purpose,
    /// Whether to take it from a holder that cannot be seen from here. Never takes it from one that is seen to live.
    pub force: bool,
}

/// The lease, held. Dropped without [`Lease::release`] it is given back only if no program was named in it.
#[derive(Debug)]
pub struct Lease {}

impl Lease {
    /// The program that the lease named when it was taken for [`Purpose::Adopt`], or that was set since.
    pub fn program(&self) -> Option<ProcessIdentity> {
        unimplemented!("skeleton")
    }

    /// Names the program that runs under this lease.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Medium`].
    pub fn set_program(&self, _program: ProcessIdentity) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }

    /// Shows that the holder lives. Call it every 20 seconds or so.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Medium`].
    pub fn heartbeat(&self) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }

    /// Gives the lease back: the program has ended.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Medium`].
    pub fn release(self) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }
}
