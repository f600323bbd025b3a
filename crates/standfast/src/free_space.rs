//! Whether images fit: free space of a file system, how much of the memory they may take, and how much of the disk they leave.

use crate::option_kinds::{Kept, OptionError, parse_bytes, write_bytes};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Bytes that a checkpoint leaves free on the disk; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Reserve(u64);

impl Reserve {
    /// Whether an image of at most `image_bytes` leaves enough of `free_bytes`.
    pub(crate) fn is_left(self, image_bytes: u64, free_bytes: u64) -> bool {
        self.0 == 0 || free_bytes.saturating_sub(image_bytes) >= self.0
    }
}

impl FromStr for Reserve {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let hint = "is not a size of free space: write a number with its unit (500M, 10G) or 'off'";
        let bytes = if text == "off" { Some(0) } else { parse_bytes(text) };
        bytes.map(Self).ok_or_else(|| OptionError::new(text, hint))
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

/// What is left of the file system that holds a directory; nothing where that cannot be told.
pub(crate) fn bytes_left_at(place: &Path) -> u64 {
    rustix::fs::statvfs(place).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

/// Whether two generations of a program fit half of what there is, of which the generations that are there are a part, and
/// whether another one fits half of what is left.
pub(crate) fn fits_twice(program_bytes: u64, level_bytes: u64, tightest: u64) -> bool {
    program_bytes.saturating_mul(2) <= tightest.saturating_add(level_bytes) / 2 && program_bytes <= tightest / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_left_or_there_is_none() {
        let reserve: Reserve = "10G".parse().expect("a size");
        assert_eq!((reserve, reserve.to_string()), (Reserve(10 << 30), "10G".to_owned()));
        assert!(reserve.is_left(1 << 30, 11 << 30) && !reserve.is_left((1 << 30) + 1, 11 << 30));
        let none: Reserve = "off".parse().expect("a word");
        assert!(none.is_left(1 << 30, 0) && none.to_record().is_none());
        for wrong in ["", "G", "10X", "-1G", "ten"] {
            assert!(wrong.parse::<Reserve>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_generations_must_fit_half_of_what_there_is_with_what_the_level_holds() {
        const GIB: u64 = 1 << 30;
        assert!(fits_twice(GIB, 0, 4 * GIB));
        assert!(!fits_twice(GIB, 0, 4 * GIB - 1));
        assert!(fits_twice(GIB, GIB, 3 * GIB), "it holds one already");
        assert!(!fits_twice(GIB, 9 * GIB, GIB), "too little is left");
        assert!(!fits_twice(u64::MAX, 0, GIB));
        assert!(bytes_left_at(Path::new("/")) > 0 && bytes_left_at(Path::new("/there/is/no/such")) == 0);
    }
}
