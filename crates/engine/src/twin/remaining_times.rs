//! Times that are left to timers. They pass while a job is rebuilt: what this explains is no difference, and everything
//! else is one.

use standfast_format::records::{ProcessState, Timers};

/// Longest time for which a job is taken to be under construction.
const REBUILDING_MAX: u64 = 3_600 * SECOND;
/// A timer of processor time may get some clock ticks more than it was set to.
const TICKS_MAX: u64 = SECOND / 10;
const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

/// Makes times equal that differ only because time has passed.
pub(super) fn let_time_pass(saved: &ProcessState, found: &mut ProcessState) {
    let Timers { posix, interval } = &mut found.timers;
    for (saved, found) in saved.timers.posix.iter().zip(posix) {
        let passing = Passing {
            before: saved.remaining_nanoseconds,
            after: found.remaining_nanoseconds,
            interval: saved.interval_nanoseconds,
        };
        if passing.is_plausible() {
            found.remaining_nanoseconds = saved.remaining_nanoseconds;
        }
    }
    for (saved, found) in saved.timers.interval.iter().zip(interval) {
        let passing = Passing {
            before: saved.remaining_microseconds.saturating_mul(MICROSECOND),
            after: found.remaining_microseconds.saturating_mul(MICROSECOND),
            interval: saved.interval_microseconds.saturating_mul(MICROSECOND),
        };
        if passing.is_plausible() {
            found.remaining_microseconds = saved.remaining_microseconds;
        }
    }
}

/// What is left to a timer before and after a job is rebuilt, and its interval, in nanoseconds. A timer to which nothing
/// is left does not run.
#[derive(Debug, Clone, Copy)]
struct Passing {
    before: u64,
    after: u64,
    interval: u64,
}

impl Passing {
    fn is_plausible(self) -> bool {
        let Self { before, after, interval } = self;
        let has_passed = before > 0 && after <= before + TICKS_MAX && before.saturating_sub(after) <= REBUILDING_MAX;
        let has_started_again = interval > 0 && after <= interval + TICKS_MAX && before <= REBUILDING_MAX;
        before == after || has_passed || has_started_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_time_explains_is_plausible() {
        const HOUR: u64 = 3_600 * SECOND;
        let table = [
            (0, 0, 0, true),
            (5, 0, 0, true),
            (5, TICKS_MAX, 0, true),
            (0, 5, 0, false),
            (9 * HOUR, 9 * HOUR - SECOND, 0, true),
            (9 * HOUR, 9 * HOUR + SECOND, 0, false),
            (9 * HOUR, 4 * HOUR, 0, false),
            (9 * HOUR, 4 * HOUR, 4 * HOUR, false),
            (SECOND, 4 * HOUR, 4 * HOUR, true),
            (0, 4 * HOUR, 4 * HOUR, true),
            (SECOND, 5 * HOUR, 4 * HOUR, false),
        ];
        for (before, after, interval, plausible) in table {
            assert_eq!(Passing { before, after, interval }.is_plausible(), plausible, "{before} {after} {interval}");
        }
    }
}
