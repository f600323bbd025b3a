//! A quantity that grows with the time between checkpoints, such as the changed bytes or the overhead.
//!
//! A program that writes the same memory again and again changes as much in a second as in an hour; one that writes a
//! stream changes in proportion to the time. A power of the time lies between the two: `level * time^exponent`, with an
//! exponent from 0 to 1. Where a job has been measured at several intervals, both are fitted.

use serde::Serialize;
use std::collections::VecDeque;

/// A power of the interval, up to a limit, and what is there at every interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Curve {
    fixed: f64,
    level: f64,
    exponent: f64,
    /// Most that the power can become: the memory of a program does not change more than once.
    most: Option<f64>,
}

impl Curve {
    /// Makes the curve of what is the same at every interval.
    pub fn constant(level: f64) -> Self {
        Self::power(level, 0.0)
    }

    /// Makes the curve of what grows by `rate` in a second, up to `most`.
    pub fn growing(rate: f64, most: f64) -> Self {
        Self { most: Some(most), ..Self::power(rate, 1.0) }
    }

    /// Returns the curve with `fixed` added at every interval, and the rest times `factor`.
    #[must_use]
    pub fn scaled(self, fixed: f64, factor: f64) -> Self {
        Self {
            fixed: fixed + self.fixed * factor,
            level: self.level * factor,
            most: self.most.map(|most| most * factor),
            ..self
        }
    }

    fn power(level: f64, exponent: f64) -> Self {
        Self { fixed: 0.0, level, exponent, most: None }
    }

    /// Makes the curve through `value` at `interval_seconds`, with an exponent from 0 to 1.
    pub fn through(interval_seconds: f64, value: f64, exponent: f64) -> Self {
        let exponent = exponent.clamp(0.0, 1.0);
        Self::power(value / interval_seconds.max(INTERVAL_MIN_SECONDS).powf(exponent), exponent)
    }

    /// Returns the value at an interval in seconds.
    pub fn at(self, interval_seconds: f64) -> f64 {
        let power = self.level * interval_seconds.max(INTERVAL_MIN_SECONDS).powf(self.exponent);
        self.fixed + self.most.map_or(power, |most| power.min(most))
    }

    /// Returns how fast it grows: 0 not at all, 1 in proportion.
    pub fn exponent(self) -> f64 {
        self.exponent
    }
}

/// Shorter intervals are taken for this one, so that their logarithm is a number.
const INTERVAL_MIN_SECONDS: f64 = 1e-3;

/// Number of measurements that are kept.
const SAMPLES_MAX: usize = 24;

/// Weight of a measurement relative to the one after it. So a program that changes its phase is known after some five
/// checkpoints.
const FADING: f64 = 0.8;

/// Exponent of which nothing is known: between that of the same memory and that of a stream.
const EXPONENT_EXPECTED: f64 = 0.5;

/// Weight of the expected exponent, as a variance of the logarithm of the interval. Intervals that differ by 40 % in four of
/// five checkpoints weigh ten times as much.
const EXPECTED_WEIGHT: f64 = 0.04;

/// If a value is this factor off the curve, and the next is as well in the same direction, then what came before them
/// describes another phase of the program.
const PHASE_FACTOR: f64 = 2.0;

/// A curve that is fitted to measurements, in which newer ones count more.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CurveEstimate {
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    interval_seconds: f64,
    value: f64,
}

impl CurveEstimate {
    /// Adds a measurement. One that is no number, or negative, is passed over.
    pub fn add(&mut self, interval_seconds: f64, value: f64) {
        let is_usable = |number: f64| number.is_finite() && number >= 0.0;
        if !is_usable(interval_seconds) || !is_usable(value) {
            return;
        }
        let interval_seconds = interval_seconds.max(INTERVAL_MIN_SECONDS);
        self.samples.push_back(Sample { interval_seconds, value });
        if self.has_changed_phase() {
            self.samples.drain(..self.samples.len() - 2);
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// Returns the curve; `None` before the first measurement.
    pub fn curve(&self) -> Option<Curve> {
        fit(self.samples.iter().copied())
    }

    /// Reports whether the two newest measurements lie far from the curve of the others, on the same side.
    fn has_changed_phase(&self) -> bool {
        let Some(count) = self.samples.len().checked_sub(2).filter(|count| *count > 0) else { return false };
        let Some(curve) = fit(self.samples.iter().take(count).copied()) else { return false };
        let factor = |sample: &Sample| sample.value / curve.at(sample.interval_seconds);
        let mut newest = self.samples.iter().skip(count).map(factor);
        let (one, other) = (newest.next().unwrap_or(1.0), newest.next().unwrap_or(1.0));
        one.min(other) > PHASE_FACTOR || one.max(other) < 1.0 / PHASE_FACTOR
    }
}

/// Fits a curve to measurements, of which the last one is the newest.
fn fit(samples: impl DoubleEndedIterator<Item = Sample> + Clone) -> Option<Curve> {
    let weighted = || {
        samples.clone().rev().scan(1.0, |weight, sample| {
            let now = *weight;
            *weight *= FADING;
            Some((now, sample))
        })
    };
    let total: f64 = weighted().map(|(weight, _)| weight).sum();
    if total == 0.0 {
        return None;
    }
    // Logarithms need values above zero. Where nothing was changed at all, the exponent stays as expected.
    let logarithms = || {
        weighted()
            .filter(|(_, sample)| sample.value > 0.0)
            .map(|(weight, sample)| (weight, sample.interval_seconds.ln(), sample.value.ln()))
    };
    let count: f64 = logarithms().map(|(weight, ..)| weight).sum();
    let mean = |of: fn((f64, f64, f64)) -> f64| logarithms().map(of).sum::<f64>() / count.max(f64::MIN_POSITIVE);
    let (time, value) = (mean(|(weight, time, _)| weight * time), mean(|(weight, _, value)| weight * value));
    let spread: f64 = logarithms().map(|(weight, at, _)| weight * (at - time).powi(2)).sum();
    let common: f64 = logarithms().map(|(weight, at, is)| weight * (at - time) * (is - value)).sum();
    let exponent = ((EXPECTED_WEIGHT * EXPONENT_EXPECTED + common) / (EXPECTED_WEIGHT + spread)).clamp(0.0, 1.0);
    // The level gives the curve the same mean as the values: what counts is the sum of costs, not that of logarithms.
    let values: f64 = weighted().map(|(weight, sample)| weight * sample.value).sum();
    let powers: f64 = weighted().map(|(weight, sample)| weight * sample.interval_seconds.powf(exponent)).sum();
    Some(Curve::power(values / powers, exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(values: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        let mut estimate = CurveEstimate::default();
        values.into_iter().for_each(|(interval, value)| estimate.add(interval, value));
        estimate.curve().expect("there are measurements")
    }

    #[test]
    fn a_curve_that_was_measured_at_several_intervals_is_found() {
        for exponent in [0.0, 0.3, 0.7, 1.0] {
            let truth = Curve::through(60.0, 5.0, exponent);
            let intervals = [60.0, 42.0, 60.0, 84.0, 60.0, 42.0, 60.0, 84.0];
            let found = estimate(intervals.map(|interval| (interval, truth.at(interval))));
            assert!((found.exponent() - exponent).abs() < 0.12, "{exponent}: {found:?}");
            assert!((found.at(60.0) / 5.0 - 1.0).abs() < 0.02);
        }
    }

    #[test]
    fn what_grows_stops_at_its_limit() {
        let seconds = Curve::growing(1e6, 1e9).scaled(0.5, 1e-8);
        assert!((seconds.at(100.0) - 1.5).abs() < 1e-9);
        assert!((seconds.at(1e6) - 10.5).abs() < 1e-9);
    }

    #[test]
    fn one_interval_says_only_what_there_is() {
        let found = estimate([(60.0, 5.0); 8]);
        assert!((found.at(60.0) - 5.0).abs() < 1e-9);
        assert_eq!(found.exponent(), EXPONENT_EXPECTED);
        assert_eq!(CurveEstimate::default().curve(), None);
    }

    #[test]
    fn another_phase_is_known_after_its_second_checkpoint() {
        let before = std::iter::repeat_n((60.0, 1.0), 20);
        let found = estimate(before.chain([(60.0, 50.0), (60.0, 50.0)]));
        assert!((found.at(60.0) - 50.0).abs() < 1e-9);
        let outlier = estimate(std::iter::repeat_n((60.0, 1.0), 20).chain([(60.0, 50.0), (60.0, 1.0)]));
        assert!(outlier.at(60.0) < 10.0, "one is no phase");
    }

    #[test]
    fn what_is_no_measurement_is_passed_over() {
        let mut estimate = CurveEstimate::default();
        for (interval, value) in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (-1.0, 1.0), (1.0, -1.0)] {
            estimate.add(interval, value);
        }
        assert_eq!(estimate.curve(), None);
        for _ in 0..5 {
            estimate.add(0.0, 0.0);
        }
        assert_eq!(estimate.curve().map(|curve| curve.at(60.0)), Some(0.0));
    }
}
