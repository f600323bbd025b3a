//! A unit for systemd, of the system or of a user. It needs no script: systemd signals only the command, and asks for
//! the state of the job before each start.

use super::plan::JobPlan;
use super::shell::directives;
use super::template::fill;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

const TEMPLATE: &str = include_str!("templates/unit.service");

pub(super) fn unit(plan: &JobPlan) -> Vec<u8> {
    let words = plan.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let directory = plan.directory.as_os_str();
    fill(
        TEMPLATE,
        &[
            ("NAME", OsStr::new(&plan.name)),
            ("DIRECTORY_SHOWN", OsStr::new(&quoted(directory))),
            ("WORKING_DIRECTORY", OsStr::new(&path(plan.working_directory.as_os_str()))),
            ("STANDFAST", OsStr::new(&quoted(&plan.standfast))),
            ("DIRECTORY", OsStr::new(&quoted(directory))),
            ("WORDS", OsStr::new(&words)),
            ("SECONDS", OsStr::new(&plan.seconds.to_string())),
            ("RESTART", OsStr::new(if plan.requeues { "on-abnormal" } else { "no" })),
            ("DIRECTIVES", &directives("", plan)),
        ],
    )
}

/// Quotes a word of a command line as systemd reads it, where `%` and `$` mean something even in quotes.
fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@=".contains(byte);
    let plain = word.as_bytes().iter().all(is_plain) && !word.is_empty();
    if plain {
        return word.to_string_lossy().into_owned();
    }
    let mut quoted = String::from("\"");
    for byte in word.as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b'%' | b'$' => quoted.extend([char::from(*byte); 2]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => quoted += &format!("\\x{byte:02x}"),
        }
    }
    quoted + "\""
}

/// Writes a path that is the whole of a setting: quotes and spaces mean nothing there, `%` does.
fn path(path: &OsStr) -> OsString {
    let text: String = path.to_string_lossy().replace('%', "%%");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_systemd() {
        for (word, wanted) in [
            ("./heat", "./heat"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("100%", "\"100%%\""),
            ("$HOME", "\"$$HOME\""),
            ("it's \"q\"\n", "\"it's \\\"q\\\"\\x0a\""),
        ] {
            assert_eq!(quoted(OsStr::new(word)), wanted);
        }
    }
}
