//! What is said to people: always on standard error and with the command's name in front, since standard output belongs
//! to the program that runs.

use crate::arguments::Volume;
use standfast::{Notice, Weight};
use std::io::{self, Write};

/// Speaks as loudly as was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    least: Weight,
}

impl Voice {
    pub(crate) fn new(volume: Volume) -> Self {
        let least = match volume {
            Volume { quiet: true, .. } => Weight::Warning,
            Volume { verbose: true, .. } => Weight::Detail,
            Volume { .. } => Weight::Note,
        };
        Self { least }
    }

    /// Passes on what a supervisor has to say.
    pub(crate) fn notice(self, notice: &Notice) {
        if notice.weight() >= self.least {
            say(&notice.to_string());
        }
    }
}

/// Says something in any case. A closed standard error is nobody's fault.
pub(crate) fn say(message: &str) {
    let line = format!("standfast: {}\n", in_one_line(&without_numbers(message)));
    drop(io::stderr().write_all(line.as_bytes()));
}

/// Numbers of errors help nobody at night; the words before them do.
pub(crate) fn without_numbers(message: &str) -> String {
    let mut words = message.to_owned();
    while let Some(start) = words.find(" (os error ") {
        let end = words[start..].find(')').map_or(words.len(), |length| start + length + 1);
        words.replace_range(start..end, "");
    }
    words
}

fn in_one_line(message: &str) -> String {
    message.lines().map(str::trim_end).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out_wherever_they_stand() {
        let said = "cannot write a: No space left on device (os error 28); cannot read b: gone (os error 5) (retry)";
        let heard = "cannot write a: No space left on device; cannot read b: gone (retry)";
        assert_eq!(without_numbers(said), heard);
        assert_eq!(without_numbers("broken (os error "), "broken");
    }

    #[test]
    fn quiet_keeps_warnings_and_verbose_brings_details() {
        let voice = |quiet, verbose| Voice::new(Volume { quiet, verbose }).least;
        assert_eq!(voice(true, false), Weight::Warning);
        assert_eq!(voice(false, true), Weight::Detail);
        assert_eq!(voice(false, false), Weight::Note);
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(in_one_line("first\nsecond \n"), "first second");
    }
}
