//! Scans with soft-dirty bits, for kernels without PAGEMAP_SCAN.
//!
//! A page that was written has its bit, but a page without it may be another one than before. The kernel leaves the bit
//! off in four cases, and such pages are not trusted here:
//!
//! - mremap(2) moves whole page tables, or a new mapping has been merged with an old one: the mapping is not the one that
//!   was registered with our userfaultfd.
//! - A discarded page has been read: the kernel's page of zeros is not mapped exclusively.
//! - A page of a fork is shared: neither is this one.
//! - KSM has replaced the page: nothing is trusted while KSM has merged pages, or could have since the last scan.

use super::{Found, Place, Scan, Track, is_crowded};
use crate::pages::Pages;
use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_linux::{SoftDirty, abi};
use std::io;

impl Track {
    /// Does the same as [`Track::scan`] with soft-dirty bits, and clears all of them.
    pub(super) fn scan_bits(
        &mut self,
        how: Scan,
        places: &[Place],
        populated: impl Fn(&Place, &mut Vec<PageRange>) -> io::Result<()>,
    ) -> io::Result<Pages> {
        let bits = SoftDirty::open(self.process.pid)?;
        let is_crowded = is_crowded(places);
        let may_be_merged = self.merging.may_have_merged();
        let (mut found, mut pages, mut untrackable) = (Found::default(), Pages::default(), Vec::new());
        for place in places {
            if !place.is_trackable() {
                let mut held = Vec::new();
                populated(place, &mut held)?;
                untrackable.extend(held.into_iter().map(|range| (range, place.backing_page)));
                continue;
            }
            let held = bits.held(place.live)?;
            let is_known = self.is_still_tracked(&held.populated)?;
            if !is_known {
                self.start_tracking(place, is_crowded);
            }
            if !is_known || may_be_merged {
                found.untracked.extend(&held.populated);
                found.all.extend(held.populated);
                continue;
            }
            found.written.extend(held.written);
            match how.compares {
                true => {
                    pages.compared.extend(held.doubtful.iter().map(|range| (*range, place.backing_page)));
                    let [all, doubtful] =
                        [&held.populated, &held.doubtful].map(|ranges| PageSet::of(ranges.iter().copied()));
                    found.all.extend(all.difference(&doubtful).ranges());
                }
                false => {
                    found.untracked.extend(held.doubtful);
                    found.all.extend(held.populated);
                }
            }
        }
        self.sort(how, found, &mut pages);
        // A process that is saved completely builds upon nothing.
        let rest = if how.compares && !pages.unchanged.is_empty() { &mut pages.compared } else { &mut pages.changed };
        rest.extend(untrackable);
        rest.sort_unstable_by_key(|(range, _): &(PageRange, BackingPage)| range.start());
        bits.clear()?;
        Ok(pages)
    }

    /// Reports whether a mapping with these populated pages is the one that was registered.
    fn is_still_tracked(&mut self, populated: &[PageRange]) -> io::Result<bool> {
        let Some(first) = populated.first() else { return Ok(true) };
        match self.protection.tracks(PageRange::new(first.start(), 1)) {
            Err(error) if error.raw_os_error() == Some(abi::ESRCH) => {
                self.lost = true;
                Ok(false)
            }
            other => other,
        }
    }
}

/// What KSM, which merges equal pages of programs, has done so far on the whole system.
#[derive(Debug, Default)]
pub(super) struct Merging {
    full_scans: Option<u64>,
}

impl Merging {
    /// Reports whether KSM may have replaced a page since this was last asked. Where it had merged no page and does not
    /// run, it must complete a scan before it can replace one.
    fn may_have_merged(&mut self) -> bool {
        let counter = |name| {
            let text = std::fs::read_to_string(format!("/sys/kernel/mm/ksm/{name}"));
            text.map(|text| text.trim().parse().unwrap_or(u64::MAX))
        };
        let is_zero = |name| matches!(counter(name), Ok(0));
        let Ok(full_scans) = counter("full_scans") else { return false };
        let before = self.full_scans.replace(full_scans);
        before != Some(full_scans) || !is_zero("run") || !is_zero("pages_shared")
    }
}
