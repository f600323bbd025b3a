//! Running estimates: means of measurements in which old ones fade. What Standfast learns while a job runs, it learns here:
//! how long a byte takes to copy, to clone, to compress or to write.
//!
//! ```
//! use standfast_core::estimate::{Estimate, Weight};
//!
//! let mut seconds = Estimate::expecting(4.0);
//! seconds.add(2.0, Weight::RARE);
//! assert_eq!(seconds.value(), Some(3.0));
//! ```

use std::time::Duration;

/// How much a new measurement counts against all that came before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight(f64);

impl Weight {
    /// For measurements that are far apart, such as one for each checkpoint: conditions may have changed in between.
    pub const RARE: Self = Self(1.0 / 2.0);
    /// For measurements that follow each other closely, such as one for each block: about the last dozen matter.
    pub const FREQUENT: Self = Self(1.0 / 8.0);
}

/// A running mean. The first measurement counts fully, unless something was expected.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Estimate(Option<f64>);

impl Estimate {
    /// Begins with what is expected, which fades as measurements do.
    pub fn expecting(value: f64) -> Self {
        Self(Some(value))
    }

    /// Adds a measurement. One that is no finite number is passed over.
    pub fn add(&mut self, new: f64, weight: Weight) {
        if new.is_finite() {
            self.0 = Some(self.0.map_or(new, |old| old + (new - old) * weight.0));
        }
    }

    /// Adds a measurement of which more is worse: one above the mean counts fully.
    pub fn add_cautiously(&mut self, new: f64, weight: Weight) {
        let is_worse = self.0.is_some_and(|old| new > old);
        self.add(new, if is_worse { Weight(1.0) } else { weight });
    }

    /// Returns the mean; `None` as long as nothing is known.
    pub fn value(self) -> Option<f64> {
        self.0
    }
}

/// A running estimate of a speed. Bytes and seconds are averaged separately, so that a long block counts for more.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct SpeedEstimate {
    bytes: Estimate,
    seconds: Estimate,
}

/// A clock may be too coarse for one block. A nanosecond keeps the speed finite.
const SECONDS_MIN: f64 = 1e-9;

impl SpeedEstimate {
    /// Adds a measurement. One without bytes is passed over.
    pub fn add(&mut self, bytes: usize, time: Duration, weight: Weight) {
        if bytes > 0 {
            self.bytes.add(bytes as f64, weight);
            self.seconds.add(time.as_secs_f64().max(SECONDS_MIN), weight);
        }
    }

    /// Returns the speed; `None` as long as nothing is known.
    pub fn bytes_per_second(self) -> Option<f64> {
        Some(self.bytes.value()? / self.seconds.value()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_measurement_counts_fully_and_old_ones_fade() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.value(), None);
        for new in [8.0, 0.0, f64::NAN, f64::INFINITY] {
            estimate.add(new, Weight::FREQUENT);
        }
        assert_eq!(estimate.value(), Some(7.0));
        (0..100).for_each(|_| estimate.add(1.0, Weight::FREQUENT));
        assert!((estimate.value().expect("it was measured") - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_cautious_estimate_follows_the_worse_at_once() {
        let mut estimate = Estimate::default();
        let means = [4.0, 8.0, 0.0].map(|new| {
            estimate.add_cautiously(new, Weight::RARE);
            estimate.value()
        });
        assert_eq!(means, [Some(4.0), Some(8.0), Some(4.0)]);
    }

    #[test]
    fn a_speed_is_that_of_all_bytes_together() {
        let mut speed = SpeedEstimate::default();
        speed.add(0, Duration::from_secs(9), Weight::RARE);
        assert_eq!(speed.bytes_per_second(), None);
        speed.add(300, Duration::from_secs(1), Weight::RARE);
        speed.add(100, Duration::from_secs(3), Weight::RARE);
        assert_eq!(speed.bytes_per_second(), Some(100.0), "400 bytes in 4 seconds");
        speed.add(1, Duration::ZERO, Weight::RARE);
        assert!(speed.bytes_per_second().is_some_and(f64::is_finite));
    }
}
