//! Operations that a checkpoint needs on its job. The engine implements them; the tests of the phases have a job of
//! their own, which fails on demand.

use super::{FREEZE_MAX, STOPPABLE_MAX, Shortfall, Shortfalls};
use standfast_engine::{
    Advised, BrokenPromise, CaptureOptions, Captured, EngineError, Freezer, Frozen, Output, Precopied, Readiness,
    Tracking, Unconfirmed,
};
use standfast_format::ImageSink;
use standfast_format::records::{FileReference, JobState};
use std::time::{Duration, Instant};

/// Time for programs to give free memory back: a gigabyte takes some tenths of a second.
const FREE_MEMORY_MAX: Duration = Duration::from_secs(1);

/// A running job.
pub(super) trait JobFreezer {
    type Frozen: FrozenJob<Precopied = Self::Precopied, Captured = Self::Captured>;
    type Precopied: PrecopiedPages;
    type Captured: CapturedJob;

    /// Returns what is known of the job; `tracking` is the intended write tracking.
    fn figures(&self, tracking: Tracking) -> Figures;

    /// Reads ahead what would delay the freeze.
    fn prefetch(&self);

    /// Waits until no thread sleeps where it cannot be stopped.
    fn await_stoppable(&self) -> Result<(), EngineError>;

    /// Freezes the job.
    fn freeze(&self) -> Result<Self::Frozen, EngineError>;

    /// Reports whether programs of the job may be asked to give free memory back.
    fn may_ask_for_free_memory(&self) -> bool;

    /// Returns files that the job does not hold open and that had changed at the last freeze.
    fn changed_files(&self) -> Vec<Output>;

    /// Checks which files that the last checkpoint did not save a restart will miss.
    fn judge_unsaved(&self);

    /// Records that a file with code has been copied, so that a restart will find it.
    fn has_copy_of(&self, file: &FileReference);
}

/// A frozen job.
pub(super) trait FrozenJob {
    type Precopied: PrecopiedPages;
    type Captured: CapturedJob;

    /// Returns when the freeze began.
    fn since(&self) -> Instant;

    /// Reports whether a checkpoint may be taken now.
    fn readiness(&self) -> Result<Readiness, EngineError>;

    /// Finds the pages that may be precopied.
    fn begin_precopy(&mut self, options: CaptureOptions) -> Result<Self::Precopied, EngineError>;

    /// Collects the state of the job and reads its memory, except for pages that are read later.
    fn capture(
        &mut self,
        precopied: Self::Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Self::Captured, EngineError>;

    /// Tells programs that wait for a checkpoint how it ended.
    fn report_outcome(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError>;

    /// Thaws the job. Returns an error if it ended while it was frozen.
    fn thaw(self) -> Result<(), EngineError>;

    /// Thaws the job, and waits for programs that were asked to give free memory back.
    fn thaw_and_give_back(self);

    /// Kills the job in its present state.
    fn kill(self) -> Result<(), EngineError>;
}

/// Pages that are read before the final freeze.
pub(super) trait PrecopiedPages: Default {
    /// Reports whether there are none.
    fn is_empty(&self) -> bool;

    /// Reads at most `bytes_max` bytes of them while the program runs.
    fn read(&mut self, sink: &mut dyn ImageSink, bytes_max: u64) -> Result<(), EngineError>;
}

/// State that was captured of a job.
pub(super) trait CapturedJob {
    /// Returns everything except the pages.
    fn state(&self) -> &JobState;

    /// Returns the files that the program writes.
    fn outputs(&mut self) -> &mut Vec<Output>;

    /// Takes the check to run after the program continues: whether the statements that were read ahead still held.
    fn take_confirmation(&mut self) -> Box<dyn FnOnce() -> bool + Send>;

    /// Reports whether pages are to be read from clones.
    fn has_clones(&self) -> bool;

    /// Reads the rest of the pages. The program may run meanwhile.
    fn read_on(&mut self, sink: &mut dyn ImageSink) -> Result<(), EngineError>;

    /// Records that the checkpoint is committed under this number.
    fn committed(&self, generation: u64);

    /// Converts the capture to what is reported of it.
    fn into_news(self) -> CaptureNews;
}

/// What is known of a running job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Id of the main process.
    pub(super) pid: i32,
    pub(super) processes: usize,
    /// Bytes in memory that no file backs.
    pub(super) resident_bytes: u64,
    /// The last generation upon which the next one can build.
    pub(super) last_committed: Option<u64>,
    /// Approximate bytes that the next checkpoint will have to read if it builds upon that one.
    pub(super) expected_bytes: Option<u64>,
    /// Whether the kernel tracks its writes.
    pub(super) is_tracked: bool,
    /// Whether programs of the job have promised not to write to some memory.
    pub(super) has_promises: bool,
}

/// What is reported of a capture. The counts and times are those of [`Captured`].
#[derive(Debug, Default)]
pub(super) struct CaptureNews {
    pub(super) tasks: usize,
    pub(super) processes: usize,
    pub(super) pages: u64,
    pub(super) unchanged: u64,
    pub(super) huge_pages_split: u64,
    pub(super) first_writes: u64,
    pub(super) scanning: Duration,
    pub(super) shortfalls: Shortfalls,
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
            pid: self.main_process().pid.get(),
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

    fn begin_precopy(&mut self, options: CaptureOptions) -> Result<Precopied, EngineError> {
        self.begin_precopy(options)
    }

    fn capture(
        &mut self,
        precopied: Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Captured, EngineError> {
        self.capture_after_precopy(precopied, sink, options)
    }

    fn report_outcome(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError> {
        self.report_outcome(taken, advised)
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
        let reasons = [
            (Shortfall::Untracked, untracked),
            (Shortfall::Uncloned, uncloned),
            (Shortfall::DirectivesIgnored, ignored_directives),
        ];
        let shortfalls = reasons.into_iter().filter_map(|(shortfall, reason)| Some((shortfall, reason?))).collect();
        CaptureNews {
            tasks,
            processes,
            pages,
            unchanged,
            huge_pages_split,
            first_writes,
            scanning,
            shortfalls,
            broken,
            outputs,
        }
    }
}
