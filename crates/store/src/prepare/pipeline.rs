//! The writing threads of a generation in progress.
//!
//! ```text
//! engine --filled--> [writer] [writer] --bytes--> file    every 32 MiB: [flusher] sync
//!   ^------free---------'        '
//! ```
//!
//! Writers filter, encode, checksum and write. Each batch gets its place in the file when its length is known, so no
//! writer waits for another. Meanwhile the flusher keeps the disk busy. The page cache took 1 GiB in 0.22 s. It was
//! durable 0.5 s after the start with one sync at the end, and after 0.36 s with these syncs. (The hint
//! `sync_file_range` did no better. Direct writes took 0.4 s and left the page cache empty, from which a restart
//! reads. They are made where the page cache turns out to be slow: `storage_backend/large_transfers.rs`.)

use super::masked::{SeparatedPages, separate_masked};
use super::page_filter::{cut, filter_pages};
use crate::StorageFile;
use crate::encode::{Counts, Shrinker};
use crate::level_directory::LevelDirectory;
use crate::pool::{Pool, Writing, batches_max, emptied, new_batch};
use crate::progress::Progress;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use standfast_core::PAGE_BYTES;
use standfast_core::codec::Encoding;
use standfast_format::image::{BLOCK_PAGES_MAX, HEADER_BYTES, NewBlock};
use standfast_format::{PageBatch, Run};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Bytes written between two syncs of the flusher.
const FLUSH_BYTES: u64 = 32 << 20;

/// Increase of the writers' nice value while the program runs beside them.
const NICENESS: i32 = 10;

/// The priority with which pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// The program waits for the writers.
    Usual,
    /// The program runs meanwhile.
    Low,
}

/// The result of writing all batches.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) blocks: Vec<NewBlock>,
    pub(super) zeros: Vec<Run>,
}

/// The threads, and the channels to them.
#[derive(Debug)]
pub(super) struct Pipeline {
    target: Arc<Target>,
    filled: Option<Sender<PageBatch>>,
    /// Batches that must not be written yet; `None` if each batch is written immediately.
    held: Option<Vec<PageBatch>>,
    free: Receiver<PageBatch>,
    /// Batches that were lent but not needed.
    spare: Vec<PageBatch>,
    batches: usize,
    batches_max: usize,
    /// Number of batches that were filled.
    used: usize,
    writers: Vec<JoinHandle<Written>>,
    flusher: Option<JoinHandle<()>>,
}

impl Pipeline {
    /// Starts the threads, with the batches that an earlier generation left.
    pub(super) fn start(
        file: Arc<dyn StorageFile>,
        level_directory: &Arc<LevelDirectory>,
        writing: Writing,
        shrinker: &dyn Fn() -> Shrinker,
    ) -> io::Result<Self> {
        let ready = level_directory.pool.take(writing);
        let writers = level_directory.rates.writers();
        let target = Arc::new(Target {
            file,
            level_directory: Arc::clone(level_directory),
            end: AtomicU64::new(HEADER_BYTES as u64),
            progress: Arc::default(),
            failed: AtomicBool::new(false),
            is_background: AtomicBool::new(false),
            error: Mutex::new(None),
        });
        let (filled, to_write) = unbounded();
        let (give_back, free) = unbounded();
        let (due, flushes) = bounded(1);
        let mut pipeline = Self {
            target,
            filled: Some(filled),
            held: matches!(writing, Writing::Held { .. }).then(Vec::new),
            free,
            spare: Vec::new(),
            batches: ready.len(),
            batches_max: batches_max(writing, writers),
            used: 0,
            writers: Vec::new(),
            flusher: None,
        };
        for batch in ready {
            give_back.send(batch).expect("the other end lies in the pipeline");
        }
        for _ in 0..writers {
            let writer = Writer {
                target: Arc::clone(&pipeline.target),
                shrinker: shrinker(),
                separated: SeparatedPages::default(),
                encoded: Vec::new(),
                to_write: to_write.clone(),
                give_back: give_back.clone(),
                due: due.clone(),
            };
            let thread = thread::Builder::new().name("image writer".into()).spawn(move || writer.work())?;
            pipeline.writers.push(thread);
        }
        let target = Arc::clone(&pipeline.target);
        let flush = move || flushes.iter().for_each(|()| target.note(target.sync()));
        pipeline.flusher = Some(thread::Builder::new().name("image flusher".into()).spawn(flush)?);
        Ok(pipeline)
    }

    /// Returns the progress in bytes written.
    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.target.progress)
    }

    /// Returns an empty batch, and waits while all are in flight. Returns `None` after a failure.
    pub(super) fn lend(&mut self) -> Option<PageBatch> {
        let batch = match self.spare.pop().map_or_else(|| self.free.try_recv(), Ok) {
            Ok(batch) => batch,
            Err(_) if self.batches < self.batches_max => {
                self.batches += 1;
                new_batch()
            }
            Err(_) => {
                // There is no room to hold more batches back: the program waits for the writers.
                self.release(Priority::Usual);
                self.free.recv().ok()?
            }
        };
        (!self.target.failed.load(Ordering::Acquire)).then_some(batch)
    }

    /// Returns how many batches can be lent at once. If they are written immediately, the disk is the bottleneck.
    pub(super) fn ready(&self) -> usize {
        if self.held.is_some() { self.free.len() + self.spare.len() } else { 1 }
    }

    /// Accepts a filled batch, or takes back one that was not needed. Returns `false` after a failure.
    pub(super) fn submit(&mut self, batch: PageBatch) -> bool {
        if batch.ranges.is_empty() {
            self.spare.push(emptied(batch));
            return !self.target.failed.load(Ordering::Acquire);
        }
        let pages: u64 = batch.ranges.iter().map(|it| it.range.pages()).sum();
        assert_eq!(pages * PAGE_BYTES as u64, batch.bytes.len() as u64, "ranges and bytes of a batch agree");
        self.used += 1;
        let taken = match &mut self.held {
            Some(held) => {
                held.push(batch);
                true
            }
            None => self.filled.as_ref().is_some_and(|filled| filled.send(batch).is_ok()),
        };
        taken && !self.target.failed.load(Ordering::Acquire)
    }

    /// Releases all batches that were held back.
    pub(super) fn release(&mut self, priority: Priority) {
        self.target.is_background.fetch_or(priority == Priority::Low, Ordering::Relaxed);
        if priority == Priority::Low {
            // From now on batches are written immediately, and need no more memory than that.
            self.batches_max = batches_max(Writing::AtOnce, self.writers.len() as u32);
        }
        let held = self.held.take().unwrap_or_default();
        if let Some(filled) = &self.filled {
            // If the writers have ended, the caller that waits for them reports their error.
            held.into_iter().for_each(|batch| drop(filled.send(batch)));
        }
    }

    /// Waits until all batches have been written. Returns `None` after a failure.
    pub(super) fn join_writers(&mut self) -> Option<Written> {
        self.release(Priority::Usual);
        self.filled = None;
        let mut all = Written::default();
        for writer in self.writers.drain(..) {
            match writer.join() {
                Ok(written) => {
                    all.blocks.extend(written.blocks);
                    all.zeros.extend(written.zeros);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (!self.target.failed.load(Ordering::Acquire)).then_some(all)
    }

    /// Waits for a sync that may still be in progress. [`Pipeline::error`] returns its failure.
    pub(super) fn join_flusher(&mut self) {
        if let Some(Err(panic)) = self.flusher.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }

    /// Returns the first error, once.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.target.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves the returned batches to the next generation.
    pub(super) fn leave_batches(&mut self, pool: &Pool) {
        pool.put(self.free.try_iter().chain(self.spare.drain(..)).collect(), self.used);
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.filled = None;
        // A panic there has already been propagated, or affects a generation that is being abandoned.
        self.writers.drain(..).for_each(|writer| drop(writer.join()));
    }
}

/// The file that is being written.
#[derive(Debug)]
struct Target {
    file: Arc<dyn StorageFile>,
    level_directory: Arc<LevelDirectory>,
    /// Offset of the next batch.
    end: AtomicU64,
    progress: Arc<Progress>,
    failed: AtomicBool,
    /// Whether the program runs meanwhile.
    is_background: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

impl Target {
    fn sync(&self) -> io::Result<()> {
        let begun = Instant::now();
        self.file.sync()?;
        self.level_directory.rates.synced(begun.elapsed());
        Ok(())
    }

    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.failed.swap(true, Ordering::AcqRel) {
                *first = Some(error);
            }
        }
    }
}

struct Writer {
    target: Arc<Target>,
    shrinker: Shrinker,
    separated: SeparatedPages,
    /// A batch in the form in which the file stores it.
    encoded: Vec<u8>,
    to_write: Receiver<PageBatch>,
    give_back: Sender<PageBatch>,
    due: Sender<()>,
}

impl Writer {
    fn work(mut self) -> Written {
        let mut written = Written::default();
        let mut is_nice = false;
        while let Ok(mut batch) = self.to_write.recv() {
            if !is_nice && self.target.is_background.load(Ordering::Relaxed) {
                // Without permission the pages are written at normal priority.
                let _ = rustix::process::setpriority_process(None, NICENESS);
                is_nice = true;
            }
            if !self.target.failed.load(Ordering::Acquire) {
                let result = self.write(&mut batch, &mut written);
                self.target.note(result);
            }
            // Nobody receives the batch if the generation is being abandoned.
            let _ = self.give_back.send(emptied(batch));
        }
        written
    }

    fn write(&mut self, batch: &mut PageBatch, written: &mut Written) -> io::Result<()> {
        let mut separated = std::mem::take(&mut self.separated);
        separate_masked(batch, &mut separated);
        let SeparatedPages { dead, held, masks, zeros, .. } = &separated;
        self.write_pages(&held.runs, separated.held_bytes(batch), Counts::Of(masks), written)?;
        self.write_pages(&dead.runs, &dead.bytes, Counts::NotZero, written)?;
        let filtered = filter_pages(batch);
        self.write_pages(&filtered.stored, &batch.bytes, Counts::All, written)?;
        written.zeros.extend(zeros.iter().copied().chain(filtered.zeros));
        self.separated = separated;
        Ok(())
    }

    fn write_pages(&mut self, runs: &[Run], pages: &[u8], counts: Counts<'_>, written: &mut Written) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut blocks = self.encode(runs, pages, counts);
        let stored = if self.encoded.is_empty() { pages } else { &self.encoded };
        let bytes = stored.len() as u64;
        let start = self.target.end.fetch_add(bytes, Ordering::Relaxed);
        self.target.progress.add(bytes);
        blocks.iter_mut().for_each(|block| block.offset += start);
        written.blocks.append(&mut blocks);
        let handing = Instant::now();
        self.target.file.write_at(stored, start)?;
        self.target.level_directory.rates.handed(bytes, handing.elapsed());
        if start / FLUSH_BYTES != (start + bytes) / FLUSH_BYTES {
            // The channel is full while the flusher is busy with the previous sync: it will get to this one too.
            let _ = self.due.try_send(());
        }
        Ok(())
    }

    /// Divides the pages of some runs into blocks, whose offsets count from the first block. If any block is encoded,
    /// `encoded` receives the bytes of all blocks. If none is, `encoded` stays empty and no page is copied.
    fn encode(&mut self, stored: &[Run], pages: &[u8], counts: Counts<'_>) -> Vec<NewBlock> {
        self.encoded.clear();
        let mut blocks = Vec::new();
        for (at, (runs, own)) in cut(stored).into_iter().zip(pages.chunks(BLOCK_BYTES)).enumerate() {
            let was_raw = self.encoded.is_empty();
            let encoding = self.shrinker.put(&runs, own, counts.of_block(at), &mut self.encoded);
            let offset = match encoding {
                _ if was_raw => at * BLOCK_BYTES,
                Encoding::Raw => {
                    self.encoded.extend_from_slice(own);
                    self.encoded.len() - own.len()
                }
                _ => blocks.last().map_or(0, end_of),
            };
            if was_raw && encoding != Encoding::Raw {
                self.encoded.splice(..0, pages[..offset].iter().copied());
            }
            let bytes = if self.encoded.is_empty() { own } else { &self.encoded[offset..] };
            blocks.push(NewBlock::new(offset as u64, encoding, bytes, runs));
        }
        blocks
    }
}

fn end_of(block: &NewBlock) -> usize {
    (block.offset + u64::from(block.stored_bytes)) as usize
}

/// Length of all blocks of a batch except the last.
const BLOCK_BYTES: usize = BLOCK_PAGES_MAX as usize * PAGE_BYTES;
