//! Environment variables by which `standfast group run` configures the processes that it launches.

/// The name of the job.
pub const JOB: &str = "STANDFAST_GROUP_JOB";
/// The memory file system of each node.
pub const MEMORY: &str = "STANDFAST_GROUP_MEMORY";
/// The directory that all nodes see.
pub const DIRECTORY: &str = "STANDFAST_GROUP_DIRECTORY";
/// N: copy every Nth epoch to the directory.
pub const DIRECTORY_EVERY: &str = "STANDFAST_GROUP_DIRECTORY_EVERY";
/// N: encode every Nth epoch across the nodes.
pub const ENCODE_EVERY: &str = "STANDFAST_GROUP_ENCODE_EVERY";
/// The number of checks; 2 or more mean Reed-Solomon.
pub const CHECKS: &str = "STANDFAST_GROUP_CHECKS";
/// Seconds after which a process that hangs ends itself.
pub const HANG: &str = "STANDFAST_GROUP_HANG";
/// Seconds between checkpoints.
pub const INTERVAL: &str = "STANDFAST_GROUP_INTERVAL";
/// Abandon checkpoints while messages of the program are under way.
pub const CHECK_QUIESCENT: &str = "STANDFAST_GROUP_CHECK_QUIESCENT";
/// The file in which process 0 reports the launch progress.
pub const LAUNCH_PROGRESS: &str = "STANDFAST_GROUP_MILESTONES";
