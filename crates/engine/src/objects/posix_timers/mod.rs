//! Timers of a process: `setitimer`, `alarm` and `timer_create`, and the signals that wait, of which an expired timer has one.

mod collect;
mod restore;

pub(crate) use collect::FoundTimers;
