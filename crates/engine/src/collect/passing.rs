//! Has the processes of a frozen job send us their descriptors, where pidfd_getfd(2) or kcmp(2) is forbidden. With copies
//! of our own, we can look at open files and compare them.

use super::process_snapshot::SupervisorBaseline;
use super::{Subject, named, refuse, restrictions, threads};
use crate::EngineError;
use crate::freeze::{Frozen, FrozenProcess};
use crate::shared::MainProcess;
use crate::taken_descriptors::{CopiedDescriptors, TakenDescriptors};
use standfast_linux::DescriptorPassage;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kernel lets nobody send these.
const NOT_SENT: &[u8] = b"anon_inode:[io_uring]";

/// Takes the descriptors of all processes, if they cannot be taken one by one.
pub(super) fn take_descriptors(
    frozen: &Frozen,
    subjects: &[Subject<'_>],
    supervisor_baseline: &SupervisorBaseline,
) -> Result<TakenDescriptors, EngineError> {
    if !DescriptorPassage::is_needed() && process::may_compare() {
        return Ok(TakenDescriptors::default());
    }
    let mut taken = BTreeMap::new();
    for (frozen_process, subject) in frozen.processes.iter().zip(subjects) {
        refuse_sandboxes(frozen_process, &supervisor_baseline.status, subjects.len())?;
        taken.insert(frozen_process.pid, Arc::new(take(frozen_process, subject, &frozen.shared.tracing.main)?));
    }
    Ok(TakenDescriptors(Some(taken)))
}

/// Refuses a process with a sandbox of its own, which might end it for our calls.
fn refuse_sandboxes(process: &FrozenProcess, own: &Status, processes: usize) -> Result<(), EngineError> {
    let statuses = process.tasks.iter().map(|task| Status::of_task(process.pid, task.task.tid()));
    let statuses = statuses.collect::<Result<Vec<_>, _>>().map_err(|_| EngineError::Ended)?;
    let blockers = statuses.iter().flat_map(|status| restrictions::of_thread(status, own)).collect();
    refuse(&mut named(blockers, process.pid, processes))
}

fn take(process: &FrozenProcess, subject: &Subject<'_>, main: &MainProcess) -> Result<CopiedDescriptors, EngineError> {
    let all = proc::numbers(process.pid, "fd").map_err(|_| EngineError::Ended)?;
    let target = |number: &i32| proc::link(process.pid, &format!("fd/{number}"));
    let is_sent = |number: &i32| target(number).is_ok_and(|target| target != NOT_SENT);
    let sent: Vec<i32> = all.iter().copied().filter(is_sent).collect();
    let mut taken = CopiedDescriptors::new();
    threads::in_tasks(process, &subject.process_snapshot, main, 1, |remote_caller, _, _| {
        let copies = remote_caller.take_descriptors(&sent, &all)?;
        taken.extend(sent.iter().copied().zip(copies));
        // A processor may count a part of the registers as used once the task has run, although it holds zeros. The
        // questions that follow must find what this stop has found.
        Ok(true)
    })?;
    Ok(taken)
}
