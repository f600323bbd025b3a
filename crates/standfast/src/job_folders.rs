//! Folders that a job saves, as its manifest describes them.

use standfast_engine::Job;
use standfast_format::manifest::JobDescription;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Makes the checkpoints of a job save the folders that its run was asked to save.
pub(crate) fn save_folders(job: &Job, description: &JobDescription, directory: &Path) {
    let paths = description.folders.iter().map(|path| PathBuf::from(OsStr::from_bytes(&path.0)));
    job.save_folders(paths.collect(), std::path::absolute(directory).ok());
    if description.saves_written == Some(true) {
        job.save_written_files();
    }
    job.list_directories(started(description));
}

/// Returns when a job began, in nanoseconds since 1970.
pub(crate) fn started(description: &JobDescription) -> i64 {
    i64::try_from(description.started_nanoseconds).unwrap_or(i64::MAX)
}
