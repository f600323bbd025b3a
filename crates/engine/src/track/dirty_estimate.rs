//! Estimates how many pages the next checkpoint will read, from the page faults since the last one. Pure: the kernel
//! does the counting.
//!
//! A first write to a protected page is a page fault. So is the first touch of fresh memory, and a program may map and
//! discard memory all the time. The last checkpoint therefore teaches which share of the faults led to pages that were
//! read. A wrong guess costs memory or time, but does not affect correctness.

/// What the last checkpoint has taught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirtyEstimate {
    /// Page faults before it.
    faults: u64,
    /// Pages that it read, up to the number of faults.
    faulted: u64,
    /// Pages that it read beyond that, which are compared or not tracked.
    unfaulted: u64,
}

impl Default for DirtyEstimate {
    /// Assumes that each fault is a page, since nothing has been learnt yet.
    fn default() -> Self {
        Self { faults: 1, faulted: 1, unfaulted: 0 }
    }
}

impl DirtyEstimate {
    /// Learns from a checkpoint that built upon another one and read `pages` pages after `faults` faults.
    pub(super) fn learn(&mut self, pages: u64, faults: u64) {
        *self = match faults {
            0 => Self { unfaulted: pages, ..*self },
            faults => Self { faults, faulted: pages.min(faults), unfaulted: pages.saturating_sub(faults) },
        };
    }

    /// Returns how many pages to expect after `faults` faults.
    pub(super) fn pages(self, faults: u64) -> u64 {
        let faulted = u128::from(faults) * u128::from(self.faulted) / u128::from(self.faults);
        u64::try_from(faulted).unwrap_or(u64::MAX).saturating_add(self.unfaulted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dirty_estimate_learns_pages_per_fault_from_checkpoints() {
        let mut dirty_estimate = DirtyEstimate::default();
        assert_eq!(dirty_estimate.pages(1000), 1000);
        dirty_estimate.learn(10, 1000);
        assert_eq!(dirty_estimate.pages(2000), 20, "memory that comes and goes");
        dirty_estimate.learn(2000, 2000);
        assert_eq!(dirty_estimate.pages(500), 500);
        dirty_estimate.learn(700, 500);
        assert_eq!(dirty_estimate.pages(100), 300, "200 that no fault had told of");
        dirty_estimate.learn(50, 0);
        assert_eq!(
            (dirty_estimate.pages(0), dirty_estimate.pages(100)),
            (50, 150),
            "a pause teaches nothing about faults"
        );
    }
}
