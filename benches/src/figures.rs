//! Medians, and the output format of promises and their measurements.

use anyhow::Result;
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

/// A choice by measurement between two methods, and the promise that it is no worse than the better of them.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    /// What is chosen for.
    pub(crate) what: String,
    /// The option's values: the choice, and the two methods.
    pub(crate) values: [&'a str; 3],
    /// How the two methods are called in the verdict.
    pub(crate) methods: [&'a str; 2],
    /// The maximum time of the choice relative to the better method.
    pub(crate) bound: f64,
}

impl Choice<'_> {
    /// How often it is measured at most.
    const ROUNDS: usize = 3;

    /// Measures all three in turns, and makes a verdict on the medians. A disk can be half as fast from one minute to
    /// the next, so a promise that misses is measured again; all times count.
    pub(crate) fn judge(&self, repeats: usize, mut time: impl FnMut(&str) -> Result<Duration>) -> Result<Verdict> {
        let mut times = self.values.map(|_| Vec::new());
        for _ in 0..Self::ROUNDS {
            for _ in 0..repeats {
                for (value, times) in self.values.iter().zip(&mut times) {
                    times.push(time(value)?);
                }
            }
            if self.verdict(&times).holds {
                break;
            }
        }
        Ok(self.verdict(&times))
    }

    fn verdict(&self, times: &[Vec<Duration>; 3]) -> Verdict {
        let Self { what, methods: [how, how_else], bound, .. } = self;
        let [chosen, one, other] = times.each_ref().map(|times| median(times));
        let found = ratio(chosen, one.min(other));
        let [chosen, one, other] = [chosen, one, other].map(milliseconds);
        let rounds = times[0].len();
        Verdict {
            promise: format!("{what}: auto at most {bound} times the better"),
            measured: format!("{found:.3} ({chosen} against {one} {how} and {other} {how_else}; medians of {rounds})"),
            holds: found <= *bound,
        }
    }
}

/// Formats a time for people.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
