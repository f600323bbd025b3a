//! Modes that a program has set on the screen that it writes to (ECMA-48 `CSI ? n h` and `l`, and xterm's numbers). A
//! user who attaches elsewhere needs them before the program draws, and a user who detaches wants them reset. The
//! module is pure.

use std::collections::BTreeSet;

/// Modes that are off in a fresh terminal: application cursor keys, alternate screens, mouse reports, reports of focus,
/// bracketed paste.
const OFF_AT_FIRST: [u16; 11] = [1, 47, 1047, 1049, 1000, 1002, 1003, 1004, 1005, 1006, 2004];
/// Modes that are on in a fresh terminal: the cursor.
const ON_AT_FIRST: [u16; 1] = [25];
/// Longest sequence that matters here.
const SEQUENCE_MAX: usize = 32;

/// Modes that differ from those of a fresh terminal.
#[derive(Debug, Default)]
pub(super) struct Modes {
    changed: BTreeSet<u16>,
    /// Beginning of an incomplete sequence.
    begun: Vec<u8>,
}

impl Modes {
    /// Records what is written to the screen.
    pub(super) fn note(&mut self, written: &[u8]) {
        for byte in written {
            match (self.begun.len(), byte) {
                (_, 0x1b) => self.begun = vec![0x1b],
                (1, b'[') | (2, b'?') => self.begun.push(*byte),
                (3..SEQUENCE_MAX, b'0'..=b'9' | b';') => self.begun.push(*byte),
                (4.., b'h' | b'l') => {
                    let numbers = std::mem::take(&mut self.begun);
                    self.set(&numbers[3..], *byte == b'h');
                }
                _ => self.begun.clear(),
            }
        }
    }

    fn set(&mut self, numbers: &[u8], on: bool) {
        for number in numbers.split(|byte| *byte == b';') {
            let Some(number) = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()) else { continue };
            let (is_off, is_on) = (OFF_AT_FIRST.contains(&number), ON_AT_FIRST.contains(&number));
            if is_off && on || is_on && !on {
                self.changed.insert(number);
            } else if is_off || is_on {
                self.changed.remove(&number);
            }
        }
    }

    /// Returns the sequences that put a fresh terminal into these modes.
    pub(super) fn enter(&self) -> Vec<u8> {
        self.sequences(false)
    }

    /// Returns the sequences that reset the modes.
    pub(super) fn leave(&self) -> Vec<u8> {
        self.sequences(true)
    }

    fn sequences(&self, as_at_first: bool) -> Vec<u8> {
        let sequence = |number: &u16| {
            let on = ON_AT_FIRST.contains(number) == as_at_first;
            format!("\x1b[?{number}{}", if on { 'h' } else { 'l' }).into_bytes()
        };
        self.changed.iter().flat_map(sequence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_modes_are_tracked_byte_by_byte() {
        let written = b"text\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?25;2004h\x1b[?25l\x1b[?2004l\x1b[1;24r";
        let mut modes = Modes::default();
        written.iter().for_each(|byte| modes.note(&[*byte]));
        assert_eq!(modes.enter(), b"\x1b[?1h\x1b[?25l\x1b[?1049h");
        assert_eq!(modes.leave(), b"\x1b[?1l\x1b[?25h\x1b[?1049l");
    }

    #[test]
    fn modes_that_were_reset_are_not_replayed() {
        let mut modes = Modes::default();
        modes.note(b"\x1b[?1049h\x1b[?1049l\x1b[?12h\x1b[?99999999h\x1b[?25h plain");
        assert!(modes.enter().is_empty() && modes.leave().is_empty());
    }

    #[test]
    fn an_overlong_escape_sequence_is_dropped() {
        let mut modes = Modes::default();
        modes.note(&[b"\x1b[?", &[b'1'; 100][..], b"\x1b[?1000h"].concat());
        assert_eq!(modes.leave(), b"\x1b[?1000l");
        assert!(modes.begun.is_empty());
    }
}
