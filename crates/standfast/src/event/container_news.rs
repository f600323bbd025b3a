//! Events of jobs in containers, and of systems with the same restrictions.

use super::text::list;
use std::fmt;

/// What a container means for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerNews {
    /// A restarted job could not have namespaces of its own here.
    NoNamespaces {
        /// Reason.
        reason: String,
    },
    /// The main process has ended, and the container ends with it: other processes are killed.
    EndsWithProgram {
        /// Their process ids.
        processes: Vec<i32>,
    },
    /// The supervisor was killed. The program continues in its container, and is not protected any more.
    SupervisorKilled {
        /// Process id of the program.
        pid: i32,
    },
}

impl fmt::Display for ContainerNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNamespaces { reason } => write!(
                f,
                "a restarted job cannot have namespaces of its own here ({reason}): it gets new process ids, which Go programs \
                 and jobs of several processes cannot have; and after a reboot, or on a machine that was booted later, the \
                 restart (or run --resume) needs --clock-jump\nhint: standfast doctor lists what this system forbids"
            ),
            Self::EndsWithProgram { processes } => write!(
                f,
                "the program exited, and the container ends with it: killed {} (standfast run --wait waits for them)",
                list(processes)
            ),
            Self::SupervisorKilled { pid } => write!(
                f,
                "the supervisor was killed: process {pid} continues without further checkpoints, and the container ends with \
                 it"
            ),
        }
    }
}
