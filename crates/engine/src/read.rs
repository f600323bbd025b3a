//! Reads the pages of a frozen job into an image.

use crate::EngineError;
use crate::census::Census;
use crate::freeze::{Frozen, kernel};
use standfast_core::{PAGE_BYTES, PageRange};
use standfast_format::{Beneath, ImageSink, PageBatch};
use standfast_linux::ProcessMemory;
use std::fs::File;

/// How much of the main thread's stack is saved (L10, M2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StackPart {
    /// What lies above the lowest stack pointer on it and that one's red zone. What lies below comes back as zeros.
    #[default]
    Live,
    /// All of it: for programs that keep coroutines below the stack pointer of their main thread.
    Whole,
}

/// What a capture did.
#[derive(Debug, Default)]
pub struct Captured {
    /// Tasks (threads) that stood still.
    pub tasks: usize,
    /// Pages handed to the sink.
    pub pages: u64,
    /// Files that the program has open for writing. What it has written there must be made durable (`sync_data`) before
    /// the checkpoint is committed, since a restart counts on finding it; that can wait until after the thaw.
    pub outputs: Vec<File>,
}

impl Frozen {
    /// Takes the census, refuses by name what could not be brought back, reads all memory into `sink` and finishes it.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything went into the sink; others at any time. The job stays frozen and whole.
    pub fn capture(&mut self, sink: &mut dyn ImageSink, stack: StackPart) -> Result<Captured, EngineError> {
        let census = Census::take(self, stack)?;
        let mut pages = 0;
        for (place, (process, ranges)) in self.processes.iter().zip(&census.pages).enumerate() {
            pages += read_process(place as u32, &process.memory, ranges, sink)?;
        }
        sink.finish(&census.state).map_err(EngineError::Image)?;
        let tasks = self.processes.iter().map(|process| process.tasks.len()).sum();
        Ok(Captured { tasks, pages, outputs: census.outputs })
    }
}

/// Cuts the ranges into batches as large as the sink lends them. Returns how many pages there were.
fn read_process(
    process: u32,
    memory: &ProcessMemory,
    ranges: &[(PageRange, Beneath)],
    sink: &mut dyn ImageSink,
) -> Result<u64, EngineError> {
    let mut rest = ranges.iter().copied();
    let mut next = rest.next();
    let mut pages = 0;
    while next.is_some() {
        let mut batch = sink.lend().map_err(EngineError::Image)?;
        let room = (batch.bytes.len() / PAGE_BYTES) as u64;
        assert!(room > 0, "a sink lends room for a page at least");
        let mut filled = 0;
        while let Some((range, beneath)) = next.filter(|_| filled < room) {
            let (head, tail) = range.split_at(room - filled);
            batch.ranges.push((process, head, beneath));
            filled += head.pages();
            next = if tail.pages() > 0 { Some((tail, beneath)) } else { rest.next() };
        }
        fill(memory, &mut batch, filled as usize * PAGE_BYTES)?;
        pages += filled;
        sink.submit(batch).map_err(EngineError::Image)?;
    }
    Ok(pages)
}

fn fill(memory: &ProcessMemory, batch: &mut PageBatch, bytes: usize) -> Result<(), EngineError> {
    batch.bytes.truncate(bytes);
    let ranges: Vec<_> = batch.ranges.iter().map(|(_, range, _)| *range).collect();
    memory.read_pages(&ranges, &mut batch.bytes).map_err(|source| kernel("reading the program's memory", source))
}
