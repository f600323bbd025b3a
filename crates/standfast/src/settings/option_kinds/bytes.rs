//! Sizes as users write them in options: `64M`, `2GiB`, `4096`.

use std::fmt;

const KIB: u64 = 1024;
/// Units of sizes.
const UNITS: [(&str, u64); 4] = [("K", KIB), ("M", KIB * KIB), ("G", KIB * KIB * KIB), ("T", KIB * KIB * KIB * KIB)];

/// Parses a number of bytes. Returns `None` if the text is not a number with an optional unit.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let unit = unit.strip_suffix('i').unwrap_or(unit).to_uppercase();
    let scale = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => *scale,
        None if unit.is_empty() => 1,
        None => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// Writes the size in the largest unit of which it is a multiple.
pub(crate) fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    match UNITS.iter().rev().find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale)) {
        Some((name, scale)) => write!(f, "{}{name}", bytes / scale),
        None => write!(f, "{bytes}"),
    }
}
