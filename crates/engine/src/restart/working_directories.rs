//! Checks whether every process finds its working directory again. Looks, and touches nothing.

use super::files::as_path;
use crate::objects::Blockers;
use crate::remake::Remaking;
use standfast_format::records::{Bytes, JobState};
use standfast_linux::abi;
use standfast_linux::sys::tree::may_access;

impl Blockers {
    /// Checks that every process finds its working directory, unless that had been removed. One that was empty is made
    /// again.
    pub(super) fn check_working_directories(&mut self, job: &JobState, remaking: &mut Remaking<'_>) {
        for process in job.processes.iter().filter(|process| process.process_tree.wait_status.is_none()) {
            let path = &process.working_directory;
            if is_removed(job, path) {
                continue;
            }
            let found = match std::fs::metadata(as_path(path)) {
                Ok(there) if !there.is_dir() => Err("it is no longer a directory".to_owned()),
                Ok(_) => {
                    may_access(as_path(path), abi::X_OK).map_err(|error| format!("it cannot be entered ({error})"))
                }
                Err(_) => remaking.provide_empty(as_path(path)),
            };
            if let Err(why) = found {
                self.add_missing(format!("working directory {path}"), why);
            }
        }
    }
}

/// Reports whether a working directory had been removed by the checkpoint.
pub(super) fn is_removed(job: &JobState, path: &Bytes) -> bool {
    job.surroundings.iter().flatten().any(|it| it.removed && it.path == *path)
}
