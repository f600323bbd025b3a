//! What has been learnt of stretches of 2 MiB: which are not worth protecting. Pure; the looking is done elsewhere.
//!
//! ```text
//! small pages:  all of it written twice running -> *hot*: left unprotected, counts as written, as long as one page of it,
//!               the canary, which is protected, is written every time
//! a huge page:  *compared* by checksum, since protecting it would split it at the next write -> as it was, three times
//!               running -> protected; it is split should it be written after all, and is small pages then
//! split pages:  not written for a while -> idle: made a huge page again; each time that it is split again, the while
//!               is twice as long
//! ```
//!
//! Whatever is learnt, right or wrong, costs time and no truth: what is not protected has been written, or is compared.

use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use std::collections::BTreeMap;

/// What a huge page of this architecture holds.
const UNIT_BYTES: u64 = 2 << 20;
const UNIT_PAGES: u64 = UNIT_BYTES / PAGE_BYTES as u64;
/// So often must a huge page be found as it was before it is protected.
const CALM_LOOKS: u8 = 3;
/// So often must a huge page that was split be found unwritten before it is made one again; after each further split twice
/// as often.
const IDLE_LOOKS: u32 = 4;
/// The while does not become longer after so many.
const SPLITS_MAX: u8 = 10;
/// So many are made huge at a time: the program stands still for it, 0.2 ms for each.
const COLLAPSED_MAX: usize = 16;
/// After so many looks a hot stretch has to show again that it is one.
const HOT_LOOKS_MAX: u8 = 64;

/// What is known of the units of one address space, by number. Of units that are not listed there is nothing to know.
#[derive(Debug, Default)]
pub(super) struct Habits {
    units: BTreeMap<u64, Habit>,
    /// Units of which all pages were written at the last look.
    full: Vec<u64>,
    /// Scatters the canaries.
    looks: u64,
    /// Huge pages that are small ones since they were protected.
    split: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Small pages, all of which are written again and again.
    Hot { canary: u64, looks: u8 },
    /// A huge page, found as it was so many times running.
    Compared { calm: u8, splits: u8 },
    /// A huge page that hardly ever is written.
    Protected { splits: u8 },
    /// Small pages that were a huge one, and have not been written for so many looks.
    Split { idle: u32, splits: u8 },
}

/// How the populated pages of a mapping are to be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Division {
    /// To be protected, ascending.
    pub(super) watched: Vec<PageRange>,
    /// Hot units, each with its canary.
    pub(super) hot: Vec<Hot>,
    /// To be compared, ascending.
    pub(super) compared: Vec<PageRange>,
    /// Those of `compared` that are to be protected from now on.
    pub(super) calm: Vec<PageRange>,
}

/// A unit that is written again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hot {
    pub(super) unit: PageRange,
    pub(super) canary: PageRange,
}

impl Habits {
    /// Divides the populated pages of `live`, of which those of `huge` stand on huge pages. Where comparing is dear, huge
    /// pages are protected whether or not they are calm.
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
            let habit = self.units.entry(*unit).or_insert(Habit::Compared { calm: 0, splits: 0 });
            if let Habit::Compared { calm, .. } = *habit {
                division.compared.push(pages_of(*unit));
                if calm >= CALM_LOOKS || comparing_is_dear {
                    division.calm.push(pages_of(*unit));
                }
            }
        }
        for (unit, habit) in self.units.range(numbers(live)) {
            if let Habit::Hot { canary, .. } = habit {
                let pages = pages_of(*unit);
                let canary = PageRange::new(pages.start().plus(canary * PAGE_BYTES as u64), 1);
                division.hot.push(Hot { unit: pages, canary });
            }
        }
        let unwatched = division.compared.iter().copied().chain(division.hot.iter().map(|hot| hot.unit));
        division.watched = populated.difference(&PageSet::of(unwatched)).ranges().to_vec();
        division
    }

    /// Brings what is known of the units in `live` in line with what they are now.
    fn renew(&mut self, live: PageRange, populated: &PageSet, huge: &[u64]) {
        let known: Vec<(u64, Habit)> = self.units.range(numbers(live)).map(|(unit, habit)| (*unit, *habit)).collect();
        let populated = populated.ranges().iter().filter(|_| !known.is_empty());
        let whole: Vec<u64> = populated.flat_map(|range| units_in(*range)).collect();
        for (unit, habit) in known {
            let is_huge = huge.binary_search(&unit).is_ok();
            let is_small = !is_huge && whole.binary_search(&unit).is_ok();
            let now = match habit {
                Habit::Hot { .. } => is_small.then_some(habit),
                Habit::Compared { .. } | Habit::Protected { .. } if is_huge => Some(habit),
                Habit::Compared { .. } => None,
                Habit::Protected { splits } => {
                    self.split += 1;
                    is_small.then_some(Habit::Split { idle: 0, splits })
                }
                Habit::Split { splits, .. } if is_huge => {
                    self.split -= 1;
                    Some(Habit::Compared { calm: 0, splits: (splits + 1).min(SPLITS_MAX) })
                }
                Habit::Split { .. } => is_small.then_some(habit),
            };
            match now {
                Some(now) => _ = self.units.insert(unit, now),
                None => _ = self.units.remove(&unit),
            }
        }
    }

    /// How many huge pages have been split since they were protected, but for those that are huge again.
    pub(super) fn split(&self) -> u64 {
        self.split
    }

    /// Units that were huge pages and could be again, now that they are not written any more; a few of them.
    pub(super) fn idle(&self) -> Vec<PageRange> {
        let is_idle = |habit: &Habit| matches!(habit, Habit::Split { idle, splits } if *idle >= IDLE_LOOKS << splits.min(&SPLITS_MAX));
        let idle = self.units.iter().filter(|(_, habit)| is_idle(habit));
        idle.map(|(unit, _)| pages_of(*unit)).take(COLLAPSED_MAX).collect()
    }

    /// An idle unit cannot be made a huge page.
    pub(super) fn stays_split(&mut self, unit: PageRange) {
        self.units.remove(&number(unit));
    }

    /// A unit that was hot is so no longer.
    pub(super) fn cooled(&mut self, hot: Hot) {
        self.units.remove(&number(hot.unit));
    }

    /// A unit that was compared has been protected.
    pub(super) fn protected(&mut self, calm: PageRange) {
        for unit in units_in(calm) {
            let splits = match self.units.get(&unit) {
                Some(Habit::Compared { splits, .. }) => *splits,
                _ => 0,
            };
            self.units.insert(unit, Habit::Protected { splits });
        }
    }

    /// What a look has found written of what is watched.
    pub(super) fn learn(&mut self, written: &PageSet) {
        self.looks += 1;
        let touched: Vec<u64> = written.ranges().iter().flat_map(|range| numbers(*range)).collect();
        for (unit, habit) in &mut self.units {
            match habit {
                Habit::Hot { looks, .. } => *looks += 1,
                Habit::Split { idle, .. } if touched.binary_search(unit).is_ok() => *idle = 0,
                Habit::Split { idle, .. } => *idle = idle.saturating_add(1),
                Habit::Compared { .. } | Habit::Protected { .. } => {}
            }
        }
        self.units.retain(|_, habit| !matches!(habit, Habit::Hot { looks: HOT_LOOKS_MAX.., .. }));
        let full: Vec<u64> = written.ranges().iter().flat_map(|range| units_in(*range)).collect();
        for unit in full.iter().filter(|unit| self.full.binary_search(unit).is_ok()) {
            // A factor and a divisor without anything in common go through all pages.
            let canary = (self.looks * 149 + unit * 61) % UNIT_PAGES;
            if matches!(self.units.get(unit), None | Some(Habit::Split { .. })) {
                self.units.insert(*unit, Habit::Hot { canary, looks: 0 });
            }
        }
        self.full = full;
    }

    /// What of the compared pages was not as it had been.
    pub(super) fn learn_compared(&mut self, changed: &PageSet) {
        let changed: Vec<u64> = changed.ranges().iter().flat_map(|range| numbers(*range)).collect();
        for (unit, habit) in &mut self.units {
            if let Habit::Compared { calm, .. } = habit {
                *calm = if changed.binary_search(unit).is_ok() { 0 } else { calm.saturating_add(1) };
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

/// The units of which a range has any page.
fn numbers(range: PageRange) -> std::ops::Range<u64> {
    range.start().get() / UNIT_BYTES..range.end().get().div_ceil(UNIT_BYTES)
}

/// The units of which a range has all pages.
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

    fn looked(habits: &mut Habits, written: &[PageRange]) -> Division {
        let division = habits.divide(units(0, 8), &[units(0, 8)], &[], false);
        habits.learn(&PageSet::of(written.iter().copied()));
        division
    }

    #[test]
    fn what_is_written_all_over_twice_running_is_left_unprotected_until_its_canary_lives() {
        let mut habits = Habits::default();
        let written = [units(1, 2), some_pages(5, 0, UNIT_PAGES - 1)];
        assert_eq!(looked(&mut habits, &written).watched, [units(0, 8)]);
        assert_eq!(looked(&mut habits, &written).hot, []);
        let division = looked(&mut habits, &[units(6, 1)]);
        assert_eq!(division.hot.iter().map(|hot| hot.unit).collect::<Vec<_>>(), [units(1, 1), units(2, 1)]);
        assert_eq!(division.watched, [units(0, 1), units(3, 5)]);
        assert!(division.hot.iter().all(|hot| hot.unit.common(hot.canary) == Some(hot.canary)));
        habits.cooled(division.hot[1]);
        assert_eq!(looked(&mut habits, &[]).watched, [units(0, 1), units(2, 6)]);
    }

    #[test]
    fn once_is_not_enough_and_in_the_end_it_has_to_be_shown_again() {
        let mut habits = Habits::default();
        looked(&mut habits, &[units(3, 1)]);
        looked(&mut habits, &[]);
        looked(&mut habits, &[units(3, 1)]);
        assert_eq!(looked(&mut habits, &[units(3, 1)]).hot, []);
        let hot_for = (0..200).take_while(|_| !looked(&mut habits, &[]).hot.is_empty()).count();
        assert_eq!(hot_for, usize::from(HOT_LOOKS_MAX));
    }

    #[test]
    fn a_hot_stretch_that_is_no_longer_there_whole_is_forgotten() {
        let mut habits = Habits::default();
        (0..2).for_each(|_| _ = looked(&mut habits, &[units(3, 1)]));
        let populated = [units(0, 3), some_pages(3, 7, 20)];
        assert_eq!(habits.divide(units(0, 8), &populated, &[], false).watched, populated);
        assert_eq!(looked(&mut habits, &[]).hot, []);
    }

    #[test]
    fn huge_pages_are_compared_until_they_are_calm_and_watched_then() {
        let mut habits = Habits::default();
        let all = [units(0, 8)];
        let changes = PageSet::of([some_pages(2, 5, 1)]);
        for look in 0..CALM_LOOKS {
            let division = habits.divide(all[0], &all, &all, false);
            assert_eq!((PageSet::of(division.compared), division.calm), (PageSet::of(all), vec![]), "look {look}");
            habits.learn_compared(&changes);
        }
        let division = habits.divide(all[0], &all, &all, false);
        assert_eq!(PageSet::of(division.calm.iter().copied()), PageSet::of([units(0, 2), units(3, 5)]));
        division.calm.into_iter().for_each(|calm| habits.protected(calm));
        let division = habits.divide(all[0], &all, &all, false);
        assert_eq!((division.compared, division.watched), (vec![units(2, 1)], vec![units(0, 2), units(3, 5)]));
        let split = habits.divide(all[0], &all, &[units(0, 1)], false);
        assert_eq!((split.compared, split.watched), (vec![], all.to_vec()), "small pages are watched");
        assert_eq!(habits.split(), 6, "one still is huge, and one never was protected");
    }

    /// One huge page that was written behind its protection, with the looks that passed without another write.
    fn split_once(idle_looks: u32) -> Habits {
        let (mut habits, unit) = (Habits::default(), units(3, 1));
        habits.divide(unit, &[unit], &[unit], true);
        habits.protected(unit);
        habits.divide(unit, &[unit], &[], false);
        habits.learn(&PageSet::of([some_pages(3, 7, 1)]));
        (0..idle_looks).for_each(|_| habits.learn(&PageSet::default()));
        habits
    }

    #[test]
    fn a_split_page_that_is_not_written_for_a_while_is_to_be_made_huge_again_and_for_a_longer_one_the_next_time() {
        let unit = units(3, 1);
        assert_eq!(split_once(IDLE_LOOKS - 1).idle(), []);
        let mut habits = split_once(IDLE_LOOKS);
        assert_eq!((habits.idle(), habits.split()), (vec![unit], 1));
        assert_eq!(habits.divide(unit, &[unit], &[unit], false).compared, [unit], "it is huge");
        assert_eq!((habits.idle(), habits.split()), (vec![], 0));
        habits.protected(unit);
        habits.divide(unit, &[unit], &[], false);
        (0..IDLE_LOOKS).for_each(|_| habits.learn(&PageSet::default()));
        assert_eq!(habits.idle(), [], "it has been split twice");
        (0..IDLE_LOOKS).for_each(|_| habits.learn(&PageSet::default()));
        assert_eq!(habits.idle(), [unit]);
        habits.stays_split(unit);
        assert_eq!((habits.idle(), habits.split()), (vec![], 1));
    }

    #[test]
    fn a_write_begins_the_wait_again_and_where_comparing_is_dear_nothing_waits_to_be_protected() {
        let mut habits = split_once(IDLE_LOOKS - 1);
        habits.learn(&PageSet::of([some_pages(3, 100, 1)]));
        habits.learn(&PageSet::default());
        assert_eq!(habits.idle(), []);
        let all = [units(0, 8)];
        assert_eq!(Habits::default().divide(all[0], &all, &all, false).calm, []);
        let division = Habits::default().divide(all[0], &all, &all, true);
        assert_eq!(PageSet::of(division.calm), PageSet::of(all));
    }
}
