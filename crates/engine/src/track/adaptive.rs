//! What has been learnt about units of 2 MiB: which of them are not worth protecting. Pure: the scanning is done
//! elsewhere.
//!
//! ```text
//! small pages:  all of it written twice in succession -> *hot*: left unprotected, counts as written, as long as one page
//!               of it, the probe, which is protected, is written every time
//! a huge page:  *compared* by checksum, since protecting it would split it at the next write -> unchanged three times in
//!               succession -> protected; if it is written after all, it is split into small pages
//! split pages:  not written for a while -> idle: made a huge page again; each time that it is split again, that while
//!               is twice as long
//! ```
//!
//! Whatever is learnt, right or wrong, costs only time, not correctness: what is not protected counts as written or is
//! compared.

use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use std::collections::BTreeMap;

/// Size of a huge page on this architecture.
const UNIT_BYTES: u64 = 2 << 20;
const UNIT_PAGES: u64 = UNIT_BYTES / PAGE_BYTES as u64;
/// Number of scans that must find a huge page unchanged before it is protected.
const UNCHANGED_SCANS: u8 = 3;
/// Number of scans that must find a split huge page unwritten before it is made huge again. Each further split doubles
/// it.
const IDLE_SCANS: u32 = 4;
/// Number of splits after which that number grows no more.
const SPLITS_MAX: u8 = 10;
/// Number of pages that are made huge at a time. The program is frozen meanwhile, 0.2 ms for each.
const COLLAPSED_MAX: usize = 16;
/// Number of scans after which a hot unit must prove again that it is hot.
const HOT_SCANS_MAX: u8 = 64;

/// What is known about the units of one address space, by number. Nothing is known about units that are not listed.
#[derive(Debug, Default)]
pub(super) struct Adaptive {
    units: BTreeMap<u64, UnitState>,
    /// Units whose pages were all written at the last scan.
    full: Vec<u64>,
    /// Scatters the probes.
    scans: u64,
    /// Huge pages that have become small ones since they were protected.
    split: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitState {
    /// Small pages, all of which are written repeatedly.
    Hot { probe: u64, scans: u8 },
    /// A huge page, and how often in succession it was found unchanged.
    Compared { unchanged: u8, splits: u8 },
    /// A huge page that is hardly ever written.
    Protected { splits: u8 },
    /// Small pages that were a huge one, and the number of scans since they were last written.
    Split { idle: u32, splits: u8 },
}

/// How to scan the populated pages of a mapping.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Division {
    /// Pages to protect, ascending.
    pub(super) watched: Vec<PageRange>,
    /// Hot units, each with its probe.
    pub(super) hot: Vec<Hot>,
    /// Pages to compare, ascending.
    pub(super) compared: Vec<PageRange>,
    /// Those of `compared` that will be protected from now on.
    pub(super) to_protect: Vec<PageRange>,
}

/// A unit that is written repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hot {
    pub(super) unit: PageRange,
    pub(super) probe: PageRange,
}

impl Adaptive {
    /// Divides the populated pages of `live`; those in `huge` are on huge pages. If comparing is too expensive, huge
    /// pages are protected however often they have changed.
    pub(super) fn divide(
        &mut self,
        live: PageRange,
        populated: &[PageRange],
        huge: &[PageRange],
        comparing_is_dear: bool,
    ) -> Division {
        let mut division = Division::default();
        let populated = PageSet::of(populated.iter().copied());
        let huge: Vec<u64> = huge.iter().flat_map(|range| units_in(*range)).collect();
        self.renew(live, &populated, &huge);
        for unit in &huge {
            let state = self.units.entry(*unit).or_insert(UnitState::Compared { unchanged: 0, splits: 0 });
            if let UnitState::Compared { unchanged, .. } = *state {
                division.compared.push(pages_of(*unit));
                if unchanged >= UNCHANGED_SCANS || comparing_is_dear {
                    division.to_protect.push(pages_of(*unit));
                }
            }
        }
        for (unit, state) in self.units.range(numbers(live)) {
            if let UnitState::Hot { probe, .. } = state {
                let pages = pages_of(*unit);
                let probe = PageRange::new(pages.start().plus(probe * PAGE_BYTES as u64), 1);
                division.hot.push(Hot { unit: pages, probe });
            }
        }
        let unwatched = division.compared.iter().copied().chain(division.hot.iter().map(|hot| hot.unit));
        division.watched = populated.difference(&PageSet::of(unwatched)).ranges().to_vec();
        division
    }

    /// Updates what is known about the units in `live` to their present state.
    fn renew(&mut self, live: PageRange, populated: &PageSet, huge: &[u64]) {
        let known: Vec<(u64, UnitState)> =
            self.units.range(numbers(live)).map(|(unit, state)| (*unit, *state)).collect();
        let populated = populated.ranges().iter().filter(|_| !known.is_empty());
        let whole: Vec<u64> = populated.flat_map(|range| units_in(*range)).collect();
        for (unit, state) in known {
            let is_huge = huge.binary_search(&unit).is_ok();
            let is_small = !is_huge && whole.binary_search(&unit).is_ok();
            let now = match state {
                UnitState::Hot { .. } => is_small.then_some(state),
                UnitState::Compared { .. } | UnitState::Protected { .. } if is_huge => Some(state),
                UnitState::Compared { .. } => None,
                UnitState::Protected { splits } => {
                    self.split += 1;
                    is_small.then_some(UnitState::Split { idle: 0, splits })
                }
                UnitState::Split { splits, .. } if is_huge => {
                    self.split -= 1;
                    Some(UnitState::Compared { unchanged: 0, splits: (splits + 1).min(SPLITS_MAX) })
                }
                UnitState::Split { .. } => is_small.then_some(state),
            };
            match now {
                Some(now) => _ = self.units.insert(unit, now),
                None => _ = self.units.remove(&unit),
            }
        }
    }

    /// Returns how many huge pages have been split since they were protected, except those that are huge again.
    pub(super) fn split(&self) -> u64 {
        self.split
    }

    /// Returns a few units that were huge pages and could become huge again, since they are no longer written.
    pub(super) fn idle(&self) -> Vec<PageRange> {
        let is_idle = |state: &UnitState| matches!(state, UnitState::Split { idle, splits } if *idle >= IDLE_SCANS << splits.min(&SPLITS_MAX));
        let idle = self.units.iter().filter(|(_, state)| is_idle(state));
        idle.map(|(unit, _)| pages_of(*unit)).take(COLLAPSED_MAX).collect()
    }

    /// Notes that an idle unit cannot be made a huge page.
    pub(super) fn stays_split(&mut self, unit: PageRange) {
        self.units.remove(&number(unit));
    }

    /// Notes that a hot unit is no longer hot.
    pub(super) fn cooled(&mut self, hot: Hot) {
        self.units.remove(&number(hot.unit));
    }

    /// Notes that a compared unit has been protected.
    pub(super) fn protected(&mut self, range: PageRange) {
        for unit in units_in(range) {
            let splits = match self.units.get(&unit) {
                Some(UnitState::Compared { splits, .. }) => *splits,
                _ => 0,
            };
            self.units.insert(unit, UnitState::Protected { splits });
        }
    }

    /// Notes which of the watched pages a scan has found written.
    pub(super) fn learn(&mut self, written: &PageSet) {
        self.scans += 1;
        let touched: Vec<u64> = written.ranges().iter().flat_map(|range| numbers(*range)).collect();
        for (unit, state) in &mut self.units {
            match state {
                UnitState::Hot { scans, .. } => *scans += 1,
                UnitState::Split { idle, .. } if touched.binary_search(unit).is_ok() => *idle = 0,
                UnitState::Split { idle, .. } => *idle = idle.saturating_add(1),
                UnitState::Compared { .. } | UnitState::Protected { .. } => {}
            }
        }
        self.units.retain(|_, state| !matches!(state, UnitState::Hot { scans: HOT_SCANS_MAX.., .. }));
        let full: Vec<u64> = written.ranges().iter().flat_map(|range| units_in(*range)).collect();
        for unit in full.iter().filter(|unit| self.full.binary_search(unit).is_ok()) {
            // A factor and a divisor without a common divisor reach all pages.
            let probe = (self.scans * 149 + unit * 61) % UNIT_PAGES;
            if matches!(self.units.get(unit), None | Some(UnitState::Split { .. })) {
                self.units.insert(*unit, UnitState::Hot { probe, scans: 0 });
            }
        }
        self.full = full;
    }

    /// Notes which of the compared pages had changed.
    pub(super) fn learn_compared(&mut self, changed: &PageSet) {
        let changed: Vec<u64> = changed.ranges().iter().flat_map(|range| numbers(*range)).collect();
        for (unit, state) in &mut self.units {
            if let UnitState::Compared { unchanged, .. } = state {
                *unchanged = if changed.binary_search(unit).is_ok() { 0 } else { unchanged.saturating_add(1) };
            }
        }
    }
}

fn number(unit: PageRange) -> u64 {
    unit.start().get() / UNIT_BYTES
}

fn pages_of(unit: u64) -> PageRange {
    PageRange::new(Address::new(unit * UNIT_BYTES), UNIT_PAGES)
}

/// Returns the units of which a range has at least one page.
fn numbers(range: PageRange) -> std::ops::Range<u64> {
    range.start().get() / UNIT_BYTES..range.end().get().div_ceil(UNIT_BYTES)
}

/// Returns the units of which a range has all pages.
fn units_in(range: PageRange) -> std::ops::Range<u64> {
    let (first, end) = (range.start().get().div_ceil(UNIT_BYTES), range.end().get() / UNIT_BYTES);
    first..end.max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(first: u64, units: u64) -> PageRange {
        PageRange::new(Address::new(first * UNIT_BYTES), units * UNIT_PAGES)
    }

    fn some_pages(unit: u64, first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(unit * UNIT_BYTES + first * PAGE_BYTES as u64), pages)
    }

    fn divided(adaptive: &mut Adaptive, written: &[PageRange]) -> Division {
        let division = adaptive.divide(units(0, 8), &[units(0, 8)], &[], false);
        adaptive.learn(&PageSet::of(written.iter().copied()));
        division
    }

    #[test]
    fn fully_written_stretches_stay_unprotected_until_they_cool() {
        let mut adaptive = Adaptive::default();
        let written = [units(1, 2), some_pages(5, 0, UNIT_PAGES - 1)];
        assert_eq!(divided(&mut adaptive, &written).watched, [units(0, 8)]);
        assert_eq!(divided(&mut adaptive, &written).hot, []);
        let division = divided(&mut adaptive, &[units(6, 1)]);
        assert_eq!(division.hot.iter().map(|hot| hot.unit).collect::<Vec<_>>(), [units(1, 1), units(2, 1)]);
        assert_eq!(division.watched, [units(0, 1), units(3, 5)]);
        assert!(division.hot.iter().all(|hot| hot.unit.common(hot.probe) == Some(hot.probe)));
        adaptive.cooled(division.hot[1]);
        assert_eq!(divided(&mut adaptive, &[]).watched, [units(0, 1), units(2, 6)]);
    }

    #[test]
    fn hot_stretches_need_two_scans_in_a_row_and_expire() {
        let mut adaptive = Adaptive::default();
        divided(&mut adaptive, &[units(3, 1)]);
        divided(&mut adaptive, &[]);
        divided(&mut adaptive, &[units(3, 1)]);
        assert_eq!(divided(&mut adaptive, &[units(3, 1)]).hot, []);
        let hot_for = (0..200).take_while(|_| !divided(&mut adaptive, &[]).hot.is_empty()).count();
        assert_eq!(hot_for, usize::from(HOT_SCANS_MAX));
    }

    #[test]
    fn a_partly_unmapped_hot_stretch_is_forgotten() {
        let mut adaptive = Adaptive::default();
        (0..2).for_each(|_| _ = divided(&mut adaptive, &[units(3, 1)]));
        let populated = [units(0, 3), some_pages(3, 7, 20)];
        assert_eq!(adaptive.divide(units(0, 8), &populated, &[], false).watched, populated);
        assert_eq!(divided(&mut adaptive, &[]).hot, []);
    }

    #[test]
    fn huge_pages_are_compared_until_unchanged_and_then_watched() {
        let mut adaptive = Adaptive::default();
        let all = [units(0, 8)];
        let changes = PageSet::of([some_pages(2, 5, 1)]);
        for scan in 0..UNCHANGED_SCANS {
            let division = adaptive.divide(all[0], &all, &all, false);
            assert_eq!(
                (PageSet::of(division.compared), division.to_protect),
                (PageSet::of(all), vec![]),
                "look {scan}"
            );
            adaptive.learn_compared(&changes);
        }
        let division = adaptive.divide(all[0], &all, &all, false);
        assert_eq!(PageSet::of(division.to_protect.iter().copied()), PageSet::of([units(0, 2), units(3, 5)]));
        division.to_protect.into_iter().for_each(|range| adaptive.protected(range));
        let division = adaptive.divide(all[0], &all, &all, false);
        assert_eq!((division.compared, division.watched), (vec![units(2, 1)], vec![units(0, 2), units(3, 5)]));
        let split = adaptive.divide(all[0], &all, &[units(0, 1)], false);
        assert_eq!((split.compared, split.watched), (vec![], all.to_vec()), "small pages are watched");
        assert_eq!(adaptive.split(), 6, "one still is huge, and one never was protected");
    }

    /// Returns one huge page that was written despite its protection, after `idle_scans` scans without another write.
    fn split_once(idle_scans: u32) -> Adaptive {
        let (mut adaptive, unit) = (Adaptive::default(), units(3, 1));
        adaptive.divide(unit, &[unit], &[unit], true);
        adaptive.protected(unit);
        adaptive.divide(unit, &[unit], &[], false);
        adaptive.learn(&PageSet::of([some_pages(3, 7, 1)]));
        (0..idle_scans).for_each(|_| adaptive.learn(&PageSet::default()));
        adaptive
    }

    #[test]
    fn idle_split_pages_become_huge_again_after_growing_delays() {
        let unit = units(3, 1);
        assert_eq!(split_once(IDLE_SCANS - 1).idle(), []);
        let mut adaptive = split_once(IDLE_SCANS);
        assert_eq!((adaptive.idle(), adaptive.split()), (vec![unit], 1));
        assert_eq!(adaptive.divide(unit, &[unit], &[unit], false).compared, [unit], "it is huge");
        assert_eq!((adaptive.idle(), adaptive.split()), (vec![], 0));
        adaptive.protected(unit);
        adaptive.divide(unit, &[unit], &[], false);
        (0..IDLE_SCANS).for_each(|_| adaptive.learn(&PageSet::default()));
        assert_eq!(adaptive.idle(), [], "it has been split twice");
        (0..IDLE_SCANS).for_each(|_| adaptive.learn(&PageSet::default()));
        assert_eq!(adaptive.idle(), [unit]);
        adaptive.stays_split(unit);
        assert_eq!((adaptive.idle(), adaptive.split()), (vec![], 1));
    }

    #[test]
    fn a_write_restarts_the_idle_wait_and_costly_comparing_skips_it() {
        let mut adaptive = split_once(IDLE_SCANS - 1);
        adaptive.learn(&PageSet::of([some_pages(3, 100, 1)]));
        adaptive.learn(&PageSet::default());
        assert_eq!(adaptive.idle(), []);
        let all = [units(0, 8)];
        assert_eq!(Adaptive::default().divide(all[0], &all, &all, false).to_protect, []);
        let division = Adaptive::default().divide(all[0], &all, &all, true);
        assert_eq!(PageSet::of(division.to_protect), PageSet::of(all));
    }
}
