//! The last id that the kernel gave to a process or thread in the job's pid namespace. A restored namespace counts on from
//! there: otherwise a new thread might get the id of one that has ended, which the program may still remember.

use crate::EngineError;
use crate::objects::pid_namespace;
use crate::remote_caller::RemoteCaller;
use standfast_linux::Pid;
use standfast_linux::proc::{self, LOADAVG};
use standfast_linux::sys::file::FileSystem;
use std::fs::File;
use std::os::fd::AsFd;

/// What the file holds at most.
const TEXT_BYTES: usize = 128;

/// Returns the last id of the namespace of `pid`, which only a member of it can read. `None` if it cannot be read there
/// either.
pub(super) fn ask(remote_caller: &RemoteCaller<'_>, pid: Pid) -> Result<Option<i32>, EngineError> {
    if pid_namespace(pid) == pid_namespace(Pid::own()) {
        return Ok(proc::last_id().ok());
    }
    // In a container, a file of another file system may be in its place.
    let shown = File::open(format!("/proc/{pid}/root{LOADAVG}"));
    let is_kernels = shown.is_ok_and(|it| FileSystem::of(it.as_fd()).is_ok_and(|kind| kind == FileSystem::Processes));
    if !is_kernels {
        return Ok(None);
    }
    let mut text = [0; TEXT_BYTES];
    let length = remote_caller.read_file(LOADAVG, pid, &mut text)?;
    Ok(length.and_then(|length| proc::parse_last_id(&text[..length])))
}
