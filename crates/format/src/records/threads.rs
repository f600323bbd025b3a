//! Records of threads: processor state and what the kernel keeps for each.

use super::{Bytes, PendingSignal};
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
