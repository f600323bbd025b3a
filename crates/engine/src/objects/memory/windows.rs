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
//!
//! No call reports how long an object is that no descriptor leads to. Pages behind its end cannot be read, so if the last
//! mapped page does not exist yet, it is read. If that fails, as for few programs, the end is searched for, which fills a
//! hole of the object with at most 36 pages of zeros.

use standfast_core::{Address, PAGE_BYTES, PageRange, merge_ranges};
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
#[cfg_attr(test, derive(Clone))]
struct Window {
    /// Place of the process in the job.
    process: usize,
    shared: bool,
    /// Whether the program may read there. Otherwise only kernels that let a tracer do so can be asked about it.
    is_readable: bool,
    /// Its range in that process.
    at: PageRange,
    /// The range of the object that it shows.
    shows: PageRange,
    /// The pages, by address, that show something of the object.
    populated: Vec<PageRange>,
    /// The pages, by address, that show something else: the program's own copy, or nothing, since they are guarded.
    own: Vec<PageRange>,
    /// Whether pages count as populated that nobody was asked about.
    is_assumed: bool,
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
        self.is_assumed = swapping;
        if swapping {
            self.populated.extend(unknown);
            return Ok(Vec::new());
        }
        Ok(unknown)
    }

    /// Returns the offsets of the object that it shows.
    fn visible(&self) -> Vec<PageRange> {
        gaps(self.at, &self.own).into_iter().map(|range| self.offsets_of(range)).collect()
    }

    /// Reports whether it shows all of these offsets of the object, if they are before the object's end.
    fn could_show(&self, offsets: PageRange) -> bool {
        let is_hidden = || self.own.iter().any(|range| range.common(self.addresses_of(offsets)).is_some());
        self.shows.common(offsets) == Some(offsets) && !is_hidden()
    }

    /// Reports whether these offsets of the object can be read here, which the program has not done in all of them.
    fn sees(&self, offsets: PageRange) -> bool {
        let inside = |inner: PageRange, outer: PageRange| outer.common(inner) == Some(inner);
        self.could_show(offsets)
            && (self.shared || self.populated.iter().any(|range| inside(self.addresses_of(offsets), *range)))
    }
}

impl Windows {
    pub(super) fn add(&mut self, process: usize, map: &Map) {
        let shows = PageRange::new(Address::new(map.offset), map.range().pages());
        let (shared, at) = (map.shared, map.range());
        self.windows.push(Window {
            process,
            shared,
            is_readable: map.protection.read,
            at,
            shows,
            populated: Vec::new(),
            own: Vec::new(),
            is_assumed: false,
        });
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
        let mut shown: Vec<_> = shared.flat_map(Window::visible).collect();
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

    /// Returns the end of the object, or that of its mappings if they show less. `is_there` reports whether a page of a
    /// process can be read.
    pub(super) fn end(&self, mut is_there: impl FnMut(usize, Address) -> bool) -> Address {
        let known = self.windows.iter().filter(|window| !window.is_assumed);
        let known = known.flat_map(|window| window.populated.iter().map(|range| window.offsets_of(*range).end()));
        let known = known.max().unwrap_or(Address::new(0));
        let beyond = |range: PageRange| Some(PageRange::between(range.start().max(known), range.end().max(known)));
        let visible = in_order(self.windows.iter().flat_map(Window::visible)).into_iter().filter_map(beyond);
        let visible: Vec<PageRange> = visible.filter(|range| range.pages() > 0).collect();
        let mut reads = |page: PageRange| {
            let window = self.windows.iter().find(|window| window.could_show(page));
            window.is_some_and(|window| is_there(window.process, window.addresses_of(page).start()))
        };
        let total = visible.iter().map(|range| range.pages()).sum();
        let (mut inside, mut outside) = (0, total + 1);
        // The first question is about the last page, since most mappings are as long as their objects.
        let mut next = total;
        while outside - inside > 1 {
            let page = page_at(&visible, next - 1).expect("it is one of these pages");
            if reads(page) {
                inside = next
            } else {
                outside = next
            }
            next = inside.midpoint(outside);
        }
        // If no page can be read, not even one that is there, nothing is known.
        let last_known = known.get().checked_sub(PAGE_BYTES as u64).map(|start| PageRange::new(Address::new(start), 1));
        let is_readable = self.windows.iter().any(|window| window.is_readable);
        if inside == 0 && !is_readable && !last_known.is_some_and(reads) {
            return visible.last().map_or(known, |range| range.end());
        }
        inside.checked_sub(1).and_then(|last| page_at(&visible, last)).map_or(known, |page| page.end())
    }

    /// Returns the offsets before `end` that hold something, ascending; each range can be read in one window.
    pub(super) fn contents(&self, end: Address) -> Vec<PageRange> {
        let offsets =
            |window: &'_ Window| window.populated.iter().map(|range| window.offsets_of(*range)).collect::<Vec<_>>();
        let all = PageRange::between(Address::new(0), end);
        in_order(self.windows.iter().flat_map(offsets).filter_map(|range| all.common(range)))
    }

    pub(super) fn read(&self, memories: &[&ProcessMemory], range: PageRange, into: &mut [u8]) -> io::Result<()> {
        let window = self.windows.iter().find(|window| window.sees(range)).expect("contents come from a window");
        memories[window.process].read(window.addresses_of(range).start(), into)
    }
}

/// Returns these ranges, which may overlap, ascending and without pages that an earlier one has.
fn in_order(ranges: impl Iterator<Item = PageRange>) -> Vec<PageRange> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start());
    let mut ordered: Vec<PageRange> = Vec::new();
    let mut end = Address::new(0);
    for range in ranges {
        if range.end() > end {
            ordered.push(PageRange::between(range.start().max(end), range.end()));
            end = range.end();
        }
    }
    ordered
}

/// Returns the page with this number among those of `ranges`.
fn page_at(ranges: &[PageRange], number: u64) -> Option<PageRange> {
    let mut before = 0;
    let range = ranges.iter().find(|range| {
        before += range.pages();
        before > number
    })?;
    let (_, rest) = range.split_at(range.pages() - (before - number));
    Some(rest.split_at(1).0)
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
        let (populated, own) = (populated.to_vec(), own.to_vec());
        Window { process: 0, shared, is_readable: true, at, shows, populated, own, is_assumed: false }
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
        assert_eq!(windows.contents(pages(1000, 0).start()), [pages(0, 2), pages(2, 3)]);
        assert_eq!(windows.contents(pages(3, 1).start()), [pages(0, 2), pages(2, 1)]);
        assert!(windows.windows[0].sees(pages(2, 3)) && !windows.windows[0].sees(pages(1, 1)));
        assert_eq!(windows.hidden(), None, "the shared window shows what lies beneath");
    }

    /// Returns the end that is found of an object of this length, in pages, and how many questions that takes.
    fn end_of(windows: &[Window], length: u64) -> (u64, usize) {
        let windows = Windows { windows: windows.to_vec() };
        let mut asked = 0;
        let end = windows.end(|_, address| {
            asked += 1;
            // All windows show what is 100 pages before.
            address < pages(100 + length, 1).start()
        });
        (end.get() / 4096, asked)
    }

    #[test]
    fn the_end_is_found_and_mostly_without_a_question() {
        let whole = |populated: &[PageRange]| window(true, pages(100, 64), 0, populated, &[]);
        assert_eq!(end_of(&[whole(&[pages(101, 1), pages(163, 1)])], 64), (64, 0));
        assert_eq!(end_of(&[whole(&[pages(101, 1)])], 64), (64, 1));
        for length in 0..64 {
            let written = [pages(100, length / 2)];
            let written = if length < 2 { &[] } else { &written[..] };
            let (end, asked) = end_of(&[whole(written)], length);
            assert!(end == length && asked <= 8, "{end} instead of {length} after {asked} questions");
        }
    }

    #[test]
    fn the_end_lies_between_windows_or_behind_them() {
        let windows = [window(true, pages(110, 3), 10, &[], &[]), window(false, pages(100, 4), 0, &[], &[])];
        for (length, end) in [(0, 0), (3, 3), (4, 4), (7, 4), (10, 4), (11, 11), (13, 13), (50, 13)] {
            assert_eq!(end_of(&windows, length).0, end, "of {length}");
        }
    }

    #[test]
    fn the_end_is_not_sought_under_guards_nor_believed_if_all_pages_are_read() {
        let guarded = window(true, pages(100, 8), 0, &[], &[pages(106, 2)]);
        assert_eq!(end_of(&[guarded], 20).0, 6);
        let assumed = Window { is_assumed: true, ..window(true, pages(100, 8), 0, &[pages(100, 8)], &[]) };
        assert_eq!(end_of(&[assumed], 5).0, 5);
    }

    #[test]
    fn the_end_is_that_of_the_mappings_if_nothing_can_be_read() {
        let hidden =
            |populated: &[PageRange]| Window { is_readable: false, ..window(true, pages(100, 8), 0, populated, &[]) };
        for populated in [&[][..], &[pages(101, 2)]] {
            let windows = Windows { windows: vec![hidden(populated)] };
            assert_eq!(windows.end(|_, _| false), pages(8, 1).start());
        }
        assert_eq!(end_of(&[hidden(&[pages(101, 2)])], 3).0, 3);
        assert_eq!(end_of(&[hidden(&[])], 5).0, 5);
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
