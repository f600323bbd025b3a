//! Records of threads: processor state and the kernel's state for each thread.

use super::{Bytes, NumaPolicy, PendingSignal};
use minicbor::{Decode, Encode};

/// One thread.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct ThreadState {
    /// Its thread id as the program saw it.
    #[n(0)]
    pub tid: i32,
    /// General registers in the kernel's order (x86-64: `struct user_regs_struct`, 27 words). A system call in progress
    /// is recorded in restartable form: the number in `orig_rax`, -ERESTART... in `rax`.
    #[n(1)]
    pub registers: Vec<u64>,
    /// Floating point and vector registers: the XSAVE area as ptrace returns it.
    #[n(2)]
    pub extended_registers: Bytes,
    /// Blocked signals; bit n - 1 is signal n.
    #[n(3)]
    pub signal_mask: u64,
    /// Signals pending for this thread.
    #[n(4)]
    pub pending: Vec<PendingSignal>,
    /// Alternate signal stack.
    #[n(5)]
    pub alternate_stack: AlternateStack,
    /// The word that the kernel clears and wakes when the thread ends (`set_tid_address`); 0 if none.
    #[n(6)]
    pub clear_child_tid: u64,
    /// Robust futex list.
    #[n(7)]
    pub robust_list: RobustList,
    /// Restartable sequences area, if registered.
    #[n(8)]
    pub restartable_sequence: Option<RestartableSequence>,
    /// The thread's name, at most 15 bytes.
    #[n(9)]
    pub name: Bytes,
    /// Its scheduling.
    #[n(10)]
    pub scheduling: Scheduling,
    /// Processors on which it may run, if the program has restricted them: the kernel's bit mask.
    #[n(11)]
    pub affinity: Option<Bytes>,
    /// I/O priority (`ioprio_set(2)`); 0 if none was set.
    #[n(12)]
    pub io_priority: u32,
    /// Permitted delay of its timers, in nanoseconds (`PR_SET_TIMERSLACK`).
    #[n(13)]
    pub timer_slack_nanoseconds: u64,
    /// Restrictions imposed on it, by itself or by others.
    #[n(14)]
    pub restrictions: ThreadRestrictions,
    /// The wait that was interrupted, if it has a timeout that a repeated call would start from the beginning.
    #[n(15)]
    pub wait: Option<Wait>,
    /// NUMA policy for its memory (`set_mempolicy(2)`), if it has set one.
    #[n(16)]
    pub numa: Option<NumaPolicy>,
    /// Its execution domain (`personality(2)`), if it differs from that of the main thread.
    #[n(17)]
    pub personality: Option<u32>,
}

/// The scheduling attributes of `sched_setattr(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Scheduling {
    /// SCHED_OTHER, SCHED_FIFO, ..., by the kernel's number.
    #[n(0)]
    pub policy: u32,
    /// SCHED_FLAG_ bits.
    #[n(1)]
    pub flags: u64,
    /// Nice value.
    #[n(2)]
    pub nice: i32,
    /// Real-time priority.
    #[n(3)]
    pub priority: u32,
    /// Runtime of SCHED_DEADLINE in nanoseconds, to which deadline and period belong. Other policies have a runtime
    /// too, as their slice.
    #[n(4)]
    pub runtime: u64,
    /// Deadline of SCHED_DEADLINE.
    #[n(5)]
    pub deadline: u64,
    /// Period of SCHED_DEADLINE.
    #[n(6)]
    pub period: u64,
    /// Lower utilization hint.
    #[n(7)]
    pub utilization_min: u32,
    /// Upper utilization hint.
    #[n(8)]
    pub utilization_max: u32,
}

/// Restrictions of one thread that cannot, or need not, be imposed from outside.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ThreadRestrictions {
    /// `PR_SET_NO_NEW_PRIVS`.
    #[n(0)]
    pub no_new_privileges: bool,
    /// `PR_SET_TSC`: reading the time stamp counter faults.
    #[n(1)]
    pub no_time_stamp_counter: bool,
    /// `ARCH_SET_CPUID`: querying the processor's features faults.
    #[n(2)]
    pub no_cpuid: bool,
    /// `PR_SET_SPECULATION_CTRL` of speculative store bypass, as its argument; 0 if none was requested.
    #[n(3)]
    pub store_bypass: u32,
    /// `PR_SET_SPECULATION_CTRL` of indirect branches, likewise.
    #[n(4)]
    pub indirect_branch: u32,
    /// `PR_MCE_KILL` of the thread, if it is not the system's default: 0 late, 1 early.
    #[n(5)]
    pub memory_failure: Option<u32>,
    /// `PR_SET_IO_FLUSHER`; absent if the thread is not an I/O flusher.
    #[n(6)]
    pub io_flusher: Option<bool>,
    /// Its capabilities; absent if they are those that it got from the exec of its program.
    #[n(7)]
    pub capabilities: Option<CapabilitySets>,
    /// The signal for which a thread other than the main one has asked at the end of the parent
    /// (`PR_SET_PDEATHSIG`); absent if none.
    #[n(8)]
    pub parent_death_signal: Option<u32>,
    /// `PR_SET_KEEPCAPS`; absent if it is not set.
    #[n(9)]
    pub keep_capabilities: Option<bool>,
}

/// Sets of capabilities of `capabilities(7)`; bit n is capability n.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CapabilitySets {
    /// Kept by exec if the file also has them.
    #[n(0)]
    pub inheritable: u64,
    /// Those that may be made effective.
    #[n(1)]
    pub permitted: u64,
    /// In effect.
    #[n(2)]
    pub effective: u64,
    /// Upper limit of what an exec can give.
    #[n(3)]
    pub bounding: u64,
    /// Kept by exec in any case.
    #[n(4)]
    pub ambient: u64,
}

/// A call with a timeout that was interrupted before the timeout expired.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// System call number.
    #[n(0)]
    pub call: i64,
    /// The time that the call would still have waited. It is never too short. If the kernel does not report the time
    /// already waited, it is too long by what the call had waited when first seen.
    #[n(1)]
    pub remaining_nanoseconds: u64,
}

/// The alternate signal stack of `sigaltstack(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AlternateStack {
    /// Lowest address.
    #[n(0)]
    pub start: u64,
    /// SS_ flags.
    #[n(1)]
    pub flags: u32,
    /// Length in bytes.
    #[n(2)]
    pub length: u64,
}

/// The robust futex list of `set_robust_list(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RobustList {
    /// Address of the list head; 0 if none.
    #[n(0)]
    pub head: u64,
    /// Length of the head.
    #[n(1)]
    pub length: u64,
}

/// The registration of `rseq(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartableSequence {
    /// Address of the area.
    #[n(0)]
    pub area: u64,
    /// Length of the area.
    #[n(1)]
    pub length: u32,
    /// The signature that precedes abort handlers.
    #[n(2)]
    pub signature: u32,
}
