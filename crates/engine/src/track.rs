//! What the engine remembers about a job's memory between checkpoints, so that the next checkpoint costs only what has
//! changed.
//!
//! A page is *unchanged* only if all of this holds: it is anonymous memory, its mapping has been tracked since the last
//! scan, it has not been written since then, it is in memory, and the last committed generation holds it. Everything
//! else is saved again, or compared by checksum. After an exec, for a moved or fresh mapping, and for a discarded page,
//! the page is not tracked or not in that generation.

mod adaptive;
mod bits;
mod dirty_estimate;
mod spaces;
mod windows;

pub(crate) use spaces::Tracks;

use crate::error::kernel;
use crate::pages::Pages;
use crate::reading::readers;
use crate::{EngineError, ProcessIdentity};
use adaptive::{Adaptive, Division};
use bits::Merging;
use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_linux::abi;
use standfast_linux::proc::Stat;
use standfast_linux::{WriteProtection, WrittenScan};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program with more than 1/MAPPINGS_SHARE of the mappings that it may have is not tracked, since tracking keeps
/// neighbouring mappings apart that the kernel would otherwise merge.
const MAPPINGS_SHARE: usize = 2;

/// Time to read a page and to compute its checksum.
const COMPARING_A_PAGE: Duration = Duration::from_nanos(600);
/// Comparing huge pages may take 1/COMPARING_SHARE of the program's time. If it takes more, they are tracked.
const COMPARING_SHARE: u32 = 30;

/// A tracked address space.
#[derive(Debug)]
pub(crate) struct Track {
    process: ProcessIdentity,
    protection: WriteProtection,
    /// Pages that the last committed generation holds.
    saved: PageSet,
    /// The number of the process in that generation.
    was: u32,
    /// The number of the process at the last scan.
    is: u32,
    /// Pages that the last scan saw; they become `saved` when its checkpoint is committed.
    seen: PageSet,
    /// Pages written since the last committed generation that only scans of uncommitted checkpoints reported.
    carried: PageSet,
    adaptive: Adaptive,
    /// Page faults of the process up to the last scan.
    faults: u64,
    /// Page faults between the last two scans.
    news: u64,
    /// Writes that have removed the protection from a page since the previous checkpoint.
    first_writes: u64,
    /// Number of pages that the last scan left to be compared.
    compared: u64,
    /// The time of that scan.
    looked: Option<Instant>,
    /// Whether the process has executed another program, so that nothing is tracked any more.
    lost: bool,
    merging: Merging,
    /// Pages of tracked mappings of files that the last scan left protected.
    protected: PageSet,
}

/// A mapping to scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The whole mapping, which will be tracked; for a stack, including the area into which it may grow.
    pub(crate) mapping: PageRange,
    /// The part that counts.
    pub(crate) live: PageRange,
    /// What is beneath its pages.
    pub(crate) backing_page: BackingPage,
    /// What the program has said about huge pages: that it wants them, or that it does not.
    pub(crate) wants_huge_pages: Option<bool>,
    /// Whether its pages are huge pages from the system's pool.
    pub(crate) is_of_pool: bool,
}

impl Place {
    /// Reports whether protection reveals what has been written. When a protected page of a file, or of the system's
    /// pool of huge pages, is discarded, a marker remains. The page that takes its place is then protected from the
    /// beginning. Until it is written, it looks like the old page, although it is not.
    fn is_trackable(&self) -> bool {
        self.backing_page == BackingPage::Zeros && !self.is_of_pool
    }
}

/// How to scan a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    /// The number of the process in the image.
    pub(crate) owner: u32,
    /// Page faults of the process so far.
    pub(crate) faults: u64,
    /// If the share of unchanged pages, in percent, is smaller than this, all count as changed.
    pub(crate) unchanged_percent_min: u8,
    /// Whether to compare what cannot be tracked. Huge pages are then also compared while they change, since tracking
    /// would split them.
    pub(crate) compares: bool,
    /// Whether the last scan was a moment ago, for the same checkpoint. Then this scan teaches nothing about the
    /// program.
    pub(crate) is_second: bool,
}

impl Track {
    /// Returns the page faults of the process since the last scan.
    fn faults_since_scan(&self) -> u64 {
        Stat::of(self.process.pid).map_or(0, |stat| stat.faults.saturating_sub(self.faults))
    }

    /// Reports whether a new program needs new tracking.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Scans the memory of a frozen process, and from now on tracks all of it that is worth tracking. For a mapping that
    /// cannot be tracked, `otherwise` lists the populated pages.
    pub(crate) fn scan(
        &mut self,
        how: Scan,
        places: &[Place],
        otherwise: impl Fn(&Place, &mut Vec<PageRange>) -> io::Result<()>,
    ) -> Result<Pages, EngineError> {
        let scanning = |source| kernel("scanning the program's pages", source);
        self.news = how.faults.saturating_sub(self.faults);
        self.faults += self.news;
        if !self.protection.is_asynchronous() {
            return self.scan_bits(how, places, otherwise).map_err(scanning);
        }
        let scan = WrittenScan::open(self.process.pid).map_err(scanning)?;
        let comparing_is_dear = !how.is_second && self.comparing_is_dear();
        let is_crowded = is_crowded(places);
        let mut found = Found::default();
        let mut pages = Pages::default();
        let mut untrackable = Vec::new();
        for place in places {
            // In the other mappings, everything may have been written.
            if place.is_trackable() {
                let held = scan.held(place.live).map_err(scanning)?;
                let huge = if how.compares && may_be_huge(place) { scan.huge(place.live) } else { Ok(vec![]) };
                let huge = huge.map_err(scanning)?;
                let mut division = self.adaptive.divide(place.live, &held.populated, &huge, comparing_is_dear);
                let compared = std::mem::take(&mut division.compared);
                self.scan_place(&scan, place, division, &held.swapped, is_crowded, &mut found).map_err(scanning)?;
                pages.compared.extend(compared.iter().map(|range| (*range, place.backing_page)));
                let [populated, compared] =
                    [&held.populated, &compared].map(|ranges| PageSet::of(ranges.iter().copied()));
                found.all.extend(populated.difference(&compared).ranges());
                pages.guarded.extend(held.guarded);
                pages.scanned.push(place.live);
            } else {
                let mut held = Vec::new();
                otherwise(place, &mut held).map_err(scanning)?;
                untrackable.extend(held.into_iter().map(|range| (range, place.backing_page)));
            }
        }
        self.compared = pages.compared.iter().map(|(range, _)| range.pages()).sum();
        self.sort(how, found, &mut pages);
        // A process that is saved completely builds upon nothing.
        let rest = if how.compares && !pages.unchanged.is_empty() { &mut pages.compared } else { &mut pages.changed };
        rest.extend(untrackable);
        rest.sort_unstable_by_key(|(range, _)| range.start());
        Ok(pages)
    }

    /// Reports whether comparing the pages of the last scan would delay the program for too large a share of the time
    /// since then. Tracked writes delay the program too, the more so the shorter that time is. But each costs a
    /// microsecond, and pages that are not written cost nothing.
    fn comparing_is_dear(&mut self) -> bool {
        let since = self.looked.replace(Instant::now()).map(|then| then.elapsed());
        let takes = COMPARING_A_PAGE * u32::try_from(self.compared).unwrap_or(u32::MAX) / readers() as u32;
        since.is_some_and(|since| takes * COMPARING_SHARE > since)
    }

    /// Removes the protection from pages that were huge once and have not been written for long, so that the kernel can
    /// make them huge again. The caller must report the result with [`Track::note_collapsed`] before the next scan, at
    /// which these pages count as written or are compared.
    pub(crate) fn loosen_idle(&mut self) -> Vec<PageRange> {
        let (loose, fixed): (Vec<_>, _) =
            self.adaptive.idle().into_iter().partition(|unit| self.protection.unprotect(*unit).is_ok());
        fixed.into_iter().for_each(|unit: PageRange| self.adaptive.stays_split(unit));
        loose
    }

    /// Notes whether the kernel made a unit a huge page.
    pub(crate) fn note_collapsed(&mut self, unit: PageRange, worked: bool) {
        if !worked {
            self.adaptive.stays_split(unit);
        }
    }

    /// Notes which pages of one mapping may have been written, and protects the pages that need it. In a mapping that
    /// was not tracked, all may have been written; from now on it is tracked if possible.
    fn scan_place(
        &mut self,
        scan: &WrittenScan,
        place: &Place,
        division: Division,
        swapped: &[PageRange],
        is_crowded: bool,
        found: &mut Found,
    ) -> io::Result<()> {
        let Division { watched, hot, to_protect, .. } = division;
        match scan.written(&watched, &mut found.written)? {
            Some(()) => found.written.extend(swapped),
            None => {
                found.untracked.extend(&watched);
                if self.start_tracking(place, is_crowded) {
                    self.protect(scan, &watched)?;
                }
            }
        }
        let mut ignored = Vec::new();
        for hot in hot {
            let mut probe = Vec::new();
            let is_tracked = scan.written(&[hot.probe], &mut probe)?.is_some();
            if !is_tracked || probe.is_empty() {
                self.adaptive.cooled(hot);
                scan.written(&[hot.unit], &mut ignored)?;
            }
            found.untracked.push(hot.unit);
        }
        for range in to_protect {
            let is_tracked = scan.written(&[range], &mut ignored)?.is_some()
                || self.start_tracking(place, is_crowded) && self.protect(scan, &[range])?;
            if is_tracked {
                self.adaptive.protected(range);
                found.protected.push(range);
            }
        }
        Ok(())
    }

    /// Starts to track writes to a mapping; reports whether that succeeded.
    fn start_tracking(&mut self, place: &Place, is_crowded: bool) -> bool {
        if is_crowded || self.lost {
            return false;
        }
        let tracked = self.protection.track(place.mapping);
        let gone = |error: &io::Error| matches!(error.raw_os_error(), Some(abi::ENOMEM | abi::ESRCH));
        self.lost = tracked.as_ref().is_err_and(gone);
        tracked.is_ok()
    }

    /// Protects pages of a mapping that is tracked from now on, even if marks are left on them. Returns `false` if it
    /// cannot be tracked.
    fn protect(&self, scan: &WrittenScan, populated: &[PageRange]) -> io::Result<bool> {
        let mut unmarked = Vec::new();
        if scan.written(populated, &mut unmarked)?.is_none() {
            return Ok(false);
        }
        let marked = PageSet::of(populated.iter().copied()).difference(&PageSet::of(unmarked));
        marked.ranges().iter().try_for_each(|range| self.protection.protect(*range)).map(|()| true)
    }

    /// Excludes pages for which the checkpoint in progress does not hold the current contents. The next checkpoint that
    /// scans them finds them changed.
    pub(crate) fn disown(&mut self, pages: &PageSet) {
        self.seen = self.seen.difference(pages);
    }

    /// Notes which compared pages have changed.
    pub(crate) fn learn_compared(&mut self, changed: &PageSet) {
        self.adaptive.learn_compared(changed);
    }

    fn sort(&mut self, how: Scan, found: Found, pages: &mut Pages) {
        let Found { all, written, untracked, protected } = found;
        let written = PageSet::of(written);
        if !how.is_second {
            self.adaptive.learn(&written);
        }
        let tracked = PageSet::of(all);
        let before = std::mem::replace(&mut self.seen, tracked.union(&PageSet::of(protected)));
        // If the last scan's checkpoint was committed, what it saw has become `saved`.
        let first_writes = written.intersection(if before.is_empty() { &self.saved } else { &before }).pages();
        self.first_writes = if how.is_second { self.first_writes + first_writes } else { first_writes };
        let written = written.union(&PageSet::of(untracked));
        pages.still = tracked.difference(&written).intersection(&before);
        let written = written.union(&self.carried.intersection(&tracked));
        let mut unchanged = tracked.difference(&written).intersection(&self.saved);
        if unchanged.pages() * 100 < tracked.pages() * u64::from(how.unchanged_percent_min) {
            unchanged = PageSet::default();
        }
        self.is = how.owner;
        self.carried = self.carried.union(&self.seen.difference(&unchanged));
        pages.changed.extend(tracked.difference(&unchanged).ranges().iter().map(|range| (*range, BackingPage::Zeros)));
        (pages.unchanged, pages.was) = (unchanged, self.was);
    }
}

/// What a scan has found.
#[derive(Debug, Default)]
struct Found {
    /// All populated pages without a file beneath them that are not compared.
    all: Vec<PageRange>,
    /// Pages that have been written since the last scan.
    written: Vec<PageRange>,
    /// Pages for which it is unknown whether they were written.
    untracked: Vec<PageRange>,
    /// Pages that are compared this time, and tracked from now on.
    protected: Vec<PageRange>,
}

/// Reports whether to look for huge pages, which takes 0.6 ms for each GiB of small ones.
fn may_be_huge(place: &Place) -> bool {
    static EVERYWHERE: OnceLock<bool> = OnceLock::new();
    place.wants_huge_pages.unwrap_or_else(|| {
        *EVERYWHERE.get_or_init(|| {
            let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            mode.is_ok_and(|mode| mode.contains("[always]"))
        })
    })
}

/// Reports whether a process has too many mappings to track them.
fn is_crowded(places: &[Place]) -> bool {
    places.len() * MAPPINGS_SHARE > mappings_max()
}

/// Returns how many mappings a process may have.
fn mappings_max() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}
