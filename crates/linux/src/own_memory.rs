//! Ring 2: memory of this very process that its program has registered, and which of its pages were written.
//!
//! # Safety
//! Whoever makes a [`RegisteredMemory`] promises that it stays mapped until the value is gone, and that nobody writes to it
//! while it is read or written here. Neither can be checked, which is why making one is `unsafe`.

use crate::caches;
use crate::pinned::unseen_writer;
use crate::written::{WriteProtection, WrittenScan};
use standfast_core::delta::Page;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use std::cell::Cell;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Gives back to the system what the allocator of this process holds and nobody uses. The GNU one keeps the buffers of a large
/// checkpoint else, each in the heap of the thread that had it. Takes some milliseconds.
pub fn give_back_unused() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A stretch of bytes of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredMemory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is an address and a promise, and the promise is about the process, not a thread.
unsafe impl Send for RegisteredMemory {}

impl RegisteredMemory {
    /// These bytes.
    ///
    /// # Safety
    /// They are mapped, readable and writable for as long as this or a copy of it is used, and nobody writes to them
    /// during a call of [`Self::read`] or touches them during one of [`Self::write`].
    pub unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// New bytes, zeros, that are never given back: for tests, which cannot promise anything.
    pub fn leaked(bytes: usize) -> Self {
        let memory = Box::leak(vec![0; bytes].into_boxed_slice());
        Self { start: memory.as_mut_ptr(), bytes }
    }

    /// Its part from `offset` on, `bytes` long as far as it has as many.
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        // SAFETY: within the bytes that are promised.
        Self { start: unsafe { self.start.add(offset) }, bytes: bytes.min(self.bytes - offset) }
    }

    /// How many.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has the page from `offset` on fetched, which is about to be read.
    pub fn expect(&self, offset: usize) {
        caches::expect(self.start.wrapping_add(offset));
    }

    /// Copies from `offset` on; what lies beyond the end is zeros.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let length = self.bytes.saturating_sub(offset).min(into.len());
        if length > 0 {
            // SAFETY: within the bytes that are promised; `into` is somebody else's and as long.
            unsafe { std::ptr::copy_nonoverlapping(self.start.add(offset), into.as_mut_ptr(), length) };
        }
        into[length..].fill(0);
    }

    /// Writes from `offset` on; what would lie beyond the end is left out. Whole pages go past the caches, for which there are
    /// too many mostly: other threads may read something else before [`Self::finish_writing`].
    pub fn write(&self, offset: usize, from: &[u8]) {
        let length = self.bytes.saturating_sub(offset).min(from.len());
        let page = <&Page>::try_from(&from[..length]);
        // SAFETY: as above, and where nothing is written the place is not beyond the end.
        unsafe {
            let place = self.start.add(offset.min(self.bytes));
            match page {
                Ok(page) if place.addr().is_multiple_of(caches::PART_BYTES) => caches::write_past(place, page),
                _ => std::ptr::copy_nonoverlapping(from.as_ptr(), place, length),
            }
        }
    }

    /// What has been written is there for every thread from now on.
    pub fn finish_writing() {
        caches::finish_writing();
    }

    /// Whether all of it is mapped, and may be read and written.
    pub fn is_mapped(&self) -> bool {
        let Ok(maps) = crate::proc::Map::of(std::process::id() as i32) else { return false };
        let (mut at, end) = (self.start as u64, self.start as u64 + self.bytes as u64);
        for map in maps.iter().filter(|map| map.protection.read && map.protection.write) {
            if map.start <= at && at < map.end {
                at = map.end;
            }
        }
        at >= end
    }

    /// Whether the two have bytes in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |it: &Self| it.start as usize + it.bytes;
        self.bytes > 0 && other.bytes > 0 && (self.start as usize) < end(other) && (other.start as usize) < end(self)
    }

    /// The pages of the address space that it touches.
    pub fn pages(&self) -> PageRange {
        let page = PAGE_BYTES as u64;
        let start = self.start as u64 / page * page;
        let end = (self.start as u64 + self.bytes as u64).div_ceil(page) * page;
        PageRange::between(Address::new(start), Address::new(end.max(start)))
    }

    /// Where in it pages of the address space lie: from and to, in bytes.
    pub fn within(&self, pages: PageRange) -> std::ops::Range<usize> {
        let start = self.start as u64;
        let from = pages.start().get().saturating_sub(start) as usize;
        let to = pages.end().get().saturating_sub(start) as usize;
        from.min(self.bytes)..to.min(self.bytes)
    }
}

/// Write tracking of this process's own memory. What it cannot see is said at [`crate::WriteProtection`] and
/// [`unseen_writer`].
#[derive(Debug)]
pub struct OwnWrites {
    protection: WriteProtection,
    scan: WrittenScan,
    /// Whether somebody could write unseen when the last look was over.
    is_blind: Cell<bool>,
}

impl OwnWrites {
    /// Begins; nothing is tracked yet.
    ///
    /// # Errors
    /// Where the kernel lacks asynchronous write protection or forbids it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: makes a descriptor of its own and touches nothing.
        let userfault = unsafe { libc::syscall(libc::SYS_userfaultfd, WriteProtection::CREATION_FLAGS) };
        if userfault < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it has just been made and belongs to nobody else.
        let userfault = unsafe { OwnedFd::from_raw_fd(userfault as RawFd) };
        let scan = WrittenScan::open(std::process::id() as i32)?;
        Ok(Self { protection: WriteProtection::new(userfault)?, scan, is_blind: Cell::new(false) })
    }

    /// Observes pages from now on. All of them count as written until the first look.
    ///
    /// # Errors
    /// EBUSY where somebody else tracks them, EINVAL where they cannot be tracked.
    pub fn track(&self, pages: PageRange) -> io::Result<()> {
        self.protection.track(pages)?;
        // Where the kernel has let go of a mapping that was tracked before (mremap joins one that it moves with its neighbour,
        // and tracks neither from then on) the marks of protection are left on pages that have become writable: no look
        // would ever find them written.
        self.protection.unprotect(pages).inspect_err(|_| self.ignore(pages))
    }

    /// What may have been written to each of these since the last look, as [`Self::written`] tells it; `None` for all of them
    /// where somebody may have written unseen. Who has pinned pages before a look can write to them after it, so it also
    /// counts who was there at the end of the last one.
    pub fn scan(&self, at: &[PageRange]) -> Vec<Option<Vec<PageRange>>> {
        let was_blind = self.is_blind.get();
        let written = |pages: &PageRange| if was_blind { None } else { self.written(*pages).ok().flatten() };
        let seen = at.iter().map(written).collect();
        // Where nobody can say, somebody may be there.
        let is_blind = unseen_writer().map_or(true, |writer| writer.is_some());
        self.is_blind.set(is_blind);
        if is_blind { vec![None; at.len()] } else { seen }
    }

    /// Whether somebody could write unseen at the end of the last look.
    pub fn is_blind(&self) -> bool {
        self.is_blind.get()
    }

    /// No longer.
    pub fn ignore(&self, pages: PageRange) {
        // What is not tracked any more, or not mapped, needs nothing.
        let _ = self.protection.ignore(pages);
    }

    /// Those pages that may have been written since the last look; `None` where it is not known. Pages that hold nothing
    /// are among them, since they may have been given back; so are those in swap.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn written(&self, pages: PageRange) -> io::Result<Option<Vec<PageRange>>> {
        let held = self.scan.held(pages)?;
        let mut written = held.swapped;
        let mut at = pages.start();
        for range in &held.populated {
            written.push(PageRange::between(at, range.start()));
            at = range.end();
        }
        written.push(PageRange::between(at, pages.end()));
        Ok(self.scan.written(&held.populated, &mut written)?.map(|()| written))
    }
}

/// What the first write to a tracked page takes on this machine now, beyond another write to it: the median over some
/// pages of our own.
///
/// # Errors
/// Where the kernel lacks asynchronous write protection or forbids it.
pub fn first_write_cost() -> io::Result<Duration> {
    const PAGES: usize = 64;
    let mut memory = vec![1_u8; (PAGES + 1) * PAGE_BYTES];
    // SAFETY: the vector is used through the value alone from here on, and goes after it.
    let registered = unsafe { RegisteredMemory::new(memory.as_mut_ptr(), memory.len()) };
    let writes = OwnWrites::new()?;
    writes.track(registered.pages())?;
    writes.written(registered.pages())?;
    let median = || {
        let mut times: Vec<_> = (0..PAGES)
            .map(|page| {
                let begin = Instant::now();
                registered.write(page * PAGE_BYTES, &[2]);
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[PAGES / 2]
    };
    let (first, second) = (median(), median());
    Ok(first.saturating_sub(second))
}

#[cfg(test)]
mod tests;
