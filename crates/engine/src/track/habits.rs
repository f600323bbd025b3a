//! What has been learnt of stretches of 2 MiB: which are not worth protecting. Pure; the looking is done elsewhere.
//!
//! ```text
//! small pages:  all of it written twice running -> *hot*: left unprotected, counts as written, as long as one page of it,
//!               the canary, which is protected, is written every time
//! a huge page:  *compared* by checksum, since protecting it would split it at the next write -> as it was, three times
//!               running -> protected; it is split should it be written after all, and is small pages then
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
/// After so many looks a hot stretch has to show anew that it is one.
const HOT_LOOKS_MAX: u8 = 64;

/// What is known of the units of one address space, by number. Of units that are not listed there is nothing to know.
#[derive(Debug, Default)]
pub(super) struct Habits {
    units: BTreeMap<u64, Habit>,
    /// Units of which all pages were written at the last look.
    full: Vec<u64>,
    /// Scatters the canaries.
    looks: u64,
    /// Huge pages that have been split since they were protected.
    split: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Small pages, all of which are written again and again.
    Hot { canary: u64, looks: u8 },
    /// A huge page, found as it was so many times running.
    Compared { calm: u8 },
    /// A huge page that hardly ever is written.
    Protected,
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
    /// Divides the populated pages of `live`, of which those of `huge` stand on huge pages.
    pub(super) fn divide(&mut self, live: PageRange, populated: &[PageRange], huge: &[PageRange]) -> Division {
        let mut division = Division::default();
        let populated = PageSet::of(populated.iter().copied());
        let huge: Vec<u64> = huge.iter().flat_map(|range| units_in(*range)).collect();
        let whole: Vec<u64> = match self.units.range(numbers(live)).next() {
            Some(_) => populated.ranges().iter().flat_map(|range| units_in(*range)).collect(),
            None => Vec::new(),
        };
        let known: Vec<u64> = self.units.range(numbers(live)).map(|(unit, _)| *unit).collect();
        for unit in known {
            let is_huge = huge.binary_search(&unit).is_ok();
            let is_still = match self.units[&unit] {
                Habit::Hot { .. } => !is_huge && whole.binary_search(&unit).is_ok(),
                Habit::Compared { .. } | Habit::Protected => is_huge,
            };
            if !is_still && self.units.remove(&unit) == Some(Habit::Protected) {
                self.split += 1;
            }
        }
        for unit in &huge {
            let habit = self.units.entry(*unit).or_insert(Habit::Compared { calm: 0 });
            if let Habit::Compared { calm } = *habit {
                division.compared.push(pages_of(*unit));
                if calm >= CALM_LOOKS {
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

    /// How many huge pages are small ones now that were not before they were protected.
    pub(super) fn split(&self) -> u64 {
        self.split
    }

    /// A unit that was hot is so no longer.
    pub(super) fn cooled(&mut self, hot: Hot) {
        self.units.remove(&number(hot.unit));
    }

    /// A unit that was calm has been protected.
    pub(super) fn protected(&mut self, calm: PageRange) {
        units_in(calm).for_each(|unit| _ = self.units.insert(unit, Habit::Protected));
    }

    /// What a look has found written of what is watched.
    pub(super) fn learn(&mut self, written: &PageSet) {
        self.looks += 1;
        for habit in self.units.values_mut() {
            if let Habit::Hot { looks, .. } = habit {
                *looks += 1;
            }
        }
        self.units.retain(|_, habit| !matches!(habit, Habit::Hot { looks: HOT_LOOKS_MAX.., .. }));
        let full: Vec<u64> = written.ranges().iter().flat_map(|range| units_in(*range)).collect();
        for unit in full.iter().filter(|unit| self.full.binary_search(unit).is_ok()) {
            // A factor and a divisor without anything in common go through all pages.
            let canary = (self.looks * 149 + unit * 61) % UNIT_PAGES;
            self.units.entry(*unit).or_insert(Habit::Hot { canary, looks: 0 });
        }
        self.full = full;
    }

    /// What of the compared pages was not as it had been.
    pub(super) fn learn_compared(&mut self, changed: &PageSet) {
        let changed: Vec<u64> = changed.ranges().iter().flat_map(|range| numbers(*range)).collect();
        for (unit, habit) in &mut self.units {
            if let Habit::Compared { calm } = habit {
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
        let division = habits.divide(units(0, 8), &[units(0, 8)], &[]);
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
    fn once_is_not_enough_and_in_the_end_it_has_to_be_shown_anew() {
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
        assert_eq!(habits.divide(units(0, 8), &populated, &[]).watched, populated);
        assert_eq!(looked(&mut habits, &[]).hot, []);
    }

    #[test]
    fn huge_pages_are_compared_until_they_are_calm_and_watched_then() {
        let mut habits = Habits::default();
        let all = [units(0, 8)];
        let changes = PageSet::of([some_pages(2, 5, 1)]);
        for look in 0..CALM_LOOKS {
            let division = habits.divide(all[0], &all, &all);
            assert_eq!((PageSet::of(division.compared), division.calm), (PageSet::of(all), vec![]), "look {look}");
            habits.learn_compared(&changes);
        }
        let division = habits.divide(all[0], &all, &all);
        assert_eq!(PageSet::of(division.calm.iter().copied()), PageSet::of([units(0, 2), units(3, 5)]));
        division.calm.into_iter().for_each(|calm| habits.protected(calm));
        let division = habits.divide(all[0], &all, &all);
        assert_eq!((division.compared, division.watched), (vec![units(2, 1)], vec![units(0, 2), units(3, 5)]));
        let split = habits.divide(all[0], &all, &[units(0, 1)]);
        assert_eq!((split.compared, split.watched), (vec![], all.to_vec()), "small pages are watched");
        assert_eq!(habits.split(), 6, "one still is huge, and one never was protected");
    }
}
