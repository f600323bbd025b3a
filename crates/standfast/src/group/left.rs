//! Removes what is left on a node of a job's processes, whose launcher has ended or was killed. They may hold what the
//! next launch needs, and compute beside it. Processes belong to the job if their environment has its name, which the
//! launcher was given and passed on. This module also removes what is left in memory of a job that is done or no longer
//! wanted.

use super::job_name::named_job;
use crate::error::Error;
use crate::marked::end_marked;
use standfast_member::variables::JOB;
use standfast_member::{job_named, purge_memory};
use std::io;
use std::path::Path;

/// Kills the processes of a directory's job that run on this node, and returns their number.
///
/// # Errors
/// If the directory names no job, or one of the processes does not end.
pub fn group_end(directory: &Path) -> Result<usize, Error> {
    end_left(&named_job(directory)?).map_err(Error::system("end the remaining processes of the job"))
}

/// Kills the processes of a directory's job, and removes what the job has in this node's memory.
///
/// # Errors
/// As above, and [`Error::Group`].
pub fn group_purge(directory: &Path, memory: &Path) -> Result<(), Error> {
    group_end(directory)?;
    Ok(purge_memory(memory, job_named(named_job(directory)?.as_bytes()))?)
}

/// Kills the processes of a job by its name, and returns their number.
pub(super) fn end_left(job: &str) -> io::Result<usize> {
    let sign = sign_of(job);
    end_marked(|entry| entry == sign.as_bytes())
}

/// Returns the entry that all processes of a job have in their environment.
pub(super) fn sign_of(job: &str) -> String {
    format!("{JOB}={job}")
}
