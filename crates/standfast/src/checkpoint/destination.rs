//! Where the checkpoints of a job go, and what kind of generation comes next.

use super::job::Figures;
use super::snapshots::{Choice, Past, choose};
use super::{Failure, Purpose};
use crate::event::{JobEvent, LongWork};
use crate::free_space;
use crate::part_link::{JobPart, PartLink};
use crate::settings::{
    ExternalSockets, Incremental, JobOptions, Keep, MaxFiles, Method, Reserve, SaveFiles, Snapshot, encodings,
    stack_part, tracking, unchanged_percent_min,
};
use standfast_engine::{Asking, CaptureOptions, Reading, StackPart, Tracking};
use standfast_format::manifest::{Epoch, GenerationNumber};
use standfast_linux::Pid;
use standfast_linux::proc::Room;
use standfast_store::{JobDirectory, Lease, Level, Levels, PreparePlan, Prepared, Progress, StoreError};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

/// Factor by which a chain may exceed its usual length while its coalescing is due or under way.
const CHAINS_AHEAD: usize = 2;

/// Where checkpoints of a job go.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// The job's directory, and the level in memory if there is one.
    pub(crate) levels: Levels,
    /// Least number for new generations. Lower numbers belong to others, whatever the levels say.
    pub(crate) number_min: GenerationNumber,
    /// The lease, which gives the right to write there.
    pub(crate) lease: Arc<Lease>,
    /// Number of generations to keep.
    pub(crate) keep: Keep,
    /// Number of images that may build upon each other.
    pub(crate) max_files: MaxFiles,
    /// Part of the stack that is saved.
    pub(super) stack: StackPart,
    pub(super) incremental: Incremental,
    pub(super) tracking: Tracking,
    pub(super) snapshot: Snapshot,
    pub(super) save_files: SaveFiles,
    /// Policy for connections to the outside.
    pub(crate) external_sockets: ExternalSockets,
    reserve: Reserve,
    /// The way to the other parts, if the job is a part of a distributed one.
    pub(crate) part: Option<Arc<PartLink>>,
    /// The checkpoint that is being written.
    under_way: Arc<Mutex<Option<UnderWay>>>,
}

/// A checkpoint that is being written.
#[derive(Debug, Clone)]
struct UnderWay {
    number: GenerationNumber,
    progress: Arc<Progress>,
}

impl Destination {
    /// Makes a destination from the levels and options of a job.
    pub(crate) fn new(levels: Levels, lease: Arc<Lease>, options: &JobOptions) -> Self {
        for (_, level) in levels.each() {
            level.set_encodings(encodings(options.delta, options.compress));
            options.writers.chosen().into_iter().for_each(|writers| level.set_writers(writers));
        }
        Self {
            levels,
            number_min: GenerationNumber::FIRST,
            lease,
            keep: options.keep,
            max_files: options.max_files,
            stack: stack_part(options.stack),
            incremental: options.incremental,
            tracking: tracking(options.incremental, options.track),
            snapshot: options.snapshot,
            save_files: options.save_files,
            external_sockets: options.external_sockets,
            reserve: options.reserve,
            part: None,
            under_way: Arc::default(),
        }
    }

    /// Makes the destination that of a part of a distributed job.
    pub(crate) fn of_part(self, part: Option<&JobPart>) -> Self {
        Self { part: part.map(JobPart::link), ..self }
    }

    /// Waits until all parts of a distributed job are ready to be frozen.
    pub(super) fn await_ready_parts(&self) -> Result<(), String> {
        self.part.as_ref().map_or(Ok(()), |part| part.await_freeze())
    }

    /// Waits until all parts of a distributed job have captured their state.
    pub(super) fn await_captured_parts(&self) -> Result<(), String> {
        self.part.as_ref().map_or(Ok(()), |part| part.await_thaw())
    }

    /// Returns the epoch that the checkpoint under way belongs to.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.part.as_ref().and_then(|part| part.epoch())
    }

    /// Records which checkpoint is being written.
    pub(super) fn note_under_way(&self, prepared: &Prepared) {
        let under_way = UnderWay { number: prepared.number(), progress: prepared.progress() };
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) = Some(under_way);
    }

    /// Returns the progress of the last checkpoint that was begun.
    pub(crate) fn progress(&self) -> Option<JobEvent> {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let work = LongWork::Writing { generation: under_way.number.get() };
        Some(JobEvent::of_progress(work, &under_way.progress, true))
    }

    /// Decides what kind of generation comes next, and how memory is captured for it.
    pub(super) fn plan(
        &self,
        figures: &Figures,
        purpose: Purpose,
        past: &Past,
    ) -> Result<(PreparePlan, Choice), StoreError> {
        let builds = self.tracking != Tracking::Off || figures.has_promises;
        let parent = figures.last_committed.filter(|_| builds).and_then(GenerationNumber::new);
        let choice = match purpose {
            Purpose::Protect => {
                let room = Room::of(Pid::new(figures.pid));
                let expected = figures.expected_bytes.filter(|_| parent.is_some());
                let is_tracked = parent.is_some() && figures.is_tracked;
                let (processes, resident) = (figures.processes, figures.resident_bytes);
                choose(
                    self.snapshot,
                    &past.situation(parent.is_some(), is_tracked, expected, processes, resident, room),
                )
            }
            Purpose::Stop => Choice::stop(),
        };
        // Coalescing has the lowest priority. If the machine has no time for it, the chain ends here.
        let links_max = CHAINS_AHEAD * self.max_files.get().get().max(self.keep.get().get() + 1) as usize;
        let number_min = self.levels.next()?.max(self.number_min);
        // A program that ends after the checkpoint does not wait to continue.
        let in_haste = purpose == Purpose::Protect && choice.method == Method::Sequential;
        Ok((PreparePlan { parent, links_max, writing: choice.writing(), in_haste, number_min }, choice))
    }

    /// Refuses a checkpoint on disk that may leave too little free space. The size of an incremental one is an
    /// estimate.
    pub(super) fn check_reserve(&self, figures: &Figures, plan: &PreparePlan) -> Result<(), Failure> {
        let directory = self.levels.directory.path();
        let expected = figures.expected_bytes.filter(|_| plan.parent.is_some());
        let image_bytes = expected.unwrap_or(figures.resident_bytes);
        if self.reserve.is_left(image_bytes, free_space::bytes_left_at(directory)) {
            return Ok(());
        }
        Err(Failure::TooLittleSpace { directory: directory.to_owned(), image_bytes, reserve: self.reserve })
    }

    /// Returns the level in memory if it has room for two generations of the program, else the reason why not.
    pub(super) fn memory_with_room(&self, figures: impl FnOnce() -> Figures) -> Option<Result<&JobDirectory, String>> {
        let memory = self.levels.memory.as_ref()?;
        let figures = figures();
        let bytes = memory.manifest().map_or(0, |it| it.generations.iter().map(|it| it.file_bytes).sum());
        let room = Room::of(Pid::new(figures.pid)).spare_bytes.min(Room::of(Pid::own()).spare_bytes);
        let tightest = room.min(free_space::bytes_left_at(memory.path()));
        if free_space::fits_twice(figures.resident_bytes, bytes, tightest) {
            return Some(Ok(memory));
        }
        Some(Err("two checkpoints of the program do not fit in half of the available memory".to_owned()))
    }

    /// Removes generations that need not stay on a level.
    pub(crate) fn retain(&self, level: Level) -> Result<(), StoreError> {
        self.on(level).retain(&self.lease, self.kept(level)?).map(drop)
    }

    /// Returns how many generations stay on a level. Memory is expensive and the disk has older generations, so memory keeps
    /// only the newest. A part keeps all from the last complete epoch on: the next one may not become complete.
    pub(crate) fn kept(&self, level: Level) -> Result<NonZeroU32, StoreError> {
        let usual = if level == Level::Memory { NonZeroU32::MIN } else { self.keep.get() };
        let Some(part) = &self.part else { return Ok(usual) };
        let oldest = if level == Level::Memory { part.last_complete() } else { part.last_on_disk() };
        let Some(oldest) = oldest else { return Ok(NonZeroU32::MAX) };
        let manifest = self.on(level).manifest()?;
        let needed = manifest.generations.iter().rev().take_while(|it| it.epoch.is_none_or(|epoch| epoch >= oldest));
        let needed = u32::try_from(needed.count()).unwrap_or(u32::MAX);
        Ok(NonZeroU32::new(needed).map_or(usual, |needed| needed.max(usual)))
    }

    fn on(&self, level: Level) -> &JobDirectory {
        self.levels.memory.as_ref().filter(|_| level == Level::Memory).unwrap_or(&self.levels.directory)
    }

    pub(super) fn capture_options(&self, prepared: &Prepared, method: Method, asking: Asking) -> CaptureOptions {
        CaptureOptions {
            stack: self.stack,
            // Memory that is precopied must be tracked, whether or not later checkpoints build upon this one.
            tracking: if method == Method::Precopy && self.tracking == Tracking::Off {
                Tracking::Pagemap
            } else {
                self.tracking
            },
            builds_upon_last: prepared.parent().is_some(),
            unchanged_percent_min: unchanged_percent_min(self.incremental),
            saved_files: self.save_files.policy(),
            external_sockets: self.external_sockets,
            reading: match method {
                Method::Sequential | Method::Copy | Method::Precopy => Reading::Stopped,
                Method::Fork => Reading::Cloned,
            },
            asking,
        }
    }
}
