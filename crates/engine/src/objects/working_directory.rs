//! The working directory of a process: a checkpoint checks that a restart can enter it by its path, and the restart finds
//! it again, or makes it again if it was empty or had been removed.

use super::{Check, as_path};
use crate::construction::Construction;
use crate::error::kernel;
use crate::files::FileId;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{Bytes, JobState, ProcessState, Surrounding};
use standfast_linux::abi;
use standfast_linux::proc;
use standfast_linux::sys::tree::may_access;
use standfast_linux::{PassingDirectory, Pid};
use std::ffi::OsStr;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The kernel shows this after the path of a removed directory.
const DELETED: &[u8] = b" (deleted)";

/// Returns what would prevent a restart from entering the working directory of a process.
pub(crate) fn judge_working_directory(pid: Pid) -> io::Result<Option<Blocker>> {
    let shown = proc::link(pid, "cwd")?;
    let Some(why) = why_not_entered(pid, &shown)? else { return Ok(None) };
    Ok(Some(
        Blocker::new(
            RefusalCode::WorkingDirectory,
            format!("working directory {}", String::from_utf8_lossy(&shown)),
            why,
        )
        .with_hint("start the program in a directory that can be entered by its path"),
    ))
}

fn why_not_entered(pid: Pid, shown: &[u8]) -> io::Result<Option<String>> {
    let own = std::fs::metadata(format!("/proc/{pid}/cwd"))?;
    if is_removed_directory(shown, &own) {
        return Ok(None);
    }
    let path = Path::new(OsStr::from_bytes(shown));
    let is_same = |found: &Metadata| FileId::of(found) == FileId::of(&own);
    Ok(match std::fs::metadata(path) {
        Ok(found) if !is_same(&found) => Some("another directory has taken its place, or covers it".to_owned()),
        Ok(_) => may_access(path, abi::X_OK).err().map(|error| format!("a restart could not enter it ({error})")),
        Err(error) => Some(format!("a restart could not find it ({error})")),
    })
}

/// Reports whether a working directory has been removed: nothing can be created in it, and its path leads elsewhere or
/// nowhere.
pub(crate) fn is_removed_directory(shown: &[u8], own: &Metadata) -> bool {
    let there = || std::fs::symlink_metadata(OsStr::from_bytes(shown));
    shown.ends_with(DELETED) && !there().is_ok_and(|there| FileId::of(&there) == FileId::of(own))
}

impl Check<'_, '_> {
    /// Checks that every process finds its working directory, unless that had been removed. One that was empty is made
    /// again.
    pub(crate) fn working_directories(&mut self) {
        let job = self.job;
        for process in job.processes.iter().filter(|process| process.process_tree.wait_status.is_none()) {
            let path = &process.working_directory;
            if removed(job, path).is_some() {
                continue;
            }
            let found = match std::fs::metadata(as_path(path)) {
                Ok(there) if !there.is_dir() => Err("it is no longer a directory".to_owned()),
                Ok(_) => {
                    may_access(as_path(path), abi::X_OK).map_err(|error| format!("it cannot be entered ({error})"))
                }
                Err(_) => self.remaking.provide_empty(as_path(path)),
            };
            if let Err(why) = found {
                self.blockers.add_missing(format!("working directory {path}"), why);
            }
        }
    }
}

/// Returns the record of a working directory that had been removed by the checkpoint.
fn removed<'a>(job: &'a JobState, path: &Bytes) -> Option<&'a Surrounding> {
    job.surroundings.iter().flatten().find(|it| it.removed && it.path == *path)
}

impl Construction {
    /// Enters the working directory. A removed directory is made somewhere, and removed again.
    pub(crate) fn enter_working_directory(&self, job: &JobState, process: &ProcessState) -> Result<(), EngineError> {
        let directory = &process.working_directory;
        let action = format!("changing to the program's working directory {directory}");
        let enter =
            |path: &[u8]| self.call(&action, abi::SYS_chdir, [self.path_argument(path)?, 0, 0, 0, 0, 0]).map(drop);
        let Some(removed) = removed(job, directory) else { return enter(&directory.0) };
        let failed = |source| kernel(&action, source);
        let made = PassingDirectory::new().map_err(failed)?;
        enter(made.path().as_os_str().as_bytes())?;
        std::fs::set_permissions(made.path(), Permissions::from_mode(removed.mode & 0o7777)).map_err(failed)
    }
}
