//! `/proc/PID/status`: ids in namespaces, caught and ignored signals, umask, tracer, restrictions.

use super::{parse, parse_hex, parse_octal, words};
use crate::{Pid, Tid};
use std::io;
use std::sync::OnceLock;

/// The fields of `/proc/PID/status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The task's id in each nested namespace, the innermost last.
    pub ids: Vec<Tid>,
    /// The ids of its process in the same namespaces.
    pub process_ids: Vec<Pid>,
    /// The ids of its process group; 0 in a namespace to which the group's leader does not belong.
    pub process_groups: Vec<i32>,
    /// The ids of its session.
    pub sessions: Vec<i32>,
    /// Effective user.
    pub user: u32,
    /// Its tracer.
    pub tracer: Option<Tid>,
    /// File mode creation mask.
    pub umask: u32,
    /// Ignored signals; bit n - 1 is signal n.
    pub ignored: u64,
    /// Caught signals.
    pub caught: u64,
    /// Signals pending for the thread and for the process.
    pub pending: u64,
    /// Signals pending for the process, which any thread may take.
    pub shared_pending: u64,
    /// Whether it is writing a core file, after which it ends.
    pub dumps_core: bool,
    /// Number of times that it has gone to sleep so far.
    pub times_slept: u64,
    /// Blocked signals.
    pub blocked: u64,
    /// Seccomp mode: 0 off, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Whether exec can no longer gain privileges.
    pub no_new_privileges: bool,
    /// Whether huge pages are switched off for the process (or the kernel has none).
    pub no_huge_pages: bool,
    /// Memory locked into RAM, in KiB.
    pub locked_kib: u64,
    /// Memory that cannot be moved since a device or io_uring writes or reads it, in KiB.
    pub pinned_kib: u64,
    /// Whether it runs on a shadow stack.
    pub shadow_stack: bool,
    /// Number of seccomp filters.
    pub seccomp_filters: u32,
    /// Real, effective, saved and file system user.
    pub users: Vec<u32>,
    /// Real, effective, saved and file system group.
    pub groups: Vec<u32>,
    /// Supplementary groups, in the kernel's order, which is ascending.
    pub more_groups: Vec<u32>,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Setting requested for speculative store bypass, as an argument of `PR_SET_SPECULATION_CTRL`; 0 if none.
    pub store_bypass: u32,
    /// Setting requested for indirect branches, in the same form.
    pub indirect_branch: u32,
}

/// Sets of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Kept by exec if the file also has them.
    pub inheritable: u64,
    /// Those that may be made effective.
    pub permitted: u64,
    /// In effect.
    pub effective: u64,
    /// Upper limit of what an exec can give.
    pub bounding: u64,
    /// Kept by exec in any case.
    pub ambient: u64,
}

impl Capabilities {
    /// Returns what an exec gives a process of root (`user` is 0) or of another user that has these. The program has no
    /// capabilities from its file.
    #[must_use]
    pub fn after_exec(self, user: u32) -> Self {
        let of_root = if user == 0 { self.inheritable | self.bounding } else { 0 };
        let permitted = of_root | self.ambient;
        Self { permitted, effective: permitted, ..self }
    }

    /// Returns those of the first process in a new user namespace.
    #[must_use]
    pub fn of_new_namespace() -> Self {
        /// The highest capability of Linux 5.9 and later.
        const LAST: u32 = 40;
        static ALL: OnceLock<u64> = OnceLock::new();
        let all = *ALL.get_or_init(|| {
            let last = std::fs::read("/proc/sys/kernel/cap_last_cap").ok();
            let last = last.and_then(|text| parse(text.trim_ascii())).unwrap_or(LAST);
            u64::MAX >> (u64::BITS - 1).saturating_sub(last)
        });
        Self { permitted: all, effective: all, bounding: all, ..Self::default() }
    }
}

impl Status {
    /// Reads the fields of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self::parse(&super::read(pid, "status")?))
    }

    /// Reads the fields of one of its threads.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of_task(pid: Pid, tid: Tid) -> io::Result<Self> {
        Ok(Self::parse(&super::read(pid, &format!("task/{tid}/status"))?))
    }

    /// Parses the file. Fields whose lines a kernel lacks stay zero.
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let hex = || parse_hex(value).unwrap_or_default();
            match name {
                b"NSpid" => status.ids = words(value).filter_map(parse).map(Tid::new).collect(),
                b"NSpgid" => status.process_groups = words(value).filter_map(parse).collect(),
                b"NSsid" => status.sessions = words(value).filter_map(parse).collect(),
                b"NStgid" => status.process_ids = words(value).filter_map(parse).map(Pid::new).collect(),
                b"Uid" => {
                    status.users = words(value).filter_map(parse).collect();
                    status.user = status.users.get(1).copied().unwrap_or_default();
                }
                b"TracerPid" => status.tracer = parse(value).filter(|id| *id != 0).map(Tid::new),
                b"Umask" => status.umask = parse_octal(value).unwrap_or_default(),
                b"SigIgn" => status.ignored = hex(),
                b"SigCgt" => status.caught = hex(),
                b"SigPnd" => status.pending |= hex(),
                b"ShdPnd" => {
                    status.shared_pending = hex();
                    status.pending |= status.shared_pending;
                }
                b"voluntary_ctxt_switches" => status.times_slept = parse(value).unwrap_or_default(),
                b"CoreDumping" => status.dumps_core = value == b"1",
                b"SigBlk" => status.blocked = hex(),
                b"Seccomp" => status.seccomp = parse(value).unwrap_or_default(),
                b"NoNewPrivs" => status.no_new_privileges = value == b"1",
                b"VmLck" => status.locked_kib = words(value).next().and_then(parse).unwrap_or_default(),
                b"VmPin" => status.pinned_kib = words(value).next().and_then(parse).unwrap_or_default(),
                b"THP_enabled" => status.no_huge_pages = value == b"0",
                b"Seccomp_filters" => status.seccomp_filters = parse(value).unwrap_or_default(),
                b"Gid" => status.groups = words(value).filter_map(parse).collect(),
                b"Groups" => status.more_groups = words(value).filter_map(parse).collect(),
                b"CapInh" => status.capabilities.inheritable = hex(),
                b"CapPrm" => status.capabilities.permitted = hex(),
                b"CapEff" => status.capabilities.effective = hex(),
                b"CapBnd" => status.capabilities.bounding = hex(),
                b"CapAmb" => status.capabilities.ambient = hex(),
                b"Speculation_Store_Bypass" => status.store_bypass = speculation(value),
                b"SpeculationIndirectBranch" => status.indirect_branch = speculation(value),
                b"x86_Thread_features" => status.shadow_stack = words(value).any(|word| word == b"shstk"),
                _ => {}
            }
        }
        status
    }
}

/// Parses the kernel's words for a setting that the thread itself has requested; settings for all threads are not
/// requests of this one.
fn speculation(value: &[u8]) -> u32 {
    const PR_SPEC_DISABLE: u32 = 4;
    const PR_SPEC_FORCE_DISABLE: u32 = 8;
    match value {
        b"thread mitigated" | b"conditional disabled" => PR_SPEC_DISABLE,
        b"thread force mitigated" | b"conditional force disabled" => PR_SPEC_FORCE_DISABLE,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_gives_root_what_is_bounding_and_others_what_is_ambient() {
        let own = Capabilities { inheritable: 1, bounding: 6, ambient: 1, ..Capabilities::default() };
        assert_eq!(own.after_exec(0), Capabilities { permitted: 7, effective: 7, ..own });
        assert_eq!(own.after_exec(1000), Capabilities { permitted: 1, effective: 1, ..own });
    }

    #[test]
    fn a_new_namespace_begins_with_all_that_the_kernel_knows() {
        let all = Capabilities::of_new_namespace();
        assert_eq!((all.permitted, all.effective, all.ambient), (all.bounding, all.bounding, 0));
        assert_eq!(all.bounding.count_ones(), all.bounding.trailing_ones());
        let ours = Status::of(Pid::own()).unwrap().capabilities;
        assert_eq!(ours.bounding & !all.bounding, 0);
    }

    #[test]
    fn fields_are_found_by_name_among_unknown_ones() {
        let text = b"Name:\ta: \xff\nfuture\nFuture:\tx: y\nUmask:\t0022\nUid:\t1\t2\t3\t4\nTracerPid:\t7\nNStgid:\t9\t3\nNSpid:\t10\t4\nNSpgid:\t8\t2\nNSsid:\t6\t0\n\
            SigPnd:\t0000000000000001\nShdPnd:\t0000000000000002\nSigIgn:\t0000000000001000\nSigCgt:\tffffffffffffffff\n\
            SigBlk:\t0000000000000004\nSeccomp:\t2\nNoNewPrivs:\t1\nVmLck:\t      12 kB\nVmPin:\t      16 kB\nTHP_enabled:\t0\nx86_Thread_features:\tshstk wrss\n\
            Seccomp_filters:\t3\nGid:\t5\t6\t7\t8\nGroups:\t4 27 \nCapInh:\t1\nCapPrm:\t2\nCapEff:\t3\nCapBnd:\t4\n\
            CapAmb:\t5\nSpeculation_Store_Bypass:\tthread force mitigated\n\
            SpeculationIndirectBranch:\tconditional disabled\nCoreDumping:\t1\nvoluntary_ctxt_switches:\t12\n";
        let expected = Status {
            ids: [10, 4].map(Tid::new).to_vec(),
            process_ids: [9, 3].map(Pid::new).to_vec(),
            process_groups: vec![8, 2],
            sessions: vec![6, 0],
            user: 2,
            tracer: Some(Tid::new(7)),
            umask: 0o22,
            ignored: 0x1000,
            caught: u64::MAX,
            pending: 3,
            shared_pending: 2,
            dumps_core: true,
            times_slept: 12,
            blocked: 4,
            seccomp: 2,
            no_new_privileges: true,
            no_huge_pages: true,
            pinned_kib: 16,
            locked_kib: 12,
            shadow_stack: true,
            seccomp_filters: 3,
            users: vec![1, 2, 3, 4],
            groups: vec![5, 6, 7, 8],
            more_groups: vec![4, 27],
            capabilities: Capabilities { inheritable: 1, permitted: 2, effective: 3, bounding: 4, ambient: 5 },
            store_bypass: 8,
            indirect_branch: 4,
        };
        assert_eq!(Status::parse(text), expected);
        assert_eq!(Status::parse(b"Name:\tx\n"), Status::default(), "a line that is missing");
    }
}
