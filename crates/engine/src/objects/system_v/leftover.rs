//! What a killed life of a job has left in an IPC namespace that it shared with others: objects that a checkpoint has
//! found, and segments that were made after it.

use super::collect::{NANOSECONDS, may_have_been, was_there};
use crate::machine::machine;
use crate::supervisors::is_supervisor;
use standfast_format::records::{JobState, ObjectKind, SystemVName};
use standfast_linux::Pid;
use standfast_linux::proc;
use standfast_linux::sys::process;
use standfast_linux::system_v::{ObjectUser, SystemVKind, SystemVObject};
use std::os::unix::fs::MetadataExt;

/// Returns the number of the pid namespace of a process, or 0 if the kernel does not report it.
pub(crate) fn pid_namespace(pid: Pid) -> u64 {
    std::fs::metadata(format!("/proc/{pid}/ns/pid")).map_or(0, |it| it.ino())
}

/// Returns the number of our IPC namespace, or 0 if the kernel does not report it.
fn own_ipc_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/ipc").map_or(0, |it| it.ino())
}

/// Reports whether a job was in another IPC namespace than we are. What it has removed there may still exist in ours,
/// unless the machine has been started again since.
pub(super) fn was_elsewhere(job: &JobState) -> bool {
    let is_other = job.ipc_namespace != 0 && job.ipc_namespace != own_ipc_namespace();
    is_other && job.machine.boot_id == machine(0).boot_id
}

/// Reports whether a job was in our IPC namespace when the checkpoint was taken, and all of it has ended.
pub(super) fn was_here(job: &JobState) -> bool {
    let own = Pid::own();
    let taken = (job.clocks.realtime_nanoseconds / NANOSECONDS) as i64;
    job.machine.boot_id == machine(0).boot_id
        && (job.ipc_namespace, job.pid_namespace) == (own_ipc_namespace(), pid_namespace(own))
        && !job.processes.iter().any(|process| was_there(Pid::new(process.pid), taken))
}

/// Reports whether an object that a checkpoint has found still exists in our own IPC namespace, unused. The supervisor
/// of another job may have read it.
pub(super) fn is_leftover(job: &JobState, kind: SystemVKind, name: &SystemVName) -> bool {
    let is_it = |object: &SystemVObject| {
        (object.kind, object.id, object.key) == (kind, name.id, name.key)
            && object.creator == process::effective_user()
            && object.attached == 0
            && !object.users.iter().any(|user| may_have_been(user) && !is_supervisor(user.pid.main_thread()))
    };
    was_here(job) && SystemVObject::all().is_ok_and(|all| all.iter().any(is_it))
}

/// Returns the unused segments in our own IPC namespace that the killed life of a job has made since this checkpoint.
/// Only for segments does the kernel report which process made them: one that was in the job at the checkpoint, unless
/// ids have wrapped around since.
pub(super) fn made_since(job: &JobState) -> Vec<i32> {
    let made = proc::forks().unwrap_or(u64::MAX).saturating_sub(job.forks);
    // A failed fork takes an id as well.
    let gone_round = job.forks == 0 || made > proc::ids_max().unwrap_or_default() / 2;
    if gone_round || !was_here(job) {
        return Vec::new();
    }
    let known = |id: i32| {
        let mut names = job.objects.iter().filter_map(|object| match &object.kind {
            ObjectKind::Segment { name, .. } => Some(name.id),
            _ => None,
        });
        names.any(|known| known == id)
    };
    let taken = (job.clocks.realtime_nanoseconds / NANOSECONDS) as i64;
    let of_job = |user: &ObjectUser| job.processes.iter().any(|process| process.pid == user.pid.get());
    let is_it = |object: &SystemVObject| {
        object.kind == SystemVKind::Segment
            && object.creator == process::effective_user()
            && object.changed_seconds >= taken
            && is_unused(object, of_job)
            && !known(object.id)
    };
    let all = SystemVObject::all().unwrap_or_default();
    all.into_iter().filter(is_it).map(|object| object.id).collect()
}

/// Reports whether a segment was made by one of these processes, and nobody else uses it. Supervisors of other jobs do
/// not count: they may have read it, and ended since.
pub(super) fn is_unused(segment: &SystemVObject, of_job: impl Fn(&ObjectUser) -> bool) -> bool {
    let [maker, others @ ..] = &segment.users[..] else { return false };
    let reads = |user: &ObjectUser| is_supervisor(user.pid.main_thread());
    let is_attached = segment.attached > u64::from(others.iter().any(reads));
    of_job(maker) && !is_attached && others.iter().all(|user| of_job(user) || !may_have_been(user) || reads(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::Machine;

    #[test]
    fn a_job_in_another_ipc_namespace_of_this_boot_was_elsewhere() {
        let here = own_ipc_namespace();
        let of = |ipc_namespace, boot_id| {
            let machine = Machine { boot_id, ..machine(0) };
            was_elsewhere(&JobState { ipc_namespace, machine, ..JobState::default() })
        };
        assert!(of(here + 1, machine(0).boot_id));
        assert!(!of(here, machine(0).boot_id) && !of(0, machine(0).boot_id) && !of(here + 1, Default::default()));
    }
}
