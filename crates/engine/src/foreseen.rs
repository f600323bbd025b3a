//! Refusals of a restart that depend only on the job and on our own limits. A checkpoint checks them too, so that it is
//! not taken in vain.

use crate::births::rehearse_births;
use crate::scratch::hole;
use crate::{Blocker, RefusalCode};
use standfast_format::records::{EpollInterest, JobState, OpenFile, OpenFileKind, ProcessState};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::sys::process;

/// Descriptors in addition to those made for the job: for the construction, and for calls that need one for a moment.
const DESCRIPTORS_SPARE: u64 = 32;

/// Returns what would prevent any restart of this job here.
pub(crate) fn foreseen(job: &JobState) -> Vec<Blocker> {
    let limit = process::limit(Pid::own(), abi::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
    let mut blockers = rehearse_births(job);
    let living = job.processes.iter().filter(|process| process.process_tree.wait_status.is_none());
    blockers.extend(living.filter(|process| hole(process).is_none()).map(no_room));
    let wanted = descriptors_wanted(job);
    if wanted > limit {
        let why = format!("a restart needs {wanted} at a time, and this process may have {limit} (ulimit -Hn)");
        let blocker = Blocker::new(RefusalCode::NoRoom, "descriptors", why);
        blockers.push(blocker.with_hint("raise the limit before the job is started"));
    }
    blockers
}

/// Returns how many descriptors a restart needs. It makes all open files of a job above the numbers that the job uses,
/// each pipe and terminal with both of its ends.
fn descriptors_wanted(job: &JobState) -> u64 {
    let parked = job.open_files.len()
        + 2 * job.pipes.len()
        + 2 * job.sockets.len()
        + 2 * job.terminals.len()
        + job.objects.len()
        + job.posix_queues.len();
    parking(job) + parked as u64 + DESCRIPTORS_SPARE
}

fn no_room(process: &ProcessState) -> Blocker {
    let why = "no free range of addresses for the restore trampoline";
    Blocker::new(RefusalCode::NoRoom, format!("address space of process {}", process.pid), why)
}

/// Returns the first number above all that the job's processes use, or have used to watch a file.
pub(crate) fn parking(job: &JobState) -> u64 {
    let used = job.processes.iter().flat_map(|process| &process.descriptors).map(|descriptor| descriptor.number);
    let watched = job.open_files.iter().flat_map(interests).map(|interest| interest.descriptor);
    used.chain(watched).fold(2, i32::max) as u64 + 1
}

/// Returns what an open file watches, if it is an epoll instance.
pub(crate) fn interests(file: &OpenFile) -> &[EpollInterest] {
    match &file.kind {
        OpenFileKind::Epoll { interests } => interests,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{Backing, Descriptor, Mapping, MappingAttributes, Protection};

    #[test]
    fn a_job_without_free_addresses_or_descriptors_is_refused() {
        let full = Mapping {
            may_write: None,
            start: 0x1_0000,
            end: 0x7fff_ffff_f000,
            protection: Protection::default(),
            backing: Backing::Anonymous,
            grows_down: false,
            attributes: MappingAttributes::default(),
        };
        let ordinary = ProcessState { pid: 7, ..ProcessState::default() };
        let refused = |process: &ProcessState| {
            let job = JobState { processes: vec![process.clone()], ..JobState::default() };
            foreseen(&job).into_iter().map(|it| it.what).collect::<Vec<_>>()
        };
        assert_eq!(refused(&ordinary), [""; 0]);
        assert_eq!(refused(&ProcessState { mappings: vec![full], ..ordinary.clone() }), ["address space of process 7"]);
        let last = Descriptor { number: i32::MAX - 1, close_on_exec: false, open_file: 0 };
        assert_eq!(refused(&ProcessState { descriptors: vec![last], ..ordinary }), ["descriptors"]);
    }
}
