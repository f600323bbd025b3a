//! Medians, and the output format of promises and their measurements.

use std::fmt;
use std::time::Duration;

/// A promise, and whether it held.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The promise.
    pub(crate) promise: String,
    /// The measurement, in words.
    pub(crate) measured: String,
    /// Whether the measurement is within the promise.
    pub(crate) holds: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "ok    " } else { "MISSED" };
        write!(f, "{word}  {:<62}  {}", self.promise, self.measured)
    }
}

/// Returns the median. For an even number of times, that is the upper of the two middle ones.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns how many times longer one time is than the other.
pub(crate) fn ratio(time: Duration, reference: Duration) -> f64 {
    time.as_secs_f64() / reference.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Makes a verdict on a ratio of medians.
pub(crate) fn within(promise: String, times: &[Duration], references: &[Duration], bound: f64) -> Verdict {
    let (time, reference) = (median(times), median(references));
    let found = ratio(time, reference);
    let measured = format!("{found:.2} ({} against {})", milliseconds(time), milliseconds(reference));
    Verdict { promise: format!("{promise} at most {bound}"), measured, holds: found <= bound }
}

/// Makes a verdict on the promise that a choice by measurement is no worse than the better of two methods.
pub(crate) fn as_the_better(what: &str, chosen: Duration, ways: [(Duration, &str); 2], bound: f64) -> Verdict {
    let [(one, how), (other, how_else)] = ways;
    let found = ratio(chosen, one.min(other));
    let [chosen, one, other] = [chosen, one, other].map(milliseconds);
    Verdict {
        promise: format!("{what}: auto at most {bound} times the better"),
        measured: format!("{found:.3} ({chosen} against {one} {how} and {other} {how_else})"),
        holds: found <= bound,
    }
}

/// Formats a time for people.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
