//! Revives a job from one generation: has the engine rebuild it, and records the beginning of its new life.

use super::{Continuation, Life};
use crate::Error;
use crate::event::{JobEvent, Listener, LongWork};
use crate::identity::in_lease;
use crate::interrupts::Interrupts;
use crate::job_folders::{save_folders, started};
use crate::part_link::JobPart;
use crate::reported_image::ReportedImage;
use crate::settings::{Files, JobOptions, file_policy, id_policy};
use crate::signals::SignalInbox;
use crate::supervisor::{AttemptEnd, Schedule, foreground_of};
use crate::terminal::HeldTerminal;
use standfast_engine::{self as engine, EngineError, FileOptions, RestartNews, RestartOptions, Restarted, Tail};
use standfast_format::BoxError;
use standfast_format::manifest::GenerationNumber;
use standfast_format::records::FileReference;
use standfast_store::{GenerationChoice, KeptTail, StoreError, TAIL_BYTES_MAX};
use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A wait for an address is reported if it lasts longer than this.
const UNREPORTED_MAX: Duration = Duration::from_secs(1);

/// A job that runs again, and what its supervisor needs from that moment on.
pub(super) struct Revived {
    pub(super) restarted: Restarted,
    pub(super) signals: SignalInbox,
    /// The job's own terminal, if it has one.
    pub(super) terminal: Option<Arc<HeldTerminal>>,
}

/// Why the job could not be revived from a generation.
pub(super) enum Unrevived {
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

/// Rebuilds the job from one generation and lets it run. The restart is recorded after everything is rebuilt and before
/// the first instruction: files have then been cut back, and no later generation fits them any more.
pub(super) fn revive(
    job: &Continuation,
    life: &mut Life,
    options: JobOptions,
    files: Files,
    choice: &GenerationChoice,
    listener: &mut Listener<'_>,
) -> Result<Revived, Unrevived> {
    let waiting = Waiting::new(Interrupts::of(job.context.foreground_proxy.as_ref(), &options), listener);
    let beginning = LifeBeginning::new(job, options, choice.number);
    let ends = life.manifest.ends.clone();
    let files = FileOptions {
        policy: file_policy(files),
        ends: &ends,
        streams: job.context.streams,
        started_nanoseconds: started(&life.manifest.description),
        ended_nanoseconds: life.manifest.ended_nanoseconds,
        ..FileOptions::default()
    };
    let (generation, now) = (choice.number.get(), Instant::now());
    let directory = std::path::absolute(&job.context.directory).unwrap_or_default();
    let advised = Schedule::new(options.interval, options.min_interval, now).advised(AttemptEnd::Taken, now);
    let source = ReportedImage::new(&choice.image, LongWork::Restoring { generation }, &waiting.listener);
    #[cfg(feature = "planted-faults")]
    let source = super::planted::Planted::new(&source);
    let restarted = engine::restart(
        &source,
        RestartOptions {
            ids: id_policy(options.ids),
            clocks: job.clocks,
            despite: &job.despite,
            files,
            saved_binary: &|file| job.saved_binary(file),
            keep_tail: &mut |tail| job.keep_tail(choice.number, tail).map_err(BoxError::from),
            news: RestartNews { generation, directory: &directory, advised },
            on_wait: &|wait| waiting.goes_on(wait),
            partners: job.context.part.as_ref().and_then(JobPart::in_restart),
            hold_terminal: &mut |master| beginning.hold_terminal(master),
            before_thaw: &mut |process| beginning.begin_life(life, process),
        },
    );
    let LifeBeginning { signals, terminal, refusal, .. } = beginning;
    let restarted = restarted.map_err(|error| match waiting.called_off.into_inner().or(refusal.into_inner()) {
        Some(reason) => Unrevived::Other(Box::new(reason)),
        None => Unrevived::of_engine(error),
    })?;
    save_folders(&restarted.job, &life.manifest.description, &job.context.directory);
    let signals = signals.into_inner().expect("the engine asks before it thaws");
    Ok(Revived { restarted, signals, terminal: terminal.into_inner() })
}

/// The beginning of a life: what the engine has done when the job is rebuilt and about to run.
struct LifeBeginning<'a> {
    job: &'a Continuation,
    options: JobOptions,
    number: GenerationNumber,
    /// The job's own terminal, if it has one.
    terminal: OnceCell<Arc<HeldTerminal>>,
    /// The signals that are meant for the supervisor from then on.
    signals: OnceCell<SignalInbox>,
    /// Why the life could not begin.
    refusal: OnceCell<Error>,
}

impl<'a> LifeBeginning<'a> {
    fn new(job: &'a Continuation, options: JobOptions, number: GenerationNumber) -> Self {
        let (terminal, signals, refusal) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { job, options, number, terminal, signals, refusal }
    }

    /// Holds the job's own terminal.
    fn hold_terminal(&self, master: OwnedFd) -> Result<(), BoxError> {
        let held = HeldTerminal::start(&self.job.context.directory, master)?;
        self.terminal.set(Arc::new(held)).expect("there is one at most");
        Ok(())
    }

    /// Records the new life of the job, and brings its main process to the foreground.
    fn begin_life(&self, life: &mut Life, process: engine::ProcessIdentity) -> Result<(), BoxError> {
        match self.record(life, process) {
            Ok(inbox) => {
                let own = self.terminal.get().map(Arc::as_ref);
                foreground_of(process.pid.get(), own, self.job.context.foreground_proxy.clone()).hand_on();
                self.signals.set(inbox).expect("a life begins once");
                Ok(())
            }
            Err(error) => {
                self.refusal.set(error).expect("a life begins once");
                Err("the restart was interrupted".into())
            }
        }
    }

    /// Records the new life of the job, and returns the signals that are now meant for the supervisor.
    fn record(&self, life: &mut Life, process: engine::ProcessIdentity) -> Result<SignalInbox, Error> {
        let of_store = |error| Error::of_store(&self.job.context.directory, error);
        self.job.lease.set_program(in_lease(process)).map_err(of_store)?;
        note_continuation(self.job, life, self.options, self.number).map_err(of_store)?;
        SignalInbox::open().map_err(Error::system("take over the signals"))
    }
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
    /// Finds the copy of an executable or a library that was kept.
    fn saved_binary(&self, file: &FileReference) -> Option<PathBuf> {
        let checksum = file.digest?.checksum;
        self.directory.saved_binary(checksum, Path::new(OsStr::from_bytes(&file.path.0)))
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
