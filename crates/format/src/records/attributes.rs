//! Records of what has been said about memory besides its access, and of the switches of a process: what survives in no
//! register and on no page, but in the kernel's notes.

use super::Bytes;
use minicbor::{Decode, Encode};

/// What has been said about one mapping.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct MappingAttributes {
    /// Standing advice.
    #[n(0)]
    pub advice: Vec<Advice>,
    /// Whether its pages must stay in memory.
    #[n(1)]
    pub lock: MemoryLock,
    /// The protection key that guards it; 0, which all memory has, guards nothing.
    #[n(2)]
    pub protection_key: u32,
    /// Size of its pages in bytes where they are huge pages from the system's pool; 0 where they are ordinary.
    #[n(3)]
    pub huge_page_bytes: u64,
    /// Whether the kernel may drop its contents at any time (`MAP_DROPPABLE`); it comes back empty.
    #[n(4)]
    pub droppable: bool,
    /// Whether it may not be changed any more (`mseal(2)`).
    #[n(5)]
    pub sealed: bool,
    /// The name that the program gave to anonymous memory (`PR_SET_VMA_ANON_NAME`).
    #[n(6)]
    pub name: Option<Bytes>,
    /// Pages that must not be touched (`MADV_GUARD_INSTALL`).
    #[n(7)]
    pub guards: Vec<GuardedPages>,
    /// Whether it counts against the memory that the system has promised. Neighbours can become one mapping only if they
    /// are alike in that.
    #[n(8)]
    pub accounting: Accounting,
    /// From which NUMA nodes it takes its memory (`mbind(2)`), where that is not as the thread says.
    #[n(9)]
    pub numa: Option<NumaPolicy>,
}

/// From which NUMA nodes memory is taken.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct NumaPolicy {
    /// `MPOL_` mode with its flags, as `set_mempolicy(2)` takes them.
    #[n(0)]
    pub mode: u32,
    /// The nodes, a bit for each.
    #[n(1)]
    pub nodes: Vec<u64>,
}

/// Whether a mapping counts against the memory that the system has promised (`proc(5)`, `VmFlags`).
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cbor(index_only)]
pub enum Accounting {
    /// The kernel was not asked.
    #[n(0)]
    #[default]
    Unknown,
    /// It does (`ac`): it is, or was, writable.
    #[n(1)]
    Counted,
    /// It never will (`nr`, `MAP_NORESERVE`).
    #[n(2)]
    Exempt,
    /// Not before it becomes writable.
    #[n(3)]
    Uncounted,
}

/// Standing advice of `madvise(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Advice {
    /// `MADV_DONTFORK`: a child does not get it.
    #[n(0)]
    DontFork,
    /// `MADV_WIPEONFORK`: a child gets it empty.
    #[n(1)]
    WipeOnFork,
    /// `MADV_DONTDUMP`: a core dump leaves it out.
    #[n(2)]
    DontDump,
    /// `MADV_HUGEPAGE`.
    #[n(3)]
    HugePages,
    /// `MADV_NOHUGEPAGE`.
    #[n(4)]
    NoHugePages,
    /// `MADV_MERGEABLE`: equal pages may be shared.
    #[n(5)]
    Mergeable,
    /// `MADV_SEQUENTIAL`.
    #[n(6)]
    Sequential,
    /// `MADV_RANDOM`.
    #[n(7)]
    Random,
}

/// Whether pages must stay in memory.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cbor(index_only)]
pub enum MemoryLock {
    /// They need not.
    #[n(0)]
    #[default]
    Unlocked,
    /// All of them.
    #[n(1)]
    Locked,
    /// Each from its first use on (`MLOCK_ONFAULT`).
    #[n(2)]
    OnFault,
}

/// Adjoining pages that must not be touched.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedPages {
    /// Address of the first.
    #[n(0)]
    pub start: u64,
    /// How many.
    #[n(1)]
    pub pages: u64,
}

/// Switches of a process.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct ProcessSwitches {
    /// Protection keys that it has allocated, a bit for each; bit 0 is always there.
    #[n(0)]
    pub protection_keys: u32,
    /// What becomes of memory that it maps later (`mlockall(MCL_FUTURE)`).
    #[n(1)]
    pub lock_future: MemoryLock,
    /// `PR_SET_CHILD_SUBREAPER`.
    #[n(2)]
    pub subreaper: bool,
    /// `PR_SET_THP_DISABLE`.
    #[n(3)]
    pub no_huge_pages: bool,
    /// `PR_SET_MEMORY_MERGE`.
    #[n(4)]
    pub merge_memory: bool,
    /// `PR_SET_MDWE`: bits.
    #[n(5)]
    pub deny_write_execute: u64,
    /// `/proc/PID/oom_score_adj`, where it is not the supervisor's.
    #[n(6)]
    pub oom_score_adjustment: Option<i32>,
    /// `/proc/PID/coredump_filter`, where it is not the supervisor's.
    #[n(7)]
    pub core_dump_filter: Option<u32>,
    /// The signal that its main thread gets when its parent ends (`PR_SET_PDEATHSIG`); 0 if none.
    #[n(8)]
    pub parent_death_signal: u32,
    /// `PR_SET_DUMPABLE`, where it has made itself undumpable.
    #[n(9)]
    pub undumpable: Option<u32>,
    /// Commands of `membarrier(2)` that it has registered for, as the kernel's `MEMBARRIER_CMD_REGISTER_` bits.
    #[n(10)]
    pub memory_barriers: Option<u32>,
    /// Its audit login id (`/proc/PID/loginuid`); all ones where none is set, absent where the kernel has none.
    #[n(11)]
    pub audit_login: Option<u32>,
}
