//! Blockers in a process as a whole and in single threads: restrictions that a new process would not have.

use super::apart;
use super::process_snapshot::{ProcessSnapshot, SupervisorBaseline};
use crate::remote_caller::{Answers, Number, RemoteCallBatch};
use crate::{Blocker, RefusalCode};
use standfast_linux::proc::{self, Status};
use std::io;

const CAP_SYS_ADMIN: u64 = 1 << 21;

/// What stands in the way in the threads of a process but the main one, as far as `/proc` tells.
pub(super) fn of_other_threads(pid: i32, main: &ProcessSnapshot, own: &Status) -> io::Result<Vec<Blocker>> {
    let others = proc::numbers(pid, "task")?.into_iter().filter(|tid| *tid != pid);
    // A thread may have ended since the look.
    let statuses = others.filter_map(|tid| Status::of_task(pid, tid).ok());
    Ok(statuses.flat_map(|it| [of_thread(&it, own), apart::of_thread(pid, &it, main)].concat()).collect())
}

/// What stands in the way in a process. What a device or io_uring is about to write to pinned pages would be lost by a restart,
/// and is not seen when it is written. Rings whose descriptor is closed, but that are registered with a thread, show here alone.
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

/// What stands in the way in one thread, `own` being ourselves.
pub(super) fn of_thread(status: &Status, own: &Status) -> Vec<Blocker> {
    let thread = status.ids.first().copied().unwrap_or_default();
    let mut blockers = Vec::new();
    if (status.seccomp, status.seccomp_filters) != (own.seccomp, own.seccomp_filters) {
        blockers.push(lasting(
            RefusalCode::Sandbox,
            format!("seccomp filter of thread {thread}"),
            "the program has restricted its system calls, which a restart could not do again",
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

/// Whether a thread is under Landlock, which the kernel tells nobody: it may not look at a process outside of its sandbox
/// that a process like it may look at, namely at us. Asked of those alone that may have put themselves under Landlock, and
/// where nothing else could be the reason; elsewhere nobody knows.
pub(super) struct Landlock(Option<Number>);

impl Landlock {
    /// Whether a thread that lives in this user namespace is to be asked, and if so the question.
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
        // In another one our side, and the init of the job's namespaces, have privileges that the program has not.
        let is_with_us = user_namespace.is_some() && user_namespace == supervisor_baseline.user_namespace.as_deref();
        let ids = own.ids.last().zip(status.process_ids.last());
        let question = ids.filter(|_| may_be && is_like_us && is_with_us).map(|(own_id, id)| {
            // In a pid namespace of its own the job sees of us its init only.
            let us = if status.ids.len() > own.ids.len() { 1 } else { *own_id };
            batch.call(libc::SYS_kcmp, [*id as u64, us as u64, KCMP_FILE, 0, 0, 0])
        });
        Self(question)
    }

    pub(super) fn blocker(&self, answers: &Answers, status: &Status) -> Option<Blocker> {
        let answer = answers.number(self.0?);
        let thread = status.ids.first().copied().unwrap_or_default();
        (answer == -i64::from(libc::EPERM)).then(|| {
            lasting(
                RefusalCode::Sandbox,
                format!("sandbox of thread {thread}"),
                "the program has put itself under Landlock (or something like it), and a restart would be free of it",
                "run it without its sandbox",
            )
        })
    }
}

/// Switches that only privileged programs have, and that a restart would not give them.
pub(super) fn secure_bits(theirs: i64, ours: i64) -> Option<Blocker> {
    (theirs != ours).then(|| {
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

    /// Neither needs hardware or a kernel that has it.
    #[test]
    fn pinned_memory_stands_in_the_way() {
        assert!(of_process(&Status::default()).is_none());
        let pinned = of_process(&Status { pinned_kib: 12, ..Status::default() });
        assert!(pinned.is_some_and(|it| it.why.starts_with("12 KiB") && !it.passing));
    }

    #[test]
    fn restrictions_that_a_new_process_would_not_have_are_named() {
        let own = Status { ids: vec![7], ..Status::default() };
        assert_eq!(of_thread(&own, &own), []);
        let named = |status: Status| of_thread(&status, &own).remove(0).what;
        assert_eq!(named(Status { shadow_stack: true, ..own.clone() }), "shadow stack of thread 7");
        assert_eq!(named(Status { seccomp: 1, ..own.clone() }), "seccomp filter of thread 7");
        assert_eq!(named(Status { seccomp_filters: 1, ..own.clone() }), "seccomp filter of thread 7");
    }
}
