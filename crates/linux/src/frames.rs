//! Ring 2: a mapped file in memory, which is read and written in frames of one page each.
//!
//! Memory for a frame is taken before the frame can be touched, so that a full file system is an error of
//! [`FrameFile::grow`] and not a SIGBUS in the middle of a copy. Written frames are in the file at once, so that a
//! process that opens it after this one was killed finds them. They do not survive a crash of the machine.
//!
//! # Safety
//! A mapping lies within the file, whose length only grows, and is unmapped only when the value is dropped. References
//! to frames borrow the value, so that none exists in this process while a frame is written. The value stays in its
//! thread, since writes past the caches are in order for that thread alone. The lock that [`FrameFile::open`] takes
//! keeps other processes out.

mod ahead;
mod large_pages;

use crate::caches;
use ahead::Ahead;
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr::NonNull;

/// Frames of one mapping: 4 MiB.
const FRAMES_MAPPED: u32 = 1024;
const BYTES_MAPPED: usize = FRAMES_MAPPED as usize * PAGE_BYTES;
/// Bytes that the kernel enters in the page table when one page of a file is read (`fault_around_bytes`).
const BYTES_AROUND: usize = 64 << 10;
/// Bytes written in one call to take memory.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The frames of one file.
#[derive(Debug)]
pub struct FrameFile {
    file: File,
    mapped: Vec<Mapping>,
    /// The step after the last mapped one.
    ahead: Option<Ahead>,
}

/// One mapping.
#[derive(Debug)]
struct Mapping {
    /// The address; being a pointer, it keeps the value in its thread.
    address: NonNull<u8>,
    /// Whether the kernel has been asked to enter the pages of the mapping.
    entered: Cell<bool>,
}

impl FrameFile {
    /// The length of a file is a multiple of this.
    pub const STEP_BYTES: u64 = BYTES_MAPPED as u64;

    /// Opens or makes a file, and takes the lock that reserves it for this process.
    ///
    /// # Errors
    /// Those of the file system; EWOULDBLOCK if another process holds the lock.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        let length = file.metadata()?.len();
        let mut frames = Self { file, mapped: Vec::new(), ahead: None };
        (0..length / BYTES_MAPPED as u64).try_for_each(|index| frames.map(index))?;
        Ok(frames)
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u32 {
        self.mapped.len() as u32 * FRAMES_MAPPED
    }

    /// Takes memory for 1024 more frames.
    ///
    /// # Errors
    /// ENOSPC if no memory is left; nothing has changed then.
    pub fn grow(&mut self) -> io::Result<()> {
        let step = self.mapped.len() as u64;
        let taken = self.ahead.take().map_or_else(|| take_memory(&self.file, step), Ahead::end);
        if let Err(error) = taken {
            // A part of the step may have been taken.
            self.settle()?;
            return Err(error);
        }
        self.map(step)
    }

    /// Begins to take the memory for the next [`FrameFile::grow`], without waiting for it.
    pub fn grow_ahead(&mut self) {
        if self.ahead.is_none() {
            self.ahead = Ahead::begin(&self.file, self.mapped.len() as u64);
        }
    }

    /// Gives back memory that was taken ahead and is not needed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn settle(&mut self) -> io::Result<()> {
        // It does not matter whether the memory could be taken.
        let _ = self.ahead.take().map(Ahead::end);
        self.file.set_len((self.mapped.len() * BYTES_MAPPED) as u64)
    }

    /// Gives back all frames but the first `frames`, rounded up to a step.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn shrink(&mut self, frames: u32) -> io::Result<()> {
        let kept = (frames.div_ceil(FRAMES_MAPPED) as usize).min(self.mapped.len());
        for mapping in self.mapped.drain(kept..) {
            // SAFETY: it was mapped with this length, and no reference to it outlives the borrow of `self`.
            unsafe { large_pages::unmap(mapping.address.as_ptr().cast(), BYTES_MAPPED) };
        }
        self.settle()
    }

    /// Returns the content of a frame.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn frame(&self, number: u32) -> &Page {
        // SAFETY: `place` lies within a mapping that lives as long as `self`, is as long as a page, and is not written
        // while `self` is borrowed.
        unsafe { &*self.place(number).cast() }
    }

    /// Prefetches a frame that is about to be read.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn expect(&self, number: u32) {
        caches::fetch(self.place(number));
    }

    /// Writes a frame past the caches, since it is not read again soon. Other threads may read something else before
    /// [`FrameFile::publish`]; this one does not.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn write(&mut self, number: u32, page: &Page) {
        // SAFETY: `place` lies within a mapping that lives as long as `self`, is a page, and this caller alone borrows
        // `self`.
        unsafe { caches::write_past(self.place(number), page) };
    }

    /// Makes everything written so far visible to every reader of the file.
    pub fn publish(&self) {
        caches::finish_writing();
    }

    fn place(&self, number: u32) -> *mut u8 {
        let mapping = &self.mapped[(number / FRAMES_MAPPED) as usize];
        if !mapping.entered.replace(true) {
            mapping.enter();
        }
        // SAFETY: the offset is below the length of the mapping.
        unsafe { mapping.address.as_ptr().add((number % FRAMES_MAPPED) as usize * PAGE_BYTES) }
    }

    fn map(&mut self, index: u64) -> io::Result<()> {
        let address = large_pages::map(&self.file, index * BYTES_MAPPED as u64, BYTES_MAPPED)?;
        self.mapped.push(Mapping { address, entered: Cell::new(false) });
        Ok(())
    }
}

impl Mapping {
    /// Has the kernel enter the pages of the mapping in the page table, at the first use of one. To return to an epoch,
    /// a program needs frames of no other epoch, and the rest of these are about to be used as well. Reading one page
    /// also enters its neighbours, writable, and costs less than a request for each. If a kernel enters fewer, the
    /// others are entered when they are used.
    #[cold]
    fn enter(&self) {
        for at in (0..BYTES_MAPPED).step_by(BYTES_AROUND) {
            // SAFETY: within the mapping, all of which the file covers.
            unsafe { self.address.as_ptr().add(at).read_volatile() };
        }
    }
}

/// Takes memory for a step: in large pages if possible, else in small ones.
fn take_memory(file: &File, step: u64) -> io::Result<()> {
    let offset = step * BYTES_MAPPED as u64;
    if large_pages::take(file, offset, BYTES_MAPPED).is_ok() {
        return Ok(());
    }
    // Writing zeros takes memory as fallocate does, and leaves nothing to be cleared at the first touch.
    let mut parts = (0..BYTES_MAPPED / ZEROS.len()).map(|part| offset + (part * ZEROS.len()) as u64);
    parts.try_for_each(|at| file.write_all_at(&ZEROS, at))
}

impl Drop for FrameFile {
    fn drop(&mut self) {
        // The next process to open the file finds only used frames, unless this process is killed first. Memory that
        // cannot be given back stays.
        let _ = self.ahead.is_some().then(|| self.settle());
        for mapping in &self.mapped {
            // SAFETY: it was mapped with this length, and no reference to it outlives `self`.
            unsafe { large_pages::unmap(mapping.address.as_ptr().cast(), BYTES_MAPPED) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a file that has just been closed. A child that another test has just forked also holds the lock, until it
    /// executes its program.
    pub(super) fn open_again(path: &Path) -> FrameFile {
        loop {
            match FrameFile::open(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    #[test]
    fn frames_persist_when_the_file_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let mut frames = FrameFile::open(&path).unwrap();
        assert_eq!(frames.frames(), 0);
        frames.grow().unwrap();
        frames.grow().unwrap();
        frames.shrink(2000).unwrap();
        assert_eq!(frames.frames(), 2048);
        frames.shrink(1024).unwrap();
        assert_eq!((frames.frames(), std::fs::metadata(&path).unwrap().len()), (1024, FrameFile::STEP_BYTES));
        frames.grow().unwrap();
        frames.write(7, &[7; PAGE_BYTES]);
        let content: Page = std::array::from_fn(|at| at as u8);
        frames.write(2047, &content);
        frames.grow_ahead();
        frames.grow_ahead();
        frames.grow().unwrap();
        assert_eq!((frames.frames(), frames.frame(3071)), (3072, &[0; PAGE_BYTES]));
        frames.grow_ahead();
        frames.settle().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * FrameFile::STEP_BYTES);
        frames.shrink(2048).unwrap();
        frames.grow_ahead();
        let refused = FrameFile::open(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(frames);
        let frames = open_again(&path);
        assert_eq!(frames.frames(), 2048);
        assert_eq!(frames.frame(7), &[7; PAGE_BYTES]);
        assert_eq!(frames.frame(2047), &content);
    }
}
