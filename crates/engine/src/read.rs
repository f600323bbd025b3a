//! Reads the pages of a frozen job into an image.

use crate::EngineError;
use crate::census::{Census, Output};
use crate::freeze::{Frozen, kernel};
use crate::job::Shared;
use crate::track::Tracking;
use standfast_core::{PAGE_BYTES, PageRange};
use standfast_format::{Beneath, ImageSink, PageBatch};
use std::io;
use std::sync::Arc;

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
    /// Whether memory is put under observation, so that a later checkpoint can tell what has changed.
    pub tracking: Tracking,
    /// Whether the sink's image builds upon that of the last checkpoint for which [`Captured::committed`] was called:
    /// pages that are as they were then are noted and not read. Needs [`Tracking::On`].
    pub builds_upon_last: bool,
}

/// What a capture did.
#[derive(Debug)]
pub struct Captured {
    /// Tasks (threads) that stood still.
    pub tasks: usize,
    /// Pages handed to the sink.
    pub pages: u64,
    /// Pages that hold something and were noted as unchanged.
    pub unchanged: u64,
    /// Files that the program has open for writing. What it has written there must be made durable (`sync_data`) before
    /// the checkpoint is committed, since a restart counts on finding it; that can wait until after the thaw.
    pub outputs: Vec<Output>,
    shared: Arc<Shared>,
}

impl Captured {
    /// Says that the checkpoint is durable: the next one may build upon it. A checkpoint of which this is never said
    /// is as if it had not been.
    pub fn committed(&self) {
        self.shared.tracks().committed();
    }
}

impl Frozen {
    /// Takes the census, refuses by name what could not be brought back, reads all memory into `sink` and finishes it.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything went into the sink; others at any time. The job stays frozen and whole.
    pub fn capture(&mut self, sink: &mut dyn ImageSink, options: CaptureOptions) -> Result<Captured, EngineError> {
        if options.tracking == Tracking::On && !options.builds_upon_last {
            self.shared.tracks().forget();
        }
        let census = Census::take(self, options.stack, options.tracking)?;
        let (mut pages, mut unchanged) = (0, 0);
        for (place, (process, held)) in self.processes.iter().zip(&census.pages).enumerate() {
            let owner = place as u32;
            if !held.unchanged.is_empty() {
                sink.inherit(owner, owner, &held.unchanged).map_err(EngineError::Image)?;
                unchanged += held.unchanged.pages();
            }
            let read = |ranges: &[PageRange], into: &mut [u8]| process.memory.read_pages(ranges, into);
            pages += read_owner(owner, held.changed.iter().copied(), sink, &read)?;
        }
        let memories: Vec<_> = self.processes.iter().map(|process| &process.memory).collect();
        for (place, object) in census.objects.iter().enumerate() {
            let read = |ranges: &[PageRange], into: &mut [u8]| object.read(&memories, ranges, into);
            let ranges = object.ranges.iter().map(|range| (*range, Beneath::Zeros));
            pages += read_owner(census.state.number_of_object(place), ranges, sink, &read)?;
        }
        sink.finish(&census.state).map_err(EngineError::Image)?;
        let tasks = self.processes.iter().map(|process| process.tasks.len()).sum();
        Ok(Captured { tasks, pages, unchanged, outputs: census.outputs, shared: Arc::clone(&self.shared) })
    }
}

/// Reads some pages of an owner, one after the other.
type Read<'a> = &'a dyn Fn(&[PageRange], &mut [u8]) -> io::Result<()>;

/// Cuts the ranges into batches as large as the sink lends them. Returns how many pages there were.
fn read_owner(
    owner: u32,
    ranges: impl Iterator<Item = (PageRange, Beneath)>,
    sink: &mut dyn ImageSink,
    read: Read<'_>,
) -> Result<u64, EngineError> {
    let mut rest = ranges;
    let mut next = rest.next();
    let mut pages = 0;
    while next.is_some() {
        let mut batch = sink.lend().map_err(EngineError::Image)?;
        let room = (batch.bytes.len() / PAGE_BYTES) as u64;
        assert!(room > 0, "a sink lends room for a page at least");
        let mut filled = 0;
        while let Some((range, beneath)) = next.filter(|_| filled < room) {
            let (head, tail) = range.split_at(room - filled);
            batch.ranges.push((owner, head, beneath));
            filled += head.pages();
            next = if tail.pages() > 0 { Some((tail, beneath)) } else { rest.next() };
        }
        fill(&mut batch, filled as usize * PAGE_BYTES, read)?;
        pages += filled;
        sink.submit(batch).map_err(EngineError::Image)?;
    }
    Ok(pages)
}

fn fill(batch: &mut PageBatch, bytes: usize, read: Read<'_>) -> Result<(), EngineError> {
    batch.bytes.truncate(bytes);
    let ranges: Vec<_> = batch.ranges.iter().map(|(_, range, _)| *range).collect();
    read(&ranges, &mut batch.bytes).map_err(|source| kernel("reading the program's memory", source))
}
