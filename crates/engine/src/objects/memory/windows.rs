//! An object seen through its mappings. This serves objects that no descriptor leads to, without privileges.
//!
//! A page that some page table shows exists. For the other pages, an injected mincore(2) reports whether they are in
//! memory. Reading a page to find out would fill every hole of a large reservation with a page of zeros, for good. The
//! question costs 2.6 ms per GiB of hole (measured), which only shared memory without a descriptor pays.
//!
//! mincore does not see pages in swap. While the system swaps, a mapping is read whole: expensive, and exact.
//!
//! A private mapping shows the object only where the program has not written. Nobody can see what is beneath its own
//! pages, unless a shared mapping shows it too.

use standfast_core::{Address, PageRange, merge_ranges};
use standfast_linux::proc::{Map, swap_is_used};
use standfast_linux::{PageScan, Pid, Populated, ProcessMemory};
use std::io;

/// The mappings of one object.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    windows: Vec<Window>,
}

/// One mapping of the object.
#[derive(Debug)]
struct Window {
    /// Place of the process in the job.
    process: usize,
    shared: bool,
    /// Its range in that process.
    at: PageRange,
    /// The range of the object that it shows.
    shows: PageRange,
    /// The pages, by address, that show something of the object.
    populated: Vec<PageRange>,
    /// The pages, by address, that show something else: the program's own copy, or nothing, since they are guarded.
    own: Vec<PageRange>,
}

impl Window {
    fn offsets_of(&self, range: PageRange) -> PageRange {
        let start = range.start().get() - self.at.start().get() + self.shows.start().get();
        PageRange::new(Address::new(start), range.pages())
    }

    fn addresses_of(&self, offsets: PageRange) -> PageRange {
        let start = offsets.start().get() - self.shows.start().get() + self.at.start().get();
        PageRange::new(Address::new(start), offsets.pages())
    }

    /// Returns the pages that the page tables do not show.
    fn scan(&mut self, scan: &PageScan, swapping: bool) -> io::Result<Vec<PageRange>> {
        let which = if self.shared { Populated::Any } else { Populated::File };
        scan.populated(self.at, which, &mut self.populated)?;
        if !self.shared {
            scan.populated(self.at, Populated::Own, &mut self.own)?;
        }
        scan.guarded(self.at, &mut self.own)?;
        self.own.sort_unstable_by_key(|range| range.start());
        let mut known: Vec<_> = self.populated.iter().chain(&self.own).copied().collect();
        known.sort_unstable_by_key(|range| range.start());
        let unknown = gaps(self.at, &known);
        if swapping {
            self.populated.extend(unknown);
            return Ok(Vec::new());
        }
        Ok(unknown)
    }

    /// Reports whether these offsets of the object can be read here.
    fn sees(&self, offsets: PageRange) -> bool {
        let inside = |inner: PageRange, outer: PageRange| outer.common(inner) == Some(inner);
        let is_hidden = || self.own.iter().any(|range| range.common(self.addresses_of(offsets)).is_some());
        inside(offsets, self.shows)
            && match self.shared {
                true => !is_hidden(),
                false => self.populated.iter().any(|range| inside(self.addresses_of(offsets), *range)),
            }
    }
}

impl Windows {
    pub(super) fn add(&mut self, process: usize, map: &Map) {
        let shows = PageRange::new(Address::new(map.offset), map.range().pages());
        let (shared, at) = (map.shared, map.range());
        self.windows.push(Window { process, shared, at, shows, populated: Vec::new(), own: Vec::new() });
    }

    /// Scans the windows of one process. Returns the pages that its page tables do not show.
    pub(super) fn scan(&mut self, process: usize, pid: Pid) -> io::Result<Vec<PageRange>> {
        let scan = PageScan::open(pid)?;
        let swapping = swap_is_used()?;
        let mut doubtful = Vec::new();
        for window in self.windows.iter_mut().filter(|window| window.process == process) {
            doubtful.extend(window.scan(&scan, swapping)?);
        }
        Ok(doubtful)
    }

    /// Returns an address whose page hides the object beneath it, once every process has been scanned.
    pub(super) fn hidden(&self) -> Option<Address> {
        let shared = self.windows.iter().filter(|window| window.shared);
        let visible = |window: &'_ Window| {
            gaps(window.at, &window.own).into_iter().map(|range| window.offsets_of(range)).collect::<Vec<_>>()
        };
        let mut shown: Vec<_> = shared.flat_map(visible).collect();
        shown.sort_unstable_by_key(|range| range.start());
        let own = self.windows.iter().flat_map(|window| window.own.iter().map(move |range| (window, *range)));
        own.filter(|(window, range)| !gaps(window.offsets_of(*range), &shown).is_empty())
            .map(|(_, range)| range.start())
            .next()
    }

    /// Adds the addresses `resident` to what the windows of a process show.
    pub(super) fn keep_resident(&mut self, process: usize, resident: &[PageRange]) {
        for window in self.windows.iter_mut().filter(|window| window.process == process) {
            window.populated.extend(resident.iter().filter_map(|range| window.at.common(*range)));
        }
    }

    /// Returns the offsets that hold something, ascending; each range can be read in one window.
    pub(super) fn contents(&self) -> Vec<PageRange> {
        let offsets =
            |window: &'_ Window| window.populated.iter().map(|range| window.offsets_of(*range)).collect::<Vec<_>>();
        let mut offsets: Vec<PageRange> = self.windows.iter().flat_map(offsets).collect();
        offsets.sort_unstable_by_key(|range| range.start());
        let mut contents: Vec<PageRange> = Vec::new();
        let mut end = Address::new(0);
        for range in offsets {
            if range.end() > end {
                contents.push(PageRange::between(range.start().max(end), range.end()));
                end = range.end();
            }
        }
        contents
    }

    pub(super) fn read(&self, memories: &[&ProcessMemory], range: PageRange, into: &mut [u8]) -> io::Result<()> {
        let window = self.windows.iter().find(|window| window.sees(range)).expect("contents come from a window");
        memories[window.process].read(window.addresses_of(range).start(), into)
    }
}

/// Returns the parts of `whole` that `parts`, ascending by their start, do not cover.
fn gaps(whole: PageRange, parts: &[PageRange]) -> Vec<PageRange> {
    let mut gaps = Vec::new();
    let mut at = whole.start();
    for part in parts.iter().filter_map(|part| whole.common(*part)) {
        if part.start() > at {
            gaps.push(PageRange::between(at, part.start()));
        }
        at = at.max(part.end());
    }
    if at < whole.end() {
        gaps.push(PageRange::between(at, whole.end()));
    }
    merge_ranges(&mut gaps);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * 4096), pages)
    }

    fn window(shared: bool, at: PageRange, shows: u64, populated: &[PageRange], own: &[PageRange]) -> Window {
        let shows = pages(shows, at.pages());
        Window { process: 0, shared, at, shows, populated: populated.to_vec(), own: own.to_vec() }
    }

    #[test]
    fn gaps_are_the_pages_that_no_part_covers() {
        let parts = [pages(0, 3), pages(4, 4), pages(5, 1), pages(9, 1)];
        assert_eq!(gaps(pages(1, 10), &parts), [pages(3, 1), pages(8, 1), pages(10, 1)]);
        assert_eq!(gaps(pages(1, 2), &parts), []);
    }

    #[test]
    fn overlapping_windows_yield_each_page_once() {
        let shared = window(true, pages(100, 4), 0, &[pages(100, 2)], &[]);
        let private = window(false, pages(200, 8), 1, &[pages(201, 3)], &[pages(200, 1)]);
        let windows = Windows { windows: vec![private, shared] };
        assert_eq!(windows.contents(), [pages(0, 2), pages(2, 3)]);
        assert!(windows.windows[0].sees(pages(2, 3)) && !windows.windows[0].sees(pages(1, 1)));
        assert_eq!(windows.hidden(), None, "the shared window shows what lies beneath");
    }

    #[test]
    fn a_page_under_a_guard_is_read_through_another_window() {
        let guarded = window(true, pages(100, 4), 0, &[pages(100, 1)], &[pages(102, 1)]);
        let windows = Windows { windows: vec![guarded] };
        assert_eq!(windows.hidden(), Some(pages(102, 1).start()));
        let Windows { mut windows } = windows;
        windows.push(window(true, pages(300, 4), 0, &[pages(300, 4)], &[]));
        let windows = Windows { windows };
        assert_eq!(windows.hidden(), None);
        assert!(windows.windows[0].sees(pages(0, 2)) && !windows.windows[0].sees(pages(0, 4)));
        assert!(windows.windows[1].sees(pages(0, 4)));
    }

    #[test]
    fn a_page_under_a_private_copy_is_hidden() {
        let windows = Windows { windows: vec![window(false, pages(200, 8), 1, &[], &[pages(203, 1)])] };
        assert_eq!(windows.hidden(), Some(pages(203, 1).start()));
    }
}
