//! Finds where a function is zero, and where it is smallest.

/// Steps of a bisection. Each halves the range, so that the rest is below the precision of the numbers.
const BISECTIONS: u32 = 200;

/// Steps of a search for the smallest value. Each leaves 62 % of the range: 24 leave a hundred-thousandth of it. The function
/// is flat there.
const SECTIONS: u32 = 24;

/// Points at which a function is looked at before the range around the best of them is searched.
const LOOKS: u32 = 40;

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
    let looks = (0..=LOOKS).map(|look| low + step * f64::from(look)).map(|x| (x, value(x)));
    let best = looks.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(low, |(x, _)| x);
    let (mut left, mut right) = ((best - step).max(low), (best + step).min(high));
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let inner = |left: f64, right: f64| right - golden * (right - left);
    let (mut one, mut other) = (inner(left, right), inner(right, left));
    let (mut at_one, mut at_other) = (value(one), value(other));
    for _ in 0..SECTIONS {
        // One of the two points serves again.
        if at_one <= at_other {
            (right, other, at_other) = (other, one, at_one);
            one = inner(left, right);
            at_one = value(one);
        } else {
            (left, one, at_one) = (one, other, at_other);
            other = inner(right, left);
            at_other = value(other);
        }
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
        assert!((smallest_of(1e-3, 1e6, |x| 5.0 / x + x) - 5.0_f64.sqrt()).abs() < 1e-4);
        assert!((smallest_of(2.0, 9.0, |x| x) - 2.0).abs() < 1e-4, "at an edge");
        assert!((smallest_of(2.0, 9.0, |x| -x) - 9.0).abs() < 1e-4, "at the other");
        assert_eq!(smallest_of(3.0, 3.0, |x| x), 3.0);
    }
}
