//! The option that says how much of the disk checkpoints leave free.

use super::option_kinds::{Kept, OptionError, parse_bytes, write_bytes};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Bytes that a checkpoint leaves free on the disk; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Reserve(u64);

impl Reserve {
    /// Reports whether an image of at most `image_bytes` leaves enough of `free_bytes`.
    pub(crate) fn is_left(self, image_bytes: u64, free_bytes: u64) -> bool {
        self.0 == 0 || free_bytes.saturating_sub(image_bytes) >= self.0
    }
}

impl FromStr for Reserve {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let remedy = "write a number with its unit (500M, 10G) or 'off'";
        let bytes = if text == "off" { Some(0) } else { parse_bytes(text) };
        bytes.map(Self).ok_or_else(|| OptionError::new(text, "is not a size of free space", remedy))
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("off") } else { write_bytes(f, self.0) }
    }
}

impl Kept for Reserve {
    type Record = u64;

    fn to_record(self) -> Option<u64> {
        Some(self.0).filter(|bytes| *bytes > 0)
    }

    fn from_record(bytes: u64) -> Option<Self> {
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_checked_unless_it_is_off() {
        let reserve: Reserve = "10G".parse().expect("a size");
        assert_eq!((reserve, reserve.to_string()), (Reserve(10 << 30), "10G".to_owned()));
        assert!(reserve.is_left(1 << 30, 11 << 30) && !reserve.is_left((1 << 30) + 1, 11 << 30));
        let none: Reserve = "off".parse().expect("a word");
        assert!(none.is_left(1 << 30, 0) && none.to_record().is_none());
        for wrong in ["", "G", "10X", "-1G", "ten"] {
            assert!(wrong.parse::<Reserve>().is_err(), "{wrong}");
        }
    }
}
