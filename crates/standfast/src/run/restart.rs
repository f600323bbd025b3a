//! `restart`: continues a job from one of its checkpoints.

#[cfg(feature = "planted-faults")]
mod planted;

use crate::checkpoint::Destination;
use crate::context::JobContext;
use crate::control::bind_control;
use crate::doctor::check_kernel;
use crate::event::{JobEvent, Listener, LongWork};
use crate::identity::in_lease;
use crate::interrupts::Interrupts;
use crate::job_folders::{save_folders, started};
use crate::quoting::without_numbers;
use crate::report::{PhaseReport, RestartReport};
use crate::reported_image::ReportedImage;
use crate::settings::{Files, JobOptions, Memory, OptionChoices, file_policy, id_policy};
use crate::signals::SignalInbox;
use crate::supervisor::{AttemptEnd, Schedule, SupervisorSetup, foreground_of, newest, supervise, sync_paths};
use crate::takeover::take_lease;
use crate::terminal::HeldTerminal;
use crate::{Ending, Error};
use standfast_engine::{
    self as engine, ClockPolicy, EngineError, FileOptions, RestartNews, RestartOptions, Restarted, Stopwatch, Tail,
};
use standfast_format::manifest::{GenerationNumber, Manifest};
use standfast_format::records::{FileReference, JobState};
use standfast_format::{BoxError, ImageSource};
use standfast_store::{
    GenerationChoice, JobDirectory, KeptTail, Lease, LeaseRequest, LeaseState, Level, Levels, Pacing, Purpose,
    Selector, StoreError, TAIL_BYTES_MAX,
};
use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A wait for an address is reported if it lasts longer than this.
const UNREPORTED_MAX: Duration = Duration::from_secs(1);

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
    let expected = request.context.options.or(recorded_options(&directory).unwrap_or_default());
    let lease_request = LeaseRequest { purpose: Purpose::Live, force: request.context.force };
    let lease = Arc::new(take_lease(
        &directory,
        &request.context.directory,
        lease_request,
        Interrupts::of(request.context.foreground_proxy.as_ref(), &expected),
        listener,
    )?);
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
    let recorded = JobOptions::from_record(manifest.options);
    // The policy for files applies to this restart only, since the next one finds other files.
    let files = job.context.options.files.unwrap_or(recorded.files);
    let options = OptionChoices { files: None, ..job.context.options }.or(recorded);
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
            Ok((Restarted { job: revived, ids, notes, files: touched, phases }, Supervision { signals, terminal })) => {
                let generation = choice.number.get();
                let taken = choice.image.state().clocks.realtime_nanoseconds;
                let outputs = outputs(choice.image.state());
                let was_in_namespaces = was_in_namespaces(choice.image.state());
                drop(choice);
                stopwatch.add(phases);
                let restart = RestartReport::of(generation, stopwatch);
                listener(&JobEvent::Continued { taken_nanoseconds: taken, restart: restart.clone() });
                listener(&JobEvent::Ids { ids, is_known: was_in_namespaces });
                notes.into_iter().for_each(|remark| listener(&JobEvent::Without { remark }));
                touched.into_iter().for_each(|note| listener(&JobEvent::File(note)));
                life.trouble.drain(..).for_each(|reason| listener(&JobEvent::Trouble { reason }));
                let control = bind_control(&job.context.directory, listener);
                let destination = Destination::new(life.levels, job.lease, &options);
                let memory_is_automatic = life.memory == Memory::Auto;
                let setup = SupervisorSetup {
                    context: job.context,
                    destination,
                    options,
                    outputs,
                    signals,
                    control,
                    memory_is_automatic,
                    terminal,
                    restart: Some(restart),
                };
                return supervise(setup, revived, listener);
            }
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
        let memory = job.context.memory.clone().or(recorded.clone()).unwrap_or_default();
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

/// Why the job could not be revived from a generation.
enum Unrevived {
    /// The image is damaged: another generation may work.
    Damaged(Box<StoreError>),
    /// Another error, which affects every generation.
    Other(Box<Error>),
}

impl Unrevived {
    fn of_engine(error: EngineError) -> Self {
        match error {
            EngineError::Image(error) => match error.downcast::<StoreError>() {
                Ok(error) => Self::Damaged(error),
                Err(error) => Self::Other(Box::new(EngineError::Image(error).into())),
            },
            error => Self::Other(Box::new(error.into())),
        }
    }
}

/// What a supervisor needs from the moment at which the job runs.
struct Supervision {
    signals: SignalInbox,
    /// The job's own terminal, if it has one.
    terminal: Option<Arc<HeldTerminal>>,
}

/// Rebuilds the job from one generation and lets it run. The restart is recorded after everything is rebuilt and before
/// the first instruction: files have then been cut back, and no later generation fits them any more.
fn revive(
    job: &Continuation,
    life: &mut Life,
    options: JobOptions,
    files: Files,
    choice: &GenerationChoice,
    listener: &mut Listener<'_>,
) -> Result<(Restarted, Supervision), Unrevived> {
    let waiting = Waiting::new(Interrupts::of(job.context.foreground_proxy.as_ref(), &options), listener);
    let on_wait = |wait: &engine::AddressWait| waiting.goes_on(wait);
    let ends = life.manifest.ends.clone();
    let (began, ended) = (started(&life.manifest.description), life.manifest.ended_nanoseconds);
    let mut signals = None;
    let mut refusal = None;
    let terminal = OnceCell::new();
    let mut hold_terminal = |master: OwnedFd| -> Result<(), BoxError> {
        let held = HeldTerminal::start(&job.context.directory, master)?;
        terminal.set(Arc::new(held)).expect("there is one at most");
        Ok(())
    };
    let mut before_thaw = |process: engine::ProcessIdentity| -> Result<(), BoxError> {
        match job.begin_life(process, life, options, choice.number) {
            Ok(inbox) => {
                let own = terminal.get().map(Arc::as_ref);
                foreground_of(process.pid.get(), own, job.context.foreground_proxy.clone()).hand_on();
                signals = Some(inbox);
                Ok(())
            }
            Err(error) => {
                refusal = Some(error);
                Err("the restart was interrupted".into())
            }
        }
    };
    let mut keep_tail = |tail: &Tail<'_>| job.keep_tail(choice.number, tail).map_err(BoxError::from);
    let saved_binary = |file: &FileReference| {
        let checksum = file.digest?.checksum;
        job.directory.saved_binary(checksum, Path::new(OsStr::from_bytes(&file.path.0)))
    };
    let work = LongWork::Restoring { generation: choice.number.get() };
    let source = ReportedImage::new(&choice.image, work, &waiting.listener);
    #[cfg(feature = "planted-faults")]
    let source = planted::Planted::new(&source);
    let revived = engine::restart(
        &source,
        RestartOptions {
            ids: id_policy(options.ids),
            clocks: job.clocks,
            despite: &job.despite,
            files: FileOptions {
                policy: file_policy(files),
                ends: &ends,
                streams: job.context.streams,
                started_nanoseconds: began,
                ended_nanoseconds: ended,
                ..FileOptions::default()
            },
            saved_binary: &saved_binary,
            keep_tail: &mut keep_tail,
            news: RestartNews {
                generation: choice.number.get(),
                directory: &std::path::absolute(&job.context.directory).unwrap_or_default(),
                advised: Schedule::new(options.interval, options.min_interval, Instant::now())
                    .advised(AttemptEnd::Taken, Instant::now()),
            },
            on_wait: &on_wait,
            hold_terminal: &mut hold_terminal,
            before_thaw: &mut before_thaw,
        },
    );
    let revived = revived.map_err(|error| match waiting.called_off.into_inner().or(refusal) {
        Some(reason) => Unrevived::Other(Box::new(reason)),
        None => Unrevived::of_engine(error),
    })?;
    let signals = signals.expect("the engine asks before it thaws");
    save_folders(&revived.job, &life.manifest.description, &job.context.directory);
    Ok((revived, Supervision { signals, terminal: terminal.into_inner() }))
}

/// Waits for an address that the previous life still holds.
struct Waiting<'a, 'l> {
    interrupts: Interrupts<'a>,
    listener: RefCell<&'a mut Listener<'l>>,
    /// Address that was reported last.
    reported: RefCell<Option<String>>,
    /// How a signal has ended the wait.
    called_off: OnceCell<Error>,
}

impl<'a, 'l> Waiting<'a, 'l> {
    fn new(interrupts: Interrupts<'a>, listener: &'a mut Listener<'l>) -> Self {
        let listener = RefCell::new(listener);
        Self { interrupts, listener, reported: RefCell::default(), called_off: OnceCell::new() }
    }

    /// Reports a wait that takes long. Returns an error if a signal has ended it.
    fn goes_on(&self, wait: &engine::AddressWait) -> Result<(), BoxError> {
        if let Err(called_off) = self.interrupts.check() {
            let _ = self.called_off.set(called_off);
            return Err("the restart was interrupted".into());
        }
        let engine::AddressWait { address, waited, rest } = wait.clone();
        if waited >= UNREPORTED_MAX && self.reported.borrow().as_ref() != Some(&address) {
            self.reported.replace(Some(address.clone()));
            (self.listener.borrow_mut())(&JobEvent::AddressAwaited { address, rest });
        }
        Ok(())
    }
}

impl Continuation {
    /// Records the new life of the job, and returns the signals that are now meant for the supervisor.
    fn begin_life(
        &self,
        process: engine::ProcessIdentity,
        life: &mut Life,
        options: JobOptions,
        number: GenerationNumber,
    ) -> Result<SignalInbox, Error> {
        let of_store = |error| Error::of_store(&self.context.directory, error);
        self.lease.set_program(in_lease(process)).map_err(of_store)?;
        note_continuation(self, life, options, number).map_err(of_store)?;
        SignalInbox::open().map_err(Error::system("take over the signals"))
    }

    /// Keeps a copy of what a restart removes from a file, and returns the copy's path.
    fn keep_tail(&self, number: GenerationNumber, tail: &Tail<'_>) -> Result<PathBuf, StoreError> {
        if tail.is_removed
            && let Some(kept) = self.directory.keep_file(&self.lease, number, tail.path, tail.file)?
        {
            return Ok(kept);
        }
        let bytes_max = if tail.is_whole { u64::MAX } else { TAIL_BYTES_MAX };
        let kept = KeptTail { start: tail.start, bytes: tail.bytes.min(bytes_max) };
        self.directory.keep_tail(&self.lease, number, tail.path, tail.file, kept)
    }
}

/// Records that the job continues from `number`. Writes only what has changed.
fn note_continuation(
    job: &Continuation,
    life: &mut Life,
    options: JobOptions,
    number: GenerationNumber,
) -> Result<(), StoreError> {
    // Later generations are abandoned from now on. If this one had been abandoned, it belongs to the job's life again.
    if life.levels.differs_from_life_at(number)? {
        life.levels.mark_superseded_after(&job.lease, number)?;
    }
    life.settle_memory(&job.lease)?;
    job.directory.begin_life(&job.lease, options.to_record())
}

#[cfg(test)]
mod tests;
