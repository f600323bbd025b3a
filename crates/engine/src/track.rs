//! What the engine remembers of a job's memory between checkpoints, so that the next one costs what has changed.
//!
//! A page is *unchanged* only if all of this holds: it is anonymous memory, its mapping has been tracked since the
//! last look, it has not been written since, it is in memory, and the last committed generation holds it. Everything else
//! is saved again, or compared by checksum. A new program in the process, a moved or fresh mapping, a page that was
//! discarded: none of them is tracked, or not in that generation.

mod adaptive;
mod dirty_estimate;
mod spaces;
mod windows;

pub(crate) use spaces::Tracks;

use crate::error::kernel;
use crate::pages::Pages;
use crate::reading::readers;
use crate::{EngineError, ProcessIdentity};
use adaptive::{Adaptive, Division};
use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_linux::proc::Stat;
use standfast_linux::{SoftDirty, WriteProtection, WrittenScan};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program with this share of the mappings that it may have is not tracked, since tracking keeps neighbours apart
/// that would else be one.
const MAPPINGS_SHARE: usize = 2;

/// What it takes to read a page and to take its checksum.
const COMPARING_A_PAGE: Duration = Duration::from_nanos(600);
/// Comparing huge pages may take 1/COMPARING_SHARE of the program's time. Beyond that they are tracked.
const COMPARING_SHARE: u32 = 30;

/// A tracked address space.
#[derive(Debug)]
pub(crate) struct Track {
    process: ProcessIdentity,
    /// `None` where soft-dirty bits tell.
    protection: Option<WriteProtection>,
    /// What the last committed generation holds.
    saved: PageSet,
    /// The number that the process has there.
    was: u32,
    /// The number that it had at the last look.
    is: u32,
    /// What the last look saw; saved when its checkpoint is committed.
    seen: PageSet,
    /// Written since the last committed generation, and told only to looks whose checkpoint was not committed.
    carried: PageSet,
    adaptive: Adaptive,
    /// Page faults of the process up to the last look.
    faults: u64,
    /// How many of them had come since the look before.
    news: u64,
    /// Writes that have taken the protection off a page, since the checkpoint before.
    first_writes: u64,
    /// Pages that were to be compared at the last look.
    compared: u64,
    /// When that was.
    looked: Option<Instant>,
    /// Whether the process has executed another program: nothing is tracked any more.
    lost: bool,
}

/// A mapping to look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// All of it, to be tracked; of a stack also where it may grow to.
    pub(crate) mapping: PageRange,
    /// The part that counts.
    pub(crate) live: PageRange,
    /// What lies beneath its pages.
    pub(crate) backing_page: BackingPage,
    /// What the program has said about huge pages: that it wants them, or that it wants none.
    pub(crate) wants_huge_pages: Option<bool>,
    /// Whether its pages are huge pages from the system's pool.
    pub(crate) is_of_pool: bool,
}

impl Place {
    /// Whether protection tells what has been written. A protected page of a file, or of the system's pool of huge pages, that
    /// is discarded leaves a marker behind, by which the page that takes its place is protected from birth: until it is
    /// written again it looks like the old one, which it is not.
    fn is_trackable(&self) -> bool {
        self.backing_page == BackingPage::Zeros && !self.is_of_pool
    }
}

/// How a process is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    /// The number that it has in the image.
    pub(crate) owner: u32,
    /// Its page faults so far.
    pub(crate) faults: u64,
    /// Where less than this share of its pages has not changed, in percent, all count as changed.
    pub(crate) unchanged_percent_min: u8,
    /// Whether what cannot be tracked is compared, and huge pages as well as long as they change, rather than tracked and
    /// so split.
    pub(crate) compares: bool,
    /// Whether the last look was a moment ago, for the same checkpoint: nothing can be learnt of how the program is then.
    pub(crate) is_second: bool,
}

impl Track {
    /// Page faults of the process since the last look.
    fn faults_since_scan(&self) -> u64 {
        Stat::of(self.process.pid).map_or(0, |stat| stat.faults.saturating_sub(self.faults))
    }

    /// Whether a new program needs new tracking.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Looks at the memory of a process that stands still, and from now on tracks all of it that is worth it. `otherwise`
    /// lists the populated pages where a mapping cannot be tracked.
    pub(crate) fn scan(
        &mut self,
        how: Scan,
        places: &[Place],
        otherwise: impl Fn(&Place, &mut Vec<PageRange>) -> io::Result<()>,
    ) -> Result<Pages, EngineError> {
        let scanning = |source| kernel("scanning the program's pages", source);
        self.news = how.faults.saturating_sub(self.faults);
        self.faults += self.news;
        if self.protection.is_none() {
            return self.scan_bits(how, places, otherwise).map_err(scanning);
        }
        let scan = WrittenScan::open(self.process.pid).map_err(scanning)?;
        let comparing_is_dear = !how.is_second && self.comparing_is_dear();
        let is_crowded = places.len() * MAPPINGS_SHARE > mappings_max();
        let mut found = Found::default();
        let mut pages = Pages::default();
        let mut untrackable = Vec::new();
        for place in places {
            // Of the others everything may have been written.
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
        // A process that is saved whole builds upon nothing.
        let rest = if how.compares && !pages.unchanged.is_empty() { &mut pages.compared } else { &mut pages.changed };
        rest.extend(untrackable);
        rest.sort_unstable_by_key(|(range, _)| range.start());
        Ok(pages)
    }

    /// The same by soft-dirty bits, which all begin again.
    fn scan_bits(
        &mut self,
        how: Scan,
        places: &[Place],
        populated: impl Fn(&Place, &mut Vec<PageRange>) -> io::Result<()>,
    ) -> io::Result<Pages> {
        let bits = SoftDirty::open(self.process.pid)?;
        let (mut found, mut pages, mut untrackable) = (Found::default(), Pages::default(), Vec::new());
        for place in places {
            let mut held = Vec::new();
            populated(place, &mut held)?;
            match place.is_trackable() {
                true => found.all.extend(held),
                false => untrackable.extend(held.into_iter().map(|range| (range, place.backing_page))),
            }
        }
        bits.written(&found.all, &mut found.written)?;
        self.sort(how, found, &mut pages);
        pages.changed.extend(untrackable);
        pages.changed.sort_unstable_by_key(|(range, _)| range.start());
        bits.clear()?;
        Ok(pages)
    }

    /// Whether the comparison of what was compared at the last look would hold the program up for too large a share of the
    /// time since. Writes that the kernel tells of hold it up as well, the more the shorter that time is; but each costs a
    /// microsecond, and pages that are not written cost nothing.
    fn comparing_is_dear(&mut self) -> bool {
        let since = self.looked.replace(Instant::now()).map(|then| then.elapsed());
        let takes = COMPARING_A_PAGE * u32::try_from(self.compared).unwrap_or(u32::MAX) / readers() as u32;
        since.is_some_and(|since| takes * COMPARING_SHARE > since)
    }

    /// Takes the protection off pages that were huge once and have not been written for long, so that the kernel can make
    /// them huge again; what comes of it is to be told with [`Track::note_collapsed`] before the next look, at which they
    /// count as written, or are compared.
    pub(crate) fn loosen_idle(&mut self) -> Vec<PageRange> {
        let (loose, fixed): (Vec<_>, _) =
            self.adaptive.idle().into_iter().partition(|unit| {
                self.protection.as_ref().is_some_and(|protection| protection.unprotect(*unit).is_ok())
            });
        fixed.into_iter().for_each(|unit: PageRange| self.adaptive.stays_split(unit));
        loose
    }

    /// Whether a unit could be made a huge page.
    pub(crate) fn note_collapsed(&mut self, unit: PageRange, worked: bool) {
        if !worked {
            self.adaptive.stays_split(unit);
        }
    }

    /// Notes which pages of one mapping may have been written, and protects what is to be protected. Of a mapping that was
    /// not tracked all may have been; from now on it is tracked if it can be.
    fn scan_place(
        &mut self,
        scan: &WrittenScan,
        place: &Place,
        division: Division,
        swapped: &[PageRange],
        is_crowded: bool,
        found: &mut Found,
    ) -> io::Result<()> {
        let Division { watched, hot, calm, .. } = division;
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
            let mut canary = Vec::new();
            let is_tracked = scan.written(&[hot.canary], &mut canary)?.is_some();
            if !is_tracked || canary.is_empty() {
                self.adaptive.cooled(hot);
                scan.written(&[hot.unit], &mut ignored)?;
            }
            found.untracked.push(hot.unit);
        }
        for calm in calm {
            let is_tracked = scan.written(&[calm], &mut ignored)?.is_some()
                || self.start_tracking(place, is_crowded) && self.protect(scan, &[calm])?;
            if is_tracked {
                self.adaptive.protected(calm);
                found.protected.push(calm);
            }
        }
        Ok(())
    }

    /// Starts to track writes to a mapping; whether that could be done.
    fn start_tracking(&mut self, place: &Place, is_crowded: bool) -> bool {
        let Some(protection) = self.protection.as_ref().filter(|_| !is_crowded && !self.lost) else { return false };
        let tracked = protection.track(place.mapping);
        let gone = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ESRCH));
        self.lost = tracked.as_ref().is_err_and(gone);
        tracked.is_ok()
    }

    /// Protects pages of a mapping that is tracked from now on, whatever marks are left on them; `false`
    /// where it cannot be tracked.
    fn protect(&self, scan: &WrittenScan, populated: &[PageRange]) -> io::Result<bool> {
        let mut unmarked = Vec::new();
        if scan.written(populated, &mut unmarked)?.is_none() {
            return Ok(false);
        }
        let marked = PageSet::of(populated.iter().copied()).difference(&PageSet::of(unmarked));
        let Some(protection) = &self.protection else { return Ok(false) };
        marked.ranges().iter().try_for_each(|range| protection.protect(*range)).map(|()| true)
    }

    /// Pages of which the checkpoint under way does not hold what they hold now: the next one that looks at them finds them
    /// changed.
    pub(crate) fn disown(&mut self, pages: &PageSet) {
        self.seen = self.seen.difference(pages);
    }

    /// Takes note of which compared pages have changed.
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
        // What the last look saw has become what is saved, if that was committed.
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

/// What a look has found.
#[derive(Debug, Default)]
struct Found {
    /// All pages of memory that no file is beneath that hold something and are not compared.
    all: Vec<PageRange>,
    /// Pages that have been written since the last look.
    written: Vec<PageRange>,
    /// Pages of which that is not known.
    untracked: Vec<PageRange>,
    /// Pages that are compared this time, and tracked from now on.
    protected: Vec<PageRange>,
}

/// Whether huge pages are to be looked for: that takes 0.6 ms for each GiB of small ones.
fn may_be_huge(place: &Place) -> bool {
    static EVERYWHERE: OnceLock<bool> = OnceLock::new();
    place.wants_huge_pages.unwrap_or_else(|| {
        *EVERYWHERE.get_or_init(|| {
            let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            mode.is_ok_and(|mode| mode.contains("[always]"))
        })
    })
}

/// How many mappings a process may have.
fn mappings_max() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}
