//! Spelling of paths and system errors in messages.

use standfast_core::is_printable;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// A path for a shell: unchanged if that is safe, else in single quotes.
pub struct ForShell<'a>(
    /// The path.
    pub &'a Path,
);

impl fmt::Display for ForShell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.as_os_str();
        let begins = if word.as_bytes().starts_with(b"-") { "./" } else { "" };
        write!(f, "{begins}{}", shown_for_shell(word))
    }
}

/// Returns a word for a shell that is safe to show on a terminal. Words with unprintable characters use `$'...'`, which
/// all of today's shells except dash support.
fn shown_for_shell(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if text.chars().all(is_printable) => quoted(text),
        _ => {
            let mut spelt = String::from("$'");
            for byte in word.as_bytes() {
                match byte {
                    b'\'' | b'\\' => spelt.extend(['\\', char::from(*byte)]),
                    b' '..=b'~' => spelt.push(char::from(*byte)),
                    byte => spelt += &format!("\\{byte:03o}"),
                }
            }
            spelt + "'"
        }
    }
}

/// Quotes a word for any shell, whatever it contains.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Quotes a word for a remote shell or a script, so that a command gets exactly the same bytes.
pub fn quoted_word(word: &OsStr) -> OsString {
    match word.to_str() {
        Some(text) => quoted(text).into(),
        None => {
            let parts: Vec<&[u8]> = word.as_bytes().split(|byte| *byte == b'\'').collect();
            OsString::from_vec([b"'".as_slice(), &parts.join(br"'\''".as_slice()), b"'"].concat())
        }
    }
}

/// A system error in words alone, without its number.
pub struct InWords<'a>(
    /// The error.
    pub &'a io::Error,
);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_numbers(&self.0.to_string()))
    }
}

/// Returns a message without the numbers of system errors: they help nobody at night, but the words before them do.
pub fn without_numbers(message: &str) -> String {
    let mut words = message.to_owned();
    while let Some(start) = words.find(" (os error ") {
        let end = words[start..].find(')').map_or(words.len(), |length| start + length + 1);
        words.replace_range(start..end, "");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        let spelt = |path: &str| ForShell(Path::new(path)).to_string();
        assert_eq!(spelt("heat.standfast"), "heat.standfast");
        assert_eq!(spelt("my job"), "'my job'");
        assert_eq!(spelt("it's"), r"'it'\''s'");
        assert_eq!(spelt("-d"), "./-d");
        assert_eq!(spelt(""), "''");
        assert_eq!(spelt("über"), "'über'");
    }

    #[test]
    fn paths_with_escapes_are_quoted_for_the_shell() {
        let path = OsStr::from_bytes(b"a\x1b[31m'\\\n\xff\xc2\x9b");
        let spelt = ForShell(Path::new(path)).to_string();
        assert_eq!(spelt, r"$'a\033[31m\'\\\012\377\302\233'");
        let shell = std::process::Command::new("bash").args(["-c", &format!("printf %s {spelt}")]).output();
        if let Ok(pasted) = shell {
            assert_eq!(pasted.stdout, path.as_bytes());
        }
    }

    #[test]
    fn quoted_words_pass_through_a_shell_unchanged() {
        for word in [&b"plain"[..], b"two words", b"it's", b"a\nb", b"$HOME `id` \"x\" \\", b"", b"\xff'\xfe", b"-n"] {
            let line = [b"printf %s ", quoted_word(OsStr::from_bytes(word)).as_bytes()].concat();
            let mut shell = std::process::Command::new("sh");
            let printed = shell.arg("-c").arg(OsStr::from_bytes(&line)).output().expect("there is a shell");
            assert_eq!(printed.stdout, if word == b"-n" { &b"-n"[..] } else { word });
        }
    }

    #[test]
    fn numbers_of_errors_are_not_shown() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(InWords(&error).to_string(), "No space left on device");
        assert_eq!(InWords(&io::Error::other("own words")).to_string(), "own words");
        let said = "cannot write a: No space left on device (os error 28); cannot read b: gone (os error 5) (retry)";
        let heard = "cannot write a: No space left on device; cannot read b: gone (retry)";
        assert_eq!(without_numbers(said), heard);
        assert_eq!(without_numbers("broken (os error "), "broken");
    }
}
