//! Blockers in a process as a whole and in single threads: restrictions that a new process would not have.

use super::isolation_mismatch;
use super::process_snapshot::{ProcessSnapshot, SupervisorBaseline};
use crate::remote_caller::{Answers, Number, RemoteCallBatch};
use crate::{Blocker, RefusalCode};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use std::io;

const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Returns blockers in the threads of a process other than the main one, as far as `/proc` shows them.
pub(super) fn of_other_threads(pid: Pid, main: &ProcessSnapshot, own: &Status) -> io::Result<Vec<Blocker>> {
    let others = proc::threads(pid)?.into_iter().filter(|tid| *tid != pid.main_thread());
    // A thread may have ended since the look.
    let statuses = others.filter_map(|tid| Status::of_task(pid, tid).ok());
    Ok(statuses.flat_map(|it| [of_thread(&it, own), isolation_mismatch::of_thread(pid, &it, main)].concat()).collect())
}

/// Returns a blocker in a process. A restart would lose what a device or io_uring is about to write to pinned pages, and
/// such writes cannot be seen. Rings that are registered with a thread, and whose descriptor is closed, show only here.
pub(super) fn of_process(status: &Status) -> Option<Blocker> {
    let pinned = status.pinned_kib;
    (pinned > 0).then(|| {
        lasting(
            RefusalCode::PinnedMemory,
            "pinned memory".to_owned(),
            &format!("{pinned} KiB of it are pinned for a device or for io_uring, which may write to them at any time"),
            "run the program without RDMA and io_uring",
        )
    })
}

/// Returns blockers in one thread; `own` is our own status.
pub(super) fn of_thread(status: &Status, own: &Status) -> Vec<Blocker> {
    let thread = status.ids.first().map_or(0, |tid| tid.get());
    let mut blockers = Vec::new();
    if (status.seccomp, status.seccomp_filters) != (own.seccomp, own.seccomp_filters) {
        blockers.push(lasting(
            RefusalCode::Sandbox,
            format!("seccomp filter of thread {thread}"),
            "the program has restricted its system calls, and a restart could not restrict them again",
            "run it without its sandbox",
        ));
    }
    if status.shadow_stack {
        blockers.push(lasting(
            RefusalCode::ShadowStack,
            format!("shadow stack of thread {thread}"),
            "the program runs on a hardware shadow stack, which cannot be rebuilt yet",
            "set GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
        ));
    }
    blockers
}

/// Whether a thread is under Landlock, which the kernel does not report. Such a thread may not inspect a process outside
/// its sandbox, namely us, although a process like it may. Only threads that may have put themselves under Landlock are
/// asked, and only if nothing else could be the reason; otherwise this stays unknown.
pub(super) struct Landlock(Option<Number>);

impl Landlock {
    /// Asks a thread in this user namespace, if it must be asked.
    pub(super) fn of(
        batch: &mut RemoteCallBatch,
        status: &Status,
        user_namespace: Option<&[u8]>,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Self {
        const KCMP_FILE: u64 = 0;
        let own = &supervisor_baseline.status;
        let may_be = status.no_new_privileges || status.capabilities.effective & CAP_SYS_ADMIN != 0;
        let is_like_us = (&status.users, &status.groups) == (&own.users, &own.groups)
            && own.capabilities.permitted & !status.capabilities.permitted == 0;
        // In another user namespace, our side and the init of the job's namespaces have privileges that the program
        // lacks.
        let is_with_us = user_namespace.is_some() && user_namespace == supervisor_baseline.user_namespace.as_deref();
        let ids = own.ids.last().zip(status.process_ids.last());
        // Where a seccomp profile forbids the question to us as well, the answer would say nothing about the thread.
        let question =
            ids.filter(|_| may_be && is_like_us && is_with_us && process::may_compare()).map(|(own_id, id)| {
                // A job in a pid namespace of its own sees none of our processes except its init.
                let us = if status.ids.len() > own.ids.len() { 1 } else { own_id.get() };
                batch.call(abi::SYS_kcmp, [id.get() as u64, us as u64, KCMP_FILE, 0, 0, 0])
            });
        Self(question)
    }

    pub(super) fn blocker(&self, answers: &Answers, status: &Status) -> Option<Blocker> {
        let answer = answers.number(self.0?);
        let thread = status.ids.first().map_or(0, |tid| tid.get());
        (answer == -i64::from(abi::EPERM)).then(|| {
            lasting(
                RefusalCode::Sandbox,
                format!("sandbox of thread {thread}"),
                "the program has entered a Landlock sandbox (or a similar one), which a restart could not rebuild",
                "run it without its sandbox",
            )
        })
    }
}

/// Whether a process has entries in its local descriptor table.
pub(super) struct LocalDescriptors(Number);

impl LocalDescriptors {
    /// Asks for the table at an address where nothing can be written, which fails only if there is a table.
    pub(super) fn of(batch: &mut RemoteCallBatch) -> Self {
        const READ: u64 = 0;
        const ENTRY_BYTES: u64 = 8;
        Self(batch.call(abi::SYS_modify_ldt, [READ, 0, ENTRY_BYTES, 0, 0, 0]))
    }

    pub(super) fn blocker(&self, answers: &Answers) -> Option<Blocker> {
        // The call returns an int: the upper half of its error is zero.
        (answers.number(self.0) as i32 == -abi::EFAULT).then(|| {
            lasting(
                RefusalCode::LocalDescriptors,
                "local descriptor table".to_owned(),
                "the program has made segments of its own (modify_ldt), which cannot be made again yet",
                "run it without emulating other programs",
            )
        })
    }
}

/// Returns a blocker for switches that only privileged programs have, and that a restart would not give them. Whether
/// capabilities are kept is carried for each thread.
pub(super) fn secure_bits(theirs: i64, ours: i64) -> Option<Blocker> {
    const KEEP_CAPABILITIES: i64 = 1 << 4;
    (theirs | KEEP_CAPABILITIES != ours | KEEP_CAPABILITIES).then(|| {
        lasting(
            RefusalCode::SecurityBits,
            "security bits".to_owned(),
            "the program has changed what privileges mean to it (PR_SET_SECUREBITS)",
            "start it under capsh with these bits set",
        )
    })
}

fn lasting(code: RefusalCode, what: String, why: &str, hint: &str) -> Blocker {
    Blocker::new(code, what, why).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_linux::Tid;

    /// Needs neither the hardware nor a kernel that supports it.
    #[test]
    fn pinned_memory_is_a_blocker() {
        assert!(of_process(&Status::default()).is_none());
        let pinned = of_process(&Status { pinned_kib: 12, ..Status::default() });
        assert!(pinned.is_some_and(|it| it.why.starts_with("12 KiB") && !it.passing));
    }

    #[test]
    fn seccomp_filters_and_shadow_stacks_of_a_thread_are_reported() {
        let own = Status { ids: vec![Tid::new(7)], ..Status::default() };
        assert_eq!(of_thread(&own, &own), []);
        let named = |status: Status| of_thread(&status, &own).remove(0).what;
        assert_eq!(named(Status { shadow_stack: true, ..own.clone() }), "shadow stack of thread 7");
        assert_eq!(named(Status { seccomp: 1, ..own.clone() }), "seccomp filter of thread 7");
        assert_eq!(named(Status { seccomp_filters: 1, ..own.clone() }), "seccomp filter of thread 7");
    }
}
