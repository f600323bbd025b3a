//! Ring 2: memory of this very process that its program has registered, and which of its pages were written.
//!
//! # Safety
//! Whoever makes a [`RegisteredMemory`] promises that it stays mapped until the value is gone, and that nobody writes to it
//! while it is read or written here. Neither can be checked, which is why making one is `unsafe`.

use crate::caches;
use crate::written::{WriteProtection, WrittenScan};
use standfast_core::delta::Page;
use standfast_core::{Address, PAGE_BYTES, PageRange};
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

/// Write tracking of this process's own memory. What it cannot see is said at [`crate::WriteProtection`].
#[derive(Debug)]
pub struct OwnWrites {
    protection: WriteProtection,
    scan: WrittenScan,
}

impl OwnWrites {
    /// Begins; nothing is observed yet.
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
        Ok(Self { protection: WriteProtection::new(userfault)?, scan })
    }

    /// Observes pages from now on. All of them count as written until the first look.
    ///
    /// # Errors
    /// EBUSY where somebody else observes them, EINVAL where they cannot be observed.
    pub fn observe(&self, pages: PageRange) -> io::Result<()> {
        self.protection.observe(pages)
    }

    /// No longer.
    pub fn ignore(&self, pages: PageRange) {
        // What is not observed any more, or not mapped, needs nothing.
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

/// What the first write to an observed page takes on this machine now, beyond another write to it: the median over some
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
    writes.observe(registered.pages())?;
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
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_end_is_zeros_and_is_not_written() {
        let mut bytes = [1_u8, 2, 3, 4];
        // SAFETY: the array outlives the value and is used through it alone.
        let memory = unsafe { RegisteredMemory::new(bytes.as_mut_ptr(), 3) };
        let mut page = [9; 4];
        memory.read(1, &mut page);
        assert_eq!(page, [2, 3, 0, 0]);
        memory.write(2, &[7, 7]);
        memory.read(9, &mut page);
        assert_eq!(page, [0; 4]);
        assert_eq!(bytes, [1, 2, 7, 4]);
    }

    #[test]
    fn a_first_write_takes_longer_than_another_and_no_second() {
        // As above.
        let Ok(cost) = first_write_cost() else { return };
        assert!(cost > Duration::from_nanos(50) && cost < Duration::from_secs(1), "{cost:?}");
    }

    #[test]
    fn writes_to_own_memory_are_seen_once_and_others_are_not() {
        // A kernel without asynchronous write protection has nothing to be tried.
        let Ok(writes) = OwnWrites::new() else { return };
        let mut memory = vec![1_u8; 64 * PAGE_BYTES];
        // SAFETY: the vector is used through the value alone from here on.
        let registered = unsafe { RegisteredMemory::new(memory.as_mut_ptr(), memory.len()) };
        let pages = registered.pages();
        writes.observe(pages).unwrap();
        let first = writes.written(pages).unwrap().unwrap();
        let covered: usize = first.iter().map(|range| registered.within(*range).len()).sum();
        assert_eq!(covered, memory.len(), "all of it counts as written at first");
        registered.write(10 * PAGE_BYTES + 5, &[2]);
        // The first and the last page it has in common with others, who may write there.
        let inside = |ranges: &[PageRange]| -> usize {
            let edges = PAGE_BYTES..memory.len() - PAGE_BYTES;
            let part = |range: &PageRange| {
                let bytes = registered.within(*range);
                bytes.end.min(edges.end).saturating_sub(bytes.start.max(edges.start))
            };
            ranges.iter().map(part).sum()
        };
        let second = writes.written(pages).unwrap().unwrap();
        assert!(second.iter().any(|range| registered.within(*range).contains(&(10 * PAGE_BYTES + 5))));
        assert_eq!(inside(&second), PAGE_BYTES);
        assert_eq!(inside(&writes.written(pages).unwrap().unwrap()), 0);
        writes.ignore(pages);
        assert_eq!(writes.written(pages).unwrap(), None);
    }
}
