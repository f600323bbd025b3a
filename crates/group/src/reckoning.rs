//! Memory that diskless checkpoints take, beside the program itself: the calculation behind the figures of the guide.
//!
//! With rotating checks over n members of M pages each, m checks, and I pages changed (D5, D18):
//!
//! ```text
//!                     own pages    checks, steady       while an epoch is made
//! in place            M            m M / (n - m)        + the new checks: as much again if all changed
//! relaunch            M            m M / (n - m)        + the new checks, + I: the new epoch is sealed beside the old
//! dedicated parity node    -            M                    + M: parity that is updated in place cannot be undone
//! ```
//!
//! M / (n - m) in whole runs of the [layout](crate::layout).
//!
//! With local epochs between the encoded ones, add I pages changed since the last encoded one, and as many again while
//! the next epoch is made.
//!
//! While a transfer runs, accumulators add at most [`WINDOW`](crate::transfer::WINDOW) pieces of
//! [`PIECE_PAGES`](crate::transfer::PIECE_PAGES) for each sum in progress, or all of a sum that goes at once. The tests
//! compare this with what the simulator's shard stores really hold.

use crate::layout::Layout;
use crate::plan::RecoveryMode;

/// Pages that one logical rank holds beside the program's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reckoning {
    /// Pages between checkpoints.
    pub steady: u64,
    /// Most pages while an epoch is made.
    pub peak: u64,
}

impl Reckoning {
    /// Calculates the pages of one position, in a group whose members have `pages` pages each, of which `changed` change
    /// between checkpoints.
    pub fn new(layout: &Layout, recovery_mode: RecoveryMode, position: usize, pages: u64, changed: u64) -> Self {
        let is_member = position < layout.members();
        let checks = layout.code().checks() as u64;
        let rotating = layout.positions() == layout.members();
        // At worst, every changed page of every other member is in a stripe of its own whose check this position holds.
        let (stripes, touched) = match (rotating, is_member) {
            (true, _) => {
                let stripes = checks * layout.stripes(pages);
                (stripes, stripes.min(changed * (layout.members() as u64 - 1)))
            }
            (false, false) => (pages, pages.min(changed * layout.members() as u64)),
            (false, true) => (0, 0),
        };
        let own = if is_member { pages } else { 0 };
        let beside = if is_member && recovery_mode == RecoveryMode::Relaunch { changed } else { 0 };
        Self { steady: own + stripes, peak: own + stripes + touched + beside }
    }
}

impl Reckoning {
    /// Adds local epochs, for a member of which `changed` pages change between two encoded ones.
    #[must_use]
    pub fn with_local(self, changed: u64) -> Self {
        Self { steady: self.steady + changed, peak: self.peak + changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::erasure::Scheme;

    #[test]
    fn memory_estimates_match_the_formulas() {
        // Whole runs of slots for each column.
        let (m, n) = (7 * 160, 8);
        let rotating = Layout::new(Scheme::Parity, n, 0).unwrap();
        let parity = m / (n as u64 - 1);
        let all = |recovery_mode| Reckoning::new(&rotating, recovery_mode, 0, m, m);
        assert_eq!(all(RecoveryMode::InPlace), Reckoning { steady: m + parity, peak: m + 2 * parity });
        assert_eq!(all(RecoveryMode::Relaunch), Reckoning { steady: m + parity, peak: m + m + 2 * parity });
        let some = Reckoning::new(&rotating, RecoveryMode::Relaunch, 0, m, 10);
        assert_eq!(some.peak, m + parity + 10 + 70);
        let dedicated = Layout::new(Scheme::Parity, 4, 1).unwrap();
        let parity_node = Reckoning::new(&dedicated, RecoveryMode::InPlace, 4, m, m);
        assert_eq!(parity_node, Reckoning { steady: m, peak: 2 * m });
        assert_eq!(Reckoning::new(&dedicated, RecoveryMode::InPlace, 0, m, m), Reckoning { steady: m, peak: m });
    }
}
