//! Writes to a process's own memory are seen, or are known to be possibly unseen.
//!
//! # Safety
//! Memory and descriptors belong to the test that makes them, and nothing else uses them.

use super::*;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::null_mut;

#[test]
fn reads_past_the_end_are_zero_and_writes_are_cut() {
    let mut bytes = [1_u8, 2, 3, 4];
    // SAFETY: the array outlives the value and is used only through it.
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
fn the_cost_of_a_first_write_is_plausible() {
    // Without asynchronous write protection in the kernel there is nothing to test.
    let Ok(cost) = first_write_cost() else { return };
    assert!(cost > Duration::from_nanos(50) && cost < Duration::from_secs(1), "{cost:?}");
}

#[test]
fn writes_to_own_memory_are_reported_once() {
    // Without asynchronous write protection in the kernel there is nothing to test.
    let Ok(writes) = OwnWrites::new() else { return };
    let mut memory = vec![1_u8; 64 * PAGE_BYTES];
    // SAFETY: from here on the vector is used only through this value.
    let registered = unsafe { RegisteredMemory::new(memory.as_mut_ptr(), memory.len()) };
    let pages = registered.pages();
    writes.track(pages).unwrap();
    let first = writes.written(pages).unwrap().unwrap();
    let covered: usize = first.iter().map(|range| registered.within(*range).len()).sum();
    assert_eq!(covered, memory.len(), "all of it counts as written at first");
    registered.write(10 * PAGE_BYTES + 5, &[2]);
    // The first and the last page also hold other data, which others may write.
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

/// Small pages of this process, in an address range of their own.
struct Area {
    start: *mut u8,
    pages: usize,
}

impl Area {
    fn new(pages: usize) -> Self {
        let (bytes, access) = (pages * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: makes a mapping of its own.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) }.unwrap();
        // A kernel without huge pages refuses this.
        // SAFETY: the mapping that has just been made.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        Self { start: start.cast(), pages }
    }

    fn at(&self, page: usize) -> *mut u8 {
        assert!(page <= self.pages);
        // SAFETY: within the mapping, or one past its end.
        unsafe { self.start.add(page * PAGE_BYTES) }
    }

    fn range(&self, first: usize, pages: usize) -> PageRange {
        PageRange::new(Address::new(self.at(first) as u64), pages as u64)
    }

    fn write(&self, page: usize) {
        // SAFETY: within the mapping, which is writable.
        unsafe { self.at(page).write_volatile(page as u8 + 1) }
    }

    fn numbers(&self, ranges: &[PageRange]) -> Vec<usize> {
        let number = |address: Address| (address.get() - self.start as u64) as usize / PAGE_BYTES;
        let mut pages: Vec<_> = ranges.iter().flat_map(|range| number(range.start())..number(range.end())).collect();
        pages.sort_unstable();
        pages
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing uses it any more.
        unsafe { munmap(self.start.cast(), self.pages * PAGE_BYTES) }.unwrap();
    }
}

/// If mappings are joined, the kernel drops both, and leaves the protection marks on pages that have become writable.
#[test]
fn tracking_resumes_after_mappings_are_merged() {
    let Ok(writes) = OwnWrites::new() else { return };
    let area = Area::new(16);
    let (first, second) = (area.range(0, 4), area.range(8, 4));
    (0..16).for_each(|page| area.write(page));
    for range in [first, second] {
        writes.track(range).unwrap();
        assert_eq!(area.numbers(&writes.written(range).unwrap().unwrap()).len(), 4);
        assert!(area.numbers(&writes.written(range).unwrap().unwrap()).is_empty());
    }
    // The area must have no hole: another test would map something there, and the area's drop would unmap it.
    let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
    let bytes = 4 * PAGE_BYTES;
    // SAFETY: moves pages of the area over other pages of it, whose content is lost.
    let moved = unsafe { mremap_fixed(area.at(8).cast(), bytes, bytes, flags, area.at(4).cast()) };
    assert_eq!(moved, Ok(area.at(4).cast()));
    (0..4).for_each(|page| area.write(page));
    assert!(
        writes.written(first).unwrap().is_none_or(|seen| area.numbers(&seen) == [0, 1, 2, 3]),
        "it is told that nobody has tracked them"
    );
    writes.track(first).unwrap();
    assert_eq!(area.numbers(&writes.written(first).unwrap().unwrap()), [0, 1, 2, 3]);
    assert!(area.numbers(&writes.written(first).unwrap().unwrap()).is_empty());
    (0..4).for_each(|page| area.write(page));
    assert_eq!(area.numbers(&writes.written(first).unwrap().unwrap()), [0, 1, 2, 3]);
}

/// A minimal io_uring.
struct Ring {
    descriptor: OwnedFd,
    rings: *mut u8,
    entries: *mut u8,
    tail: usize,
    array: usize,
}

impl Ring {
    const RING_BYTES: usize = 4096;
    const REGISTER_BUFFERS: u32 = 0;
    const UNREGISTER_BUFFERS: u32 = 1;

    /// Returns `None` if the kernel does not let us use io_uring.
    fn new() -> Option<Self> {
        let mut parameters = [0_u32; 30];
        // SAFETY: the parameters are live, and as long as `struct io_uring_params`.
        let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
        if made < 0 {
            return None;
        }
        // SAFETY: it has just been made.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made as RawFd) };
        let map = |offset| {
            let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
            // SAFETY: makes a mapping of its own.
            unsafe { mmap(null_mut(), Self::RING_BYTES, access, kind, &descriptor, offset) }.unwrap().cast()
        };
        let (rings, entries) = (map(0), map(0x1000_0000));
        // The offsets of the submission ring begin at the eleventh number: head, tail, mask, entries, flags, dropped, array.
        let (tail, array) = (parameters[11] as usize, parameters[16] as usize);
        Some(Self { descriptor, rings, entries, tail, array })
    }

    fn register(&self, what: u32, buffers: &[libc::iovec]) {
        let from = if buffers.is_empty() { std::ptr::null() } else { buffers.as_ptr() };
        let count = buffers.len();
        // SAFETY: the vectors are live during the call, and the memory to which they point for as long as it is
        // registered.
        let done =
            unsafe { libc::syscall(libc::SYS_io_uring_register, self.descriptor.as_raw_fd(), what, from, count) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }

    /// Has the kernel read a page of a file to an address within the first registered buffer, and waits until it has.
    fn read_page(&self, file: &std::fs::File, address: *mut u8) {
        const READ_FIXED: u8 = 4;
        const GETEVENTS: u32 = 1;
        let mut entry = [0_u8; 64];
        entry[0] = READ_FIXED;
        entry[4..8].copy_from_slice(&file.as_raw_fd().to_le_bytes());
        entry[16..24].copy_from_slice(&(address as u64).to_le_bytes());
        entry[24..28].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
        // SAFETY: both mappings have room for this, and nothing else uses the ring.
        let done = unsafe {
            self.entries.copy_from_nonoverlapping(entry.as_ptr(), entry.len());
            self.rings.add(self.array).cast::<u32>().write_volatile(0);
            self.rings.add(self.tail).cast::<u32>().write_volatile(1);
            libc::syscall(libc::SYS_io_uring_enter, self.descriptor.as_raw_fd(), 1, 1, GETEVENTS, 0, 0)
        };
        assert_eq!(done, 1, "{}", io::Error::last_os_error());
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for mapping in [self.rings, self.entries] {
            // SAFETY: made by new, and nothing uses it any more.
            unsafe { munmap(mapping.cast(), Self::RING_BYTES) }.unwrap();
        }
    }
}

#[test]
fn pinned_pages_count_as_untrackable() {
    let (Ok(writes), Some(ring)) = (OwnWrites::new(), Ring::new()) else { return };
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xaa; PAGE_BYTES], 0).unwrap();
    let area = Area::new(8);
    let range = area.range(0, 8);
    (0..8).for_each(|page| area.write(page));
    let buffer = libc::iovec { iov_base: area.start.cast(), iov_len: 8 * PAGE_BYTES };
    ring.register(Ring::REGISTER_BUFFERS, &[buffer]);
    writes.track(range).unwrap();
    assert_eq!(writes.scan(&[range]), [None], "it is known from the first look on");
    ring.read_page(&file, area.at(5));
    // SAFETY: within the area.
    assert_eq!(unsafe { area.at(5).read_volatile() }, 0xaa);
    assert_eq!(writes.scan(&[range]), [None]);
    ring.register(Ring::UNREGISTER_BUFFERS, &[]);
    drop(ring);
    assert_eq!(writes.scan(&[range]), [None], "what was written while it was pinned still counts");
    if unseen_writer().unwrap().is_none() {
        let pages = |seen: Vec<Option<Vec<PageRange>>>| seen[0].as_deref().map(|seen| area.numbers(seen));
        pages(writes.scan(&[range])).expect("nobody is there any more");
        area.write(3);
        assert_eq!(pages(writes.scan(&[range])), Some(vec![3]));
    }
}
