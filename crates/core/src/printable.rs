//! Makes untrusted text safe to display: names of files and processes, arguments, and errors about them. A terminal
//! obeys control characters, and characters that change the writing direction make it show something other than the
//! text.
//!
//! Everything that the command or the library prints passes through here. Safe text stays as it is, byte for byte.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Reports whether a terminal merely displays the character.
pub fn is_printable(character: char) -> bool {
    let changes_direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_a_line = matches!(character, '\u{2028}' | '\u{2029}');
    let is_unseen = matches!(character, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !(character.is_control() || changes_direction || ends_a_line || is_unseen)
}

/// Returns the text on one line, with unprintable characters escaped as in a string literal: `\n`, `\x1b`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_printable, |text, character| {
        let _ = match character {
            '\n' | '\r' | '\t' => write!(text, "{}", character.escape_default()),
            character if character.is_ascii() => write!(text, "\\x{:02x}", u32::from(character)),
            character => write!(text, "\\u{{{:x}}}", u32::from(character)),
        };
    })
}

/// Does the same for text of several lines, and keeps its line ends.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| character == '\n' || is_printable(character)) {
        return text.into();
    }
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n").into()
}

/// Escapes the same characters in JSON. Its meaning does not change, since they occur only inside its strings.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_safe = |character| character == '\n' || is_printable(character);
    escaped(json, is_safe, |json, character| {
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            let _ = write!(json, "\\u{unit:04x}");
        }
    })
}

fn escaped(text: &str, is_safe: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if text.chars().all(&is_safe) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_safe(character) { safe.push(character) } else { escape(&mut safe, character) }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        assert_eq!(printable("\x1b]0;owned\x07 \u{9b}31m\x7f"), r"\x1b]0;owned\x07 \u{9b}31m\x7f");
        assert_eq!(printable("two\nlines\tand\r"), r"two\nlines\tand\r");
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{2028}d"), r"a\u{202e}b\u{2066}c\u{2028}d");
    }

    #[test]
    fn printable_text_stays_unchanged() {
        for text in ["", "plain", "Zürich 東京 🦀", r"C:\x1b", "it's"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(printable_lines("one\ntwo\n"), "one\ntwo\n");
        assert_eq!(printable_lines("one\ntwo\x1b\n"), "one\ntwo\\x1b\n");
    }

    #[test]
    fn no_unprintable_character_gets_through() {
        let unsafe_ones = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|character| !is_printable(*character));
        let text: String = unsafe_ones.collect();
        assert!(text.chars().count() > 64 && printable(&text).chars().all(is_printable));
        assert!(printable_json(&text).chars().all(|character| character == '\n' || is_printable(character)));
    }

    #[test]
    fn json_uses_json_escapes() {
        assert_eq!(
            printable_json("{\n  \"a\": \"\u{9b}\u{e0041}\u{202e}\"\n}"),
            "{\n  \"a\": \"\\u009b\\udb40\\udc41\\u202e\"\n}"
        );
    }
}
