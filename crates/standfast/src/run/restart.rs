//! `restart`: continues a job from one of its checkpoints.

#[cfg(feature = "planted-faults")]
mod planted;
mod revive;
mod survivors;

use crate::checkpoint::Destination;
use crate::context::JobContext;
use crate::control::bind_control;
use crate::doctor::check_kernel;
use crate::event::{JobEvent, Listener};
use crate::interrupts::Interrupts;
use crate::quoting::without_numbers;
use crate::report::{PhaseReport, RestartReport};
use crate::settings::{JobOptions, Memory, OptionChoices};
use crate::supervisor::{SupervisorSetup, newest, supervise, sync_paths};
use crate::takeover::take_lease;
use crate::{Ending, Error};
use revive::{Revived, Unrevived, revive};
use standfast_engine::{ClockPolicy, Restarted, Stopwatch};
use standfast_format::ImageSource;
use standfast_format::manifest::{GenerationNumber, Manifest};
use standfast_format::records::JobState;
use standfast_store::{
    GenerationChoice, JobDirectory, Lease, LeaseRequest, LeaseState, Level, Levels, Pacing, Purpose, Selector,
    StoreError,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use survivors::refuse_survivors;

/// What to restart.
#[derive(Debug, Clone)]
pub struct RestartRequest {
    /// Where its checkpoints are, what changes from the previous life, and who waits for it.
    pub context: JobContext,
    /// Generation to restart from. `None` means the newest good one.
    pub at: Option<GenerationNumber>,
    /// Policy for monotonic clocks that are behind those of the checkpoint.
    pub clocks: ClockPolicy,
    /// Fields in which the rebuilt job may differ from the checkpoint all the same.
    pub despite: Vec<String>,
}

/// Continues a job and supervises it to its end.
///
/// Call it from a single-threaded process of its own: the supervisor takes over most signals, and becomes the program's
/// parent.
///
/// # Errors
/// If the program does not run again. A program that does is supervised until it ends.
pub fn restart(request: &RestartRequest, listener: &mut Listener<'_>) -> Result<Ending, Error> {
    let mut stopwatch = Stopwatch::start();
    check_kernel()?;
    request.context.refuse_detached_init()?;
    let of_store = |error| Error::of_store(&request.context.directory, error);
    let directory = Arc::new(JobDirectory::open(&request.context.directory).map_err(of_store)?);
    // Check before the lease is taken, since taking it would leave a trace in a directory without a job.
    let is_finished =
        || -> Result<bool, StoreError> { Ok(request.at.is_none() && directory.manifest()?.is_finished()) };
    if is_finished().map_err(of_store)? && is_free(&directory).map_err(of_store)? {
        return Ok(report_finished(request, &directory, listener));
    }
    request.context.shared_binaries.iter().for_each(|place| directory.share_binaries_in(place));
    let expected = request.context.options.clone().or(recorded_options(&directory).unwrap_or_default());
    let lease_request = LeaseRequest { purpose: Purpose::Live, force: request.context.force };
    let interrupts = Interrupts::of(request.context.foreground_proxy.as_ref(), &expected);
    let lease = Arc::new(take_lease(&directory, &request.context.directory, lease_request, interrupts, listener)?);
    stopwatch.lap("lease");
    // The life that held the lease until now may have ended.
    if is_finished().map_err(of_store)? {
        return Ok(report_finished(request, &directory, listener));
    }
    let selector = request.at.map_or(Selector::Newest, Selector::Exactly);
    let RestartRequest { context, clocks, despite, .. } = request.clone();
    continue_job(Continuation { context, directory, lease, clocks, despite, stopwatch }, selector, listener)
}

/// Returns the options that an earlier life has recorded.
pub(super) fn recorded_options(directory: &JobDirectory) -> Option<JobOptions> {
    directory.manifest().ok().map(|manifest| JobOptions::from_record(manifest.options))
}

/// Reports whether nobody holds the job.
fn is_free(directory: &JobDirectory) -> Result<bool, StoreError> {
    Ok(matches!(directory.lease_state()?, LeaseState::Free | LeaseState::Abandoned(_)))
}

/// Reports that the program has ended with status 0, and does not restart it: a script that restarts every job it finds
/// must not compute the same result twice. Users who want that name the checkpoint.
fn report_finished(request: &RestartRequest, directory: &JobDirectory, listener: &mut Listener<'_>) -> Ending {
    let generation = Levels::open(directory.clone()).ok().and_then(|(levels, _)| newest(&levels));
    listener(&JobEvent::HasFinished { directory: request.context.directory.clone(), generation });
    Ending::Exited { status: 0 }
}

/// A job to be continued.
pub(crate) struct Continuation {
    /// Context of the new life.
    pub(crate) context: JobContext,
    /// The job's directory.
    pub(crate) directory: Arc<JobDirectory>,
    /// The lease, which gives the right to start a life.
    pub(crate) lease: Arc<Lease>,
    /// Policy for monotonic clocks that are behind those of the checkpoint.
    pub(crate) clocks: ClockPolicy,
    /// See [`RestartRequest::despite`].
    pub(crate) despite: Vec<String>,
    /// Measures the restart.
    pub(crate) stopwatch: Stopwatch,
}

/// Continues a job from the generation that `selector` names. Falls back to older generations if the selector allows
/// it.
pub(crate) fn continue_job(
    job: Continuation,
    mut selector: Selector,
    listener: &mut Listener<'_>,
) -> Result<Ending, Error> {
    let of_store = |error| Error::of_store(&job.context.directory, error);
    let manifest = job.directory.manifest().map_err(of_store)?;
    if job.context.part.is_none() && manifest.generations.iter().any(|it| it.epoch.is_some()) {
        return Err(Error::LonePart(job.context.directory.clone()));
    }
    refuse_survivors(&job.context.directory)?;
    let recorded = JobOptions::from_record(manifest.options);
    // The policy for files applies to this restart only, since the next one finds other files.
    let files = job.context.options.files.unwrap_or(recorded.files);
    let options = OptionChoices { files: None, ..job.context.options.clone() }.or(recorded);
    let mut stopwatch = job.stopwatch.clone();
    let mut life = Life::prepare(&job, &manifest, listener)?;
    // A level that turned out to be bad is not used again.
    let mut trusted = life.levels.clone();
    loop {
        let (level, choice) = trusted.choose(selector).map_err(of_store)?;
        stopwatch.lap("choose");
        for skipped in &choice.skipped {
            listener(&skipped_event(skipped.number, &skipped.reason));
        }
        match revive(&job, &mut life, options, files, &choice, listener) {
            Ok(revived) => return supervise_revived(job, life, options, choice, revived, stopwatch, listener),
            Err(Unrevived::Damaged(reason)) if level == Level::Memory => {
                listener(&skipped_event(choice.number, &reason));
                trusted.memory = None;
            }
            Err(Unrevived::Damaged(reason)) if !matches!(selector, Selector::Exactly(_)) => {
                listener(&skipped_event(choice.number, &reason));
                selector = Selector::Before(choice.number);
            }
            Err(Unrevived::Damaged(reason)) => return Err(of_store(*reason)),
            Err(Unrevived::Other(error)) => return Err(*error),
        }
    }
}

/// Reports that the job runs again, and supervises it.
fn supervise_revived(
    job: Continuation,
    mut life: Life,
    options: JobOptions,
    choice: GenerationChoice,
    revived: Revived,
    mut stopwatch: Stopwatch,
    listener: &mut Listener<'_>,
) -> Result<Ending, Error> {
    let Revived { restarted: Restarted { job: running, ids, notes, files, phases }, signals, terminal } = revived;
    let state = choice.image.state();
    let (taken_nanoseconds, is_known) = (state.clocks.realtime_nanoseconds, was_in_namespaces(state));
    let outputs = outputs(state);
    stopwatch.add(phases);
    let restart = RestartReport::of(choice.number.get(), stopwatch);
    drop(choice);
    listener(&JobEvent::Continued { taken_nanoseconds, restart: restart.clone() });
    listener(&JobEvent::Ids { ids, is_known });
    notes.into_iter().for_each(|remark| listener(&JobEvent::Without { remark }));
    files.into_iter().for_each(|note| listener(&JobEvent::File(note)));
    life.trouble.drain(..).for_each(|reason| listener(&JobEvent::Trouble { reason }));
    let control = bind_control(&job.context.directory, listener);
    let setup = SupervisorSetup {
        destination: Destination::new(life.levels, job.lease, &options).of_part(job.context.part.as_ref()),
        options,
        context: job.context,
        outputs,
        signals,
        control,
        memory_is_automatic: life.memory == Memory::Auto,
        terminal,
        restart: Some(restart),
    };
    supervise(setup, running, listener)
}

impl RestartReport {
    fn of(generation: u64, stopwatch: Stopwatch) -> Self {
        let nanoseconds = |took: Duration| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let phases = stopwatch.phases();
        Self {
            generation,
            nanoseconds: nanoseconds(phases.iter().map(|phase| phase.took).sum()),
            phases: phases
                .iter()
                .map(|phase| PhaseReport { name: phase.name.to_owned(), nanoseconds: nanoseconds(phase.took) })
                .collect(),
        }
    }
}

/// Reports whether a job had namespaces of its own at the checkpoint. Only a restart creates them.
fn was_in_namespaces(job: &JobState) -> bool {
    let own = std::fs::metadata("/proc/self/ns/pid").map(|file| file.ino());
    job.pid_namespace != 0 && own.is_ok_and(|own| own != job.pid_namespace)
}

/// Levels and manifest of the life that is to begin.
struct Life {
    levels: Levels,
    /// Whether the life is to have a level in memory, and where.
    memory: Memory,
    manifest: Manifest,
    /// Problems that did not prevent the restart.
    trouble: Vec<String>,
}

impl Life {
    /// Opens the levels that the job has. A level in memory that this life will not use is flushed to the disk first.
    fn prepare(job: &Continuation, manifest: &Manifest, listener: &mut Listener<'_>) -> Result<Self, Error> {
        let of_store = |error| Error::of_store(&job.context.directory, error);
        let (mut levels, missing) = Levels::open((*job.directory).clone()).map_err(of_store)?;
        if let Some(error) = missing {
            listener(&JobEvent::MemoryLost { reason: without_numbers(&error.to_string()) });
        }
        levels.clear_leftovers(&job.lease);
        let recorded = manifest.memory.as_ref().map(|it| Memory::At(PathBuf::from(OsStr::from_bytes(&it.place.0))));
        let memory = job.context.options.memory.clone().or(recorded.clone()).unwrap_or_default();
        let is_same = recorded.and_then(|it| it.place().map(Path::to_owned)).as_deref() == memory.place();
        if !is_same && let Some(level) = &levels.memory {
            if let Ok(choice) = level.choose(Selector::Newest) {
                sync_paths(&outputs(choice.image.state()))
                    .map_err(Error::system("make the program's files durable"))?;
                let pacing = Pacing::default();
                pacing.hurry();
                levels.directory.take_from(&job.lease, level, choice.number, &pacing).map_err(of_store)?;
            }
            levels.discard_memory(&job.lease, false).map_err(of_store)?;
        }
        Ok(Self { levels, memory, manifest: job.directory.manifest().map_err(of_store)?, trouble: Vec::new() })
    }

    /// Records this life's level in memory, or that there is none, in the directory. Earlier levels in memory are not
    /// used any more.
    fn settle_memory(&mut self, lease: &Lease) -> Result<(), StoreError> {
        if self.levels.memory.is_some() {
            return Ok(());
        }
        if let Some(place) = self.memory.place() {
            match self.levels.make_memory(lease, place) {
                Ok(()) => return Ok(()),
                Err(error) => self.trouble.push(format!("checkpoints go to disk instead of memory: {error}")),
            }
        }
        self.levels.discard_memory(lease, self.memory != Memory::Off)
    }
}

/// Reports whether a job that could not be continued never can be: it has no checkpoint, or all of them are damaged. A
/// disk that is unreadable at present, or files that others may write, are no reason to abandon a job.
pub(crate) fn is_hopeless(error: &StoreError) -> bool {
    match error {
        StoreError::NoCheckpoint(_) => true,
        StoreError::NoneGood { skipped, .. } => skipped.iter().all(|skipped| skipped.reason.is_damage()),
        _ => false,
    }
}

fn skipped_event(number: GenerationNumber, reason: &StoreError) -> JobEvent {
    JobEvent::Skipped { generation: number.get(), reason: without_numbers(&reason.to_string()) }
}

/// Returns the files that the program has open for writing, or writes through a mapping.
fn outputs(state: &JobState) -> Vec<PathBuf> {
    let written = state.open_files.iter().filter(|open| open.is_writable());
    let mapped = state.objects.iter().filter_map(|object| object.kind.file());
    let files = written.filter_map(|open| open.kind.file()).chain(mapped);
    files.map(|file| PathBuf::from(OsStr::from_bytes(&file.path.0))).collect()
}

#[cfg(test)]
mod tests;
