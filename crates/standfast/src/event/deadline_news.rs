//! Whether a stop after a checkpoint ends within its deadline, as the supervisor reports it.

use std::fmt;
use std::time::Duration;

/// A change of what a stop takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineNews {
    /// A stop may take longer than the deadline, at first or by far more than was reported.
    Unmet {
        /// Time within which a stop must end.
        deadline: Duration,
        /// Time that it may take.
        needed: Duration,
    },
    /// A stop ends within the deadline again.
    Met {
        /// Time within which a stop must end.
        deadline: Duration,
    },
}

impl fmt::Display for DeadlineNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet { deadline, needed } => write!(
                f,
                "a stop may take {:.1} s, longer than the deadline of {}: what the program has written since its last checkpoint could be lost\nhint: ask the scheduler for more time, use a faster disk, or try --compress auto",
                needed.as_secs_f64(),
                humantime::format_duration(*deadline)
            ),
            Self::Met { deadline } => {
                write!(f, "a stop ends within the deadline of {} again", humantime::format_duration(*deadline))
            }
        }
    }
}
