//! Which epochs can be trusted. When a process of the job is killed, the launcher ends the rest after a moment. An epoch that
//! falls in between holds that death, and a restart from it would fail again. So an epoch is in doubt if the command failed
//! soon after it.

use standfast_parts::PartsEpoch;
use std::time::{Duration, Instant};

/// How long a launcher takes at most from the death of a process to its own end. Open MPI takes some seconds to end all others.
const NOTICE_MAX: Duration = Duration::from_secs(10);

/// The epochs that were taken last, oldest first: those in doubt, and the last one before.
#[derive(Debug, Default)]
pub(super) struct RecentEpochs(Vec<(Instant, PartsEpoch)>);

impl RecentEpochs {
    /// Records an epoch.
    pub(super) fn note(&mut self, epoch: PartsEpoch, now: Instant) {
        let first = self.first_in_doubt(now).saturating_sub(1);
        self.0.drain(..first);
        self.0.push((now, epoch));
    }

    /// Returns the newest epoch that would not be in doubt if the command failed now.
    pub(super) fn trusted(&self, now: Instant) -> Option<PartsEpoch> {
        self.0[..self.first_in_doubt(now)].last().map(|(_, epoch)| *epoch)
    }

    /// Returns the epochs that are in doubt when the command has failed now, if there is an older one.
    pub(super) fn in_doubt(&self, now: Instant) -> Vec<PartsEpoch> {
        let first = self.first_in_doubt(now);
        if first == 0 { Vec::new() } else { self.0[first..].iter().map(|(_, epoch)| *epoch).collect() }
    }

    fn first_in_doubt(&self, now: Instant) -> usize {
        self.0.partition_point(|(taken, _)| now.saturating_duration_since(*taken) >= NOTICE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_shortly_before_a_failure_are_in_doubt_if_there_is_an_older_one() {
        let epoch = |number| PartsEpoch { number, cut: 7 };
        let begun = Instant::now();
        let at = |halves: u64| begun + Duration::from_millis(500 * halves);
        let mut recent = RecentEpochs::default();
        (0..3).for_each(|number| recent.note(epoch(number), at(number)));
        assert_eq!((recent.trusted(at(5)), recent.in_doubt(at(5))), (None, vec![]));
        (3..40).for_each(|number| recent.note(epoch(number), at(number)));
        assert_eq!(recent.trusted(at(40)), Some(epoch(20)));
        assert_eq!(recent.in_doubt(at(40)), (21..40).map(epoch).collect::<Vec<_>>());
        assert!(recent.0.len() <= 22, "older ones are forgotten: {}", recent.0.len());
    }
}
