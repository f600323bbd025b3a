//! A segment of shared memory, mapped into this process.
//!
//! # Safety
//! The mapping belongs to the value and is as long as the segment. This process only copies to and from it: others may
//! write to it at any time, and no reference into it is ever made.

use crate::Pid;
use crate::proc::Map;
use crate::sys::check;
use std::io;

const PAGE_BYTES: usize = 4096;

/// A segment that this process has attached, until dropped.
#[derive(Debug)]
pub struct AttachedSegment {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: an address in this process is the same for all threads; nothing in it is bound to one of them.
unsafe impl Send for AttachedSegment {}
// SAFETY: as above; shared references only copy.
unsafe impl Sync for AttachedSegment {}

impl AttachedSegment {
    /// Attaches the segment `id` of the caller's IPC namespace, which has `bytes` bytes; read-only unless `write`.
    ///
    /// # Errors
    /// When that is not allowed, or the segment is gone.
    pub fn attach(id: i32, bytes: u64, write: bool) -> io::Result<Self> {
        let flags = if write { 0 } else { libc::SHM_RDONLY };
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let start = unsafe { libc::shmat(id, std::ptr::null(), flags) };
        if start as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start, bytes: bytes as usize })
    }

    /// Returns, for each of its pages, whether it is in memory. Untouched pages are not, nor are those in swap.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn resident(&self) -> io::Result<Vec<bool>> {
        let mut pages = vec![0u8; self.bytes.div_ceil(PAGE_BYTES)];
        // SAFETY: the mapping is that long, and there is a byte for each page.
        check(unsafe { libc::mincore(self.start, self.bytes, pages.as_mut_ptr()) }.into())?;
        Ok(pages.into_iter().map(|page| page & 1 != 0).collect())
    }

    /// Copies the bytes at `offset`; bytes beyond the end read as zeros.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let length = self.inside(offset, into.len());
        // SAFETY: `length` bytes from `offset` on are in the mapping and fit in `into`, which is not part of it.
        unsafe {
            let from = self.start.cast::<u8>().add(offset as usize * usize::from(length > 0));
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), length);
        }
        into[length..].fill(0);
    }

    /// Copies `bytes` to `offset`; bytes beyond the end are left out. Only for a segment that has been attached for
    /// writing.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let length = self.inside(offset, bytes.len());
        // SAFETY: as above.
        unsafe {
            let into = self.start.cast::<u8>().add(offset as usize * usize::from(length > 0));
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, length);
        }
    }

    /// Returns the device of the file beneath it, as `/proc/PID/maps` shows it.
    ///
    /// # Errors
    /// When the kernel does not show our mappings.
    pub fn device(&self) -> io::Result<u64> {
        let here = Map::of(Pid::own())?.into_iter().find(|map| map.start == self.start as u64);
        here.map(|map| map.device).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn inside(&self, offset: u64, length: usize) -> usize {
        (self.bytes as u64).saturating_sub(offset).min(length as u64) as usize
    }
}

impl Drop for AttachedSegment {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more. munmap(2) fails where the pages are larger than the segment.
        unsafe { libc::shmdt(self.start) };
    }
}
