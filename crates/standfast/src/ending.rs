//! How a job's life under a supervisor ended.

use signal_hook::consts::signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGXFSZ};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Usual exit status of a supervisor that stopped its job after a checkpoint. It is EX_TEMPFAIL of `sysexits.h`, which asks
/// batch systems to queue the job again.
pub(crate) const STOPPED_EXIT_STATUS: u8 = 75;

/// Signals that a program causes itself: its code is wrong, or it reached a limit that also applies after a restart.
const OWN_SIGNALS: [i32; 8] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGXFSZ];

/// How a job's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself.
    Exited {
        /// Its exit status, 0 to 255.
        status: i32,
    },
    /// A signal killed the program.
    Killed {
        /// Number of the signal.
        signal: i32,
    },
    /// The job was stopped on request, after a checkpoint.
    Stopped {
        /// Number of the checkpoint.
        generation: u64,
        /// Exit status that the job's options name for this.
        exit_status: u8,
    },
}

impl Ending {
    /// Reports whether the program failed by itself: it exited with a status other than 0, or a signal that it caused
    /// ended it. A restart then leads to the same failure, unless its cause lies outside the program and is gone.
    pub fn is_own_failure(&self) -> bool {
        match self {
            Self::Exited { status } => *status != 0,
            Self::Killed { signal } => OWN_SIGNALS.contains(signal),
            Self::Stopped { .. } => false,
        }
    }

    /// Returns the ending that a status of `wait(2)` describes.
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
            Self::Stopped { generation, .. } => write!(f, "stopped after checkpoint {generation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exits_and_crashes_of_the_program_are_its_own_failures() {
        let exited = |status| Ending::Exited { status };
        let killed = |signal| Ending::Killed { signal };
        for ending in [exited(1), exited(137), killed(SIGSEGV), killed(SIGABRT), killed(SIGXFSZ)] {
            assert!(ending.is_own_failure(), "{ending}");
        }
        // Limits of processor time begin again with each life, and the reader of the output may have gone.
        for ending in [exited(0), killed(9), killed(15), killed(1), killed(24), killed(13)] {
            assert!(!ending.is_own_failure(), "{ending}");
        }
        assert!(!Ending::Stopped { generation: 1, exit_status: 75 }.is_own_failure());
    }

    #[test]
    fn an_end_is_displayed_with_its_status_or_signal_name() {
        let told = |raw| Ending::of_status(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(told(3 << 8), "ended with status 3");
        assert_eq!(told(9), "killed by SIGKILL");
        assert_eq!(told(40), "killed by signal 40");
    }
}
