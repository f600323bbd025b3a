//! One checkpoint, from preparation to retention, on a thread of its own: a tracer is a thread, and should this one
//! die, the kernel lets go of the job and it runs on.
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
mod reporting;

pub(crate) use destination::Destination;
pub(crate) use failure::Failure;

use crate::background::Background;
use crate::report::CheckpointReport;
use crate::snapshot_method::Method;
use crate::snapshots::{Choice, Past};
use standfast_engine::{
    Advised, Asking, BrokenPromise, CaptureOptions, Captured, EngineError, Freezer, Frozen, Output, Precopied,
    Readiness, Unconfirmed, rehearse,
};
use standfast_format::ImageSink;
use standfast_format::records::{Coverage, FileReference};
use standfast_store::{JobDirectory, Level, Prepared, StoreError, Writing};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the threads of a program may take to stop, as long as one stops after the other.
pub(crate) const FREEZE_MAX: Duration = Duration::from_secs(10);

/// How long a thread that hangs in the kernel is waited for before a freeze. The program runs meanwhile.
pub(crate) const STOPPABLE_MAX: Duration = Duration::from_secs(5);

/// How long programs may take to give free memory back: a gigabyte takes some tenths of a second.
const FREE_MEMORY_MAX: Duration = Duration::from_secs(1);

/// How much nicer than the program whoever reads beside it is.
const NICENESS: i32 = 10;

/// Behind a checkpoint of so many pages, 64 MiB, and behind the next, which gives up the buffers that it does not need, what the
/// allocator holds goes back to the system (D5).
const GIVE_BACK_PAGES: u64 = 1 << 14;

/// How the kernel is asked what programs have said about their memory, at one attempt after the other: one that was asked ahead
/// counts only if the program has said nothing else meanwhile. One that goes on saying other things all the time is asked
/// while it stands still at last.
const ATTEMPTS: [Asking; 3] = [Asking::Ahead, Asking::Ahead, Asking::Stopped];

/// How often a job is let go again because one of its threads talks with the supervisor, and for how long.
const ASKING_LOOKS: u32 = 50;
const ASKING_PAUSE: Duration = Duration::from_millis(1);

/// What becomes of the program behind the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It runs on as soon as its memory has been read.
    Protect,
    /// It ends where it stood, once the checkpoint is durable.
    Stop,
}

/// A checkpoint that counts.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Where it is.
    pub(crate) level: Level,
    /// Why it is not in memory, where it was to be.
    pub(crate) degraded: Option<String>,
    /// Of a checkpoint in memory the files that the program writes: they have yet to be made durable.
    pub(crate) unsynced: Vec<Output>,
    /// Its figures.
    pub(crate) report: CheckpointReport,
    /// Files that the program writes.
    pub(crate) outputs: Vec<PathBuf>,
    /// Why the kernel does not let writes be tracked, where that was asked for.
    pub(crate) untracked: Option<String>,
    /// Why a process could not be cloned, where that was tried.
    pub(crate) uncloned: Option<String>,
    /// Why what the program directs about its memory was not honoured, where that is so.
    pub(crate) ignored_directives: Option<String>,
    /// Promises of the program that it has not kept since the checkpoint before.
    pub(crate) broken: Vec<BrokenPromise>,
    /// Why older generations could not be removed, where that failed: no harm to the checkpoint.
    pub(crate) retention: Result<(), StoreError>,
}

/// A checkpoint being taken.
pub(crate) struct Checkpointing {
    attempt: Background<Attempt>,
}

/// The end of an attempt. A generation that was given up travels with it, so that the thread need not wait for the disk
/// before it ends: as long as it lives, the program may stand still.
struct Attempt {
    outcome: Result<Taken, Failure>,
    /// Whether programs that have asked for it know that it failed.
    is_told: bool,
    _given_up: Option<Prepared>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// What becomes of the program.
    pub(crate) purpose: Purpose,
    /// What is known of earlier ones.
    pub(crate) past: Past,
    /// What programs are told when it has been taken.
    pub(crate) behind_success: Advised,
    /// What programs are told when it has failed.
    pub(crate) behind_failure: Advised,
}

impl Checkpointing {
    /// Starts the thread.
    pub(crate) fn begin(destination: Destination, freezer: Freezer, order: Order) -> Result<Self, Failure> {
        let work = move || {
            let attempt = take(&destination, &freezer, &order);
            if attempt.outcome.is_err() && !attempt.is_told {
                tell_failure(&freezer, order.behind_failure);
            }
            attempt
        };
        Ok(Self { attempt: Background::begin("checkpoint", work).map_err(Failure::Thread)? })
    }

    /// Waits for the end.
    pub(crate) fn join(self) -> Result<Taken, Failure> {
        match self.attempt.join() {
            Ok(attempt) => attempt.outcome,
            Err(_) => Err(Failure::Broken),
        }
    }
}

impl AsFd for Checkpointing {
    /// Polls as hung up once the thread is through.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.attempt.as_fd()
    }
}

/// Takes it in memory, if there is a level there and it has room; in the directory otherwise, and where memory fails.
fn take(destination: &Destination, freezer: &Freezer, order: &Order) -> Attempt {
    let directory = (Level::Directory, &destination.levels.directory);
    let reason = match destination.memory_with_room(freezer) {
        None => return take_at(destination, directory, freezer, order),
        Some(Err(reason)) => reason,
        Some(Ok(memory)) => {
            let attempt = take_at(destination, (Level::Memory, memory), freezer, order);
            match &attempt.outcome {
                Err(Failure::Store(error)) => error.to_string(),
                _ => return attempt,
            }
        }
    };
    let mut attempt = take_at(destination, directory, freezer, order);
    if let Ok(taken) = &mut attempt.outcome {
        taken.degraded = Some(reason);
    }
    attempt
}

fn take_at(destination: &Destination, place: (Level, &JobDirectory), freezer: &Freezer, order: &Order) -> Attempt {
    let attempts = match order.purpose {
        Purpose::Protect => &ATTEMPTS[..],
        // It does not run again.
        Purpose::Stop => &[Asking::Stopped],
    };
    let (last, others) = attempts.split_last().expect("there are some");
    for asking in others {
        let attempt = attempt_at(destination, place, freezer, order, *asking);
        if !matches!(attempt.outcome, Err(Failure::Outdated)) {
            return attempt;
        }
    }
    attempt_at(destination, place, freezer, order, *last)
}

fn attempt_at(
    destination: &Destination,
    (level, level_directory): (Level, &JobDirectory),
    freezer: &Freezer,
    order: &Order,
    asking: Asking,
) -> Attempt {
    let started = Instant::now();
    let failed = |failure, given_up| {
        // Whoever has disabled checkpoints does not wait for one; a program that does not stop is not stopped once more.
        // Those in it that wait ask again, and hear it then.
        let is_told = matches!(failure, Failure::Disabled) || failure.stood_still().is_some();
        Attempt { outcome: Err(failure), is_told, _given_up: given_up }
    };
    if let Err(error) = rehearse() {
        return failed(error.into(), None);
    }
    let (plan, choice) = match destination.plan(freezer, order.purpose, &order.past) {
        Ok(planned) => planned,
        Err(error) => return failed(error.into(), None),
    };
    if level == Level::Directory
        && let Err(failure) = destination.check_reserve(freezer, &plan)
    {
        return failed(failure, None);
    }
    let mut prepared = match level_directory.prepare_with(&destination.lease, plan) {
        Ok(prepared) => prepared,
        Err(error) => return failed(error.into(), None),
    };
    destination.note_under_way(&prepared);
    if let Err(error) = give_back_free_memory(freezer) {
        return failed(error.into(), Some(prepared));
    }
    freezer.prefetch();
    let options = destination.capture_options(&prepared, choice.method, asking);
    let (precopied, earlier) = match read_ahead(freezer, &mut prepared, options, choice) {
        Ok(read) => read,
        Err(error) => return failed(error.into(), Some(prepared)),
    };
    let is_untracked = precopied.is_empty();
    let (mut frozen, freezing) = match freeze(freezer) {
        Ok(frozen) => frozen,
        Err(failure) => return failed(failure, Some(prepared)),
    };
    let is_held = matches!(plan.writing, Writing::Held { .. });
    let captured = frozen.capture_behind(precopied, &mut prepared, options).and_then(|captured| {
        if !is_held {
            prepared.finish(&captured.state).map_err(EngineError::Image)?;
        }
        Ok(captured)
    });
    let taken = captured.is_ok().then(|| prepared.number().get());
    let advised = if captured.is_ok() { order.behind_success } else { order.behind_failure };
    let told = frozen.tell(taken, advised);
    let captured = match captured.and_then(|captured| told.map(|()| captured)) {
        Ok(captured) => captured,
        Err(error) => {
            // The program runs on, unless it ended while it stood still; the reason is the same.
            drop(frozen.thaw());
            return Attempt { outcome: Err(error.into()), is_told: true, _given_up: Some(prepared) };
        }
    };
    let moments =
        Moments { started, freezing, earlier, is_held, choice, is_untracked, level, last_read: order.past.last_read() };
    let outcome = complete(destination, freezer, prepared, captured, frozen, moments, order.purpose);
    Attempt { outcome, is_told: true, _given_up: None }
}

/// Freezes the job at a moment when its programs have nothing against it, and says when that began.
fn freeze(freezer: &Freezer) -> Result<(Frozen, Instant), Failure> {
    let mut looks = 0;
    loop {
        freezer.await_stoppable(STOPPABLE_MAX)?;
        let frozen = freezer.freeze(FREEZE_MAX)?;
        let freezing = frozen.since();
        match frozen.readiness()? {
            Readiness::Disabled => {
                drop(frozen.thaw());
                return Err(Failure::Disabled);
            }
            // That takes microseconds. Where it does not, the collection finds the connection.
            Readiness::Asking if looks < ASKING_LOOKS => {
                drop(frozen.thaw());
                looks += 1;
                std::thread::sleep(ASKING_PAUSE);
            }
            Readiness::Ready | Readiness::Asking => return Ok((frozen, freezing)),
        }
    }
}

/// Has programs whose library offers that give back what their allocators hold as free. Where that takes too long it is saved.
/// Fails only where a second freeze would fail as well.
fn give_back_free_memory(freezer: &Freezer) -> Result<(), EngineError> {
    if !freezer.may_ask_for_free_memory() {
        return Ok(());
    }
    freezer.await_stoppable(STOPPABLE_MAX)?;
    match freezer.freeze(FREEZE_MAX) {
        Ok(frozen) => {
            let asked = frozen.ask_for_free_memory();
            drop(frozen.thaw());
            asked.unwrap_or_default().wait(FREE_MEMORY_MAX);
            Ok(())
        }
        Err(error @ EngineError::Unstoppable { .. }) => Err(error),
        // What this is about the checkpoint itself will say.
        Err(_) => Ok(()),
    }
}

/// Tells programs that wait for a checkpoint that there is none. Where that fails, they ask again.
fn tell_failure(freezer: &Freezer, advised: Advised) {
    if let Ok(frozen) = freezer.freeze(FREEZE_MAX) {
        let _ = frozen.tell(None, advised).and_then(|()| frozen.thaw());
    }
}

struct Moments {
    started: Instant,
    freezing: Instant,
    /// How long the program had stood still before.
    earlier: Duration,
    /// Whether the pages are yet to be written.
    is_held: bool,
    choice: Choice,
    /// Whether nothing was read ahead.
    is_untracked: bool,
    /// Where they go.
    level: Level,
    /// How many pages the checkpoint before has read.
    last_read: u64,
}

/// Reads ahead, where that was chosen. With it comes how long the program has stood still for that.
fn read_ahead(
    freezer: &Freezer,
    prepared: &mut Prepared,
    options: CaptureOptions,
    choice: Choice,
) -> Result<(Precopied, Duration), EngineError> {
    if choice.method != Method::Precopy {
        return Ok((Precopied::default(), Duration::ZERO));
    }
    freezer.await_stoppable(STOPPABLE_MAX)?;
    let mut frozen = freezer.freeze(FREEZE_MAX)?;
    let freezing = frozen.since();
    let mut precopied = frozen.foresee(options)?;
    frozen.thaw()?;
    let pause = freezing.elapsed();
    precopied.read(prepared, choice.ahead_bytes_max())?;
    Ok((precopied, pause))
}

fn complete(
    destination: &Destination,
    freezer: &Freezer,
    mut prepared: Prepared,
    mut captured: Captured,
    frozen: Frozen,
    moments: Moments,
    purpose: Purpose,
) -> Result<Taken, Failure> {
    let (generation, pause) = match purpose {
        Purpose::Protect => {
            // That the program ended while it stood still does not harm the image: it may be needed the more.
            drop(frozen.thaw());
            let pause = moments.earlier + moments.freezing.elapsed();
            captured.outputs.extend(freezer.changed_files());
            let unconfirmed = captured.take_unconfirmed();
            let (sealed, is_confirmed) = std::thread::scope(|scope| {
                let confirm = || unconfirmed.is_none_or(Unconfirmed::confirm);
                let confirming = std::thread::Builder::new().spawn_scoped(scope, confirm).map_err(Failure::Thread)?;
                if moments.is_held {
                    prepared.release();
                    read_on(&mut captured, &mut prepared)?;
                    prepared.finish(&captured.state).map_err(EngineError::Image)?;
                }
                moments.make_durable(&captured)?;
                let sealed = prepared.seal()?;
                Ok::<_, Failure>((sealed, confirming.join().unwrap_or(false)))
            })?;
            if !is_confirmed {
                return Err(Failure::Outdated);
            }
            let generation = sealed.commit(pause)?;
            captured.committed(generation.number.get());
            (generation, pause)
        }
        Purpose::Stop => {
            let pause = moments.earlier + moments.freezing.elapsed();
            captured.outputs.extend(freezer.changed_files());
            moments.make_durable(&captured)?;
            let generation = prepared.seal()?.commit(pause)?;
            match frozen.kill() {
                // Had it ended already, it is as dead as it was to be.
                Ok(()) | Err(EngineError::Ended) => (generation, pause),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let report = moments.report(&captured, &generation, pause);
    freezer.judge_unsaved();
    let retention = destination.retain(moments.level);
    let retention = retention.and(keep_code(destination, freezer, captured.state.code_files()));
    if moments.last_read.max(report.pages_read) >= GIVE_BACK_PAGES {
        standfast_linux::give_back_unused();
    }
    let outputs = captured.outputs.iter().map(|output| output.path.clone()).collect();
    let level = moments.level;
    let Captured { untracked, uncloned, ignored_directives, broken, outputs: written, .. } = captured;
    let unsynced = if level == Level::Memory { written } else { Vec::new() };
    Ok(Taken {
        level,
        degraded: None,
        unsynced,
        report,
        outputs,
        untracked,
        uncloned,
        ignored_directives,
        broken,
        retention,
    })
}

/// Keeps copies of the executable and the libraries, so that the job does not depend on the system staying as it is. Only
/// files that were read whole: others could not be told from what they were.
pub(crate) fn keep_code<'a>(
    destination: &Destination,
    freezer: &Freezer,
    files: impl IntoIterator<Item = &'a FileReference>,
) -> Result<(), StoreError> {
    for file in files {
        let Some(digest) = file.digest.filter(|digest| digest.coverage == Coverage::Whole) else { continue };
        let path = Path::new(OsStr::from_bytes(&file.path.0));
        destination.levels.directory.keep(&destination.lease, digest.checksum, path)?;
        freezer.has_copy_of(file);
    }
    Ok(())
}

/// Reads what is to be read when the program runs on, with low priority.
fn read_on(captured: &mut Captured, prepared: &mut Prepared) -> Result<(), EngineError> {
    if captured.has_clones() {
        // Where that is refused it is read all the same.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
    captured.read_on(prepared)
}

impl Moments {
    /// What the program has written to its files up to the checkpoint must survive a power failure as the checkpoint does:
    /// a restart refuses files that are shorter than they were. A checkpoint in memory survives none.
    fn make_durable(&self, captured: &Captured) -> Result<(), Failure> {
        match self.level {
            Level::Memory => Ok(()),
            Level::Directory => sync_outputs(&captured.outputs),
        }
    }
}

/// Makes durable what the program has written to its files.
pub(crate) fn sync_outputs<'a>(outputs: impl IntoIterator<Item = &'a Output>) -> Result<(), Failure> {
    // Files that the kernel makes up (/proc, /sys) know no such thing.
    let sync = |output: &Output| match output.file.sync_data() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(Failure::Output(error)),
        _ => Ok(()),
    };
    outputs.into_iter().try_for_each(sync)
}
