//! Finds where a function is zero, and where it is smallest.

/// Steps of a bisection. Each halves the range, so that the rest is below the precision of the numbers.
const BISECTIONS: u32 = 200;

/// Steps of a search for the smallest value. Each leaves 62 % of the range: 60 leave 3e-13 of it.
const SECTIONS: u32 = 60;

/// Points at which a function is looked at before the range around the best of them is searched.
const LOOKS: u32 = 64;

/// Returns where `function`, which is positive at `from` and falls, becomes zero; `to` if it does not until there.
pub(crate) fn zero_of(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (from, to);
    for _ in 0..BISECTIONS {
        let middle = low + (high - low) / 2.0;
        if function(middle) > 0.0 { low = middle } else { high = middle }
    }
    high
}

/// Returns where `function` is smallest between `from` and `to`, both positive. It is looked at evenly in the logarithm, so
/// that it may have several valleys, if none is narrower than a look.
pub(crate) fn smallest_of(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (low, high) = (from.ln(), to.max(from).ln());
    let step = (high - low) / f64::from(LOOKS);
    let value = |x: f64| function(x.exp());
    let looks = (0..=LOOKS).map(|look| low + step * f64::from(look));
    let best = looks.min_by(|one, other| value(*one).total_cmp(&value(*other))).unwrap_or(low);
    let (mut left, mut right) = ((best - step).max(low), (best + step).min(high));
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..SECTIONS {
        let (one, other) = (right - golden * (right - left), left + golden * (right - left));
        if value(one) <= value(other) { right = other } else { left = one }
    }
    (left + (right - left) / 2.0).exp().clamp(from, to.max(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_smallest_values_are_found() {
        assert!((zero_of(0.0, 10.0, |x| 2.0 - x * x) - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(zero_of(0.0, 1.0, |_| 1.0), 1.0, "not within the range");
        assert!((smallest_of(1e-3, 1e6, |x| 5.0 / x + x) - 5.0_f64.sqrt()).abs() < 1e-5);
        assert!((smallest_of(2.0, 9.0, |x| x) - 2.0).abs() < 1e-9, "at an edge");
        assert!((smallest_of(2.0, 9.0, |x| -x) - 9.0).abs() < 1e-9, "at the other");
        assert_eq!(smallest_of(3.0, 3.0, |x| x), 3.0);
    }
}
