//! How paths and failures of the system are spelt in messages.

use std::fmt;
use std::io;
use std::path::Path;

/// A path as a shell takes it: as it is where that is safe, in single quotes where not.
pub struct ForShell<'a>(
    /// The path.
    pub &'a Path,
);

impl fmt::Display for ForShell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
        match text.strip_prefix('-') {
            Some(_) => write!(f, "./{}", quoted(&text, is_plain)),
            None => f.write_str(&quoted(&text, is_plain)),
        }
    }
}

fn quoted(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A failure of the system in words alone, without its number.
pub struct InWords<'a>(
    /// The failure.
    pub &'a io::Error,
);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_numbers(&self.0.to_string()))
    }
}

/// A message without the numbers of the system's errors in it: they help nobody at night, the words before them do.
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
