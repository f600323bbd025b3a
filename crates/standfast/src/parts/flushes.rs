//! Which epochs the parts flush from memory to the disk. All parts flush the same one, since an epoch that only some have on
//! disk is worth nothing when a node has lost its memory.

use super::description::FlushRule;
use standfast_parts::{PartIndex, PartsEpoch};
use std::time::{Duration, Instant};

/// Decides which epochs are flushed, and knows which of them all parts have on disk. It is pure: the time is an argument.
#[derive(Debug)]
pub(super) struct EpochFlushes {
    /// Nothing if there is no level in memory.
    rule: Option<FlushRule>,
    /// The epochs that each part has on disk, as far as it has said so.
    on_disk: Vec<Vec<PartsEpoch>>,
    /// The number of epochs since the last one that was to be flushed.
    since: u32,
    /// The last one that was to be flushed, and when.
    asked: Option<(PartsEpoch, Instant)>,
    /// When the newest one that is on disk everywhere was taken, or this life began.
    durable: Instant,
}

impl EpochFlushes {
    /// Begins a life of a job with this number of parts. The first epoch is flushed.
    pub(super) fn new(rule: Option<FlushRule>, parts: usize, now: Instant) -> Self {
        let since = rule.map_or(0, |rule| rule.every.get() - 1);
        Self { rule, on_disk: vec![Vec::new(); parts], since, asked: None, durable: now }
    }

    /// Reports whether the next epoch is to be flushed.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let Some(rule) = self.rule else { return false };
        let limit = Duration::from_millis(rule.durable_every_milliseconds);
        let is_old = |time: Instant| now.saturating_duration_since(time) >= limit;
        match self.asked {
            // One flush at a time. If it is not there after so long, it has failed.
            Some((_, asked)) => is_old(asked),
            // Early enough to be in time, if the flush takes half of it.
            None => self.since + 1 >= rule.every.get() || now.saturating_duration_since(self.durable) >= limit / 2,
        }
    }

    /// Records an epoch that all parts have sealed.
    pub(super) fn note_sealed(&mut self, epoch: PartsEpoch, is_to_flush: bool, now: Instant) {
        self.since += 1;
        if is_to_flush && self.rule.is_some() {
            (self.since, self.asked) = (0, Some((epoch, now)));
            // It may have gone to the disk straight away.
            self.settle();
        }
    }

    /// Records what a part has on disk.
    pub(super) fn note_on_disk(&mut self, part: PartIndex, epochs: Vec<PartsEpoch>) {
        self.on_disk[part] = epochs;
        self.settle();
    }

    /// Returns the newest epoch up to `trusted` that all parts have on disk.
    pub(super) fn newest_on_disk(&self, trusted: Option<PartsEpoch>) -> Option<PartsEpoch> {
        let trusted = trusted?;
        if self.rule.is_none() {
            return Some(trusted);
        }
        let everywhere = |epoch: &&PartsEpoch| epoch.number <= trusted.number && self.is_everywhere(**epoch);
        self.on_disk.first()?.iter().filter(everywhere).max().copied()
    }

    /// Reports whether all parts have an epoch on disk.
    pub(super) fn is_on_disk(&self, epoch: PartsEpoch) -> bool {
        self.rule.is_none() || self.is_everywhere(epoch)
    }

    fn is_everywhere(&self, epoch: PartsEpoch) -> bool {
        self.on_disk.iter().all(|epochs| epochs.contains(&epoch))
    }

    fn settle(&mut self) {
        if let Some((epoch, asked)) = self.asked
            && self.is_everywhere(epoch)
        {
            (self.asked, self.durable) = (None, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    const SECOND: Duration = Duration::from_secs(1);

    fn epoch(number: u64) -> PartsEpoch {
        PartsEpoch { number, cut: 7 * number }
    }

    fn flushes(every: u32, now: Instant) -> EpochFlushes {
        let every = NonZeroU32::new(every).expect("not zero");
        EpochFlushes::new(Some(FlushRule { every, durable_every_milliseconds: 60_000 }), 2, now)
    }

    #[test]
    fn every_nth_epoch_is_flushed_once_the_last_one_is_on_disk_everywhere() {
        let now = Instant::now();
        let mut flushes = flushes(4, now);
        let mut flushed = Vec::new();
        for number in 1..=16 {
            let is_due = flushes.is_due(now);
            flushed.extend(is_due.then_some(number));
            flushes.note_sealed(epoch(number), is_due, now);
            let on_disk: Vec<_> = flushed.iter().copied().map(epoch).collect();
            flushes.note_on_disk(0, on_disk.clone());
            // The second part takes until epoch 7 for the first one.
            if number >= 7 {
                flushes.note_on_disk(1, on_disk);
            }
        }
        assert_eq!(flushed, [1, 8, 12, 16]);
    }

    #[test]
    fn a_flush_is_due_in_time_and_again_when_it_has_failed() {
        let now = Instant::now();
        let mut flushes = flushes(1000, now);
        assert!(flushes.is_due(now), "the first one");
        flushes.note_sealed(epoch(1), true, now);
        assert!(!flushes.is_due(now + 59 * SECOND) && flushes.is_due(now + 60 * SECOND), "it has failed by then");
        (0..2).for_each(|part| flushes.note_on_disk(part, vec![epoch(1)]));
        assert!(!flushes.is_due(now + 29 * SECOND) && flushes.is_due(now + 30 * SECOND));
    }

    #[test]
    fn only_what_is_on_disk_everywhere_and_not_in_doubt_counts() {
        let now = Instant::now();
        let mut flushes = flushes(1, now);
        assert_eq!(flushes.newest_on_disk(Some(epoch(9))), None);
        flushes.note_on_disk(0, vec![epoch(1), epoch(2), epoch(3)]);
        flushes.note_on_disk(1, vec![epoch(1), epoch(3), epoch(4)]);
        assert_eq!(flushes.newest_on_disk(Some(epoch(9))), Some(epoch(3)));
        assert_eq!(flushes.newest_on_disk(Some(epoch(2))), Some(epoch(1)));
        assert!(flushes.is_on_disk(epoch(3)) && !flushes.is_on_disk(epoch(4)));
        assert_eq!((flushes.newest_on_disk(None), flushes.newest_on_disk(Some(epoch(0)))), (None, None));
        let without_memory = EpochFlushes::new(None, 2, now);
        assert_eq!(without_memory.newest_on_disk(Some(epoch(9))), Some(epoch(9)));
        assert!(!without_memory.is_due(now));
    }
}
