//! Records of kernel timers: `setitimer(2)` and `timer_create(2)`. They record the time that was left.

use minicbor::{Decode, Encode};

/// The timers of one process.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct Timers {
    /// Running interval timers, at most one of each kind.
    #[n(0)]
    pub interval: Vec<IntervalTimer>,
    /// Timers created with `timer_create`, ascending by id.
    #[n(1)]
    pub posix: Vec<PosixTimer>,
}

/// A timer of `setitimer(2)`, or of `alarm(2)`, which uses the first kind.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalTimer {
    /// 0 real time, 1 time in user mode, 2 time in user and kernel mode.
    #[n(0)]
    pub kind: u8,
    /// Time left; 0 if it has expired and its signal is still pending.
    #[n(1)]
    pub remaining_microseconds: u64,
    /// Interval with which it restarts when it expires; 0 if it does not.
    #[n(2)]
    pub interval_microseconds: u64,
}

/// A timer of `timer_create(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixTimer {
    /// The kernel's id, which the program holds.
    #[n(0)]
    pub id: i32,
    /// The clock that it measures.
    #[n(1)]
    pub clock: TimerClock,
    /// The receiver of the notification.
    #[n(2)]
    pub notice: TimerNotice,
    /// The signal that notifies.
    #[n(3)]
    pub signal: u8,
    /// The value that comes with the signal.
    #[n(4)]
    pub value: u64,
    /// Time left; 0 if it is not running.
    #[n(5)]
    pub remaining_nanoseconds: u64,
    /// Interval with which it restarts when it expires; 0 if it does not.
    #[n(6)]
    pub interval_nanoseconds: u64,
    /// Whether it has expired and its signal is still pending. That signal is recorded only here, not among the pending
    /// ones.
    #[n(7)]
    pub has_expired: bool,
}

/// The clock that a timer measures.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerClock {
    /// A system clock, by the kernel's number.
    #[n(0)]
    System {
        /// `CLOCK_REALTIME`, `CLOCK_MONOTONIC`, ...
        #[n(0)]
        clock: i32,
    },
    /// Processor time of the process.
    #[n(1)]
    Process {
        /// 0: user and kernel mode, by ticks. 1: user mode, by ticks. 2: exact.
        #[n(0)]
        kind: u8,
    },
    /// Processor time of one thread.
    #[n(2)]
    Thread {
        /// Its position among the process's threads.
        #[n(0)]
        thread: u32,
        /// The same kinds as for a process.
        #[n(1)]
        kind: u8,
    },
}

/// The receiver of the notification when a timer expires.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerNotice {
    /// Nobody, or a thread that has ended.
    #[n(0)]
    Nobody,
    /// The process.
    #[n(1)]
    Process,
    /// One thread.
    #[n(2)]
    Thread {
        /// Its position among the process's threads.
        #[n(0)]
        thread: u32,
    },
}
