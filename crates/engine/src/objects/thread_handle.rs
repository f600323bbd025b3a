//! Descriptors of single threads (pidfd with PIDFD_THREAD): handles of threads of the job, opened again when those
//! exist.

use super::shown::Shown;
use super::{Check, Kind, Known, O_EXCL, O_NONBLOCK, Opening, Recorded, Unsupported, Walk};
use crate::{EngineError, RefusalCode};
use standfast_format::records::{OpenFile, OpenFileKind};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::{Pid, Tid};

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    // The kernel shows PIDFD_THREAD, which is O_EXCL, among the flags.
    (shown.is_process_handle() && shown.information.flags & O_EXCL != 0).then(|| walk.thread_handle(shown))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::Thread { process, thread } = file.kind else { return };
    let process = check.job.processes.get(process as usize);
    if !process.is_some_and(|process| process.threads.iter().any(|it| it.tid == thread)) {
        check.add_missing_part("names a thread");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Thread { process, thread } = *recorded.kind else { return None };
    Some(opening.make_thread_handle(process as usize, thread, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    matches!(kind, OpenFileKind::Thread { .. }).then(|| "thread descriptor".to_owned())
}

impl Walk<'_> {
    fn thread_handle(&self, shown: &Shown) -> Known {
        let Some(tid) = shown.information.process.filter(|tid| *tid > 0).map(Tid::new) else {
            return Err(Unsupported::with_hint(
                RefusalCode::ProcessHandle,
                "it refers to a thread that has ended",
                "close it once its thread has ended",
            ));
        };
        let is_of = |pid: Pid| proc::threads(pid).is_ok_and(|threads| threads.contains(&tid));
        let Some(process) = self.job().iter().position(|holder| is_of(holder.pid)) else {
            return Err(Unsupported::because(
                RefusalCode::ProcessHandle,
                format!("it refers to thread {tid}, which is not part of the program"),
            ));
        };
        let ids = Status::of_task(self.job()[process].pid, tid)?.ids;
        Ok(OpenFileKind::Thread { process: process as u32, thread: ids.last().copied().unwrap_or(tid).get() })
    }
}

impl Opening<'_> {
    fn make_thread_handle(&self, process: usize, thread: i32, flags: u32) -> Result<u64, EngineError> {
        let recorded = &self.plan.job.processes[process];
        let is_own = std::ptr::eq(recorded, self.plan.process);
        // Only the process itself may have got new ids.
        let number = recorded.threads.iter().position(|it| it.tid == thread).filter(|_| is_own);
        let tid = number.map_or(thread, |number| self.process.inner_ids[number].get());
        let flags = u64::from(flags & O_NONBLOCK | O_EXCL);
        self.call("making a thread descriptor", abi::SYS_pidfd_open, [tid as u64, flags, 0, 0, 0, 0])
    }
}
