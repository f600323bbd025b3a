//! Timers of a process: `setitimer`, `alarm` and `timer_create`, and the pending signals. Each expired timer has one of
//! these.

mod collect;
mod restore;

pub(crate) use collect::FoundTimers;

/// `ITIMER_REAL`, the interval timer that sends SIGALRM.
const REAL_TIME: u8 = 0;
