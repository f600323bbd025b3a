//! Records of threads: processor state and what the kernel keeps for each.

use super::{Bytes, NumaPolicy, PendingSignal};
use minicbor::{Decode, Encode};

/// One thread.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Default)]
pub struct ThreadState {
    /// Its thread id as the program saw it.
    #[n(0)]
    pub tid: i32,
    /// General registers in the kernel's order (x86-64: `struct user_regs_struct`, 27 words). A system call in progress
    /// stands here in restartable form: the number in `orig_rax`, -ERESTART... in `rax`.
    #[n(1)]
    pub registers: Vec<u64>,
    /// Floating point and vector registers: the XSAVE area as ptrace gives it.
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
    /// Restartable sequences area, where registered.
    #[n(8)]
    pub restartable_sequence: Option<RestartableSequence>,
    /// The thread's name, at most 15 bytes.
    #[n(9)]
    pub name: Bytes,
    /// How it is scheduled.
    #[n(10)]
    pub scheduling: Scheduling,
    /// Processors on which it may run, where the program has restricted them: the kernel's bit mask.
    #[n(11)]
    pub affinity: Option<Bytes>,
    /// Priority for disks (`ioprio_set(2)`); 0 if none was set.
    #[n(12)]
    pub io_priority: u32,
    /// How late its timers may be, in nanoseconds (`PR_SET_TIMERSLACK`).
    #[n(13)]
    pub timer_slack_nanoseconds: u64,
    /// What it has been forbidden, or has forbidden itself.
    #[n(14)]
    pub restrictions: ThreadRestrictions,
    /// The wait that was interrupted, where it has a limit that a call made again would begin again.
    #[n(15)]
    pub wait: Option<Wait>,
    /// From which NUMA nodes it takes memory (`set_mempolicy(2)`), where it has said so.
    #[n(16)]
    pub numa: Option<NumaPolicy>,
}

/// `sched_setattr(2)`.
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
    /// Run time, deadline and period of SCHED_DEADLINE, in nanoseconds; the run time also of others, as their slice.
    #[n(4)]
    pub runtime: u64,
    /// See above.
    #[n(5)]
    pub deadline: u64,
    /// See above.
    #[n(6)]
    pub period: u64,
    /// Hints about utilization, least and most.
    #[n(7)]
    pub utilization_min: u32,
    /// See above.
    #[n(8)]
    pub utilization_max: u32,
}

/// Restrictions of one thread that it cannot, or need not, be given from outside.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ThreadRestrictions {
    /// `PR_SET_NO_NEW_PRIVS`.
    #[n(0)]
    pub no_new_privileges: bool,
    /// `PR_SET_TSC`: reading the time stamp counter is a fault.
    #[n(1)]
    pub no_time_stamp_counter: bool,
    /// `ARCH_SET_CPUID`: asking the processor for its features is a fault.
    #[n(2)]
    pub no_cpuid: bool,
    /// `PR_SET_SPECULATION_CTRL` of speculative store bypass, as its argument; 0 if nothing was asked for.
    #[n(3)]
    pub store_bypass: u32,
    /// The same of indirect branches.
    #[n(4)]
    pub indirect_branch: u32,
    /// `PR_MCE_KILL` of the thread, where it is not the system's default: 0 late, 1 early.
    #[n(5)]
    pub memory_failure: Option<u32>,
    /// `PR_SET_IO_FLUSHER`; absent where it is not one.
    #[n(6)]
    pub io_flusher: Option<bool>,
}

/// A call that waits for at most some time, interrupted before that was over.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Number of the call.
    #[n(0)]
    pub call: i64,
    /// How long it would have gone on waiting: not less, but more by as long as it had waited when it was first seen, where
    /// the kernel does not tell that.
    #[n(1)]
    pub remaining_nanoseconds: u64,
}

/// `sigaltstack(2)`.
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

/// `set_robust_list(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RobustList {
    /// Address of the list head; 0 if none.
    #[n(0)]
    pub head: u64,
    /// Length of the head.
    #[n(1)]
    pub length: u64,
}

/// `rseq(2)`.
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
