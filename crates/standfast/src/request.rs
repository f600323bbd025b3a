//! `checkpoint`: takes one checkpoint now, in the supervisor, or in this process if the supervisor has died.

use crate::Error;
use crate::checkpoint::{Checkpointing, Destination, Failure, Order, Past, Purpose};
use crate::control::{ControlError, Reply, Request, ask};
use crate::event::Listener;
use crate::identity::in_engine;
use crate::interrupts::Interrupts;
use crate::job_folders::save_folders;
use crate::report::CheckpointReport;
use crate::settings::JobOptions;
use crate::takeover::await_exit;
use standfast_engine::{Advised, Job, Vitality};
use standfast_format::manifest::Outcome;
use standfast_store::{JobDirectory, LeaseRequest, LeaseState, Levels, StoreError};
use std::path::Path;
use std::sync::Arc;

/// What the program does after the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Afterwards {
    /// It continues to run.
    #[default]
    Continue,
    /// It ends in the state that was saved.
    Stop,
}

/// Takes a checkpoint of the job in `directory` and returns when it is durable.
///
/// # Errors
/// If no checkpoint was taken; the program continues to run.
pub fn checkpoint(
    directory: &Path,
    afterwards: Afterwards,
    listener: &mut Listener<'_>,
) -> Result<CheckpointReport, Error> {
    let request = Request::Checkpoint { stop: afterwards == Afterwards::Stop };
    match ask(directory, request) {
        Ok(Reply::Taken(report)) => Ok(report),
        Ok(Reply::Failed { message }) => Err(Error::Declined(format!("checkpoint failed: {message}"))),
        Ok(_) => Err(Error::Declined(
            "the supervisor is of another version\nhint: use the same standfast on both sides".into(),
        )),
        Err(ControlError::Nobody) => without_supervisor(directory, afterwards, listener),
        Err(source) => Err(Error::Unanswered { directory: directory.to_owned(), source: source.into() }),
    }
}

/// Takes the checkpoint of a program whose supervisor is gone in this process.
fn without_supervisor(
    path: &Path,
    afterwards: Afterwards,
    listener: &mut Listener<'_>,
) -> Result<CheckpointReport, Error> {
    let of_store = |error| Error::of_store(path, error);
    let directory = JobDirectory::open(path).map_err(of_store)?;
    let manifest = directory.manifest().map_err(of_store)?;
    await_exit(&directory, path, standfast_store::Purpose::Adopt, Interrupts::default(), listener)?;
    match directory.lease_state().map_err(of_store)? {
        LeaseState::Free | LeaseState::Abandoned(_) => return Err(Error::NothingRuns(path.to_owned())),
        LeaseState::Supervised(_) => {
            let source = ControlError::Nobody.into();
            return Err(Error::Unanswered { directory: path.to_owned(), source });
        }
        // A program that is exiting has nothing to save, and neither has one whose last children are exiting. The
        // process that starts the next life waits for the lease.
        LeaseState::Orphaned(_, program) if in_engine(program).vitality() != Vitality::Alive => {
            return Err(Error::NothingRuns(path.to_owned()));
        }
        // The attempt to take the lease reports what prevents it.
        LeaseState::Orphaned(..) | LeaseState::OtherBoot(..) | LeaseState::Elsewhere(..) | LeaseState::Unreadable => {}
    }
    let lease_request = LeaseRequest { purpose: standfast_store::Purpose::Adopt, force: false };
    let lease = Arc::new(directory.take_lease(lease_request).map_err(of_store)?);
    let Some(program) = lease.program() else { return Err(Error::NothingRuns(path.to_owned())) };
    let job = Job::adopt(in_engine(program))?;
    save_folders(&job, &manifest.description, path);
    let purpose = match afterwards {
        Afterwards::Continue => Purpose::Protect,
        Afterwards::Stop => Purpose::Stop,
    };
    let options = JobOptions::from_record(manifest.options);
    // Nobody acts on what the program asks for after the checkpoint.
    let order =
        Order { purpose, past: Past::default(), after_success: Advised::default(), after_failure: Advised::default() };
    // No later checkpoint will build upon this one.
    let options = JobOptions { incremental: crate::Incremental::Off, ..options };
    // Write to the disk, whatever the program's supervisor did: nobody will flush the checkpoint later.
    let (mut levels, missing) = Levels::open(directory).map_err(of_store)?;
    match missing {
        None => {}
        // A level that is gone cannot be recovered. A level that is there but unreadable may have newer checkpoints,
        // with numbers of their own.
        Some(error) if error.is_damage() => levels.discard_memory(&lease, true).map_err(of_store)?,
        Some(error) => return Err(of_store(error)),
    }
    let number_min = levels.next().map_err(of_store)?;
    levels.memory = None;
    let mut destination = Destination::new(levels, lease, &options);
    destination.number_min = number_min;
    let taken = Checkpointing::begin(destination.clone(), job.freezer(), order)
        .and_then(Checkpointing::join)
        .map_err(of_failure)?;
    if purpose == Purpose::Stop {
        note_stop(destination).map_err(of_store)?;
    }
    Ok(taken.report)
}

fn note_stop(destination: Destination) -> Result<(), StoreError> {
    destination.levels.directory.set_outcome(&destination.lease, Outcome::Stopped)?;
    Arc::into_inner(destination.lease).map_or(Ok(()), standfast_store::Lease::release)
}

fn of_failure(failure: Failure) -> Error {
    match failure {
        Failure::Engine(error) => Error::Engine(error),
        Failure::Store(error) => Error::Store(error),
        Failure::Output(_)
        | Failure::TooLittleSpace { .. }
        | Failure::Thread(_)
        | Failure::Outdated
        | Failure::Disabled
        | Failure::OtherParts(_)
        | Failure::Broken => Error::Declined(failure.to_string()),
    }
}
