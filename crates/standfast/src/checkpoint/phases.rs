//! The phases of a checkpoint, each a type that owns what it needs. Each has one way on, and one way out: what was given up.
//!
//! ```text
//! Site  plan  Planned  prepare  Ready  read_ahead  Ahead  stop  Stopped  capture  Caught
//! Caught  resume  Resumed  seal  Durable  commit  Committed  retain  Taken          the program runs on
//! Caught  commit_and_kill                         Committed  retain  Taken          it ends where it stood
//! ```

use super::job::{CaptureNews, CapturedJob, FrozenJob, JobFreezer, PrecopiedPages};
use super::snapshots::Choice;
use super::{Destination, Failure, GivenUp, Order, Taken, keep_code, sync_outputs};
use crate::settings::Method;
use standfast_engine::Output;
use standfast_engine::{Asking, CaptureOptions, EngineError, Readiness, rehearse};
use standfast_format::ImageSink;
use standfast_format::manifest::Generation;
use standfast_format::records::FileReference;
use standfast_store::{JobDirectory, Level, PreparePlan, Prepared, Sealed, Writing};
use std::time::{Duration, Instant};

/// How much nicer than the program whoever reads beside it is.
const NICENESS: i32 = 10;

/// Behind a checkpoint of so many pages, 64 MiB, and behind the next, which gives up the buffers that it does not need, what the
/// allocator holds goes back to the system (D5).
const GIVE_BACK_PAGES: u64 = 1 << 14;

/// How often a job is let go again because one of its threads talks with the supervisor, and for how long.
const ASKING_LOOKS: u32 = 50;
const ASKING_PAUSE: Duration = Duration::from_millis(1);

/// Of which job a checkpoint is taken, what for, and where it goes.
pub(super) struct Site<'a, F> {
    pub(super) destination: &'a Destination,
    pub(super) level: Level,
    pub(super) level_directory: &'a JobDirectory,
    pub(super) freezer: &'a F,
    pub(super) order: &'a Order,
}

impl<F> Clone for Site<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Site<'_, F> {}

/// It is known how it will be taken, and there is room for it.
pub(super) struct Planned<'a, F> {
    site: Site<'a, F>,
    started: Instant,
    plan: PreparePlan,
    choice: Choice,
}

/// There is a place for it, and all has been done that can be while the program runs.
pub(super) struct Ready<'a, F> {
    site: Site<'a, F>,
    started: Instant,
    choice: Choice,
    /// Whether pages are written only when the program runs on.
    is_held: bool,
    prepared: Prepared,
}

/// Pages have been read ahead, where that was chosen.
pub(super) struct Ahead<'a, F: JobFreezer> {
    ready: Ready<'a, F>,
    options: CaptureOptions,
    precopied: F::Precopied,
    /// How long the program was stopped for that.
    stood_still: Duration,
}

/// The program is stopped.
pub(super) struct Stopped<'a, F: JobFreezer> {
    ahead: Ahead<'a, F>,
    frozen: F::Frozen,
    since: Instant,
}

/// All of it has been collected, and read or cloned; programs that wait for it know.
pub(super) struct Caught<'a, F: JobFreezer> {
    prepared: Prepared,
    captured: F::Captured,
    frozen: F::Frozen,
    moments: Moments<'a, F>,
}

/// The program runs on.
pub(super) struct Resumed<'a, F: JobFreezer> {
    prepared: Prepared,
    captured: F::Captured,
    moments: Moments<'a, F>,
    pause: Duration,
}

/// The image is durable, and so is what the program has written to its files.
pub(super) struct Durable<'a, F: JobFreezer> {
    sealed: Sealed,
    captured: F::Captured,
    moments: Moments<'a, F>,
    pause: Duration,
}

/// The manifest names it: it counts.
pub(super) struct Committed<'a, F: JobFreezer> {
    generation: Generation,
    captured: F::Captured,
    moments: Moments<'a, F>,
    pause: Duration,
}

/// What is to be known of a capture behind it.
pub(super) struct Moments<'a, F> {
    pub(super) site: Site<'a, F>,
    pub(super) started: Instant,
    freezing: Instant,
    /// How long the program had been stopped before.
    earlier: Duration,
    /// Whether the pages are yet to be written.
    is_held: bool,
    pub(super) choice: Choice,
    /// Whether nothing was read ahead.
    pub(super) is_untracked: bool,
}

impl GivenUp {
    /// Before programs that have asked for a checkpoint were told anything.
    fn untold(failure: impl Into<Failure>, prepared: Option<Prepared>) -> Box<Self> {
        let failure = failure.into();
        // Whoever has disabled checkpoints does not wait for one; a program that does not stop is not stopped once more.
        // Those in it that wait ask again, and hear it then.
        let is_told = matches!(failure, Failure::Disabled) || failure.stood_still().is_some();
        Box::new(Self { failure, is_told, _prepared: prepared })
    }

    /// When they know.
    fn told(failure: impl Into<Failure>, prepared: Option<Prepared>) -> Box<Self> {
        Box::new(Self { failure: failure.into(), is_told: true, _prepared: prepared })
    }
}

impl<'a, F: JobFreezer> Site<'a, F> {
    /// Rehearses the restart, chooses how to take it, and makes sure that there is room.
    pub(super) fn plan(self) -> Result<Planned<'a, F>, Box<GivenUp>> {
        let started = Instant::now();
        let untold = |failure: Failure| GivenUp::untold(failure, None);
        rehearse().map_err(|error| untold(error.into()))?;
        let figures = self.freezer.figures(self.destination.tracking);
        let planned = self.destination.plan(&figures, self.order.purpose, &self.order.past);
        let (plan, choice) = planned.map_err(|error| untold(error.into()))?;
        if self.level == Level::Directory {
            self.destination.check_reserve(&figures, &plan).map_err(untold)?;
        }
        Ok(Planned { site: self, started, plan, choice })
    }
}

impl<'a, F: JobFreezer> Planned<'a, F> {
    pub(super) fn prepare(self) -> Result<Ready<'a, F>, Box<GivenUp>> {
        let Self { site, started, plan, choice } = self;
        let prepared = site.level_directory.prepare_with(&site.destination.lease, plan);
        let prepared = prepared.map_err(|error| GivenUp::untold(error, None))?;
        site.destination.note_under_way(&prepared);
        if let Err(error) = give_back_free_memory(site.freezer) {
            return Err(GivenUp::untold(error, Some(prepared)));
        }
        site.freezer.prefetch();
        Ok(Ready { site, started, choice, is_held: matches!(plan.writing, Writing::Held { .. }), prepared })
    }
}

impl<'a, F: JobFreezer> Ready<'a, F> {
    pub(super) fn read_ahead(mut self, asking: Asking) -> Result<Ahead<'a, F>, Box<GivenUp>> {
        let options = self.site.destination.capture_options(&self.prepared, self.choice.method, asking);
        match read_ahead(self.site.freezer, &mut self.prepared, options, self.choice) {
            Ok((precopied, stood_still)) => Ok(Ahead { ready: self, options, precopied, stood_still }),
            Err(error) => Err(GivenUp::untold(error, Some(self.prepared))),
        }
    }
}

impl<'a, F: JobFreezer> Ahead<'a, F> {
    pub(super) fn stop(self) -> Result<Stopped<'a, F>, Box<GivenUp>> {
        match freeze(self.ready.site.freezer) {
            Ok((frozen, since)) => Ok(Stopped { ahead: self, frozen, since }),
            Err(failure) => Err(GivenUp::untold(failure, Some(self.ready.prepared))),
        }
    }
}

impl<'a, F: JobFreezer> Stopped<'a, F> {
    pub(super) fn capture(self) -> Result<Caught<'a, F>, Box<GivenUp>> {
        let Self { ahead: Ahead { ready, options, precopied, stood_still }, mut frozen, since } = self;
        let Ready { site, started, choice, is_held, mut prepared } = ready;
        let is_untracked = precopied.is_empty();
        let captured = frozen.capture(precopied, &mut prepared, options).and_then(|captured| {
            if !is_held {
                prepared.finish(captured.state()).map_err(EngineError::Image)?;
            }
            Ok(captured)
        });
        let taken = captured.is_ok().then(|| prepared.number().get());
        let advised = if captured.is_ok() { site.order.behind_success } else { site.order.behind_failure };
        let told = frozen.tell(taken, advised);
        match captured.and_then(|captured| told.map(|()| captured)) {
            Ok(captured) => {
                let moments =
                    Moments { site, started, freezing: since, earlier: stood_still, is_held, choice, is_untracked };
                Ok(Caught { prepared, captured, frozen, moments })
            }
            Err(error) => {
                // The program runs on, unless it ended while it stood still; the reason is the same.
                drop(frozen.thaw());
                Err(GivenUp::told(error, Some(prepared)))
            }
        }
    }
}

impl<'a, F: JobFreezer> Caught<'a, F> {
    pub(super) fn resume(self) -> Resumed<'a, F> {
        let Self { prepared, mut captured, frozen, moments } = self;
        // That the program ended while it stood still does not harm the image: it may be needed the more.
        drop(frozen.thaw());
        let pause = moments.pause();
        captured.outputs().extend(moments.site.freezer.changed_files());
        Resumed { prepared, captured, moments, pause }
    }

    /// Makes it durable while the program is stopped, and ends the program then.
    pub(super) fn commit_and_kill(self) -> Result<Committed<'a, F>, Box<GivenUp>> {
        let Self { prepared, mut captured, frozen, moments } = self;
        let pause = moments.pause();
        captured.outputs().extend(moments.site.freezer.changed_files());
        let told = |failure: Failure| GivenUp::told(failure, None);
        moments.make_durable(captured.outputs()).map_err(told)?;
        let sealed = prepared.seal().map_err(|error| told(error.into()))?;
        let generation = sealed.commit(pause).map_err(|error| told(error.into()))?;
        match frozen.kill() {
            // Had it ended already, it is as dead as it was to be.
            Ok(()) | Err(EngineError::Ended) => Ok(Committed { generation, captured, moments, pause }),
            Err(error) => Err(told(error.into())),
        }
    }
}

impl<'a, F: JobFreezer> Resumed<'a, F> {
    /// Reads what is yet to be read, and makes all of it durable; meanwhile it is confirmed that what was asked ahead still held.
    pub(super) fn seal(self) -> Result<Durable<'a, F>, Box<GivenUp>> {
        let Self { mut prepared, mut captured, moments, pause } = self;
        let confirm = captured.take_confirmation();
        let sealed = std::thread::scope(|scope| {
            let confirming = std::thread::Builder::new().spawn_scoped(scope, confirm).map_err(Failure::Thread)?;
            if moments.is_held {
                prepared.release();
                read_on(&mut captured, &mut prepared)?;
                prepared.finish(captured.state()).map_err(EngineError::Image)?;
            }
            moments.make_durable(captured.outputs())?;
            let sealed = prepared.seal()?;
            if confirming.join().unwrap_or(false) { Ok(sealed) } else { Err(Failure::Outdated) }
        });
        let sealed = sealed.map_err(|failure| GivenUp::told(failure, None))?;
        Ok(Durable { sealed, captured, moments, pause })
    }
}

impl<'a, F: JobFreezer> Durable<'a, F> {
    pub(super) fn commit(self) -> Result<Committed<'a, F>, Box<GivenUp>> {
        let Self { sealed, captured, moments, pause } = self;
        let generation = sealed.commit(pause).map_err(|error| GivenUp::told(error, None))?;
        captured.committed(generation.number.get());
        Ok(Committed { generation, captured, moments, pause })
    }
}

impl<F: JobFreezer> Committed<'_, F> {
    /// Removes older generations, and says what has been taken.
    pub(super) fn retain(self) -> Taken {
        let Self { generation, captured, moments, pause } = self;
        let Site { destination, level, freezer, order, .. } = moments.site;
        freezer.judge_unsaved();
        let retention = destination.retain(level);
        let has_copy_of = |file: &FileReference| freezer.has_copy_of(file);
        let retention = retention.and(keep_code(destination, has_copy_of, captured.state().code_files()));
        let news = captured.into_news();
        let report = moments.report(&news, &generation, pause);
        if order.past.last_read().max(report.pages_read) >= GIVE_BACK_PAGES {
            standfast_linux::give_back_unused();
        }
        let CaptureNews { untracked, uncloned, ignored_directives, broken, outputs, .. } = news;
        let paths = outputs.iter().map(|output| output.path.clone()).collect();
        let unsynced = if level == Level::Memory { outputs } else { Vec::new() };
        Taken {
            level,
            degraded: None,
            unsynced,
            report,
            outputs: paths,
            untracked,
            uncloned,
            ignored_directives,
            broken,
            retention,
        }
    }
}

impl<F: JobFreezer> Moments<'_, F> {
    /// How long the program has been stopped up to now.
    fn pause(&self) -> Duration {
        self.earlier + self.freezing.elapsed()
    }

    /// What the program has written to its files up to the checkpoint must survive a power failure as the checkpoint does:
    /// a restart refuses files that are shorter than they were. A checkpoint in memory survives none.
    fn make_durable(&self, outputs: &[Output]) -> Result<(), Failure> {
        match self.site.level {
            Level::Memory => Ok(()),
            Level::Directory => sync_outputs(outputs),
        }
    }
}

/// Freezes the job at a moment when its programs have nothing against it, and says when that began.
fn freeze<F: JobFreezer>(freezer: &F) -> Result<(F::Frozen, Instant), Failure> {
    let mut looks = 0;
    loop {
        freezer.await_stoppable()?;
        let frozen = freezer.freeze()?;
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
fn give_back_free_memory(freezer: &impl JobFreezer) -> Result<(), EngineError> {
    if !freezer.may_ask_for_free_memory() {
        return Ok(());
    }
    freezer.await_stoppable()?;
    match freezer.freeze() {
        Ok(frozen) => {
            frozen.thaw_and_give_back();
            Ok(())
        }
        Err(error @ EngineError::Unstoppable { .. }) => Err(error),
        // What this is about the checkpoint itself will say.
        Err(_) => Ok(()),
    }
}

/// Reads ahead, where that was chosen. With it comes how long the program has stood still for that.
fn read_ahead<F: JobFreezer>(
    freezer: &F,
    prepared: &mut Prepared,
    options: CaptureOptions,
    choice: Choice,
) -> Result<(F::Precopied, Duration), EngineError> {
    if choice.method != Method::Precopy {
        return Ok((F::Precopied::default(), Duration::ZERO));
    }
    freezer.await_stoppable()?;
    let mut frozen = freezer.freeze()?;
    let freezing = frozen.since();
    let mut precopied = frozen.foresee(options)?;
    frozen.thaw()?;
    let pause = freezing.elapsed();
    precopied.read(prepared, choice.ahead_bytes_max())?;
    Ok((precopied, pause))
}

/// Reads what is to be read when the program runs on, with low priority.
fn read_on(captured: &mut impl CapturedJob, prepared: &mut Prepared) -> Result<(), EngineError> {
    if captured.has_clones() {
        // Where that is refused it is read all the same.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
    captured.read_on(prepared)
}
