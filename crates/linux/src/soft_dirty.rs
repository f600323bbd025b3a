//! Ring 2: finds the pages of a process that were written since the last scan, by the soft-dirty bits of its page
//! tables. This replaces [`crate::WriteProtection`] on kernels before 6.7 that are built with these bits
//! (`CONFIG_MEM_SOFT_DIRTY`), as Debian's are. It sees and misses the same writes.
//!
//! A page that is not marked was not written, but may be another one than before: the page of zeros that a read has put
//! where one was discarded, a page of a mapping that was moved there, or one that KSM has put in its place. The last two
//! must be found out in another way.
//!
//! `make test-kernels` tests it; most machines have kernels without the bits or with PAGEMAP_SCAN.

use crate::Pid;
use standfast_core::{Address, PAGE_BYTES, PageRange};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Documentation/admin-guide/mm/soft-dirty.rst: the bit of a page that was written since the bits were cleared.
const SOFT_DIRTY: u64 = 1 << 55;
/// The bit of a page in memory that is mapped once, by this process. The kernel's page of zeros lacks it. Linux 4.2.
const EXCLUSIVE: u64 = 1 << 56;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;
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

/// The pages of a mapping that hold content. All lists ascend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MarkedPages {
    /// Pages in memory or swap, also the kernel's page of zeros.
    pub populated: Vec<PageRange>,
    /// Those that have been written since the bits were cleared. A mapping that has been made since then counts as
    /// written.
    pub written: Vec<PageRange>,
    /// Those that were not written, but may be the page of zeros in place of another page: all that are not mapped
    /// exclusively.
    pub doubtful: Vec<PageRange>,
}

impl SoftDirty {
    /// Reports whether this kernel keeps the bits: a page of ours that has just been written then has one.
    pub fn is_kept() -> bool {
        static KEPT: OnceLock<bool> = OnceLock::new();
        *KEPT.get_or_init(|| {
            let fresh = vec![1u8; 2 * PAGE_BYTES];
            let inside = (fresh.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64);
            let page = PageRange::new(Address::new(inside), 1);
            let looked = Self::open(Pid::own()).and_then(|own| own.held(page));
            looked.is_ok_and(|held| held.written == [page])
        })
    }

    /// Opens the page tables of a process.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, pagemap: File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// Returns the pages of a mapping that hold content, and what their bits say about them.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn held(&self, mapping: PageRange) -> io::Result<MarkedPages> {
        let mut held = MarkedPages::default();
        let mut bytes = vec![0; mapping.pages().min(WORDS) as usize * size_of::<u64>()];
        let mut rest = mapping;
        while rest.pages() > 0 {
            let (head, tail) = rest.split_at(WORDS);
            let part = &mut bytes[..head.pages() as usize * size_of::<u64>()];
            self.pagemap.read_exact_at(part, head.start().get() / PAGE_BYTES as u64 * 8)?;
            held.sort(head.start(), part);
            rest = tail;
        }
        Ok(held)
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

impl MarkedPages {
    /// Sorts the pages from `start` on by their words.
    fn sort(&mut self, start: Address, words: &[u8]) {
        let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        for (page, word) in words.enumerate().filter(|(_, word)| word & (PRESENT | SWAPPED) != 0) {
            let page = start.plus((page * PAGE_BYTES) as u64);
            append(&mut self.populated, page);
            if word & SOFT_DIRTY != 0 {
                append(&mut self.written, page);
            } else if word & PRESENT != 0 && word & EXCLUSIVE == 0 {
                append(&mut self.doubtful, page);
            }
        }
    }
}

/// Appends a page to ascending runs.
fn append(runs: &mut Vec<PageRange>, page: Address) {
    match runs.last_mut() {
        Some(run) if run.end() == page => *run = PageRange::new(run.start(), run.pages() + 1),
        _ => runs.push(PageRange::new(page, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_recognised_by_the_soft_dirty_bit() {
        const OTHER_BITS: u64 = (1 << 57) | (1 << 61) | 0x1234;
        let words = [
            PRESENT | EXCLUSIVE | SOFT_DIRTY,
            PRESENT | EXCLUSIVE | OTHER_BITS,
            PRESENT | OTHER_BITS,
            OTHER_BITS,
            SWAPPED | SOFT_DIRTY | OTHER_BITS,
            SWAPPED,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut held = MarkedPages::default();
        held.sort(Address::new(0x7000), &bytes);
        let at = |runs: &[PageRange]| runs.iter().map(|run| (run.start().get(), run.pages())).collect::<Vec<_>>();
        assert_eq!(at(&held.populated), [(0x7000, 3), (0xb000, 2)]);
        assert_eq!(at(&held.written), [(0x7000, 1), (0xb000, 1)]);
        assert_eq!(at(&held.doubtful), [(0x9000, 1)]);
    }

    #[test]
    fn kernels_without_soft_dirty_bits_are_recognised() {
        let own = SoftDirty::open(Pid::own()).unwrap();
        let mut page = vec![1u8; 3 * PAGE_BYTES];
        let inside = Address::new((page.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64));
        let look = || own.held(PageRange::new(inside, 1)).unwrap().written.len();
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
