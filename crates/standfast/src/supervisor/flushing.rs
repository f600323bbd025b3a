//! Flushing: copies checkpoints from memory to the disk. A [schedule](super::flush_schedule) decides when, and [`FlushMode`]
//! whether the program is stopped meanwhile. The copying has a thread of its own, beside the program with the lowest priority
//! (H6, H7). At most one such thread runs at a time.

use crate::background::Background;
use crate::checkpoint::{Destination, FREEZE_MAX, Failure, STOPPABLE_MAX, sync_outputs};
use crate::event::{JobEvent, Listener, LongWork};
use crate::history::HistoryEntry;
use crate::progress::Reports;
use crate::settings::{Beside, FlushCosts, FlushMode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setpriority_process;
use standfast_engine::{Delays, Freezer, Output, own_delay};
use standfast_format::manifest::{Generation, GenerationNumber};
use standfast_store::{Level, Pacer, Pacing};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lowest priority, so that every other thread goes first. The kernel derives the I/O priority of the thread from this,
/// and on a machine with a spare core the thread runs there.
const NICENESS: i32 = 19;

/// State of the program when a flush begins.
pub(crate) enum Beginning {
    /// It has ended.
    Ended,
    /// It runs. Given the costs of flushes, this one may be abandoned, to begin again while the program is stopped.
    Beside(Freezer, Option<FlushCosts>),
    /// It is to be stopped.
    Foreground(Freezer),
}

/// A flush that has ended.
pub(crate) struct Ended {
    /// Result of the flush.
    pub(crate) end: Result<End, Failure>,
    /// Its cost to the program.
    pub(crate) measured: Measured,
}

/// Result of a flush.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// The checkpoint is on the disk. Holds the generation if the flush put it there.
    OnDisk(Option<Generation>),
    /// The flush was abandoned.
    Abandoned,
}

/// Cost of a flush to the program.
#[derive(Debug, PartialEq)]
pub(crate) enum Measured {
    /// The cost is not known.
    Nothing,
    /// It ran beside the program.
    Beside(Beside),
    /// The program was stopped for this time while this many bytes were copied.
    Foreground(u64, Duration),
    /// The program was to be stopped, but that failed.
    Unstoppable,
}

/// A flush under way.
pub(crate) struct Flushing {
    work: Background<Ended>,
    pacing: Arc<Pacing>,
    /// Generation that is being flushed.
    pub(crate) number: GenerationNumber,
    /// Mode of the flush.
    pub(crate) flush_mode: FlushMode,
}

impl Flushing {
    /// Starts a thread that flushes a generation to the disk, after making the program's writes to its files durable.
    /// The thread rests between turns until `gentle_until`.
    pub(crate) fn begin(
        destination: &Destination,
        number: GenerationNumber,
        outputs: Option<Arc<Vec<Output>>>,
        beginning: Beginning,
        gentle_until: Instant,
    ) -> io::Result<Self> {
        let pacing = Arc::new(Pacing::gentle_until(gentle_until));
        let flush_mode = match &beginning {
            Beginning::Ended | Beginning::Beside(..) => FlushMode::Background,
            Beginning::Foreground(_) => FlushMode::Foreground,
        };
        let flush = Flush { destination: destination.clone(), number, outputs, pacing: Arc::clone(&pacing) };
        let work = move || {
            let begun = Instant::now();
            let ended = match beginning {
                Beginning::Ended => flush.beside(None),
                Beginning::Beside(freezer, costs) => flush.beside(Some(RunningProgram { freezer, costs })),
                Beginning::Foreground(freezer) => flush.in_foreground(&freezer),
            };
            flush.note_in_history(&ended, begun.elapsed());
            ended
        };
        Ok(Self { work: Background::begin("flush", work)?, pacing, number, flush_mode })
    }

    /// Makes the flush work without rests from now on, since somebody waits for it.
    pub(crate) fn hurry(&self) {
        self.pacing.hurry();
    }

    /// Asks the flush to end soon. What was there before stays.
    pub(crate) fn cancel(&self) {
        self.pacing.cancel();
    }

    /// Waits for the flush to end.
    pub(crate) fn join(self) -> Ended {
        self.work.join().unwrap_or(Ended { end: Err(Failure::Broken), measured: Measured::Nothing })
    }

    /// Waits for the flush to end within `time`; otherwise cancels it and returns `None`. So a disk that hangs does not
    /// block the caller.
    pub(crate) fn join_within(self, time: Duration, listener: &mut Listener<'_>) -> Option<Result<End, Failure>> {
        let deadline = Instant::now() + time;
        let mut reports = Reports::begin(Instant::now());
        loop {
            if reports.take_due(Instant::now()) {
                let work = LongWork::Flushing { generation: self.number.get() };
                listener(&JobEvent::of_progress(work, self.pacing.progress(), true));
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            let left = rest.min(reports.due().saturating_duration_since(Instant::now()));
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&self.work, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(1..) => return Some(self.join().end),
                Ok(0) | Err(_) if rest.is_zero() => {
                    self.cancel();
                    return None;
                }
                // A report is due, or a signal came.
                Ok(0) | Err(_) => {}
            }
        }
    }
}

impl AsFd for Flushing {
    /// Returns a descriptor that polls as hung up when the thread has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }
}

/// The work of the thread.
struct Flush {
    destination: Destination,
    number: GenerationNumber,
    outputs: Option<Arc<Vec<Output>>>,
    pacing: Arc<Pacing>,
}

/// The program beside which a flush runs.
struct RunningProgram {
    freezer: Freezer,
    /// The costs of flushes, if this one may be abandoned.
    costs: Option<FlushCosts>,
}

impl Flush {
    fn note_in_history(&self, ended: &Ended, took: Duration) {
        let Ok(End::OnDisk(Some(generation))) = &ended.end else { return };
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let entry = HistoryEntry::Flushed {
            generation: generation.number.get(),
            file_bytes: generation.file_bytes,
            nanoseconds,
        };
        entry.append(&self.destination.levels.directory, &self.destination.lease);
    }

    /// Flushes beside the program, if there is one.
    fn beside(&self, program: Option<RunningProgram>) -> Ended {
        // If this is not allowed, the flush works all the same.
        let _ = setpriority_process(None, NICENESS);
        if let Err(failure) = self.sync_outputs() {
            return Ended { end: Err(failure), measured: Measured::Nothing };
        }
        let Some(RunningProgram { freezer, costs }) = program else {
            return Ended { end: self.copy(&*self.pacing), measured: Measured::Nothing };
        };
        let watch = Watch { delays: freezer.delays(), own: own_delay(), beside: Beside::default() };
        let watched = Watched { pacing: &self.pacing, costs, watch: RefCell::new(watch) };
        let end = self.copy(&watched);
        Ended { end, measured: Measured::Beside(watched.watch.into_inner().beside) }
    }

    /// Flushes while the program is stopped.
    fn in_foreground(&self, freezer: &Freezer) -> Ended {
        if let Err(failure) = self.sync_outputs() {
            return Ended { end: Err(failure), measured: Measured::Nothing };
        }
        self.pacing.hurry();
        let frozen = match freezer.await_stoppable(STOPPABLE_MAX).and_then(|()| freezer.freeze(FREEZE_MAX)) {
            Ok(frozen) => frozen,
            // The end of this thread releases the threads that were stopped.
            Err(error) => return Ended { end: Err(error.into()), measured: Measured::Unstoppable },
        };
        let freezing = frozen.since();
        let end = self.copy(&*self.pacing);
        // If the program has ended meanwhile, the event loop notices.
        drop(frozen.thaw());
        let bytes = match &end {
            Ok(End::OnDisk(Some(flushed))) => flushed.file_bytes,
            _ => 0,
        };
        Ended { end, measured: Measured::Foreground(bytes, freezing.elapsed()) }
    }

    fn sync_outputs(&self) -> Result<(), Failure> {
        sync_outputs(self.outputs.iter().flat_map(|outputs| outputs.iter()))
    }

    fn copy(&self, pacer: &dyn Pacer) -> Result<End, Failure> {
        let Destination { levels, lease, .. } = &self.destination;
        let Some(memory) = &levels.memory else { return Ok(End::Abandoned) };
        if levels.directory.manifest()?.generation(self.number).is_some() {
            return Ok(End::OnDisk(None));
        }
        let bytes = memory.manifest()?.generation(self.number).map_or(0, |generation| generation.file_bytes);
        self.pacing.progress().expect(bytes);
        let Some(flushed) = levels.directory.take_from(lease, memory, self.number, pacer)? else {
            return Ok(End::Abandoned);
        };
        self.destination.retain(Level::Directory)?;
        Ok(End::OnDisk(Some(flushed)))
    }
}

/// Measures the cost of a flush to the program, turn by turn. Ends the flush if it is cheaper in the foreground.
struct Watched<'a> {
    pacing: &'a Pacing,
    costs: Option<FlushCosts>,
    watch: RefCell<Watch>,
}

struct Watch {
    delays: Delays,
    /// How long this thread had waited for a processor when its turn began.
    own: Duration,
    beside: Beside,
}

impl Pacer for Watched<'_> {
    fn goes_on(&self) -> bool {
        self.pacing.goes_on()
    }

    fn turn(&self, bytes: u64, took: Duration) -> bool {
        if !self.pacing.is_gentle() {
            return self.pacing.turn(bytes, took);
        }
        let mut watch = self.watch.borrow_mut();
        let Watch { delays, own, beside } = &mut *watch;
        beside.worked(bytes, took, own_delay().saturating_sub(*own), delays.since_last());
        let resting = Instant::now();
        let goes_on = self.pacing.turn(bytes, took);
        beside.rested(resting.elapsed(), delays.since_last());
        *own = own_delay();
        goes_on && !self.costs.is_some_and(|costs| costs.is_to_end(beside))
    }
}

/// Makes the writes of a program that has ended to its files durable. Files that are gone are skipped.
pub(crate) fn sync_paths(paths: &[PathBuf]) -> io::Result<()> {
    let sync = |path: &PathBuf| match std::fs::metadata(path) {
        // Another kind of file may have the name by now, and opening it might never return.
        Ok(file) if file.is_file() => File::open(path)?.sync_data(),
        _ => Ok(()),
    };
    paths.iter().try_for_each(sync)
}
