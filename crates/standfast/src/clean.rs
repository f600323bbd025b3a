//! `clean`: removes what a job no longer needs.

use crate::Error;
use crate::control::SOCKET_NAME as CONTROL;
use crate::event::Listener;
use crate::interrupts::Interrupts;
use crate::messages::MESSAGES;
use crate::report::CleaningReport;
use crate::takeover::{await_exit, take_lease};
use crate::terminal::SOCKET_NAME as TERMINAL;
use standfast_store::{Holdings, JobDirectory, LeaseRequest, LeaseState, Levels, Purpose, StoreError};
use std::path::PathBuf;

/// Names of the supervisor's files in a job's directory.
const SUPERVISORS: [&str; 3] = [CONTROL, TERMINAL, MESSAGES];

/// What to remove.
#[derive(Debug, Clone)]
pub struct CleanRequest {
    /// The job's directory.
    pub directory: PathBuf,
    /// Whether to remove the checkpoints of an unfinished job as well.
    pub unfinished: bool,
    /// Whether to take the directory from a holder that is not visible from here.
    pub force: bool,
    /// Whether only to report what would be removed.
    pub dry_run: bool,
    /// Directory in which the jobs of this user share the binaries that they save, if they share them.
    pub shared_binaries: Option<PathBuf>,
}

/// Removes a finished job: its checkpoints on all levels, and its directory unless that contains other files.
///
/// # Errors
/// If the job runs, if it is unfinished and the request does not include that, or if something cannot be removed.
pub fn clean(request: &CleanRequest, listener: &mut Listener<'_>) -> Result<CleaningReport, Error> {
    let of_store = |error| Error::of_store(&request.directory, error);
    let directory = JobDirectory::open(&request.directory).map_err(of_store)?;
    request.shared_binaries.iter().for_each(|place| directory.share_binaries_in(place));
    let lease_request = LeaseRequest { purpose: Purpose::Live, force: request.force };
    // Check before the lease is taken, since taking it would leave a trace in a directory without a job. The heartbeat
    // of another boot is watched when the lease is taken.
    await_exit(&directory, &request.directory, lease_request.purpose, Interrupts::default(), listener)?;
    if !matches!(directory.lease_state().map_err(of_store)?, LeaseState::OtherBoot(..)) {
        directory.would_grant(lease_request).map_err(of_store)?;
    }
    request.check(&directory)?;
    let report = |levels: Option<&Levels>, left| {
        let each = |level_directory: &JobDirectory| level_directory.holdings().map_err(of_store);
        let mut all = each(&directory)?;
        if let Some(memory) = levels.and_then(|levels| levels.memory.as_ref()) {
            let Holdings { checkpoints, bytes } = each(memory)?;
            all = Holdings { checkpoints: all.checkpoints + checkpoints, bytes: all.bytes + bytes };
        }
        let Holdings { checkpoints, bytes } = all;
        let directory = request.directory.clone();
        Ok(CleaningReport { directory, is_dry_run: request.dry_run, checkpoints, bytes, left })
    };
    let levels = || Levels::open(directory.clone()).ok().map(|(levels, _)| levels);
    if request.dry_run {
        let left = directory.foreign_names(&SUPERVISORS).map_err(of_store)?;
        return report(levels().as_ref(), left);
    }
    let lease = take_lease(&directory, &request.directory, lease_request, Interrupts::default(), listener)?;
    // Another process may have continued it before we had the lease.
    request.check(&directory)?;
    let mut levels = levels();
    let mut report = report(levels.as_ref(), Vec::new())?;
    if let Some(levels) = &mut levels {
        levels.discard_memory(&lease, false).map_err(of_store)?;
    }
    report.left = directory.remove_job(lease, &SUPERVISORS).map_err(of_store)?.left;
    Ok(report)
}

impl CleanRequest {
    /// Checks that nothing is lost that users may need.
    fn check(&self, directory: &JobDirectory) -> Result<(), Error> {
        if self.unfinished {
            return Ok(());
        }
        let of_store = |error| Error::of_store(&self.directory, error);
        let manifest = match directory.manifest() {
            // There may be checkpoints with unknown contents.
            Err(StoreError::Manifest { .. }) => return Err(Error::NotFinished(self.directory.clone())),
            other => other.map_err(of_store)?,
        };
        let has_memory = manifest.memory.as_ref().is_some_and(|memory| memory.level.is_some());
        if manifest.is_finished() || (manifest.generations.is_empty() && !has_memory) {
            return Ok(());
        }
        Err(Error::NotFinished(self.directory.clone()))
    }
}
