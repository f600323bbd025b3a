//! Clocks that a time namespace shifts: the monotonic clocks as a process sees them, compared with the machine's.

use crate::Pid;
use crate::sys::process::clock_nanoseconds;
use std::io;

/// How far the monotonic clocks of a process lie ahead of (or behind) the machine's, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockOffsets {
    /// CLOCK_MONOTONIC.
    pub monotonic: i64,
    /// CLOCK_BOOTTIME.
    pub boottime: i64,
}

const SECOND: i64 = 1_000_000_000;

impl ClockOffsets {
    /// Returns the offsets of a process, or zeros if the kernel has no time namespaces (before Linux 5.6).
    pub fn of(pid: Pid) -> Self {
        crate::proc::read(pid, "timens_offsets").map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// Parses `/proc/PID/timens_offsets`: lines of name, seconds, nanoseconds.
    fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let offset = |name: &str| {
            let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
            let mut number = || words.next()?.parse::<i64>().ok();
            number()?.checked_mul(SECOND)?.checked_add(number()?)
        };
        Self { monotonic: offset("monotonic").unwrap_or_default(), boottime: offset("boottime").unwrap_or_default() }
    }

    /// Returns the offsets in the form that the kernel accepts.
    pub(crate) fn to_text(self) -> String {
        let line =
            |name: &str, offset: i64| format!("{name} {} {}\n", offset.div_euclid(SECOND), offset.rem_euclid(SECOND));
        line("monotonic", self.monotonic) + &line("boottime", self.boottime)
    }

    /// Returns the offsets with which the monotonic clocks show these values now.
    ///
    /// # Errors
    /// When a value is beyond what the kernel's clocks can show (292 years).
    pub fn showing(monotonic_nanoseconds: u64, boottime_nanoseconds: u64) -> io::Result<Self> {
        let own = Self::of(Pid::own());
        let offset = |wanted: u64, clock: i32, own: i64| {
            let machine = i64::try_from(clock_nanoseconds(clock)).ok()?.checked_sub(own)?;
            i64::try_from(wanted).ok()?.checked_sub(machine)
        };
        let beyond = || io::Error::other("the image's clocks lie beyond what the kernel can show");
        Ok(Self {
            monotonic: offset(monotonic_nanoseconds, libc::CLOCK_MONOTONIC, own.monotonic).ok_or_else(beyond)?,
            boottime: offset(boottime_nanoseconds, libc::CLOCK_BOOTTIME, own.boottime).ok_or_else(beyond)?,
        })
    }
}

/// Returns CLOCK_MONOTONIC and CLOCK_BOOTTIME as the process itself sees them, in nanoseconds.
pub fn monotonic_clocks_of(pid: Pid) -> (u64, u64) {
    let (own, theirs) = (ClockOffsets::of(Pid::own()), ClockOffsets::of(pid));
    let shown = |clock, own: i64, theirs: i64| clock_nanoseconds(clock).saturating_add_signed(theirs - own);
    (
        shown(libc::CLOCK_MONOTONIC, own.monotonic, theirs.monotonic),
        shown(libc::CLOCK_BOOTTIME, own.boottime, theirs.boottime),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_offsets_round_trip_through_text() {
        for (monotonic, boottime) in [(0, 0), (5 * SECOND + 7, -1), (-3 * SECOND, i64::MAX / 2)] {
            let offsets = ClockOffsets { monotonic, boottime };
            let text = format!("future 1 2\nnew\n{}", offsets.to_text());
            assert_eq!(ClockOffsets::parse(text.as_bytes()), offsets);
        }
    }

    #[test]
    fn our_own_monotonic_clock_is_read_correctly() {
        let before = clock_nanoseconds(libc::CLOCK_MONOTONIC);
        let (seen, _) = monotonic_clocks_of(Pid::own());
        assert!((before..=clock_nanoseconds(libc::CLOCK_MONOTONIC)).contains(&seen));
    }
}
