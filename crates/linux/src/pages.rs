//! Ring 2: finds the pages of a process that hold content of its own.

use crate::Pid;
use crate::sys::memory::{PageRegion, Selection, category, scan_pages};
use standfast_core::{Address, PAGE_BYTES, PageRange, merge_ranges};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The pages that a scan selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Populated {
    /// Every page in memory or swap, except the kernel's page of zeros: for anonymous memory.
    Any,
    /// Pages that no longer show the underlying file: for private mappings of files. The kernel's page of zeros is one
    /// of them: KSM maps it instead of a page that the program has cleared.
    Own,
    /// Pages that still show it: for private mappings of memory objects.
    File,
}

/// The page tables of a process, as `/proc/PID/pagemap` shows them.
#[derive(Debug)]
pub struct PageScan {
    pagemap: File,
    /// Whether the kernel has the ioctl (Linux 6.7). Otherwise the table is read word by word.
    by_ioctl: bool,
    /// [`category::GUARD`] if the kernel distinguishes guarded pages from others (Linux 6.15), else 0.
    guard: u64,
    /// Buffer for the kernel's answers.
    regions: RefCell<Vec<PageRegion>>,
}

/// Number of regions that one ioctl fetches: small enough that their memory need not be requested from the system.
pub(crate) const REGIONS: usize = 512;
/// Words of the page table read at a time.
const WORDS: usize = 16 * 1024;

impl PageScan {
    /// Opens the page tables of a process.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        static BY_IOCTL: OnceLock<bool> = OnceLock::new();
        let by_ioctl = *BY_IOCTL.get_or_init(|| knows(&pagemap, category::PRESENT));
        let guard = guard_category(&pagemap);
        Ok(Self { pagemap, by_ioctl, guard, regions: RefCell::new(vec![PageRegion::default(); REGIONS]) })
    }

    /// Reports whether the kernel walks the tables for us.
    pub fn is_by_ioctl(&self) -> bool {
        self.by_ioctl
    }

    /// Appends the populated pages of `range`, ascending. The cost grows with the populated pages, not with the
    /// reserved ones.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn populated(&self, range: PageRange, which: Populated, into: &mut Vec<PageRange>) -> io::Result<()> {
        let from = into.len();
        if self.by_ioctl {
            self.ask(range, which, into)?;
        } else {
            self.read_words(range, which, into)?;
        }
        let mut found = into.split_off(from);
        merge_ranges(&mut found);
        into.append(&mut found);
        Ok(())
    }

    /// Appends the guarded pages of `range`, which must not be touched, ascending. Appends nothing if the kernel does
    /// not report them.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn guarded(&self, range: PageRange, into: &mut Vec<PageRange>) -> io::Result<()> {
        if self.guard == 0 {
            return Ok(());
        }
        let mut found = Vec::new();
        self.select(range, Selection { all_of: self.guard, reported: self.guard, ..Selection::default() }, &mut found)?;
        merge_ranges(&mut found);
        into.append(&mut found);
        Ok(())
    }

    fn ask(&self, range: PageRange, which: Populated, into: &mut Vec<PageRange>) -> io::Result<()> {
        let (none_of, all_of) = match which {
            Populated::Any => (category::ZERO | self.guard, 0),
            Populated::Own => (category::FILE | self.guard, 0),
            Populated::File => (category::ZERO | self.guard, category::FILE),
        };
        let any_of = category::PRESENT | category::SWAPPED;
        self.select(range, Selection { none_of, all_of, any_of, or_lacking: 0, reported: category::PRESENT }, into)
    }

    fn select(&self, range: PageRange, selection: Selection, into: &mut Vec<PageRange>) -> io::Result<()> {
        let mut regions = self.regions.borrow_mut();
        let mut rest = range;
        while rest.pages() > 0 {
            let (found, end) = scan_pages(self.pagemap.as_fd(), rest, selection, &mut regions)?;
            into.extend(
                regions[..found]
                    .iter()
                    .map(|region| PageRange::between(Address::new(region.start), Address::new(region.end))),
            );
            rest = PageRange::between(end, range.end());
        }
        Ok(())
    }

    /// Does the same for kernels before 6.7, and is the oracle for tests. Reads one word for each page, even for mere
    /// reservations.
    fn read_words(&self, range: PageRange, which: Populated, into: &mut Vec<PageRange>) -> io::Result<()> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const FILE: u64 = 1 << 61;
        let mut bytes = vec![0u8; WORDS * 8];
        let mut rest = range;
        while rest.pages() > 0 {
            let (head, tail) = rest.split_at(WORDS as u64);
            let part = &mut bytes[..head.pages() as usize * 8];
            self.pagemap.read_exact_at(part, head.start().get() / PAGE_BYTES as u64 * 8)?;
            for (page, word) in part.as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_le_bytes(*word);
                let wanted = match which {
                    Populated::Any => true,
                    Populated::Own => word & FILE == 0,
                    Populated::File => word & FILE != 0,
                };
                if wanted && word & (PRESENT | SWAPPED) != 0 {
                    into.push(PageRange::new(head.start().plus(page as u64 * PAGE_BYTES as u64), 1));
                }
            }
            rest = tail;
        }
        Ok(())
    }
}

/// Returns [`category::GUARD`] if the kernel knows it, else 0.
pub(crate) fn guard_category(pagemap: &File) -> u64 {
    static GUARD: OnceLock<u64> = OnceLock::new();
    *GUARD.get_or_init(|| if knows(pagemap, category::GUARD) { category::GUARD } else { 0 })
}

/// Reports whether the kernel has the ioctl and knows a category.
fn knows(pagemap: &File, category: u64) -> bool {
    let probe = PageRange::new(Address::new(0), 1);
    let selection = Selection { any_of: category, reported: category::PRESENT, ..Selection::default() };
    scan_pages(pagemap.as_fd(), probe, selection, &mut [PageRegion::default()]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ioctl_agrees_with_its_naive_twin_on_our_own_memory() {
        let mut memory = vec![0u8; 64 * PAGE_BYTES];
        for page in [0, 3, 4, 5, 40, 63] {
            memory[page * PAGE_BYTES] = 1;
        }
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64);
        let range = PageRange::new(Address::new(start), 60);
        let scan = PageScan::open(Pid::own()).unwrap();
        assert!(scan.by_ioctl, "this test needs Linux 6.7");
        let twin = PageScan {
            pagemap: scan.pagemap.try_clone().unwrap(),
            by_ioctl: false,
            guard: 0,
            regions: RefCell::default(),
        };
        let (mut fast, mut naive) = (Vec::new(), Vec::new());
        scan.populated(range, Populated::Any, &mut fast).unwrap();
        twin.populated(range, Populated::Any, &mut naive).unwrap();
        assert_eq!(fast, naive);
        assert!(!fast.is_empty());
    }
}
