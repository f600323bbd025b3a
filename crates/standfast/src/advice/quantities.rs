//! Sizes and rates as users write them: `10G`, `50M/s`.

use crate::settings::{OptionError, parse_bytes};
use std::str::FromStr;

/// A number of bytes, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCount(u64);

impl ByteCount {
    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteCount {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let wrong = || OptionError::new(text, "is not a size", "write a number above 0 with its unit (500M, 10G)");
        parse_bytes(text).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}

/// Bytes in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate(u64);

impl ByteRate {
    /// Returns the bytes in a second.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteRate {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let wrong = || OptionError::new(text, "is not a rate", "write bytes in a second with their unit (50M/s, 2G/s)");
        let bytes = text.strip_suffix("/s").unwrap_or(text);
        parse_bytes(bytes).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_have_units() {
        assert_eq!("10G".parse(), Ok(ByteCount(10 << 30)));
        assert_eq!("50M/s".parse(), Ok(ByteRate(50 << 20)));
        assert_eq!("50M".parse(), Ok(ByteRate(50 << 20)));
        for text in ["", "0", "-1G", "G", "1e9", "inf", "NaN", "10 parsecs", "/s"] {
            assert!(text.parse::<ByteCount>().is_err() && text.parse::<ByteRate>().is_err(), "{text}");
        }
    }
}
