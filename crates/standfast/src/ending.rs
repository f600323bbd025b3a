//! How a job's life under a supervisor ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The exit status of a supervisor that has stopped its job behind a checkpoint: EX_TEMPFAIL of `sysexits.h`, by which
/// batch systems know that a job wants to be queued again.
pub const STOPPED_EXIT_STATUS: i32 = 75;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself.
    Exited {
        /// Its exit status, 0 to 255.
        status: i32,
    },
    /// A signal killed the program.
    Killed {
        /// Which.
        signal: i32,
    },
    /// It was stopped on request, behind a checkpoint.
    Stopped {
        /// Which.
        generation: u64,
    },
}

impl Ending {
    /// The ending that a status of `wait(2)` tells.
    pub(crate) fn of_status(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(status), _) => Self::Exited { status },
            (None, Some(signal)) => Self::Killed { signal },
            (None, None) => unreachable!("a process that has ended either exited or was killed"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { status } => write!(f, "ended with status {status}"),
            Self::Killed { signal } => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            Self::Stopped { generation } => write!(f, "stopped behind checkpoint {generation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_by_status_or_by_the_name_of_its_signal() {
        let told = |raw| Ending::of_status(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(told(3 << 8), "ended with status 3");
        assert_eq!(told(9), "killed by SIGKILL");
        assert_eq!(told(40), "killed by signal 40");
    }
}
