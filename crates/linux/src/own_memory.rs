//! Ring 2: memory that the program of this very process has registered, and tracking of its written pages.
//!
//! # Safety
//! The maker of a [`RegisteredMemory`] promises that it stays mapped until the value is gone, and that nothing writes
//! to it while it is read or written here. Neither can be checked, so making one is `unsafe`.

use crate::Pid;
use crate::caches;
use crate::pinned::unseen_writer;
use crate::sys::userfault;
use crate::written::{WriteProtection, WrittenScan};
use standfast_core::delta::Page;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// Returns memory to the system that the allocator of this process holds and that is not in use. Otherwise the GNU
/// allocator keeps the buffers of a large checkpoint, each in the heap of the thread that used it. Takes some
/// milliseconds.
pub fn give_back_unused() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A contiguous range of bytes of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredMemory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is an address and a promise, and the promise concerns the process, not a thread.
unsafe impl Send for RegisteredMemory {}

impl RegisteredMemory {
    /// Registers these bytes.
    ///
    /// # Safety
    /// They are mapped, readable and writable for as long as this value or a copy of it is used. Nothing writes to them
    /// during a call of [`Self::read`], and nothing accesses them during a call of [`Self::write`].
    pub unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// Allocates zeros that are never freed: for tests, which cannot promise anything.
    pub fn leaked(bytes: usize) -> Self {
        let memory = Box::leak(vec![0; bytes].into_boxed_slice());
        Self { start: memory.as_mut_ptr(), bytes }
    }

    /// Returns the part from `offset` on, `bytes` long or up to the end.
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        // SAFETY: within the registered bytes.
        Self { start: unsafe { self.start.add(offset) }, bytes: bytes.min(self.bytes - offset) }
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Prefetches the page from `offset` on, which is about to be read.
    pub fn expect(&self, offset: usize) {
        caches::expect(self.start.wrapping_add(offset));
    }

    /// Copies the memory from `offset` on; bytes beyond the end read as zeros.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let length = self.bytes.saturating_sub(offset).min(into.len());
        if length > 0 {
            // SAFETY: within the registered bytes; `into` is separate memory of at least this length.
            unsafe { std::ptr::copy_nonoverlapping(self.start.add(offset), into.as_mut_ptr(), length) };
        }
        into[length..].fill(0);
    }

    /// Writes the memory from `offset` on; bytes beyond the end are left out. Whole pages are written past the caches,
    /// since they are mostly too many for them: other threads may read something else before [`Self::finish_writing`].
    pub fn write(&self, offset: usize, from: &[u8]) {
        let length = self.bytes.saturating_sub(offset).min(from.len());
        let page = <&Page>::try_from(&from[..length]);
        // SAFETY: as above, and if nothing is written the place is not beyond the end.
        unsafe {
            let place = self.start.add(offset.min(self.bytes));
            match page {
                Ok(page) if place.addr().is_multiple_of(caches::PART_BYTES) => caches::write_past(place, page),
                _ => std::ptr::copy_nonoverlapping(from.as_ptr(), place, length),
            }
        }
    }

    /// Makes everything written so far visible to every thread.
    pub fn finish_writing() {
        caches::finish_writing();
    }

    /// Reports whether all of the memory is mapped, readable and writable.
    pub fn is_mapped(&self) -> bool {
        let Ok(maps) = crate::proc::Map::of(Pid::own()) else { return false };
        let (mut at, end) = (self.start as u64, self.start as u64 + self.bytes as u64);
        for map in maps.iter().filter(|map| map.protection.read && map.protection.write) {
            if map.start <= at && at < map.end {
                at = map.end;
            }
        }
        at >= end
    }

    /// Reports whether the two ranges have bytes in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |it: &Self| it.start as usize + it.bytes;
        self.bytes > 0 && other.bytes > 0 && (self.start as usize) < end(other) && (other.start as usize) < end(self)
    }

    /// Returns the pages of the address space that the memory touches.
    pub fn pages(&self) -> PageRange {
        let page = PAGE_BYTES as u64;
        let start = self.start as u64 / page * page;
        let end = (self.start as u64 + self.bytes as u64).div_ceil(page) * page;
        PageRange::between(Address::new(start), Address::new(end.max(start)))
    }

    /// Returns the byte range in this memory that some pages of the address space cover.
    pub fn within(&self, pages: PageRange) -> std::ops::Range<usize> {
        let start = self.start as u64;
        let from = pages.start().get().saturating_sub(start) as usize;
        let to = pages.end().get().saturating_sub(start) as usize;
        from.min(self.bytes)..to.min(self.bytes)
    }
}

/// Write tracking of this process's own memory. [`crate::WriteProtection`] and [`unseen_writer`] document the writes
/// that it cannot see.
#[derive(Debug)]
pub struct OwnWrites {
    protection: WriteProtection,
    scan: WrittenScan,
    /// Whether an unseen writer was possible at the end of the last scan.
    is_blind: Cell<bool>,
}

impl OwnWrites {
    /// Starts write tracking; no pages are tracked yet.
    ///
    /// # Errors
    /// If the kernel lacks asynchronous write protection or forbids it.
    pub fn new() -> io::Result<Self> {
        let protection = WriteProtection::new(userfault::create()?)?;
        Ok(Self { protection, scan: WrittenScan::open(Pid::own())?, is_blind: Cell::new(false) })
    }

    /// Tracks these pages from now on. All of them count as written until the first scan.
    ///
    /// # Errors
    /// EBUSY if another userfaultfd tracks them, EINVAL if they cannot be tracked.
    pub fn track(&self, pages: PageRange) -> io::Result<()> {
        self.protection.track(pages)?;
        // The kernel may have dropped a mapping that was tracked before: if mremap moves a mapping and joins it with
        // its neighbour, the kernel tracks neither from then on. The protection marks are left on pages that have
        // become writable, and no scan would ever report them as written.
        self.protection.unprotect(pages).inspect_err(|_| self.ignore(pages))
    }

    /// Returns, for each of these ranges, the pages that may have been written since the last scan, as
    /// [`Self::written`] reports them. Returns `None` for all of them if there may have been unseen writes. A writer
    /// that pinned pages before a scan can write to them after it, so a writer that was present at the end of the last
    /// scan also counts.
    pub fn scan(&self, at: &[PageRange]) -> Vec<Option<Vec<PageRange>>> {
        let was_blind = self.is_blind.get();
        let written = |pages: &PageRange| if was_blind { None } else { self.written(*pages).ok().flatten() };
        let seen = at.iter().map(written).collect();
        // If this cannot be determined, assume that there is one.
        let is_blind = unseen_writer().map_or(true, |writer| writer.is_some());
        self.is_blind.set(is_blind);
        if is_blind { vec![None; at.len()] } else { seen }
    }

    /// Reports whether an unseen writer was possible at the end of the last scan.
    pub fn is_blind(&self) -> bool {
        self.is_blind.get()
    }

    /// Stops tracking these pages.
    pub fn ignore(&self, pages: PageRange) {
        // Pages that are no longer tracked or mapped need nothing.
        let _ = self.protection.ignore(pages);
    }

    /// Returns the pages that may have been written since the last scan, or `None` if that is not known. They include
    /// pages that hold nothing, since these may have been discarded, and pages in swap.
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

/// Measures how much longer than a second write the first write to a tracked page takes on this machine now: the median
/// over some pages of our own.
///
/// # Errors
/// If the kernel lacks asynchronous write protection or forbids it.
pub fn first_write_cost() -> io::Result<Duration> {
    const PAGES: usize = 64;
    let mut memory = vec![1_u8; (PAGES + 1) * PAGE_BYTES];
    // SAFETY: from here on the vector is used only through this value, and it is dropped after the value.
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
