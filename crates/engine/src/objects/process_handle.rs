//! Process descriptors (pidfd): handles of processes of the job, opened again when those processes exist.

use super::shown::Shown;
use super::{Check, Kind, Known, O_NONBLOCK, Opening, Recorded, Unsupported, Walk};
use crate::{EngineError, RefusalCode};
use standfast_format::records::{OpenFile, OpenFileKind};
use standfast_linux::abi;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    shown.is_process_handle().then(|| walk.process_handle(shown))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    if let OpenFileKind::Process { process } = file.kind
        && process as usize >= check.job.processes.len()
    {
        check.add_missing_part("names a process");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Process { process } = recorded.kind else { return None };
    let pid = opening.plan.job.processes[*process as usize].pid;
    Some(opening.make_process_handle(pid, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    matches!(kind, OpenFileKind::Process { .. }).then(|| "process descriptor".to_owned())
}

impl Walk<'_> {
    fn process_handle(&self, shown: &Shown) -> Known {
        let process = shown.information.process;
        // In the order of the job's records.
        let mut pids = self.job().iter().map(|holder| holder.pid).chain(self.zombies.iter().copied());
        let place = pids.position(|pid| Some(pid.get()) == process);
        match (place, process) {
            (Some(place), _) => Ok(OpenFileKind::Process { process: place as u32 }),
            (None, Some(pid)) if pid > 0 => Err(Unsupported::because(
                RefusalCode::ProcessHandle,
                format!("it refers to process {pid}, which is not part of the program"),
            )),
            _ => Err(Unsupported::with_hint(
                RefusalCode::ProcessHandle,
                "it refers to a process that has ended",
                "close it once its process has ended",
            )),
        }
    }
}

impl Opening<'_> {
    /// Opens a pidfd of a process of the job.
    fn make_process_handle(&self, pid: i32, flags: u32) -> Result<u64, EngineError> {
        let own = self.plan.process.pid == pid;
        let pid = if own { self.call("asking for the process id", abi::SYS_getpid, [0; 6])? } else { pid as u64 };
        let arguments = [pid, (flags & O_NONBLOCK).into(), 0, 0, 0, 0];
        self.call("making a process descriptor", abi::SYS_pidfd_open, arguments)
    }
}
