//! Ring 2: which pages of a process were written since the last look, by asynchronous write protection (Linux 6.7).
//!
//! A userfaultfd of the program's own address space, held by us and by nobody else, lets the page tables note first writes
//! without anybody being told: a write to a protected page takes the protection off and goes on. When we die the kernel
//! closes the descriptor and nothing of this remains.
//!
//! It sees writes through this address space only. What others write into memory that they share with it, by a mapping of
//! their own, by write(2) to the object beneath or by a device, is not seen. And it is exact only while the process stands
//! still.

use crate::pages::{REGIONS, guard_category};
use crate::sys::memory::{PageRegion, Selection, category, scan_and_protect_pages};
use crate::sys::userfault;
use standfast_core::{Address, PageRange};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The write protection of one address space.
#[derive(Debug)]
pub struct WriteProtection {
    userfault: OwnedFd,
}

/// One look at what a process has written. Opened anew each time: an older one would go on showing the address space of a
/// program that has been replaced by exec, empty.
#[derive(Debug)]
pub struct WrittenScan {
    pagemap: File,
    /// The category of pages that must not be touched, where the kernel tells them from pages in swap.
    guard: u64,
    /// Where the kernel puts its answers.
    regions: RefCell<Vec<PageRegion>>,
}

/// Some adjoining pages that hold something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub range: PageRange,
    /// Whether they may have been written since the last look. Pages in swap always may.
    pub written: bool,
}

impl WriteProtection {
    /// Flags with which the program itself must call userfaultfd(2) once, by injection.
    pub const CREATION_FLAGS: u64 = userfault::CREATION_FLAGS;

    /// Takes over the descriptor that a process has made of its own address space.
    ///
    /// # Errors
    /// Where the kernel lacks asynchronous write protection.
    pub fn new(userfault: OwnedFd) -> io::Result<Self> {
        userfault::introduce(userfault.as_fd())?;
        Ok(Self { userfault })
    }

    /// Takes whole mappings under observation, so that their pages can be protected. Nothing is protected yet.
    ///
    /// # Errors
    /// ENOMEM or ESRCH when the address space is gone (the process has executed another program), EBUSY when somebody else
    /// observes the mapping, EINVAL for mappings that cannot be observed.
    pub fn observe(&self, range: PageRange) -> io::Result<()> {
        userfault::register(self.userfault.as_fd(), range)
    }

    /// Protects populated pages of an observed mapping that look protected already. Where the kernel has let go of a mapping
    /// (mremap joins one that it moves with its new neighbour, and observes neither from then on), the marks of protection
    /// can be left on pages that have become writable again: a look would pass them over for ever.
    ///
    /// # Errors
    /// As above.
    pub fn protect(&self, range: PageRange) -> io::Result<()> {
        userfault::protect(self.userfault.as_fd(), range)
    }

    /// Lets go of them.
    ///
    /// # Errors
    /// As above.
    pub fn ignore(&self, range: PageRange) -> io::Result<()> {
        userfault::unregister(self.userfault.as_fd(), range)
    }
}

impl WrittenScan {
    /// Opens the page tables of a process.
    ///
    /// # Errors
    /// When it is gone or may not be looked at.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let guard = guard_category(&pagemap);
        Ok(Self { pagemap, guard, regions: RefCell::new(vec![PageRegion::default(); REGIONS]) })
    }

    /// Appends the pages of one mapping of anonymous memory that hold something, ascending, and protects them. Costs what is
    /// populated. `None`, and nothing appended, when the mapping is not under observation: all of it may have been written.
    ///
    /// Not for mappings of files: a protected page of theirs that is discarded leaves a marker behind, by which whatever
    /// takes its place is protected from birth, and looks like the old page until it is written again.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn look(&self, mapping: PageRange, into: &mut Vec<Held>) -> io::Result<Option<()>> {
        let none_of = category::ZERO | self.guard;
        let selection = Selection { none_of, all_of: 0, any_of: category::PRESENT | category::SWAPPED };
        let mut regions = self.regions.borrow_mut();
        let mut rest = mapping;
        while rest.pages() > 0 {
            let (found, end) = match scan_and_protect_pages(self.pagemap.as_fd(), rest, selection, &mut regions) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Ok(None),
                answer => answer?,
            };
            regions[..found].iter().for_each(|region| append(into, region));
            rest = PageRange::between(end, mapping.end());
        }
        Ok(Some(()))
    }
}

/// Appends a region, joined to the last one where it goes on with it.
fn append(into: &mut Vec<Held>, region: &PageRegion) {
    let range = PageRange::between(Address::new(region.start), Address::new(region.end));
    let written = region.categories & category::WRITTEN != 0 || region.categories & category::PRESENT == 0;
    match into.last_mut() {
        Some(last) if last.range.end() == range.start() && last.written == written => {
            last.range = PageRange::between(last.range.start(), range.end());
        }
        _ => into.push(Held { range, written }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::PAGE_BYTES;
    use std::os::fd::{FromRawFd, RawFd};

    fn scan() -> WrittenScan {
        WrittenScan::open(std::process::id() as i32).unwrap()
    }

    /// A mapping of this process under observation by itself.
    struct Observed {
        protection: WriteProtection,
        start: *mut u8,
        pages: u64,
    }

    impl Observed {
        fn new(pages: u64) -> Self {
            // SAFETY: makes a descriptor that nobody else owns, and a mapping of its own.
            unsafe {
                let userfault = libc::syscall(libc::SYS_userfaultfd, WriteProtection::CREATION_FLAGS) as RawFd;
                assert!(userfault >= 0, "this test needs userfaultfd");
                let own = OwnedFd::from_raw_fd(userfault);
                let protection = WriteProtection::new(own).unwrap();
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let bytes = pages as usize * PAGE_BYTES;
                let start = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
                let observed = Self { protection, start: start.cast(), pages };
                observed.protection.observe(observed.range()).unwrap();
                observed
            }
        }

        fn range(&self) -> PageRange {
            PageRange::new(Address::new(self.start as u64), self.pages)
        }

        fn write(&self, page: u64) {
            // SAFETY: within the mapping, which is writable.
            unsafe { self.start.add(page as usize * PAGE_BYTES).write_volatile(1) }
        }

        fn discard(&self, page: u64) {
            // SAFETY: within the mapping, whose contents nobody relies on.
            unsafe {
                libc::madvise(self.start.add(page as usize * PAGE_BYTES).cast(), PAGE_BYTES, libc::MADV_DONTNEED)
            };
        }

        /// The pages that hold something, each with whether it was written.
        fn look(&self) -> Vec<(u64, bool)> {
            let mut held = Vec::new();
            scan().look(self.range(), &mut held).unwrap().expect("it is under observation");
            let pages = held.iter().flat_map(|held| {
                let first = (held.range.start().get() - self.start as u64) / PAGE_BYTES as u64;
                (first..first + held.range.pages()).map(|page| (page, held.written))
            });
            pages.collect()
        }
    }

    impl Drop for Observed {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours and nobody looks at it any more.
            unsafe { libc::munmap(self.start.cast(), self.pages as usize * PAGE_BYTES) };
        }
    }

    #[test]
    fn a_look_tells_what_was_written_since_the_last_one() {
        let memory = Observed::new(8);
        [1, 2, 5].into_iter().for_each(|page| memory.write(page));
        assert_eq!(memory.look(), [(1, true), (2, true), (5, true)]);
        assert_eq!(memory.look(), [(1, false), (2, false), (5, false)]);
        memory.write(2);
        memory.write(6);
        assert_eq!(memory.look(), [(1, false), (2, true), (5, false), (6, true)]);
    }

    #[test]
    fn discarded_pages_are_gone_and_come_back_as_written() {
        let memory = Observed::new(4);
        (0..4).for_each(|page| memory.write(page));
        memory.look();
        memory.discard(1);
        memory.discard(2);
        memory.write(2);
        assert_eq!(memory.look(), [(0, false), (2, true), (3, false)]);
    }

    #[test]
    fn a_mapping_that_is_not_observed_is_told_from_one_that_was_not_written() {
        let memory = Observed::new(2);
        memory.write(0);
        memory.protection.ignore(memory.range()).unwrap();
        let mut held = Vec::new();
        assert_eq!(scan().look(memory.range(), &mut held).unwrap(), None);
        assert!(held.is_empty());
    }

    #[test]
    fn writes_of_the_kernel_into_a_buffer_are_seen() {
        use std::io::Read;
        let memory = Observed::new(3);
        (0..3).for_each(|page| memory.write(page));
        memory.look();
        // SAFETY: the second page of the mapping, which nobody else refers to.
        let buffer = unsafe { std::slice::from_raw_parts_mut(memory.start.add(PAGE_BYTES), 16) };
        File::open("/dev/zero").unwrap().read_exact(buffer).unwrap();
        assert_eq!(memory.look(), [(0, false), (1, true), (2, false)]);
    }
}
