//! Decides where a flush runs: beside the program, or while the program is stopped (H6, H7).
//!
//! The decision follows measurements. They compare two costs: how much longer the program's threads wait for processors
//! while the flush works than while it rests, and the time that the same work takes by itself. The module is pure;
//! `flushing.rs` measures and acts.
//!
//! On a machine with a spare processor nobody waits, and the flush runs beside the program. If all processors are busy,
//! the flush takes time from the program either way, and beside the program the two also hinder each other.

use serde::{Deserialize, Serialize};
use standfast_core::estimate::{Estimate, Weight};
use standfast_format::manifest::Flush;
use std::num::NonZeroU32;
use std::time::Duration;

/// Where one flush runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlushMode {
    /// Beside the program.
    #[default]
    Background,
    /// While the program is stopped.
    Foreground,
}

/// Least number of turns of work for a meaningful sum. A single turn may be an accident of the scheduler.
const TURNS_MIN: u32 = 8;
/// After this many flushes in the foreground, one begins beside the program again to measure the present cost.
const FOREGROUND_MAX: u32 = 8;
const MIB: f64 = 1048576.0;

/// Measurements of a flush beside the program: turns of work with rests between them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Beside {
    /// Number of turns of work.
    turns: u32,
    /// Bytes that they wrote to the disk.
    bytes: u64,
    worked: Duration,
    /// Part of that time in which the flush itself waited for a processor.
    held_up: Duration,
    /// Time that all of the program's threads together waited for processors meanwhile.
    delayed: Duration,
    rested: Duration,
    /// Time that they waited during the rests.
    delayed_anyway: Duration,
}

impl Beside {
    /// Adds a turn of work: its bytes, its duration, and how long the flush and the program's threads waited for a
    /// processor.
    pub(crate) fn worked(&mut self, bytes: u64, worked: Duration, held_up: Duration, delayed: Duration) {
        self.turns += 1;
        self.bytes += bytes;
        self.worked += worked;
        self.held_up += held_up.min(worked);
        self.delayed += delayed;
    }

    /// Adds a rest, and how long the program's threads waited for processors during it.
    pub(crate) fn rested(&mut self, rested: Duration, delayed: Duration) {
        self.rested += rested;
        self.delayed_anyway += delayed;
    }

    /// Adds the measurements of another part of a flush.
    fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.bytes += other.bytes;
        self.worked += other.worked;
        self.held_up += other.held_up;
        self.delayed += other.delayed;
        self.rested += other.rested;
        self.delayed_anyway += other.delayed_anyway;
    }

    /// Returns the cost to the program in seconds per byte: how much longer its threads waited than they do anyway.
    /// They may wait for each other, so each delay counts. But a program cannot lose more than the time that passes.
    fn cost(&self) -> f64 {
        let anyway = self.delayed_anyway.as_secs_f64() * self.worked.as_secs_f64() / self.rested.as_secs_f64();
        (self.delayed.as_secs_f64() - anyway).clamp(0.0, self.worked.as_secs_f64()) / self.bytes as f64
    }

    /// Returns the time that the same work takes by itself, in seconds per byte.
    fn alone(&self) -> f64 {
        (self.worked - self.held_up).as_secs_f64() / self.bytes as f64
    }

    /// Reports whether there are enough measurements for a decision.
    fn is_telling(&self) -> bool {
        self.turns >= TURNS_MIN && self.bytes > 0 && !self.rested.is_zero()
    }
}

/// Measured costs of flushes to the program, in seconds per byte.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct FlushCosts {
    background: Estimate,
    foreground: Estimate,
    /// Measurements beside the program that are not yet enough.
    so_far: Beside,
    /// Number of flushes in the foreground since the last measurement beside the program.
    in_foreground: u32,
    /// Whether the program could not be stopped for the last flush.
    was_unstoppable: bool,
}

impl FlushCosts {
    /// Learns from a flush beside the program, or from a part of it.
    pub(crate) fn learn_beside(&mut self, it: &Beside) {
        self.so_far.add(it);
        if self.so_far.is_telling() {
            let told = std::mem::take(&mut self.so_far);
            self.background.add(told.cost(), Weight::RARE);
            self.foreground.add(told.alone(), Weight::RARE);
            self.in_foreground = 0;
        }
        self.was_unstoppable = false;
    }

    /// Learns from a flush for which the program was stopped for the time `stood_still`.
    pub(crate) fn learn_foreground(&mut self, bytes: u64, stood_still: Duration) {
        self.in_foreground += 1;
        if bytes > 0 {
            self.foreground.add(stood_still.as_secs_f64() / bytes as f64, Weight::RARE);
        }
    }

    /// Notes that the program could not be stopped. The next flush then runs beside it.
    pub(crate) fn note_unstoppable(&mut self) {
        self.was_unstoppable = true;
    }

    /// Decides where the next flush runs.
    pub(crate) fn flush_mode(&self, asked: Flush) -> FlushMode {
        match asked {
            Flush::Background => FlushMode::Background,
            _ if self.was_unstoppable => FlushMode::Background,
            Flush::Foreground => FlushMode::Foreground,
            Flush::Auto if self.is_slower_beside() && self.in_foreground < FOREGROUND_MAX => FlushMode::Foreground,
            Flush::Auto => FlushMode::Background,
        }
    }

    /// Reports whether a flush that has run beside the program so far should stop the program for its rest.
    pub(crate) fn is_to_end(mut self, so_far: &Beside) -> bool {
        self.learn_beside(so_far);
        self.so_far == Beside::default() && self.is_slower_beside()
    }

    /// Returns the seconds that the program loses by a flush of this length in this mode; `None` if they are not known.
    pub(crate) fn seconds(&self, flush_mode: FlushMode, bytes: u64) -> Option<f64> {
        let cost = match flush_mode {
            FlushMode::Background => self.background,
            FlushMode::Foreground => self.foreground,
        };
        Some(cost.value()? * bytes as f64)
    }

    fn is_slower_beside(&self) -> bool {
        self.background
            .value()
            .zip(self.foreground.value())
            .is_some_and(|(background, foreground)| background > foreground)
    }

    /// Returns the figures for people and programs, if every Nth checkpoint is flushed at present.
    pub(crate) fn report(&self, asked: Flush, every: NonZeroU32) -> FlushReport {
        let nanoseconds = |seconds: f64| (seconds * MIB * 1e9) as u64;
        FlushReport {
            every: Some(every),
            flush_mode: self.flush_mode(asked),
            is_asked: asked != Flush::Auto,
            background_nanoseconds_per_mib: self.background.value().map(nanoseconds),
            foreground_nanoseconds_per_mib: self.foreground.value().map(nanoseconds),
        }
    }
}

/// Where flushes run, and the measurements behind that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushReport {
    /// Every Nth checkpoint in memory is flushed. `None` if the supervisor is of an older version.
    #[serde(default)]
    pub every: Option<NonZeroU32>,
    /// Where the next flush runs.
    pub flush_mode: FlushMode,
    /// Whether the user asked for that.
    pub is_asked: bool,
    /// How much longer all of the program's threads together wait for processors for each MiB that is flushed beside
    /// them. `None` if not measured yet.
    pub background_nanoseconds_per_mib: Option<u64>,
    /// How long the program is or would be stopped for each MiB.
    pub foreground_nanoseconds_per_mib: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 8 << 20;

    fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Makes `turns` turns of 10 ms and rests of 30 ms each. The other arguments are milliseconds: how long the flush
    /// and the program's threads wait in each turn, and how long the threads wait in each rest.
    fn beside(turns: u32, held_up: u64, delayed: u64, anyway: u64) -> Beside {
        let mut beside = Beside::default();
        for _ in 0..turns {
            beside.worked(TURN, milliseconds(10), milliseconds(held_up), milliseconds(delayed));
            beside.rested(milliseconds(30), milliseconds(anyway));
        }
        beside
    }

    fn learnt(it: &Beside) -> FlushCosts {
        let mut costs = FlushCosts::default();
        costs.learn_beside(it);
        costs
    }

    /// Each line is one situation: how long the flush and the program's threads wait in a turn, and the threads in a
    /// rest.
    #[test]
    fn a_flush_runs_in_the_mode_that_costs_the_program_less() {
        let table = [
            ("a processor to spare", 0, 0, 0, FlushMode::Background),
            ("others take the processors, flush or not", 0, 10, 30, FlushMode::Background),
            ("one of two threads is delayed now and then", 2, 3, 0, FlushMode::Background),
            ("it waits for the disk, and takes little from the program", 0, 1, 0, FlushMode::Background),
            (
                "most of its time it waits for the program's processors, and these for it",
                7,
                8,
                0,
                FlushMode::Foreground,
            ),
            ("several threads are delayed at once", 2, 20, 0, FlushMode::Foreground),
        ];
        for (what, held_up, delayed, anyway, flush_mode) in table {
            let costs = learnt(&beside(TURNS_MIN, held_up, delayed, anyway));
            assert_eq!(costs.flush_mode(Flush::Auto), flush_mode, "{what}: {costs:?}");
        }
    }

    #[test]
    fn few_turns_or_turns_without_rests_do_not_change_the_flush_mode() {
        let mut costs = learnt(&beside(TURNS_MIN - 1, 7, 10, 0));
        assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Background, "the first is measured");
        assert!(!FlushCosts::default().is_to_end(&beside(TURNS_MIN - 1, 7, 10, 0)));
        assert!(FlushCosts::default().is_to_end(&beside(TURNS_MIN, 7, 10, 0)));
        assert!(!FlushCosts::default().is_to_end(&beside(TURNS_MIN, 0, 1, 0)));
        costs.learn_beside(&beside(1, 7, 10, 0));
        assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Foreground, "a few of each of several flushes");
        let mut hurried = Beside::default();
        (0..TURNS_MIN).for_each(|_| hurried.worked(TURN, milliseconds(10), milliseconds(7), milliseconds(10)));
        assert_eq!(learnt(&hurried).flush_mode(Flush::Auto), FlushMode::Background);
    }

    #[test]
    fn the_background_is_tried_again_and_a_slow_foreground_is_left() {
        let mut costs = learnt(&beside(TURNS_MIN, 8, 10, 0));
        for _ in 0..FOREGROUND_MAX {
            assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Foreground);
            costs.learn_foreground(TURN, milliseconds(3));
        }
        assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Background, "to measure it");
        costs.learn_beside(&beside(TURNS_MIN, 8, 10, 0));
        assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Foreground, "as before");
        costs.learn_foreground(TURN, milliseconds(100));
        assert_eq!(costs.flush_mode(Flush::Auto), FlushMode::Background, "the disk has become slow");
    }

    #[test]
    fn a_requested_mode_is_used_unless_the_program_is_unstoppable() {
        let (dear, cheap) = (learnt(&beside(TURNS_MIN, 8, 10, 0)), learnt(&beside(TURNS_MIN, 0, 0, 0)));
        assert_eq!(dear.flush_mode(Flush::Background), FlushMode::Background);
        assert_eq!(cheap.flush_mode(Flush::Foreground), FlushMode::Foreground);
        let mut unstoppable = dear;
        unstoppable.note_unstoppable();
        for asked in [Flush::Auto, Flush::Foreground] {
            assert_eq!(unstoppable.flush_mode(asked), FlushMode::Background, "it must get to the disk somehow");
        }
        let report = cheap.report(Flush::Auto, NonZeroU32::MIN);
        assert_eq!((report.flush_mode, report.is_asked), (FlushMode::Background, false));
        assert_eq!(report.background_nanoseconds_per_mib, Some(0));
        assert_eq!(report.foreground_nanoseconds_per_mib, Some(1_250_000), "80 ms for 64 MiB");
        let seconds = cheap.seconds(FlushMode::Foreground, 128 << 20).expect("it is known");
        assert!((seconds - 0.16).abs() < 1e-9, "{seconds}");
        assert_eq!(FlushCosts::default().seconds(FlushMode::Background, 1), None);
    }
}
