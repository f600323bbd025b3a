//! An input from which nothing can be computed.

/// An input that no machine can have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{what} cannot be {value}: it must be {must}")]
pub struct CostError {
    /// The input: `the overhead`.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The values that it can have: `0 or more`.
    pub must: &'static str,
}

/// Returns the value if it is finite and not negative.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, CostError> {
    check(what, value, value >= 0.0, "a number, 0 or more")
}

/// Returns the value if it is finite and more than zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, CostError> {
    check(what, value, value > 0.0, "a number above 0")
}

fn check(what: &'static str, value: f64, is_possible: bool, must: &'static str) -> Result<f64, CostError> {
    if value.is_finite() && is_possible { Ok(value) } else { Err(CostError { what, value, must }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused_by_name() {
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(not_negative("the overhead", value).is_err());
            assert!(positive("the size", value).is_err());
        }
        assert_eq!(not_negative("the overhead", 0.0), Ok(0.0));
        let zero = positive("the size", 0.0).expect_err("zero").to_string();
        assert_eq!(zero, "the size cannot be 0: it must be a number above 0");
    }
}
