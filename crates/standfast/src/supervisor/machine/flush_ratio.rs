//! How many checkpoints in memory come to one on the disk, where that is left to the supervisor (H1): the more, the more a flush
//! costs the program against a checkpoint in memory.

use crate::report::CheckpointReport;
use crate::settings::FlushEvery;
use standfast_core::estimate::{Estimate, Weight};
use standfast_cost::FailureMix;
use std::num::NonZeroU32;
use std::time::Duration;

/// See the module documentation. Costs are in seconds that the program loses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FlushRatio {
    in_memory: Estimate,
    flush: Estimate,
}

impl FlushRatio {
    /// Returns `None` if the user says the number.
    pub(super) fn of(asked: FlushEvery) -> Option<Self> {
        (asked == FlushEvery::Auto).then(Self::default)
    }

    /// Learns from a checkpoint.
    pub(super) fn note_checkpoint(&mut self, report: &CheckpointReport) {
        if report.is_in_memory {
            let overhead = Duration::from_nanos(report.overhead_nanoseconds());
            self.in_memory.add(overhead.as_secs_f64(), Weight::RARE);
        }
    }

    /// Learns what a flush has cost.
    pub(super) fn note_flush(&mut self, seconds: f64) {
        self.flush.add(seconds, Weight::RARE);
    }

    /// Returns the number; `None` until both costs are known.
    pub(super) fn every(&self) -> Option<NonZeroU32> {
        let every = FailureMix::default().best_global_every(self.in_memory.value()?, self.flush.value()?);
        NonZeroU32::new(every.round() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::supervisor::flushing::{End, Measured};
    use standfast_format::manifest::Generation;

    const MIB: u64 = 1 << 20;

    /// Takes checkpoints that cost 1 ms each. Flushes cost this much. Returns which checkpoints were flushed.
    fn flushed(every: FlushEvery, flush_milliseconds: u64) -> Vec<u64> {
        let mut now = Instant::now();
        let settings = Settings { flush: Flush::Foreground, flush_every: every, ..Settings::imagined() };
        let mut machine = Machine::new(settings, FlushSchedule::new(every, Default::default(), now), None, now);
        let mut flushed = Vec::new();
        for generation in 1..=12 {
            now += Duration::from_secs(1);
            machine.on(Event::Tick, now);
            let mut taken = TakenFacts::imagined(generation, Level::Memory);
            (taken.report.is_in_memory, taken.report.pause_nanoseconds) = (true, 1_000_000);
            machine.on(Event::CheckpointEnded(Ok(taken)), now);
            machine.on(Event::CoalescingEnded(Err("no need".to_owned())), now);
            let begun = machine.on(Event::Tick, now);
            let order = begun.iter().find_map(|effect| match effect {
                Effect::BeginFlush(order) => Some(*order),
                _ => None,
            });
            let Some(FlushOrder { number, mode, .. }) = order else { continue };
            assert_eq!((number.get(), mode), (generation, FlushMode::Foreground));
            flushed.push(generation);
            let measured = Measured::Foreground(MIB, Duration::from_millis(flush_milliseconds));
            let end = Ok(End::OnDisk(Some(on_disk(number))));
            machine.on(Event::FlushEnded(FlushOutcome { end, measured }), now);
        }
        flushed
    }

    fn on_disk(number: GenerationNumber) -> Generation {
        Generation {
            number,
            parent: None,
            root: Default::default(),
            file_bytes: MIB,
            stored_pages: 256,
            taken_nanoseconds: 0,
            pause_nanoseconds: 1_000_000,
            superseded: false,
            origin: Default::default(),
            revision: 0,
            inherited_pages: 0,
            epoch: None,
        }
    }

    #[test]
    fn a_machine_flushes_as_often_as_is_best() {
        assert_eq!(flushed(FlushEvery::Auto, 4), [1, 4, 7, 10], "sqrt(4 * 0.613 / 0.387) = 2.5");
        assert_eq!(flushed(FlushEvery::Auto, 0), Vec::from_iter(1..=12));
        assert_eq!(flushed(FlushEvery::default(), 4), [1]);
    }

    fn every(pause_milliseconds: u64, flush_seconds: f64) -> Option<u32> {
        let mut ratio = FlushRatio::of(FlushEvery::Auto).expect("it is left to the supervisor");
        let report = |is_in_memory, pause_nanoseconds| CheckpointReport {
            is_in_memory,
            pause_nanoseconds,
            ..CheckpointReport::default()
        };
        ratio.note_checkpoint(&report(true, pause_milliseconds * 1_000_000));
        ratio.note_checkpoint(&report(false, u64::MAX));
        assert_eq!(ratio.every(), None);
        ratio.note_flush(flush_seconds);
        ratio.every().map(NonZeroU32::get)
    }

    #[test]
    fn a_flush_that_costs_more_comes_less_often() {
        // sqrt(50 * 0.613 / 0.387) = 8.9
        assert_eq!(every(20, 1.0), Some(9));
        assert_eq!(every(20, 0.0), Some(1), "it costs nothing: each checkpoint goes to the disk");
        assert_eq!(every(0, 0.0), Some(1));
        assert!(every(0, 1.0) > Some(100_000));
        assert_eq!(FlushRatio::of(FlushEvery::default()), None);
    }
}
