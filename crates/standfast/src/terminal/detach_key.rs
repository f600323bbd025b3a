//! The key that detaches when pressed twice in a row. The module is pure.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Time for which the first press is held back, in case a second one follows.
const SECOND_WITHIN: Duration = Duration::from_millis(500);

/// A key pressed with Ctrl, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetachKey(Option<u8>);

impl Default for DetachKey {
    /// Returns Ctrl-\.
    fn default() -> Self {
        Self(Some(0x1c))
    }
}

impl fmt::Display for DetachKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(control) => write!(f, "^{}", char::from(control ^ 0x40)),
            None => f.write_str("none"),
        }
    }
}

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" => Ok(Self(None)),
            [b'^', key @ (b'@'..=b'_' | b'a'..=b'z')] => Ok(Self(Some(key.to_ascii_uppercase() ^ 0x40))),
            _ => Err(format!("'{text}' is not a key to detach with\nhint: write ^X for Ctrl-X, or 'none'")),
        }
    }
}

/// Looks for the key in the input.
#[derive(Debug)]
pub(super) struct KeyWatch {
    key: DetachKey,
    pressed: Option<Instant>,
}

impl KeyWatch {
    pub(super) fn new(key: DetachKey) -> Self {
        Self { key, pressed: None }
    }

    /// Returns the part of the input to pass on; `None` if the key was pressed twice.
    pub(super) fn pass(&mut self, typed: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut passed = Vec::new();
        for byte in typed {
            match (self.pressed.take(), self.key.0 == Some(*byte)) {
                (Some(_), true) => return None,
                (None, true) => self.pressed = Some(now),
                (before, false) => {
                    passed.extend(before.and(self.key.0));
                    passed.push(*byte);
                }
            }
        }
        Some(passed)
    }

    /// Returns when the first press will no longer be held back.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pressed.map(|pressed| pressed + SECOND_WITHIN)
    }

    /// Returns the key if its first press is no longer held back.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<u8> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.pressed = None;
        self.key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detach_keys_are_parsed_in_caret_notation() {
        let key = |text: &str| text.parse::<DetachKey>().map(|key| key.0);
        assert_eq!(key("^\\"), Ok(DetachKey::default().0));
        assert_eq!(DetachKey::default().to_string(), "^\\");
        assert_eq!((key("^a"), key("^A"), key("^]"), key("none")), (Ok(Some(1)), Ok(Some(1)), Ok(Some(29)), Ok(None)));
        assert!(key("a").is_err() && key("^").is_err() && key("^1").is_err());
    }

    #[test]
    fn a_single_detach_key_is_typed_and_a_double_one_detaches() {
        let now = Instant::now();
        let mut watch = KeyWatch::new(DetachKey::default());
        assert_eq!(watch.pass(b"ab\x1cc", now), Some(b"ab\x1cc".to_vec()));
        assert_eq!(watch.pass(b"\x1c", now), Some(Vec::new()));
        assert_eq!(watch.overdue(now), None);
        assert_eq!(watch.overdue(now + SECOND_WITHIN), Some(0x1c));
        assert_eq!(watch.pass(b"\x1c", now), Some(Vec::new()));
        assert_eq!(watch.pass(b"\x1c", now), None);
    }

    #[test]
    fn without_a_key_everything_is_typed() {
        let mut watch = KeyWatch::new(DetachKey(None));
        assert_eq!(watch.pass(b"\x1c\x1c\0", Instant::now()), Some(b"\x1c\x1c\0".to_vec()));
    }
}
