//! Decides which command lines are interactive shells. According to POSIX those do job control, for which they need a
//! session and a terminal of their own. The module is pure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Shells that are recognized by their names.
const SHELLS: [&str; 11] = ["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "tcsh", "csh"];

/// Reports whether this starts a shell without a script or a command, so that it reads commands from the terminal. The
/// word after an option that takes one counts as a script; the user can still ask for a terminal.
pub(crate) fn is_interactive_shell(program: &OsStr, arguments: &[OsString]) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().as_bytes();
    let name = name.strip_prefix(b"-").unwrap_or(name);
    let is_option = |word: &OsString| {
        let word = word.as_bytes();
        let long = word.starts_with(b"--") && word.len() > 2;
        long || word.len() > 1 && matches!(word[0], b'-' | b'+') && !word.contains(&b'c')
    };
    SHELLS.iter().any(|shell| shell.as_bytes() == name) && arguments.iter().all(is_option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interactive_shells_are_distinguished_from_scripts() {
        let table = [
            ("bash", true),
            ("/bin/bash --norc --noprofile", true),
            ("-zsh", true),
            ("sh -i", true),
            ("bash +B -l", true),
            ("bash -c ls", false),
            ("bash -lc ls", false),
            ("sh script.sh", false),
            ("bash -- script.sh", false),
            ("bash -", false),
            ("bashful", false),
            ("./simulate", false),
            ("vim", false),
        ];
        for (line, expected) in table {
            let mut words = line.split(' ').map(OsString::from);
            let program = words.next().unwrap();
            let arguments: Vec<_> = words.collect();
            assert_eq!(is_interactive_shell(&program, &arguments), expected, "{line}");
        }
    }
}
