//! Which checkpoint in memory is flushed to the disk next, and when. It is pure: the present time is an argument.

use crate::settings::{DurableEvery, FlushEvery};
use standfast_format::manifest::GenerationNumber;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Time after which a failed flush is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlushSchedule {
    every: NonZeroU32,
    durable_every: DurableEvery,
    /// The newest checkpoint that is in memory only.
    newest: Option<GenerationNumber>,
    /// Number of checkpoints since the last one for which a flush began.
    since: u32,
    /// When the disk last had the newest checkpoint.
    durable: Instant,
    /// When the last flush began, and how long the last completed flush took.
    begun: Instant,
    took: Duration,
    /// Earliest next attempt after a failure.
    not_before: Instant,
    is_of_part: bool,
}

impl FlushSchedule {
    /// Makes a schedule for a disk without checkpoints: the first one goes there.
    pub(crate) fn new(every: FlushEvery, durable_every: DurableEvery, now: Instant) -> Self {
        let every = every.at_first();
        let since = every.get() - 1;
        let took = Duration::ZERO;
        Self {
            every,
            durable_every,
            newest: None,
            since,
            durable: now,
            begun: now,
            took,
            not_before: now,
            is_of_part: false,
        }
    }

    /// Makes the schedule of a part of a distributed job. What may be flushed of it, is flushed: all parts flush the same.
    pub(crate) fn of_part(durable_every: DurableEvery, now: Instant) -> Self {
        Self { is_of_part: true, ..Self::new(FlushEvery::Nth(NonZeroU32::MIN), durable_every, now) }
    }

    /// Returns N, if every Nth checkpoint is flushed.
    pub(crate) fn every(&self) -> NonZeroU32 {
        self.every
    }

    /// Flushes every Nth checkpoint from now on.
    pub(crate) fn set_every(&mut self, every: NonZeroU32) {
        self.every = every;
    }

    /// Records that a checkpoint is in memory.
    pub(crate) fn taken_in_memory(&mut self, number: GenerationNumber) {
        self.newest = Some(number);
        self.since += 1;
    }

    /// Records that a checkpoint went to the disk straight from the program.
    pub(crate) fn durable(&mut self, number: GenerationNumber, now: Instant) {
        self.newest = self.newest.filter(|newest| *newest > number);
        self.durable = now;
    }

    /// Records that a checkpoint went to the disk from memory.
    pub(crate) fn flushed(&mut self, number: GenerationNumber, now: Instant) {
        self.took = now.saturating_duration_since(self.begun);
        self.durable(number, now);
    }

    /// Records that a flush failed. A part waits until all are to flush another one.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.newest = self.newest.filter(|_| !self.is_of_part);
        self.since = self.every.get();
        self.not_before = now + RETRY;
    }

    /// Records that a flush was abandoned: the newest checkpoint is due.
    pub(crate) fn abandoned(&mut self) {
        self.since = self.every.get();
    }

    /// Returns when the newest checkpoint is to be flushed, if there is one.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.newest?;
        let is_turn = self.since >= self.every.get();
        // Early enough to be in time, if this flush takes as long as the last one.
        let every = self.durable_every.get();
        let by_time = self.durable + (every - self.took.min(every / 2));
        Some(if is_turn { self.not_before } else { by_time.max(self.not_before) })
    }

    /// Returns the checkpoint to flush now, and notes that its flush begins.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<GenerationNumber> {
        let number = self.newest.filter(|_| self.due().is_some_and(|due| due <= now))?;
        self.since = 0;
        self.begun = now;
        Some(number)
    }

    /// Returns the time until which the flush that begins now may rest between turns. If it can hardly be in time,
    /// others can still use the disk for a while.
    pub(crate) fn gentle_until(&self, now: Instant) -> Instant {
        let every = self.durable_every.get();
        let in_time = self.durable + every;
        if now + self.took <= in_time { in_time } else { now + every / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> GenerationNumber {
        GenerationNumber::new(number).expect("not zero")
    }

    fn schedule(every: u32, now: Instant) -> FlushSchedule {
        let every = every.to_string().parse().expect("a number");
        FlushSchedule::new(every, "10m".parse().expect("a time"), now)
    }

    #[test]
    fn the_first_and_then_every_nth_checkpoint_is_flushed() {
        let now = Instant::now();
        let mut schedule = schedule(4, now);
        assert_eq!((schedule.due(), schedule.take_due(now)), (None, None));
        let mut flushed = Vec::new();
        for at in 1..=10 {
            schedule.taken_in_memory(number(at));
            if let Some(due) = schedule.take_due(now) {
                flushed.push(due.get());
                schedule.durable(due, now);
            }
        }
        assert_eq!(flushed, [1, 5, 9]);
        schedule.set_every(NonZeroU32::new(2).expect("not zero"));
        assert_eq!(schedule.take_due(now), None, "one has been taken since");
        schedule.taken_in_memory(number(11));
        assert_eq!(schedule.take_due(now), Some(number(11)));
    }

    #[test]
    fn checkpoints_in_memory_are_flushed_within_ten_minutes() {
        let now = Instant::now();
        let mut schedule = schedule(100, now);
        schedule.taken_in_memory(number(1));
        assert_eq!(schedule.take_due(now), Some(number(1)));
        schedule.durable(number(1), now);
        schedule.taken_in_memory(number(2));
        let later = now + Duration::from_secs(600);
        assert_eq!(schedule.due(), Some(later));
        assert_eq!(schedule.take_due(later - Duration::from_secs(1)), None);
        assert_eq!(schedule.take_due(later), Some(number(2)));
        schedule.durable(number(2), later);
        assert_eq!(schedule.due(), None, "the disk has the newest");
    }

    #[test]
    fn a_flush_starts_earlier_by_the_duration_of_the_last_one() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let mut schedule = schedule(100, now);
        schedule.taken_in_memory(number(1));
        assert_eq!(schedule.take_due(now), Some(number(1)));
        assert_eq!(schedule.gentle_until(now), now + seconds(600));
        let there = now + seconds(100);
        schedule.flushed(number(1), there);
        schedule.taken_in_memory(number(2));
        assert_eq!(schedule.due(), Some(there + seconds(500)));
        let (begun, later) = (there + seconds(500), there + seconds(1100));
        assert_eq!(schedule.take_due(begun), Some(number(2)));
        assert_eq!(schedule.gentle_until(begun), there + seconds(600));
        assert_eq!(schedule.gentle_until(later), later + seconds(300), "there is always some time to be gentle in");
        schedule.flushed(number(2), later);
        schedule.taken_in_memory(number(3));
        assert_eq!(schedule.due(), Some(later + seconds(300)), "no sooner than after half of the time");
    }

    #[test]
    fn an_abandoned_flush_is_due_again_at_once() {
        let now = Instant::now();
        let mut schedule = schedule(100, now);
        schedule.taken_in_memory(number(1));
        assert_eq!(schedule.take_due(now), Some(number(1)));
        assert_eq!(schedule.take_due(now), None, "it is on its way");
        schedule.abandoned();
        assert_eq!(schedule.take_due(now), Some(number(1)));
    }

    #[test]
    fn a_part_flushes_what_it_may_and_nothing_else_after_a_failure() {
        let now = Instant::now();
        let mut schedule = FlushSchedule::of_part("10m".parse().expect("a time"), now);
        for at in [3, 9] {
            schedule.taken_in_memory(number(at));
            assert_eq!(schedule.take_due(now), Some(number(at)));
            schedule.flushed(number(at), now);
        }
        schedule.taken_in_memory(number(12));
        assert_eq!(schedule.take_due(now), Some(number(12)));
        schedule.failed(now);
        assert_eq!(schedule.due(), None, "the others may have it");
    }

    #[test]
    fn a_flush_that_failed_is_tried_again_with_the_newest() {
        let now = Instant::now();
        let mut schedule = schedule(100, now);
        schedule.taken_in_memory(number(1));
        assert_eq!(schedule.take_due(now), Some(number(1)));
        schedule.failed(now);
        schedule.taken_in_memory(number(2));
        assert_eq!(schedule.take_due(now), None);
        assert_eq!(schedule.take_due(now + RETRY), Some(number(2)));
    }
}
