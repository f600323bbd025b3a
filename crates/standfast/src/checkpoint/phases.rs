//! The phases of a checkpoint. Each is a type that owns what it needs, and leads to the next phase or to an abandoned
//! checkpoint.
//!
//! ```text
//! Requested  plan  Planned  prepare  Ready  precopy  PrecopyDone  stop  Stopped  capture  CaptureDone
//! CaptureDone  resume  Resumed  seal  Durable  commit  Committed  retain  Taken          the program runs on
//! CaptureDone  commit_and_kill                         Committed  retain  Taken          it ends where it stood
//! ```

use super::job::{CaptureNews, CapturedJob, FrozenJob, JobFreezer, PrecopiedPages};
use super::snapshots::Choice;
use super::{Abandoned, Destination, Failure, Order, Taken, keep_code, sync_outputs};
use crate::settings::Method;
use standfast_engine::Output;
use standfast_engine::{Asking, CaptureOptions, EngineError, Readiness, rehearse};
use standfast_format::ImageSink;
use standfast_format::manifest::Generation;
use standfast_format::records::FileReference;
use standfast_store::{JobDirectory, Level, PreparePlan, Prepared, Sealed, Writing};
use std::time::{Duration, Instant};

/// Nice value of threads that read memory while the program runs.
const NICENESS: i32 = 10;

/// Number of pages, 64 MiB, from which the allocator returns its free memory to the system after a checkpoint (D5). It
/// does so after the following checkpoint too, which frees buffers that it does not need.
const GIVE_BACK_PAGES: u64 = 1 << 14;

/// How often, and for how long, a job is thawed again because one of its threads talks with the supervisor.
const ASKING_LOOKS: u32 = 50;
const ASKING_PAUSE: Duration = Duration::from_millis(1);

/// A checkpoint that was asked for: the job, the purpose and the destination.
pub(super) struct Requested<'a, F> {
    pub(super) destination: &'a Destination,
    pub(super) level: Level,
    pub(super) level_directory: &'a JobDirectory,
    pub(super) freezer: &'a F,
    pub(super) order: &'a Order,
}

impl<F> Clone for Requested<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Requested<'_, F> {}

/// A checkpoint with a chosen method and enough room.
pub(super) struct Planned<'a, F> {
    request: Requested<'a, F>,
    started: Instant,
    plan: PreparePlan,
    choice: Choice,
}

/// A checkpoint with a prepared generation. All work that is possible while the program runs is done.
pub(super) struct Ready<'a, F> {
    request: Requested<'a, F>,
    started: Instant,
    choice: Choice,
    /// Whether pages are written only after the program continues.
    is_held: bool,
    prepared: Prepared,
}

/// A checkpoint whose pages have been precopied, if that method was chosen.
pub(super) struct PrecopyDone<'a, F: JobFreezer> {
    ready: Ready<'a, F>,
    options: CaptureOptions,
    precopied: F::Precopied,
    /// How long the program was stopped for that.
    stood_still: Duration,
}

/// A checkpoint whose program is stopped.
pub(super) struct Stopped<'a, F: JobFreezer> {
    precopy: PrecopyDone<'a, F>,
    frozen: F::Frozen,
    since: Instant,
}

/// A checkpoint whose state has been collected, and whose memory was read or cloned. Programs that wait for it know.
pub(super) struct CaptureDone<'a, F: JobFreezer> {
    prepared: Prepared,
    captured: F::Captured,
    frozen: F::Frozen,
    facts: CaptureFacts<'a, F>,
}

/// A checkpoint whose program runs again.
pub(super) struct Resumed<'a, F: JobFreezer> {
    prepared: Prepared,
    captured: F::Captured,
    facts: CaptureFacts<'a, F>,
    pause: Duration,
}

/// A checkpoint whose image is durable, as are the program's writes to its files.
pub(super) struct Durable<'a, F: JobFreezer> {
    sealed: Sealed,
    captured: F::Captured,
    facts: CaptureFacts<'a, F>,
    pause: Duration,
}

/// A checkpoint that the manifest names.
pub(super) struct Committed<'a, F: JobFreezer> {
    generation: Generation,
    captured: F::Captured,
    facts: CaptureFacts<'a, F>,
    durations: Durations,
}

/// How long the parts of a checkpoint took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Durations {
    /// How long the program was stopped.
    pub(super) pause: Duration,
    /// How long it took until the manifest named the checkpoint. What follows, such as the removal of older
    /// checkpoints, is not part of it.
    pub(super) durable: Duration,
}

/// Facts about a capture that later phases need.
pub(super) struct CaptureFacts<'a, F> {
    pub(super) request: Requested<'a, F>,
    pub(super) started: Instant,
    freezing: Instant,
    /// How long the program had been stopped before the final freeze.
    earlier: Duration,
    /// Whether the pages have not been written yet.
    is_held: bool,
    pub(super) choice: Choice,
    /// Whether nothing was precopied.
    pub(super) is_untracked: bool,
}

impl Abandoned {
    /// Makes a failure of which waiting programs do not know.
    fn unreported(failure: impl Into<Failure>, prepared: Option<Prepared>) -> Box<Self> {
        let failure = failure.into();
        // A program that has disabled checkpoints does not wait for one, and a program that does not stop is not
        // stopped again. Threads that wait ask again, and get the report then.
        let is_reported = matches!(failure, Failure::Disabled) || failure.stood_still().is_some();
        Box::new(Self { failure, is_reported, _prepared: prepared })
    }

    /// Makes a failure of which they know.
    fn reported(failure: impl Into<Failure>, prepared: Option<Prepared>) -> Box<Self> {
        Box::new(Self { failure: failure.into(), is_reported: true, _prepared: prepared })
    }
}

impl<'a, F: JobFreezer> Requested<'a, F> {
    /// Rehearses the restart, chooses the capture method, and checks that there is enough room.
    pub(super) fn plan(self) -> Result<Planned<'a, F>, Box<Abandoned>> {
        let started = Instant::now();
        let unreported = |failure: Failure| Abandoned::unreported(failure, None);
        rehearse().map_err(|error| unreported(error.into()))?;
        let figures = self.freezer.figures(self.destination.tracking);
        let planned = self.destination.plan(&figures, self.order.purpose, &self.order.past);
        let (plan, choice) = planned.map_err(|error| unreported(error.into()))?;
        if self.level == Level::Directory {
            self.destination.check_reserve(&figures, &plan).map_err(unreported)?;
        }
        Ok(Planned { request: self, started, plan, choice })
    }
}

impl<'a, F: JobFreezer> Planned<'a, F> {
    pub(super) fn prepare(self) -> Result<Ready<'a, F>, Box<Abandoned>> {
        let Self { request, started, plan, choice } = self;
        let prepared = request.level_directory.prepare_with(&request.destination.lease, plan);
        let prepared = prepared.map_err(|error| Abandoned::unreported(error, None))?;
        request.destination.note_under_way(&prepared);
        if let Err(error) = give_back_free_memory(request.freezer) {
            return Err(Abandoned::unreported(error, Some(prepared)));
        }
        request.freezer.prefetch();
        Ok(Ready { request, started, choice, is_held: matches!(plan.writing, Writing::Held { .. }), prepared })
    }
}

impl<'a, F: JobFreezer> Ready<'a, F> {
    pub(super) fn precopy(mut self, asking: Asking) -> Result<PrecopyDone<'a, F>, Box<Abandoned>> {
        let options = self.request.destination.capture_options(&self.prepared, self.choice.method, asking);
        match precopy(self.request.freezer, &mut self.prepared, options, self.choice) {
            Ok((precopied, stood_still)) => Ok(PrecopyDone { ready: self, options, precopied, stood_still }),
            Err(error) => Err(Abandoned::unreported(error, Some(self.prepared))),
        }
    }
}

impl<'a, F: JobFreezer> PrecopyDone<'a, F> {
    pub(super) fn stop(mut self) -> Result<Stopped<'a, F>, Box<Abandoned>> {
        let request = self.ready.request;
        let are_ready = request.destination.await_ready_parts().map_err(Failure::OtherParts);
        match are_ready.and_then(|()| freeze(request.freezer)) {
            Ok((frozen, is_awaited)) => {
                if is_awaited {
                    self.options.asking = Asking::Stopped;
                }
                let since = frozen.since();
                Ok(Stopped { precopy: self, frozen, since })
            }
            Err(failure) => Err(Abandoned::unreported(failure, Some(self.ready.prepared))),
        }
    }
}

impl<'a, F: JobFreezer> Stopped<'a, F> {
    pub(super) fn capture(self) -> Result<CaptureDone<'a, F>, Box<Abandoned>> {
        let Self { precopy: PrecopyDone { ready, options, precopied, stood_still }, mut frozen, since } = self;
        let Ready { request, started, choice, is_held, mut prepared } = ready;
        let is_untracked = precopied.is_empty();
        let captured = frozen.capture(precopied, &mut prepared, options).and_then(|captured| {
            if !is_held {
                prepared.finish(captured.state()).map_err(EngineError::Image)?;
            }
            Ok(captured)
        });
        let taken = captured.is_ok().then(|| prepared.number().get());
        let advised = if captured.is_ok() { request.order.after_success } else { request.order.after_failure };
        let reported = frozen.report_outcome(taken, advised);
        match captured.and_then(|captured| reported.map(|()| captured)) {
            Ok(captured) => {
                let facts = CaptureFacts {
                    request,
                    started,
                    freezing: since,
                    earlier: stood_still,
                    is_held,
                    choice,
                    is_untracked,
                };
                Ok(CaptureDone { prepared, captured, frozen, facts })
            }
            Err(error) => {
                // The program continues, unless it ended while it was frozen; the reason is the same.
                drop(frozen.thaw());
                Err(Abandoned::reported(error, Some(prepared)))
            }
        }
    }
}

impl<'a, F: JobFreezer> CaptureDone<'a, F> {
    pub(super) fn resume(self) -> Result<Resumed<'a, F>, Box<Abandoned>> {
        let Self { prepared, mut captured, frozen, facts } = self;
        // The other parts of a distributed job may still be sending to what has been captured here.
        if let Err(reason) = facts.request.destination.await_captured_parts() {
            drop(frozen.thaw());
            return Err(Abandoned::reported(Failure::OtherParts(reason), Some(prepared)));
        }
        // If the program ended while it was frozen, the image is still good, and even more likely to be needed.
        drop(frozen.thaw());
        let pause = facts.pause();
        captured.outputs().extend(facts.request.freezer.changed_files());
        Ok(Resumed { prepared, captured, facts, pause })
    }

    /// Makes the checkpoint durable while the program is stopped, then kills the program.
    pub(super) fn commit_and_kill(self) -> Result<Committed<'a, F>, Box<Abandoned>> {
        let Self { prepared, mut captured, frozen, facts } = self;
        let pause = facts.pause();
        captured.outputs().extend(facts.request.freezer.changed_files());
        let reported = |failure: Failure| Abandoned::reported(failure, None);
        facts.make_durable(captured.outputs()).map_err(reported)?;
        let sealed = prepared.seal().map_err(|error| reported(error.into()))?;
        let generation = sealed.commit(pause).map_err(|error| reported(error.into()))?;
        let durations = Durations { pause, durable: facts.started.elapsed() };
        match frozen.kill() {
            // If the program had ended already, that is just as good.
            Ok(()) | Err(EngineError::Ended) => Ok(Committed { generation, captured, facts, durations }),
            Err(error) => Err(reported(error.into())),
        }
    }
}

impl<'a, F: JobFreezer> Resumed<'a, F> {
    /// Reads the remaining pages and makes the image durable. Meanwhile it confirms that the statements that were read
    /// ahead still held.
    pub(super) fn seal(self) -> Result<Durable<'a, F>, Box<Abandoned>> {
        let Self { mut prepared, mut captured, facts, pause } = self;
        let confirm = captured.take_confirmation();
        let sealed = std::thread::scope(|scope| {
            let confirming = std::thread::Builder::new().spawn_scoped(scope, confirm).map_err(Failure::Thread)?;
            if facts.is_held {
                prepared.release();
                read_on(&mut captured, &mut prepared)?;
                prepared.finish(captured.state()).map_err(EngineError::Image)?;
            }
            facts.make_durable(captured.outputs())?;
            let sealed = prepared.seal()?;
            if confirming.join().unwrap_or(false) { Ok(sealed) } else { Err(Failure::Outdated) }
        });
        let sealed = sealed.map_err(|failure| Abandoned::reported(failure, None))?;
        Ok(Durable { sealed, captured, facts, pause })
    }
}

impl<'a, F: JobFreezer> Durable<'a, F> {
    pub(super) fn commit(self) -> Result<Committed<'a, F>, Box<Abandoned>> {
        let Self { sealed, captured, facts, pause } = self;
        let sealed = sealed.in_epoch(facts.request.destination.epoch());
        let generation = sealed.commit(pause).map_err(|error| Abandoned::reported(error, None))?;
        let durations = Durations { pause, durable: facts.started.elapsed() };
        captured.committed(generation.number.get());
        Ok(Committed { generation, captured, facts, durations })
    }
}

impl<F: JobFreezer> Committed<'_, F> {
    /// Removes older generations, and returns what has been taken.
    pub(super) fn retain(self) -> Taken {
        let Self { generation, captured, facts, durations } = self;
        let Requested { destination, level, freezer, order, .. } = facts.request;
        freezer.judge_unsaved();
        let retention = destination.retain(level);
        let has_copy_of = |file: &FileReference| freezer.has_copy_of(file);
        let retention = retention.and(keep_code(destination, has_copy_of, captured.state().code_files()));
        let news = captured.into_news();
        let report = facts.report(&news, &generation, durations);
        if order.past.last_read().max(report.pages_read) >= GIVE_BACK_PAGES {
            standfast_linux::give_back_unused();
        }
        let CaptureNews { shortfalls, broken, outputs, .. } = news;
        let paths = outputs.iter().map(|output| output.path.clone()).collect();
        let unsynced = if level == Level::Memory { outputs } else { Vec::new() };
        Taken { level, shortfalls, unsynced, report, outputs: paths, broken, retention }
    }
}

impl<F: JobFreezer> CaptureFacts<'_, F> {
    /// Returns how long the program has been stopped so far.
    fn pause(&self) -> Duration {
        self.earlier + self.freezing.elapsed()
    }

    /// Makes the program's writes to its files durable. Up to the checkpoint they must survive a power failure as the
    /// checkpoint does, since a restart refuses files that have become shorter. A checkpoint in memory does not survive
    /// a power failure.
    fn make_durable(&self, outputs: &[Output]) -> Result<(), Failure> {
        match self.request.level {
            Level::Memory => Ok(()),
            Level::Directory => sync_outputs(outputs),
        }
    }
}

/// Freezes the job at a moment when its programs allow a checkpoint. Returns also whether a thread waits for this one at
/// its present point.
fn freeze<F: JobFreezer>(freezer: &F) -> Result<(F::Frozen, bool), Failure> {
    let mut looks = 0;
    loop {
        freezer.await_stoppable()?;
        let frozen = freezer.freeze()?;
        match frozen.readiness()? {
            Readiness::Disabled => {
                drop(frozen.thaw());
                return Err(Failure::Disabled);
            }
            // This takes microseconds. If it takes longer, the collection finds the connection.
            Readiness::Asking if looks < ASKING_LOOKS => {
                drop(frozen.thaw());
                looks += 1;
                std::thread::sleep(ASKING_PAUSE);
            }
            Readiness::Ready | Readiness::Asking => return Ok((frozen, false)),
            Readiness::Awaited => return Ok((frozen, true)),
        }
    }
}

/// Asks programs whose library supports it to return the free memory of their allocators. If that takes too long, that
/// memory is saved. Fails only if a second freeze would fail as well.
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
        // The checkpoint itself will report this error.
        Err(_) => Ok(()),
    }
}

/// Precopies, if that method was chosen. Returns also how long the program was stopped for that.
fn precopy<F: JobFreezer>(
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
    let mut precopied = frozen.begin_precopy(options)?;
    frozen.thaw()?;
    let pause = freezing.elapsed();
    precopied.read(prepared, choice.precopy_bytes_max())?;
    Ok((precopied, pause))
}

/// Reads the pages that are read after the program continues, with low priority.
fn read_on(captured: &mut impl CapturedJob, prepared: &mut Prepared) -> Result<(), EngineError> {
    if captured.has_clones() {
        // If this is refused, the pages are read all the same.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
    captured.read_on(prepared)
}
