//! Ring 2: finds the pages of a process that were written since the last scan, by the soft-dirty bits of its page
//! tables. This replaces [`crate::WriteProtection`] on kernels before 6.7 that are built with these bits
//! (`CONFIG_MEM_SOFT_DIRTY`). It sees and misses the same writes.
//!
//! Not yet tested on a kernel that has the bits: the tests here cover only how their words are parsed, and that a
//! kernel without them is detected.

use crate::Pid;
use standfast_core::{Address, PAGE_BYTES, PageRange, merge_ranges};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Documentation/admin-guide/mm/soft-dirty.rst: the bit of a page that was written since the bits were cleared.
const SOFT_DIRTY: u64 = 1 << 55;
/// Value that clears the bits when written to `/proc/PID/clear_refs`.
const CLEAR: &[u8] = b"4";
/// Words read at a time.
const WORDS: u64 = 16 * 1024;

/// The soft-dirty bits of one process.
#[derive(Debug)]
pub struct SoftDirty {
    pid: Pid,
    pagemap: File,
}

impl SoftDirty {
    /// Reports whether this kernel keeps the bits: a page of ours that has just been written then has one.
    pub fn is_kept() -> bool {
        static KEPT: OnceLock<bool> = OnceLock::new();
        *KEPT.get_or_init(|| {
            let fresh = vec![1u8; 2 * PAGE_BYTES];
            let inside = (fresh.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64);
            let page = PageRange::new(Address::new(inside), 1);
            let mut written = Vec::new();
            let looked = Self::open(Pid::own()).and_then(|own| own.written(&[page], &mut written));
            looked.is_ok() && written == [page]
        })
    }

    /// Opens the page tables of a process.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, pagemap: File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// Appends those of the `populated` pages that have been written since the bits were cleared. A mapping that has
    /// been made since then counts as written.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn written(&self, populated: &[PageRange], into: &mut Vec<PageRange>) -> io::Result<()> {
        let mut found = Vec::new();
        let mut bytes = Vec::new();
        for range in populated {
            let mut rest = *range;
            while rest.pages() > 0 {
                let (head, tail) = rest.split_at(WORDS);
                bytes.resize(head.pages() as usize * size_of::<u64>(), 0);
                self.pagemap.read_exact_at(&mut bytes, head.start().get() / PAGE_BYTES as u64 * 8)?;
                found.extend(dirty(head.start(), &bytes));
                rest = tail;
            }
        }
        merge_ranges(&mut found);
        into.append(&mut found);
        Ok(())
    }

    /// Clears the bits of all pages of the process. Writes during the call would be lost, so the process must be
    /// stopped.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn clear(&self) -> io::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.pid), CLEAR)
    }
}

/// Returns the pages from `start` on whose words mark them as written.
fn dirty(start: Address, words: &[u8]) -> impl Iterator<Item = PageRange> {
    let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let dirty = words.enumerate().filter(|(_, word)| word & SOFT_DIRTY != 0);
    dirty.map(move |(page, _)| PageRange::new(start.plus((page * PAGE_BYTES) as u64), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_recognised_by_the_soft_dirty_bit() {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const OTHER_BITS: u64 = (1 << 56) | (1 << 57) | (1 << 61) | 0x1234;
        let words = [PRESENT | SOFT_DIRTY, PRESENT | OTHER_BITS, 0, SWAPPED | SOFT_DIRTY | OTHER_BITS];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found: Vec<_> = dirty(Address::new(0x7000), &bytes).map(|range| range.start().get()).collect();
        assert_eq!(found, [0x7000, 0xa000]);
    }

    #[test]
    fn kernels_without_soft_dirty_bits_are_recognised() {
        let own = SoftDirty::open(Pid::own()).unwrap();
        let mut page = vec![1u8; 3 * PAGE_BYTES];
        let inside = Address::new((page.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64));
        let look = || {
            let mut written = Vec::new();
            own.written(&[PageRange::new(inside, 1)], &mut written).unwrap();
            written.len()
        };
        let bits = usize::from(SoftDirty::is_kept());
        assert_eq!(look(), bits, "it has just been written");
        if SoftDirty::is_kept() {
            own.clear().unwrap();
            assert_eq!(look(), 0);
            page.fill(2);
            assert_eq!(look(), 1);
        }
    }
}
