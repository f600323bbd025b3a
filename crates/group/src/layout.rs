//! The layout of a group's pages in its code: which slot of which member is which column of which stripe, and who holds
//! the checks. Arithmetic only.
//!
//! *Dedicated*: every member is a column, every parity node holds one check. *Rotating*: the members hold the checks
//! themselves. The code has as many columns as members minus checks. Each stripe leaves out some members, who hold its
//! checks; stripes that leave out the same members are a *stripe group*. With one check and four members (`.` is the
//! check):
//!
//! ```text
//!            member 0   1   2   3        the slots of member p in runs of 16: run 3 r + c lies in the stripes from 16 r on,
//! stripe group 0         .   0   1   2        column c, stripe group (p - 1 - c) mod 4
//! stripe group 1         2   .   0   1
//! stripe group 2         1   2   .   0        A member with M pages holds M / 3 check pages: parity over n members
//! stripe group 3         0   1   2   .        takes M / (n - 1) beside the copy of the pages themselves (D18).
//! ```
//!
//! MPI programs use rotating checks only; the dedicated layout completes the forms of diskless checkpointing in groups.
//!
//! Runs exist because a column's pages are read one after the other: adjoining pages take half the time of every third
//! page.

use crate::slots::SlotSet;
use standfast_core::erasure::{Code, CodeError, Scheme};

/// Adjoining slots of a member that form a run in a column, by default.
pub(crate) const RUN: u32 = 16;

/// The code of a group and the positions of its stripes.
#[derive(Clone, Debug)]
pub struct Layout {
    code: Code,
    members: usize,
    rotating: bool,
    run: u32,
}

/// The place of a page in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Number of the stripe group, whose stripes have the same holders.
    pub stripe_group: usize,
    /// Column of the code.
    pub column: usize,
    /// Stripe within the stripe group.
    pub stripe: u32,
}

impl Layout {
    /// Creates the layout of a group of members and, if there are any, parity nodes: as many as the scheme has checks.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if the scheme does not fit this many members or parity nodes.
    pub fn new(scheme: Scheme, members: usize, parity_nodes: usize) -> Result<Self, CodeError> {
        let rotating = parity_nodes == 0;
        let columns = if rotating { rotating_columns(scheme, members) } else { members };
        let code = Code::new(scheme, columns)?;
        let refused = |reason| Err(CodeError::Shape { members, checks: code.checks(), reason });
        if rotating && columns + code.checks() != members {
            return refused("rotating mirrors take an even number of members");
        }
        if !rotating && parity_nodes != code.checks() {
            return refused("it takes one parity node for each check");
        }
        Ok(Self { code, members, rotating, run: RUN })
    }

    /// Sets the length of runs: with short runs, even a member with few slots has them in many stripe groups.
    #[must_use]
    pub(crate) fn in_runs_of(self, slots: u32) -> Self {
        Self { run: slots.max(1), ..self }
    }

    /// Returns the code of one stripe.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Returns the number of stripe groups.
    pub fn stripe_groups(&self) -> usize {
        if self.rotating { self.members } else { 1 }
    }

    /// Returns the number of members in the group.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the number of members and parity nodes in the group.
    pub fn positions(&self) -> usize {
        if self.rotating { self.members } else { self.members + self.code.checks() }
    }

    /// Returns the member whose page is this column.
    pub fn column_holder(&self, stripe_group: usize, column: usize) -> usize {
        if self.rotating { (stripe_group + self.code.checks() + column) % self.members } else { column }
    }

    /// Returns the position that holds this check.
    pub fn check_holder(&self, stripe_group: usize, check: usize) -> usize {
        if self.rotating { (stripe_group + check) % self.members } else { self.members + check }
    }

    /// Returns the column of a member's pages in a stripe group; `None` for those who hold its checks.
    pub fn column_of(&self, stripe_group: usize, position: usize) -> Option<usize> {
        let columns = self.code.members();
        if !self.rotating {
            return (position < columns).then_some(position);
        }
        let turn = (position + 2 * self.members - stripe_group - self.code.checks()) % self.members;
        (turn < columns).then_some(turn)
    }

    /// Returns the place of a member's slot.
    pub fn cell(&self, position: usize, slot: u32) -> Cell {
        if !self.rotating {
            return Cell { stripe_group: 0, column: position, stripe: slot };
        }
        let (column, stripe) = self.column_and_stripe(slot);
        let stripe_group = (position + 2 * self.members - self.code.checks() - column) % self.members;
        Cell { stripe_group, column, stripe }
    }

    /// Returns the stripes of this column that contain some slots of its member, a run at a time.
    pub(crate) fn stripes_of(&self, column: usize, slots: &SlotSet) -> SlotSet {
        if !self.rotating {
            return slots.clone();
        }
        let mut stripes = SlotSet::default();
        let firsts = (0..slots.end().div_ceil(self.run)).skip(column).step_by(self.code.members());
        for (round, run) in (0..).zip(firsts) {
            for within in (0..self.run).step_by(u64::BITS as usize) {
                let bits = slots.bits(run * self.run + within, u64::BITS.min(self.run - within));
                stripes.insert_bits(round * self.run + within, bits);
            }
        }
        stripes
    }

    /// Returns the slot of its member at a column's stripe.
    pub fn slot(&self, column: usize, stripe: u32) -> u32 {
        let columns = if self.rotating { self.code.members() as u32 } else { return stripe };
        (stripe / self.run * columns + column as u32) * self.run + stripe % self.run
    }

    /// Returns the most stripes that the slots below this one take in a stripe group.
    pub fn stripes(&self, slots: u64) -> u64 {
        if !self.rotating {
            return slots;
        }
        let run = u64::from(self.run);
        let round = run * self.code.members() as u64;
        slots / round * run + (slots % round).min(run)
    }

    /// For rotating checks.
    fn column_and_stripe(&self, slot: u32) -> (usize, u32) {
        let (run, columns) = (slot / self.run, self.code.members() as u32);
        ((run % columns) as usize, run / columns * self.run + slot % self.run)
    }

    /// Reports whether the rest determines everything, if these positions are lost.
    pub fn tolerates(&self, lost: &[usize]) -> bool {
        (0..self.stripe_groups()).all(|stripe_group| {
            let (columns, checks) = self.lost_in(stripe_group, lost);
            self.code.repair(&columns, &checks).is_ok()
        })
    }

    /// Returns the columns and checks of a stripe group that these positions hold.
    pub fn lost_in(&self, stripe_group: usize, lost: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let columns =
            (0..self.code.members()).filter(|column| lost.contains(&self.column_holder(stripe_group, *column)));
        let checks = (0..self.code.checks()).filter(|check| lost.contains(&self.check_holder(stripe_group, *check)));
        (columns.collect(), checks.collect())
    }
}

/// Members minus checks. An impossible number becomes a shape that the code refuses.
fn rotating_columns(scheme: Scheme, members: usize) -> usize {
    match scheme {
        Scheme::Mirroring => members / 2,
        Scheme::Parity => members.saturating_sub(1),
        Scheme::EvenOdd => members.saturating_sub(2),
        Scheme::OneDimensional { groups: checks } | Scheme::ReedSolomon { checks } => members.saturating_sub(checks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn layouts() -> Vec<Layout> {
        let rotating = [
            (Scheme::Mirroring, 2),
            (Scheme::Mirroring, 6),
            (Scheme::Parity, 2),
            (Scheme::Parity, 5),
            (Scheme::OneDimensional { groups: 2 }, 6),
            (Scheme::EvenOdd, 7),
            (Scheme::ReedSolomon { checks: 3 }, 8),
        ];
        let rotating = rotating.map(|(scheme, members)| Layout::new(scheme, members, 0).unwrap());
        let dedicated = [(Scheme::Parity, 5, 1), (Scheme::ReedSolomon { checks: 2 }, 4, 2), (Scheme::Mirroring, 3, 3)];
        let dedicated =
            dedicated.map(|(scheme, members, parity_nodes)| Layout::new(scheme, members, parity_nodes).unwrap());
        rotating.into_iter().chain(dedicated).collect()
    }

    #[test]
    fn every_slot_has_one_cell_and_stripes_use_distinct_positions() {
        for layout in layouts() {
            let mut seen = BTreeSet::new();
            let mut stripes = 0;
            for (position, slot) in (0..layout.members()).flat_map(|p| (0..400).map(move |slot| (p, slot))) {
                let cell = layout.cell(position, slot);
                assert_eq!(layout.column_holder(cell.stripe_group, cell.column), position);
                assert_eq!(layout.column_of(cell.stripe_group, position), Some(cell.column));
                assert_eq!(layout.slot(cell.column, cell.stripe), slot);
                stripes = if slot == 0 { cell.stripe + 1 } else { stripes.max(cell.stripe + 1) };
                assert_eq!(layout.stripes(u64::from(slot) + 1), u64::from(stripes));
                assert!(seen.insert((cell.stripe_group, cell.column, cell.stripe)));
            }
            for stripe_group in 0..layout.stripe_groups() {
                let columns = (0..layout.code().members()).map(|column| layout.column_holder(stripe_group, column));
                let checks = (0..layout.code().checks()).map(|check| layout.check_holder(stripe_group, check));
                let holders: BTreeSet<_> = columns.chain(checks).collect();
                assert_eq!(holders.len(), layout.positions());
                for check in 0..layout.code().checks() {
                    let holder = layout.check_holder(stripe_group, check);
                    assert_eq!(layout.column_of(stripe_group, holder), None);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_stripes_of_a_slot_set_are_those_of_its_slots(slots in proptest::collection::btree_set(0_u32..1000, 0..500)) {
            let slots: SlotSet = slots.into_iter().collect();
            let runs = |layout: Layout| [1, 3, 16, 100].map(|run| layout.clone().in_runs_of(run));
            for layout in layouts().into_iter().flat_map(runs) {
                for column in 0..layout.code().members() {
                    let position = layout.column_holder(0, column);
                    let cells = slots.iter().map(|slot| layout.cell(position, slot));
                    let stripes: SlotSet = cells.filter(|cell| cell.column == column).map(|cell| cell.stripe).collect();
                    prop_assert!(layout.stripes_of(column, &slots).iter().eq(stripes.iter()));
                }
            }
        }
    }

    #[test]
    fn adjacent_stripes_are_mostly_adjacent_slots_of_the_member() {
        for layout in layouts() {
            let apart = (0..1000).filter(|stripe| layout.slot(0, stripe + 1) != layout.slot(0, *stripe) + 1);
            assert!(apart.count() < 1000 / 15);
        }
    }

    #[test]
    fn any_loss_up_to_the_tolerance_is_tolerated() {
        for layout in layouts() {
            for bits in 0..1_usize << layout.positions() {
                let lost: Vec<_> = (0..layout.positions()).filter(|position| bits >> position & 1 == 1).collect();
                if lost.len() <= layout.code().tolerance() {
                    assert!(layout.tolerates(&lost), "{:?} without {lost:?}", layout.code().scheme());
                }
            }
            assert!(!layout.tolerates(&(0..layout.positions()).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn schemes_that_do_not_fit_are_refused() {
        assert!(Layout::new(Scheme::Mirroring, 3, 0).is_err());
        assert!(Layout::new(Scheme::Parity, 1, 0).is_err());
        assert!(Layout::new(Scheme::ReedSolomon { checks: 2 }, 4, 1).is_err());
    }
}
