//! Reads the pages of a frozen job into an image.

use crate::census::{Census, ExternalSockets, Output};
use crate::freeze::{Frozen, if_another_ended, kernel, refine};
use crate::hashes::{Key, Sieve};
use crate::job::Shared;
use crate::reading::Wanted;
use crate::track::Tracking;
use crate::{EngineError, ProcessIdentity};
use standfast_core::{PageRange, PageSet};
use standfast_format::records::JobState;
use standfast_format::{Beneath, ImageSink};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much of the main thread's stack is saved (L10, M2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StackPart {
    /// What lies above the lowest stack pointer on it and that one's red zone. What lies below comes back as zeros.
    #[default]
    Live,
    /// All of it: for programs that keep coroutines below the stack pointer of their main thread.
    Whole,
}

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureOptions {
    /// How much of the main thread's stack is saved.
    pub stack: StackPart,
    /// How this and later checkpoints find out what has changed.
    pub tracking: Tracking,
    /// Whether the sink's image builds upon that of the last checkpoint for which [`Captured::committed`] was called:
    /// pages that are as they were then are noted and not saved. Needs tracking that is not [`Tracking::Off`].
    pub builds_upon_last: bool,
    /// A process of which less than this share of the pages is as it was, in percent, is saved whole: that costs little
    /// more, and what comes later builds upon less.
    pub unchanged_percent_min: u8,
    /// Which files are saved whole.
    pub saved_files: SavedFiles,
    /// What becomes of connections whose other end is outside the job.
    pub external_sockets: ExternalSockets,
}

/// Which files are saved whole, of those that the program may write. What of others is mapped is saved in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SavedFiles {
    /// None.
    #[default]
    None,
    /// Small ones, for the case that they are gone by the restart, or no longer hold what they held.
    IfNeeded,
    /// Those that hold so many bytes at most; a restart puts back what they held.
    UpTo(u64),
}

/// What a capture did.
#[derive(Debug)]
pub struct Captured {
    /// Everything but the pages: what the sink is to be finished with.
    pub state: JobState,
    /// Tasks (threads) that stood still.
    pub tasks: usize,
    /// Pages handed to the sink.
    pub pages: u64,
    /// Pages that hold something and were noted as unchanged.
    pub unchanged: u64,
    /// Huge pages of the job as it is now that are small ones since they were observed.
    pub huge_pages_split: u64,
    /// How long it took until all was known but what the pages hold.
    pub looking: Duration,
    /// Files that the program has open for writing. What it has written there must be made durable (`sync_data`) before
    /// the checkpoint is committed, since a restart counts on finding it; that can wait until after the thaw.
    pub outputs: Vec<Output>,
    /// Why the kernel does not let memory be observed, where that was asked for.
    pub unobserved: Option<String>,
    shared: Arc<Shared>,
}

impl Captured {
    /// Says that the checkpoint is durable, as this generation: the next one may build upon it. A checkpoint of which
    /// this is never said is as if it had not been.
    pub fn committed(&self, generation: u64) {
        self.shared.tracks().committed(generation);
    }
}

impl Frozen {
    /// Takes the census, refuses by name what could not be brought back, and reads all memory into `sink`, which is yet
    /// to be finished with [`Captured::state`]: the program need not stand still for that.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything went into the sink; others at any time. The job stays frozen and whole.
    pub fn capture(&mut self, sink: &mut dyn ImageSink, options: CaptureOptions) -> Result<Captured, EngineError> {
        let begin = Instant::now();
        if !options.builds_upon_last {
            self.shared.tracks().forget();
        }
        let census = Census::take(self, options).map_err(|error| if_another_ended(error, self.main))?;
        let looking = begin.elapsed();
        let mut tracks = self.shared.tracks();
        let tracking = tracks.resolve(options.tracking);
        tracks.hashes.begin();
        let (mut changed, mut unchanged) = (0, 0);
        for (place, (process, mut held)) in self.processes.iter().zip(census.pages).enumerate() {
            let owner = place as u32;
            if !held.unchanged.is_empty() {
                sink.inherit(owner, held.was, &held.unchanged).map_err(EngineError::Image)?;
                unchanged += held.unchanged.pages();
            }
            if tracking == Tracking::Hash {
                held.compared = std::mem::take(&mut held.changed);
            }
            let read = |ranges: &[PageRange], into: &mut [u8]| process.memory.read_pages(ranges, into);
            changed += Wanted { owner, ranges: &held.changed, read: &read }.save(sink)?;
            if !held.compared.is_empty() {
                let identity = ProcessIdentity::of(process.pid)?;
                let sieve = tracks.hashes.sieve(Key::Process(identity), owner);
                let wanted = Wanted { owner, ranges: &held.compared, read: &read };
                let compared = Compared::of(&wanted, sieve, sink)?;
                changed += compared.saved;
                unchanged += compared.inherited;
                tracks.of(identity).into_iter().for_each(|track| track.learn_compared(&compared.changed));
            }
        }
        let memories: Vec<_> = self.processes.iter().map(|process| &process.memory).collect();
        for (place, object) in census.objects.iter().enumerate() {
            let owner = census.state.number_of_object(place);
            let read = |ranges: &[PageRange], into: &mut [u8]| object.read(&memories, ranges, into);
            let ranges: Vec<_> = object.ranges.iter().map(|range| (*range, Beneath::Zeros)).collect();
            let wanted = Wanted { owner, ranges: &ranges, read: &read };
            if tracking == Tracking::Off {
                changed += wanted.save(sink)?;
                continue;
            }
            let sieve = tracks.hashes.sieve(Key::Object(object.identity.0, object.identity.1), owner);
            let compared = Compared::of(&wanted, sieve, sink)?;
            changed += compared.saved;
            unchanged += compared.inherited;
        }
        self.check_alive()?;
        tracks.note_read(changed);
        Ok(Captured {
            state: census.state,
            tasks: self.processes.iter().map(|process| process.tasks.len()).sum(),
            pages: changed,
            unchanged,
            huge_pages_split: tracks.huge_pages_split(),
            looking,
            outputs: census.outputs,
            unobserved: tracks.problem().map(str::to_owned),
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Frozen {
    /// That everybody stands still yet. The memory of a process that is killed while it stands still vanishes under our
    /// hands: its pages then look as if they had never been, and nothing that was read since can be believed. As long as
    /// all tasks are stopped, it was there.
    fn check_alive(&self) -> Result<(), EngineError> {
        for process in &self.processes {
            for task in &process.tasks {
                task.task.registers().map_err(|error| match refine(error, process.pid, &self.shared) {
                    EngineError::Ended if process.pid != self.shared.main => {
                        let message = format!("process {} was killed while it stood still", process.pid);
                        kernel("reading the program's memory", io::Error::other(message))
                    }
                    error => error,
                })?;
            }
        }
        Ok(())
    }
}

/// What became of pages that were compared.
struct Compared {
    /// How many were handed to the sink.
    saved: u64,
    /// How many are as they were.
    inherited: u64,
    /// Those that are not, but for pages of zeros.
    changed: PageSet,
}

impl Compared {
    /// Saves what of some pages has changed, and notes the others as inherited.
    fn of(wanted: &Wanted<'_>, mut sieve: Sieve<'_>, sink: &mut dyn ImageSink) -> Result<Self, EngineError> {
        let saved = wanted.save_changed(&mut sieve, sink)?;
        let was = sieve.was;
        let (unchanged, changed) = sieve.into_pages();
        if !unchanged.is_empty() {
            sink.inherit(wanted.owner, was, &unchanged).map_err(EngineError::Image)?;
        }
        Ok(Self { saved, inherited: unchanged.pages(), changed })
    }
}
