//! Records of memory attributes other than access, and of process switches. No register or page holds them, only the
//! kernel's own bookkeeping.

use super::Bytes;
use minicbor::{Decode, Encode};

/// Attributes of one mapping.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct MappingAttributes {
    /// Persistent advice.
    #[n(0)]
    pub advice: Vec<Advice>,
    /// Whether its pages must stay in memory.
    #[n(1)]
    pub lock: MemoryLock,
    /// The protection key that guards it; 0, the default for all memory, guards nothing.
    #[n(2)]
    pub protection_key: u32,
    /// Size of its pages in bytes, if they are huge pages from the system's pool; 0 for ordinary pages.
    #[n(3)]
    pub huge_page_bytes: u64,
    /// Whether the kernel may drop its contents at any time (`MAP_DROPPABLE`). It is restored empty.
    #[n(4)]
    pub droppable: bool,
    /// Whether it is sealed against changes (`mseal(2)`).
    #[n(5)]
    pub sealed: bool,
    /// The name that the program gave to anonymous memory (`PR_SET_VMA_ANON_NAME`).
    #[n(6)]
    pub name: Option<Bytes>,
    /// Guard pages, which must not be accessed (`MADV_GUARD_INSTALL`).
    #[n(7)]
    pub guards: Vec<GuardedPages>,
    /// Whether it counts as committed memory. Neighbours can become one mapping only if they are alike in that.
    #[n(8)]
    pub accounting: Accounting,
    /// NUMA policy for its memory (`mbind(2)`), if it differs from the thread's.
    #[n(9)]
    pub numa: Option<NumaPolicy>,
}

/// The policy that selects NUMA nodes for memory.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct NumaPolicy {
    /// `MPOL_` mode with its flags, as `set_mempolicy(2)` takes them.
    #[n(0)]
    pub mode: u32,
    /// The nodes, one bit each.
    #[n(1)]
    pub nodes: Vec<u64>,
}

/// Whether a mapping counts as committed memory (`proc(5)`, `VmFlags`).
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cbor(index_only)]
pub enum Accounting {
    /// Unknown, since the kernel was not asked.
    #[n(0)]
    #[default]
    Unknown,
    /// It counts (`ac`): it is, or was, writable.
    #[n(1)]
    Counted,
    /// It never counts (`nr`, `MAP_NORESERVE`).
    #[n(2)]
    Exempt,
    /// It does not count until it becomes writable.
    #[n(3)]
    Uncounted,
}

/// Persistent advice of `madvise(2)`.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Advice {
    /// `MADV_DONTFORK`: a child does not inherit it.
    #[n(0)]
    DontFork,
    /// `MADV_WIPEONFORK`: a child inherits it empty.
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
    /// They need not stay.
    #[n(0)]
    #[default]
    Unlocked,
    /// All of them must.
    #[n(1)]
    Locked,
    /// Each must stay after its first use (`MLOCK_ONFAULT`).
    #[n(2)]
    OnFault,
}

/// Adjoining guard pages, which must not be accessed.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedPages {
    /// Address of the first page.
    #[n(0)]
    pub start: u64,
    /// Number of pages.
    #[n(1)]
    pub pages: u64,
}

/// Switches of a process.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct ProcessSwitches {
    /// Allocated protection keys, one bit each; bit 0 is always set.
    #[n(0)]
    pub protection_keys: u32,
    /// Locking of memory that it maps later (`mlockall(MCL_FUTURE)`).
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
    /// `PR_SET_MDWE` bits.
    #[n(5)]
    pub deny_write_execute: u64,
    /// `/proc/PID/oom_score_adj`, if it differs from the supervisor's.
    #[n(6)]
    pub oom_score_adjustment: Option<i32>,
    /// `/proc/PID/coredump_filter`, if it differs from the supervisor's.
    #[n(7)]
    pub core_dump_filter: Option<u32>,
    /// The signal that its main thread gets when its parent ends (`PR_SET_PDEATHSIG`); 0 if none.
    #[n(8)]
    pub parent_death_signal: u32,
    /// `PR_SET_DUMPABLE`, if the process has made itself undumpable.
    #[n(9)]
    pub undumpable: Option<u32>,
    /// Commands of `membarrier(2)` for which it has registered, as the kernel's `MEMBARRIER_CMD_REGISTER_` bits.
    #[n(10)]
    pub memory_barriers: Option<u32>,
    /// Its audit login id (`/proc/PID/loginuid`); all ones if none is set, absent if the kernel has none.
    #[n(11)]
    pub audit_login: Option<u32>,
    /// `PR_SET_THP_DISABLE` with these flags; absent if there are none.
    #[n(12)]
    pub huge_pages_flags: Option<u32>,
}
