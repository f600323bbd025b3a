//! One checkpoint, from preparation to retention, on a thread of its own. A tracer is a thread: if it dies, the kernel
//! releases the job and the job continues to run. This file decides where the checkpoint goes and how often it is
//! tried. Each attempt goes through the types of `phases.rs`.
//!
//! ```text
//! sequential:  rehearse  prepare  freeze  capture  finish  thaw           seal  commit  retain
//! copy:        rehearse  prepare  freeze  capture  thaw    finish         seal  commit  retain
//! fork:        rehearse  prepare  freeze  capture  thaw    read   finish  seal  commit  retain
//! precopy:     rehearse  prepare  freeze  look  thaw  read  freeze  capture  thaw  finish  seal  commit  retain
//! stop:        rehearse  prepare  freeze  capture  finish  seal   commit  kill          retain
//!                                 |<-- program stands still -->|
//! ```

mod destination;
mod failure;
mod job;
mod phases;
mod reporting;
mod shortfall;
mod snapshots;
#[cfg(test)]
mod tests;

pub(crate) use destination::Destination;
pub(crate) use failure::Failure;
pub(crate) use shortfall::{Shortfall, Shortfalls};
pub(crate) use snapshots::Past;

use crate::background::Background;
use crate::part_link::PartLink;
use crate::quoting::without_numbers;
use crate::report::CheckpointReport;
use job::{FrozenJob, JobFreezer};
use phases::Requested;
use rustix::time::{ClockId, clock_gettime};
use standfast_engine::{Advised, Asking, BrokenPromise, EngineError, Freezer, Frozen, Output};
use standfast_format::records::{Coverage, FileReference};
use standfast_store::{Binary, Level, Prepared, StoreError};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for the threads of a program to stop, as long as one stops after the other.
pub(crate) const FREEZE_MAX: Duration = Duration::from_secs(10);

/// Time that a freeze waits for a thread that hangs in the kernel. The program runs meanwhile.
pub(crate) const STOPPABLE_MAX: Duration = Duration::from_secs(5);

/// How each attempt asks programs what they have said about their memory. An answer that was read ahead counts only if
/// the program has said nothing else meanwhile. If the program keeps changing its statements, the last attempt asks
/// while it is frozen.
const ATTEMPTS: [Asking; 3] = [Asking::Running, Asking::Running, Asking::Stopped];

/// What the program does after the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It continues as soon as its memory has been read.
    Protect,
    /// It ends in the saved state, once the checkpoint is durable.
    Stop,
}

/// A committed checkpoint.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Level that holds it.
    pub(crate) level: Level,
    /// What it lacks.
    pub(crate) shortfalls: Shortfalls,
    /// For a checkpoint in memory: files that the program writes and that are not durable yet.
    pub(crate) unsynced: Vec<Output>,
    /// Its figures.
    pub(crate) report: CheckpointReport,
    /// Files that the program writes.
    pub(crate) outputs: Vec<PathBuf>,
    /// Promises that the program has broken since the previous checkpoint.
    pub(crate) broken: Vec<BrokenPromise>,
    /// Whether older generations could be removed. The checkpoint itself is good in any case.
    pub(crate) retention: Result<(), StoreError>,
}

/// A checkpoint being taken.
pub(crate) struct Checkpointing {
    attempt: Background<Attempt>,
}

/// Why an attempt failed. It carries the abandoned generation, so that the thread need not wait for the disk before it
/// ends: as long as the thread lives, the program may be frozen.
struct Abandoned {
    failure: Failure,
    /// Whether programs that asked for the checkpoint know that it failed.
    is_reported: bool,
    _prepared: Option<Prepared>,
}

type Attempt = Result<Taken, Box<Abandoned>>;

/// Instructions for a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// What the program does afterwards.
    pub(crate) purpose: Purpose,
    /// Experience from earlier checkpoints.
    pub(crate) past: Past,
    /// What is reported to programs after success.
    pub(crate) after_success: Advised,
    /// What is reported to programs after a failure.
    pub(crate) after_failure: Advised,
}

impl Checkpointing {
    /// Starts the thread.
    pub(crate) fn begin(destination: Destination, freezer: Freezer, order: Order) -> Result<Self, Failure> {
        let work = move || {
            let before = processor_time();
            let mut attempt = take(&destination, &freezer, &order);
            if let Ok(taken) = &mut attempt {
                let nanoseconds = processor_time().saturating_sub(before).as_nanos() as u64;
                taken.report.processor_nanoseconds = nanoseconds.saturating_sub(taken.report.pause_nanoseconds);
            }
            if attempt.as_ref().is_err_and(|abandoned| !abandoned.is_reported) {
                report_failure(&freezer, order.after_failure);
            }
            attempt
        };
        Ok(Self { attempt: Background::begin("checkpoint", work).map_err(Failure::Thread)? })
    }

    /// Waits for the thread to end.
    pub(crate) fn join(self) -> Result<Taken, Failure> {
        match self.attempt.join() {
            Ok(attempt) => attempt.map_err(|abandoned| abandoned.failure),
            Err(_) => Err(Failure::Broken),
        }
    }
}

impl AsFd for Checkpointing {
    /// Returns a descriptor that polls as hung up when the thread has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.attempt.as_fd()
    }
}

/// Returns the processor time of this process so far. Coalescing beside a checkpoint is in it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Takes the checkpoint in memory if that level exists and has room. Otherwise, or if memory fails, takes it in the
/// directory.
fn take<F: JobFreezer>(destination: &Destination, freezer: &F, order: &Order) -> Attempt {
    let to = |level, level_directory| Requested { destination, level, level_directory, freezer, order };
    let disk = to(Level::Directory, &destination.levels.directory);
    let reason = match destination.memory_with_room(|| freezer.figures(destination.tracking)) {
        None => return take_at(disk),
        Some(Err(reason)) => reason,
        Some(Ok(memory)) => match take_at(to(Level::Memory, memory)) {
            Err(abandoned) if matches!(abandoned.failure, Failure::Store(_)) => abandoned.failure.to_string(),
            attempt => return attempt,
        },
    };
    let mut taken = take_at(disk)?;
    taken.shortfalls.insert(Shortfall::NotInMemory, without_numbers(&reason));
    Ok(taken)
}

fn take_at<F: JobFreezer>(request: Requested<'_, F>) -> Attempt {
    if let (Purpose::Protect, Some(part)) = (request.order.purpose, &request.destination.part) {
        return take_part(request, part);
    }
    let attempts = match request.order.purpose {
        Purpose::Protect => &ATTEMPTS[..],
        // The program does not run again.
        Purpose::Stop => &[Asking::Stopped],
    };
    let (last, others) = attempts.split_last().expect("there are some");
    for asking in others {
        match attempt(request, *asking) {
            Err(abandoned) if matches!(abandoned.failure, Failure::Outdated) => {}
            attempt => return attempt,
        }
    }
    attempt(request, *last)
}

/// Makes the only attempt of a part of a distributed job: all parts make theirs together. After one that was outdated, the
/// next one asks while the program is frozen.
fn take_part<F: JobFreezer>(request: Requested<'_, F>, part: &PartLink) -> Attempt {
    let asking = if part.was_outdated() { Asking::Stopped } else { Asking::Running };
    let attempt = attempt(request, asking);
    part.note_outdated(attempt.as_ref().is_err_and(|abandoned| matches!(abandoned.failure, Failure::Outdated)));
    attempt
}

/// Makes one attempt, phase by phase.
fn attempt<F: JobFreezer>(request: Requested<'_, F>, asking: Asking) -> Attempt {
    let captured = request.plan()?.prepare()?.precopy(asking)?.stop()?.capture()?;
    let committed = match request.order.purpose {
        Purpose::Protect => captured.resume()?.seal()?.commit()?,
        Purpose::Stop => captured.commit_and_kill()?,
    };
    Ok(committed.retain())
}

/// Reports to programs that wait for a checkpoint that it failed. If that does not work, they ask again.
fn report_failure(freezer: &impl JobFreezer, advised: Advised) {
    if let Ok(frozen) = freezer.freeze() {
        let _ = frozen.report_outcome(None, advised).and_then(|()| frozen.thaw());
    }
}

/// Ends all processes of a job where they are. The thread that stops them is their tracer, and must end for their parent to
/// learn of it.
pub(crate) fn end_job(freezer: &Freezer) -> Result<(), EngineError> {
    let end = || freezer.freeze(FREEZE_MAX).and_then(Frozen::kill);
    match std::thread::scope(|scope| scope.spawn(end).join()) {
        // If it has ended already, that is just as good.
        Ok(Err(EngineError::Ended)) => Ok(()),
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Keeps copies of the executable and the libraries, so that the job does not depend on an unchanged system. It copies
/// only files that were read whole: others could not be told from changed ones. It calls `has_copy_of` for each, once all are
/// kept.
pub(crate) fn keep_code<'a>(
    destination: &Destination,
    has_copy_of: impl Fn(&FileReference),
    files: impl IntoIterator<Item = &'a FileReference>,
) -> Result<(), StoreError> {
    let whole = |file: &'a FileReference| {
        let digest = file.digest.filter(|digest| digest.coverage == Coverage::Whole)?;
        let path = Path::new(OsStr::from_bytes(&file.path.0));
        Some((file, Binary { checksum: digest.checksum, path }))
    };
    let (files, binaries): (Vec<_>, Vec<_>) = files.into_iter().filter_map(whole).unzip();
    destination.levels.directory.keep(&destination.lease, &binaries)?;
    files.into_iter().for_each(has_copy_of);
    Ok(())
}

/// Makes the program's writes to its files durable.
pub(crate) fn sync_outputs<'a>(outputs: impl IntoIterator<Item = &'a Output>) -> Result<(), Failure> {
    // Files that the kernel makes up (/proc, /sys) do not support this.
    let sync = |output: &Output| match output.file.sync_data() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(Failure::Output(error)),
        _ => Ok(()),
    };
    outputs.into_iter().try_for_each(sync)
}
