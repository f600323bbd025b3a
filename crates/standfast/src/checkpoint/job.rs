//! What a checkpoint asks of the job that it is taken of. The engine answers; the tests of the phases have a job of their own,
//! which fails where they want it to.

use super::{FREEZE_MAX, STOPPABLE_MAX};
use standfast_engine::{
    Advised, BrokenPromise, CaptureOptions, Captured, EngineError, Freezer, Frozen, Output, Precopied, Readiness,
    Tracking, Unconfirmed,
};
use standfast_format::ImageSink;
use standfast_format::records::{FileReference, JobState};
use std::time::{Duration, Instant};

/// How long programs may take to give free memory back: a gigabyte takes some tenths of a second.
const FREE_MEMORY_MAX: Duration = Duration::from_secs(1);

/// A job that runs.
pub(super) trait JobFreezer {
    type Frozen: FrozenJob<Precopied = Self::Precopied, Captured = Self::Captured>;
    type Precopied: PrecopiedPages;
    type Captured: CapturedJob;

    /// What is known of it; `tracking` is how it is to be tracked.
    fn figures(&self, tracking: Tracking) -> Figures;

    /// Reads what would hold up the stop.
    fn prefetch(&self);

    /// Waits until no thread sleeps where it cannot be stopped.
    fn await_stoppable(&self) -> Result<(), EngineError>;

    /// Stops it.
    fn freeze(&self) -> Result<Self::Frozen, EngineError>;

    /// Whether programs of it may be asked to give free memory back.
    fn may_ask_for_free_memory(&self) -> bool;

    /// Files that it does not hold open and that had changed at the last stop.
    fn changed_files(&self) -> Vec<Output>;

    /// Looks what the last checkpoint did not save that a restart will miss.
    fn judge_unsaved(&self);

    /// Says that there is a copy of a file with code, which a restart will find.
    fn has_copy_of(&self, file: &FileReference);
}

/// A job that is stopped.
pub(super) trait FrozenJob {
    type Precopied: PrecopiedPages;
    type Captured: CapturedJob;

    /// Since when.
    fn since(&self) -> Instant;

    /// Whether a checkpoint may be taken now.
    fn readiness(&self) -> Result<Readiness, EngineError>;

    /// Looks which pages may be read ahead.
    fn foresee(&mut self, options: CaptureOptions) -> Result<Self::Precopied, EngineError>;

    /// Collects all of it and reads its memory, but for what comes later.
    fn capture(
        &mut self,
        precopied: Self::Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Self::Captured, EngineError>;

    /// Tells programs that wait for a checkpoint what has become of it.
    fn tell(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError>;

    /// Lets it run on. That it ended while it was stopped is an error.
    fn thaw(self) -> Result<(), EngineError>;

    /// Lets it run on, and waits for programs that were asked to give free memory back.
    fn thaw_and_give_back(self);

    /// Ends it where it stands.
    fn kill(self) -> Result<(), EngineError>;
}

/// Pages that are read before the stop that counts.
pub(super) trait PrecopiedPages: Default {
    /// Whether there are none.
    fn is_empty(&self) -> bool;

    /// Reads them, so many bytes at most, while the program runs.
    fn read(&mut self, sink: &mut dyn ImageSink, bytes_max: u64) -> Result<(), EngineError>;
}

/// What was captured of a job.
pub(super) trait CapturedJob {
    /// Everything but the pages.
    fn state(&self) -> &JobState;

    /// Files that the program writes.
    fn outputs(&mut self) -> &mut Vec<Output>;

    /// What is to be confirmed when the program runs again: whether what was asked ahead still held.
    fn take_confirmation(&mut self) -> Box<dyn FnOnce() -> bool + Send>;

    /// Whether pages are to be read from clones.
    fn has_clones(&self) -> bool;

    /// Reads what is yet to be read. The program may run.
    fn read_on(&mut self, sink: &mut dyn ImageSink) -> Result<(), EngineError>;

    /// Says that the checkpoint counts, under this number.
    fn committed(&self, generation: u64);

    /// What there is to tell of it.
    fn into_news(self) -> CaptureNews;
}

/// What is known of a job that runs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// The id of its main process.
    pub(super) pid: i32,
    pub(super) processes: usize,
    /// What it holds in memory beside files.
    pub(super) resident_bytes: u64,
    /// The last generation upon which the next one can build.
    pub(super) last_committed: Option<u64>,
    /// How much the next checkpoint will have to read if it builds upon that one, roughly.
    pub(super) expected_bytes: Option<u64>,
    /// Whether the kernel notes what it writes.
    pub(super) is_tracked: bool,
    /// Whether programs of it have promised not to write to some memory.
    pub(super) has_promises: bool,
}

/// What there is to tell of a capture: the counts and times are those of [`Captured`].
#[derive(Debug, Default)]
pub(super) struct CaptureNews {
    pub(super) tasks: usize,
    pub(super) processes: usize,
    pub(super) pages: u64,
    pub(super) unchanged: u64,
    pub(super) huge_pages_split: u64,
    pub(super) first_writes: u64,
    pub(super) scanning: Duration,
    pub(super) untracked: Option<String>,
    pub(super) uncloned: Option<String>,
    pub(super) ignored_directives: Option<String>,
    pub(super) broken: Vec<BrokenPromise>,
    pub(super) outputs: Vec<Output>,
}

impl JobFreezer for Freezer {
    type Frozen = Frozen;
    type Precopied = Precopied;
    type Captured = Captured;

    fn figures(&self, tracking: Tracking) -> Figures {
        let (processes, resident_bytes) = self.size();
        Figures {
            pid: self.main_process().pid,
            processes,
            resident_bytes,
            last_committed: self.last_committed(),
            expected_bytes: self.expected_bytes(),
            is_tracked: self.is_tracked(tracking),
            has_promises: self.has_promises(),
        }
    }

    fn prefetch(&self) {
        self.prefetch();
    }

    fn await_stoppable(&self) -> Result<(), EngineError> {
        self.await_stoppable(STOPPABLE_MAX)
    }

    fn freeze(&self) -> Result<Frozen, EngineError> {
        self.freeze(FREEZE_MAX)
    }

    fn may_ask_for_free_memory(&self) -> bool {
        self.may_ask_for_free_memory()
    }

    fn changed_files(&self) -> Vec<Output> {
        self.changed_files()
    }

    fn judge_unsaved(&self) {
        self.judge_unsaved();
    }

    fn has_copy_of(&self, file: &FileReference) {
        self.has_copy_of(file);
    }
}

impl FrozenJob for Frozen {
    type Precopied = Precopied;
    type Captured = Captured;

    fn since(&self) -> Instant {
        self.since()
    }

    fn readiness(&self) -> Result<Readiness, EngineError> {
        self.readiness()
    }

    fn foresee(&mut self, options: CaptureOptions) -> Result<Precopied, EngineError> {
        self.foresee(options)
    }

    fn capture(
        &mut self,
        precopied: Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Captured, EngineError> {
        self.capture_behind(precopied, sink, options)
    }

    fn tell(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError> {
        self.tell(taken, advised)
    }

    fn thaw(self) -> Result<(), EngineError> {
        self.thaw()
    }

    fn thaw_and_give_back(self) {
        let asked = self.ask_for_free_memory();
        drop(self.thaw());
        asked.unwrap_or_default().wait(FREE_MEMORY_MAX);
    }

    fn kill(self) -> Result<(), EngineError> {
        self.kill()
    }
}

impl PrecopiedPages for Precopied {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn read(&mut self, sink: &mut dyn ImageSink, bytes_max: u64) -> Result<(), EngineError> {
        self.read(sink, bytes_max)
    }
}

impl CapturedJob for Captured {
    fn state(&self) -> &JobState {
        &self.state
    }

    fn outputs(&mut self) -> &mut Vec<Output> {
        &mut self.outputs
    }

    fn take_confirmation(&mut self) -> Box<dyn FnOnce() -> bool + Send> {
        let unconfirmed = self.take_unconfirmed();
        Box::new(|| unconfirmed.is_none_or(Unconfirmed::confirm))
    }

    fn has_clones(&self) -> bool {
        self.has_clones()
    }

    fn read_on(&mut self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        self.read_on(sink)
    }

    fn committed(&self, generation: u64) {
        self.committed(generation);
    }

    fn into_news(self) -> CaptureNews {
        let Self { tasks, processes, pages, unchanged, huge_pages_split, first_writes, scanning, .. } = self;
        let Self { untracked, uncloned, ignored_directives, broken, outputs, .. } = self;
        CaptureNews {
            tasks,
            processes,
            pages,
            unchanged,
            huge_pages_split,
            first_writes,
            scanning,
            untracked,
            uncloned,
            ignored_directives,
            broken,
            outputs,
        }
    }
}
