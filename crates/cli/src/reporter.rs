//! Messages for people. They always go to standard error, with the command's name in front, because standard output
//! belongs to the program that runs.

use crate::arguments::Volume;
use crate::progress_bar;
use rustix::termios::{OutputModes, tcgetattr};
use standfast::{JobEvent, LongWork, Severity, message_lines, printable, printable_lines, without_numbers};
use std::io::{self, Write};

/// Prints messages of the requested severity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporter {
    least: Severity,
}

impl Reporter {
    pub(crate) fn new(volume: Volume) -> Self {
        let least = match volume {
            Volume { quiet: true, .. } => Severity::Warning,
            Volume { verbose: true, .. } => Severity::Detail,
            Volume { .. } => Severity::Note,
        };
        Self { least }
    }

    /// Prints an event of a supervisor.
    pub(crate) fn event(self, event: &JobEvent) {
        let is_drawn = self.least <= Severity::Note && draw_progress(event);
        if event.severity() >= self.least && !is_drawn {
            say(&event.to_string());
        }
    }
}

/// Draws a bar if the event is the progress of work, and erases it at the end of the work. Returns whether that is all: where
/// there can be no bar, a line may be due.
fn draw_progress(event: &JobEvent) -> bool {
    match event {
        // The program writes to the terminal meanwhile.
        JobEvent::Progress { work: LongWork::Writing { .. } | LongWork::Flushing { .. }, .. } => false,
        JobEvent::Progress { done_bytes, total_bytes, is_line, .. } => {
            progress_bar::draw(event, *done_bytes, *total_bytes) || !is_line
        }
        JobEvent::ProgressEnded { .. } => {
            progress_bar::erase();
            true
        }
        _ => false,
    }
}

/// Prints the events that come before an answer.
pub(crate) fn speak(event: &JobEvent) {
    if !draw_progress(event) {
        say(&event.to_string());
    }
}

/// Prints a message, and each hint on a line of its own. Ignores a closed standard error.
pub(crate) fn say(message: &str) {
    progress_bar::erase();
    let end = if is_raw(&io::stderr()) { "\r\n" } else { "\n" };
    let message = without_numbers(message);
    let lines: String = message_lines(&message).map(|line| format!("standfast: {}{end}", in_one_line(&line))).collect();
    drop(io::stderr().write_all(lines.as_bytes()));
}

/// Prints what is wrong with the command line, or the help that it asks for, and exits. Words of a command line may be
/// file names that another user has chosen.
pub(crate) fn leave_with(answer: &clap::Error) -> ! {
    if answer.use_stderr() {
        match complaint(&answer.render().to_string()) {
            Some(complaint) => say(&complaint),
            // This is the help, which clap prints if no command was given.
            None => drop(io::stderr().write_all(printable_lines(&answer.render().to_string()).as_bytes())),
        }
        std::process::exit(answer.exit_code());
    }
    answer.exit()
}

/// Converts a complaint about the command line to the form of our own messages: the cause, then hints. Returns `None`
/// if the text is not a complaint.
fn complaint(rendered: &str) -> Option<String> {
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut cause = lines.next()?.strip_prefix("error: ")?.to_owned();
    let mut hints = Vec::new();
    for line in lines {
        if let Some(tip) = line.strip_prefix("tip: ") {
            hints.push(tip.to_owned());
        } else if let Some(hint) = line.strip_prefix("hint: ") {
            hints.push(hint.to_owned());
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            hints.push(format!("usage: {usage}"));
        } else if line.starts_with("For more information") {
            hints.push("--help lists the options".to_owned());
        } else {
            cause.push(' ');
            cause.push_str(line);
        }
    }
    let hints: String = hints.iter().map(|hint| format!("\nhint: {hint}")).collect();
    Some(cause + &hints)
}

/// Reports whether the terminal is in raw mode because it is attached to a program's terminal. Lines then need a
/// carriage return.
fn is_raw(stream: &io::Stderr) -> bool {
    tcgetattr(stream).is_ok_and(|settings| !settings.output_modes.contains(OutputModes::OPOST))
}

fn in_one_line(message: &str) -> String {
    printable(&message.lines().map(str::trim_end).collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_keeps_warnings_and_verbose_brings_details() {
        let reporter = |quiet, verbose| Reporter::new(Volume { quiet, verbose }).least;
        assert_eq!(reporter(true, false), Severity::Warning);
        assert_eq!(reporter(false, true), Severity::Detail);
        assert_eq!(reporter(false, false), Severity::Note);
    }

    #[test]
    fn a_wrong_command_line_is_reported_like_other_errors() {
        use crate::arguments::Arguments;
        use clap::Parser as _;
        let told = |words: &str| {
            let error = Arguments::try_parse_from(words.split(' ')).expect_err(words);
            complaint(&error.render().to_string())
        };
        assert_eq!(
            told("standfast lst").expect("a complaint"),
            "unrecognized subcommand 'lst'\nhint: a similar subcommand exists: 'list'\n\
             hint: usage: standfast [OPTIONS] <COMMAND>\nhint: --help lists the options"
        );
        assert_eq!(
            told("standfast run").expect("a complaint"),
            "the following required arguments were not provided: <PROGRAM>...\n\
             hint: usage: standfast run <PROGRAM>...\nhint: --help lists the options"
        );
        assert_eq!(
            told("standfast run --ids old prog").expect("a complaint"),
            "invalid value 'old' for '--ids <POLICY>': 'old' is not a policy for process ids\n\
             hint: write 'auto' or 'new'\nhint: --help lists the options"
        );
        assert_eq!(told("standfast --help"), None);
    }

    #[test]
    fn each_part_of_a_message_is_one_line() {
        assert_eq!(in_one_line("first\nsecond \n"), "first second");
        assert_eq!(in_one_line("a\x1b[2Jb\rc"), r"a\x1b[2Jb\rc");
    }
}
