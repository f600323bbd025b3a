//! Ring 2: finds the pages of a process that were written since the last scan, by asynchronous write protection (Linux
//! 6.7).
//!
//! A userfaultfd of the program's own address space, which only we hold, makes the page tables record first writes
//! without a notification: a write to a protected page removes the protection and continues. When we die, the kernel
//! closes the descriptor and nothing of this remains.
//!
//! It sees only writes through this address space. It does not see writes by others to memory that they share with the
//! process: by a mapping of their own, by write(2) to the underlying object or by a device. It is exact only while the
//! process is stopped.

use crate::pages::{REGIONS, guard_category};
use crate::sys::memory::{PageRegion, Selection, category, scan_and_protect_pages, scan_pages};
use crate::sys::userfault;
use crate::{Pid, SoftDirty};
use standfast_core::{Address, PageRange, merge_ranges};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The write protection of one address space.
#[derive(Debug)]
pub struct WriteProtection {
    userfault: OwnedFd,
    is_asynchronous: bool,
}

/// A scan of the pages that a process has written. It is opened again each time, since after an exec an older one would
/// still show the replaced address space, which is empty.
#[derive(Debug)]
pub struct WrittenScan {
    pagemap: File,
    /// Category of pages that must not be touched, if the kernel distinguishes them from pages in swap.
    guard: u64,
    /// Buffer for the kernel's answers.
    regions: RefCell<Vec<PageRegion>>,
}

/// The pages of a mapping that hold content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldPages {
    /// Pages in memory or swap, except the kernel's page of zeros; ascending.
    pub populated: Vec<PageRange>,
    /// Populated pages that are in swap; ascending.
    pub swapped: Vec<PageRange>,
    /// Pages that must not be touched, if the kernel reports them (Linux 6.15); ascending.
    pub guarded: Vec<PageRange>,
}

impl WriteProtection {
    /// Flags with which the program itself must call userfaultfd(2) once, by injection.
    pub const CREATION_FLAGS: u64 = userfault::CREATION_FLAGS;

    /// Takes over the descriptor that a process has made of its own address space.
    ///
    /// # Errors
    /// If the kernel lacks asynchronous write protection, and soft-dirty bits as well.
    pub fn new(userfault: OwnedFd) -> io::Result<Self> {
        let is_asynchronous = match userfault::introduce(userfault.as_fd()) {
            Ok(()) => true,
            Err(_) if SoftDirty::is_kept() => {
                userfault::introduce_for_marks(userfault.as_fd())?;
                false
            }
            Err(error) => return Err(error),
        };
        Ok(Self { userfault, is_asynchronous })
    }

    /// Reports whether the kernel can protect pages and note the first writes to them. If not, it keeps soft-dirty bits,
    /// and tracking a mapping only shows whether it is still the same one ([`Self::tracks`]).
    pub fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// Reports whether the mapping of a page is tracked, in any mode: whether neither unmapping nor mremap(2) has
    /// replaced it since then. The page must be in memory or swap; otherwise it becomes one of zeros.
    ///
    /// # Errors
    /// ESRCH when the address space is gone.
    pub fn tracks(&self, page: PageRange) -> io::Result<bool> {
        match userfault::put_zeros(self.userfault.as_fd(), page) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(true),
            other => other.map(|()| true),
        }
    }

    /// Starts to track writes to whole mappings, so that their pages can be protected. Protects nothing yet.
    ///
    /// # Errors
    /// ENOMEM or ESRCH when the address space is gone (the process has executed another program), EBUSY when another
    /// userfaultfd tracks the mapping, EINVAL for mappings that cannot be tracked.
    pub fn track(&self, range: PageRange) -> io::Result<()> {
        userfault::register(self.userfault.as_fd(), range)
    }

    /// Protects populated pages of a tracked mapping that look protected already. If the kernel has dropped a mapping
    /// (mremap joins one that it moves with its new neighbour, and tracks neither from then on), protection marks can
    /// remain on pages that have become writable again. Scans would then never report these pages.
    ///
    /// # Errors
    /// As for [`Self::track`].
    pub fn protect(&self, range: PageRange) -> io::Result<()> {
        userfault::protect(self.userfault.as_fd(), range)
    }

    /// Removes the protection from pages of a tracked mapping: the next scan reports them as written.
    ///
    /// # Errors
    /// As for [`Self::track`].
    pub fn unprotect(&self, range: PageRange) -> io::Result<()> {
        userfault::unprotect(self.userfault.as_fd(), range)
    }

    /// Stops tracking these pages.
    ///
    /// # Errors
    /// As for [`Self::track`].
    pub fn ignore(&self, range: PageRange) -> io::Result<()> {
        userfault::unregister(self.userfault.as_fd(), range)
    }
}

impl WrittenScan {
    /// Opens the page tables of a process.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let guard = guard_category(&pagemap);
        Ok(Self { pagemap, guard, regions: RefCell::new(vec![PageRegion::default(); REGIONS]) })
    }

    /// Returns the pages of a mapping that hold content. Asks the kernel for the others, of which there are mostly few
    /// runs: a page that is reported costs the kernel 10 ns, one that is skipped 3 ns.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn held(&self, mapping: PageRange) -> io::Result<HeldPages> {
        let selection = Selection {
            any_of: category::ZERO,
            or_lacking: category::PRESENT,
            reported: category::SWAPPED | self.guard,
            ..Selection::default()
        };
        let mut held = HeldPages::default();
        let mut at = mapping.start();
        self.walk(mapping, selection, scan_pages, |region| {
            let range = region.range();
            match (region.categories & self.guard != 0, region.categories & category::SWAPPED != 0) {
                (true, _) => held.guarded.push(range),
                (false, true) => {
                    held.swapped.push(range);
                    return;
                }
                (false, false) => {}
            }
            held.populated.push(PageRange::between(at, range.start()));
            at = range.end();
        })?;
        held.populated.push(PageRange::between(at, mapping.end()));
        held.populated.retain(|range| range.pages() > 0);
        Ok(held)
    }

    /// Returns the pages of a mapping that hold content and are on huge pages, ascending.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn huge(&self, mapping: PageRange) -> io::Result<Vec<PageRange>> {
        let (none_of, all_of) = (category::ZERO, category::PRESENT | category::HUGE);
        let selection = Selection { none_of, all_of, reported: category::HUGE, ..Selection::default() };
        let mut huge = Vec::new();
        self.walk(mapping, selection, scan_pages, |region| huge.push(region.range()))?;
        merge_ranges(&mut huge);
        Ok(huge)
    }

    /// Appends those of the `populated` pages that have been written since the last scan, and protects them.
    /// `populated` are ascending runs of pages of one anonymous mapping that hold content; pages in swap may be
    /// missing. Returns `None`, and appends nothing, when the mapping is not tracked: all of its pages may have been
    /// written.
    ///
    /// Not for mappings of files, nor for huge pages from the system's pool. When one of their protected pages is
    /// discarded, it leaves a marker. The page that replaces it is then protected from the start, and looks like the
    /// old page until it is written again.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn written(&self, populated: &[PageRange], into: &mut Vec<PageRange>) -> io::Result<Option<()>> {
        let (Some(first), Some(last)) = (populated.first(), populated.last()) else { return Ok(Some(())) };
        let from = into.len();
        // The kernel has a fast path for exactly this request, in which pages that hold nothing count as written.
        let short = Selection { all_of: category::WRITTEN, reported: category::WRITTEN, ..Selection::default() };
        let long =
            Selection { none_of: category::ZERO | self.guard, any_of: category::PRESENT | category::SWAPPED, ..short };
        let whole = [PageRange::between(first.start(), last.end())];
        let (ranges, selection) = if populated.len() > RUNS_MAX { (&whole[..], long) } else { (populated, short) };
        for range in ranges {
            let walked = self.walk(*range, selection, scan_and_protect_pages, |region| into.push(region.range()));
            match walked {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    into.truncate(from);
                    return Ok(None);
                }
                walked => walked?,
            }
        }
        Ok(Some(()))
    }

    /// Returns the pages of a tracked mapping of a file that are mapped and not protected, and protects them: they have been
    /// written since the last scan, or mapped since then. Protects no page that is not mapped, since the kernel protects it
    /// by a marker; see [`Self::marked`]. Returns `None` when the mapping is not tracked.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn unprotected(&self, mapping: PageRange) -> io::Result<Option<Vec<PageRange>>> {
        let all_of = category::WRITTEN | category::PRESENT;
        let selection = Selection { all_of, reported: category::WRITTEN, ..Selection::default() };
        let mut found = Vec::new();
        match self.walk(mapping, selection, scan_and_protect_pages, |region| found.push(region.range())) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(None),
            walked => walked.map(|()| Some(found)),
        }
    }

    /// Returns the pages of a mapping of a file that are not mapped and have a marker in their place. Such a page was
    /// protected when the kernel needed its memory. If the mapping is locked then and the file's page is not in memory, Linux 6.9
    /// and later try for ever to map it (`filemap_fault_recheck_pte_none` in mm/filemap.c), so no marker may stay.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn marked(&self, mapping: PageRange) -> io::Result<Vec<PageRange>> {
        let all_of = category::SWAPPED;
        let selection = Selection { none_of: self.guard, all_of, reported: all_of, ..Selection::default() };
        let mut found = Vec::new();
        self.walk(mapping, selection, scan_pages, |region| found.push(region.range()))?;
        Ok(found)
    }

    fn walk(
        &self,
        range: PageRange,
        selection: Selection,
        scan: impl Fn(BorrowedFd<'_>, PageRange, Selection, &mut [PageRegion]) -> io::Result<(usize, Address)>,
        mut each: impl FnMut(&PageRegion),
    ) -> io::Result<()> {
        let mut regions = self.regions.borrow_mut();
        let mut rest = range;
        while rest.pages() > 0 {
            let (found, end) = scan(self.pagemap.as_fd(), rest, selection, &mut regions)?;
            regions[..found].iter().for_each(&mut each);
            rest = PageRange::between(end, range.end());
        }
        Ok(())
    }
}

/// Maximum number of runs for separate calls. A mapping with more runs is walked as a whole, without the fast path: a
/// call for each run would take longer.
const RUNS_MAX: usize = 256;

impl PageRegion {
    fn range(&self) -> PageRange {
        PageRange::between(Address::new(self.start), Address::new(self.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
    use standfast_core::PAGE_BYTES;
    use std::ptr::null_mut;

    fn scan() -> WrittenScan {
        WrittenScan::open(Pid::own()).unwrap()
    }

    /// A mapping that this process itself tracks.
    struct Tracked {
        protection: WriteProtection,
        start: *mut u8,
        pages: u64,
    }

    impl Tracked {
        fn new(pages: u64) -> Self {
            let protection = WriteProtection::new(userfault::create().expect("this test needs userfaultfd")).unwrap();
            let (bytes, access) = (pages as usize * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: makes a mapping of its own.
            let start = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) }.unwrap();
            // A kernel without huge pages refuses this.
            // SAFETY: the mapping that has just been made.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
            Self::begun(protection, start.cast(), pages)
        }

        /// Maps a new file that is in memory only.
        fn of_file(pages: u64) -> Self {
            let protection = WriteProtection::new(userfault::create().expect("this test needs userfaultfd")).unwrap();
            let (bytes, access) = (pages as usize * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE);
            let file = memfd_create("tracked", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, bytes as u64).unwrap();
            // SAFETY: makes a mapping of its own.
            let start = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }.unwrap();
            Self::begun(protection, start.cast(), pages)
        }

        fn begun(protection: WriteProtection, start: *mut u8, pages: u64) -> Self {
            let tracked = Self { protection, start, pages };
            tracked.protection.track(tracked.range()).unwrap();
            tracked
        }

        fn range(&self) -> PageRange {
            PageRange::new(Address::new(self.start as u64), self.pages)
        }

        fn write(&self, page: u64) {
            // SAFETY: within the mapping, which is writable.
            unsafe { self.start.add(page as usize * PAGE_BYTES).write_volatile(1) }
        }

        fn read(&self, page: u64) {
            // SAFETY: within the mapping, which is readable.
            unsafe { self.start.add(page as usize * PAGE_BYTES).read_volatile() };
        }

        fn discard(&self, page: u64) {
            // SAFETY: within the mapping, whose content nothing relies on.
            unsafe {
                let at = self.start.add(page as usize * PAGE_BYTES);
                madvise(at.cast(), PAGE_BYTES, Advice::LinuxDontNeed).unwrap();
            }
        }

        fn pages_of(&self, ranges: &[PageRange]) -> Vec<u64> {
            let pages = ranges.iter().flat_map(|range| {
                let first = (range.start().get() - self.start as u64) / PAGE_BYTES as u64;
                first..first + range.pages()
            });
            pages.collect()
        }

        /// Returns the pages that hold content, each with whether it was written.
        fn scan(&self) -> Vec<(u64, bool)> {
            let (held, mut written) = (scan().held(self.range()).unwrap(), Vec::new());
            scan().written(&held.populated, &mut written).unwrap().expect("it is tracked");
            written.extend(held.swapped);
            let written = self.pages_of(&written);
            self.pages_of(&held.populated).into_iter().map(|page| (page, written.contains(&page))).collect()
        }
    }

    impl Drop for Tracked {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and nothing uses it any more.
            unsafe { munmap(self.start.cast(), self.pages as usize * PAGE_BYTES) }.unwrap();
        }
    }

    #[test]
    fn a_scan_reports_pages_written_since_the_last_one() {
        let memory = Tracked::new(8);
        [1, 2, 5].into_iter().for_each(|page| memory.write(page));
        assert_eq!(memory.scan(), [(1, true), (2, true), (5, true)]);
        assert_eq!(memory.scan(), [(1, false), (2, false), (5, false)]);
        memory.write(2);
        memory.write(6);
        assert_eq!(memory.scan(), [(1, false), (2, true), (5, false), (6, true)]);
    }

    #[test]
    fn discarded_pages_disappear_and_count_as_written_when_refilled() {
        let memory = Tracked::new(4);
        (0..4).for_each(|page| memory.write(page));
        memory.scan();
        memory.discard(1);
        memory.discard(2);
        memory.write(2);
        assert_eq!(memory.scan(), [(0, false), (2, true), (3, false)]);
    }

    #[test]
    fn no_marker_stays_in_a_mapping_of_a_file() {
        let memory = Tracked::of_file(4);
        let unprotected = || memory.pages_of(&scan().unprotected(memory.range()).unwrap().expect("it is tracked"));
        let marked = || scan().marked(memory.range()).unwrap();
        memory.write(0);
        assert_eq!(unprotected(), [0]);
        assert_eq!(marked(), [], "pages that are not mapped are left alone");
        memory.read(1);
        assert_eq!(unprotected(), [1]);
        memory.write(0);
        assert_eq!(unprotected(), [0]);
        memory.discard(1);
        assert_eq!(memory.pages_of(&marked()), [1]);
        marked().into_iter().for_each(|range| memory.protection.unprotect(range).unwrap());
        assert_eq!(marked(), []);
        memory.protection.ignore(memory.range()).unwrap();
        assert_eq!(scan().unprotected(memory.range()).unwrap(), None);
    }

    #[test]
    fn untracked_and_unwritten_mappings_are_distinguished() {
        let memory = Tracked::new(2);
        memory.write(0);
        memory.protection.ignore(memory.range()).unwrap();
        let (held, mut written) = (scan().held(memory.range()).unwrap(), Vec::new());
        assert_eq!(memory.pages_of(&held.populated), [0]);
        assert_eq!(scan().written(&held.populated, &mut written).unwrap(), None);
        assert!(written.is_empty());
    }

    #[test]
    fn a_scan_in_several_calls_reports_the_same_pages() {
        let pages = 2 * RUNS_MAX as u64 + 4;
        let memory = Tracked::new(pages);
        let every_other: Vec<u64> = (0..pages).step_by(2).collect();
        every_other.iter().for_each(|page| memory.write(*page));
        let all_written: Vec<_> = every_other.iter().map(|page| (*page, true)).collect();
        assert_eq!(memory.scan(), all_written);
        memory.write(4);
        memory.write(5);
        memory.discard(8);
        let expected = |page: &u64| (*page, [4, 5].contains(page));
        let mut still: Vec<u64> = every_other.iter().copied().chain([5]).filter(|page| *page != 8).collect();
        still.sort_unstable();
        assert_eq!(memory.scan(), still.iter().map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn a_zero_page_that_was_only_read_is_not_populated() {
        let memory = Tracked::new(4);
        memory.write(1);
        memory.read(2);
        assert_eq!(memory.scan(), [(1, true)]);
        assert_eq!(memory.scan(), [(1, false)]);
        memory.write(2);
        assert_eq!(memory.scan(), [(1, false), (2, true)]);
    }

    #[test]
    fn guard_pages_are_reported_and_not_populated() {
        const MADV_GUARD_INSTALL: i32 = 102;
        let memory = Tracked::new(6);
        (0..6).for_each(|page| memory.write(page));
        // SAFETY: within the mapping, whose content nothing relies on.
        let guards =
            unsafe { libc::madvise(memory.start.add(2 * PAGE_BYTES).cast(), 2 * PAGE_BYTES, MADV_GUARD_INSTALL) };
        if guards == 0 {
            let held = scan().held(memory.range()).unwrap();
            assert_eq!(
                (memory.pages_of(&held.populated), memory.pages_of(&held.guarded)),
                (vec![0, 1, 4, 5], vec![2, 3])
            );
        }
    }

    #[test]
    fn writes_of_the_kernel_into_a_buffer_are_seen() {
        use std::io::Read;
        let memory = Tracked::new(3);
        (0..3).for_each(|page| memory.write(page));
        memory.scan();
        // SAFETY: the second page of the mapping, to which nothing else refers.
        let buffer = unsafe { std::slice::from_raw_parts_mut(memory.start.add(PAGE_BYTES), 16) };
        File::open("/dev/zero").unwrap().read_exact(buffer).unwrap();
        assert_eq!(memory.scan(), [(0, false), (1, true), (2, false)]);
    }
}
