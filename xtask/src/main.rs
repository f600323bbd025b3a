//! Checks of the source tree that neither the compiler nor clippy can make: `cargo xtask tidy`.
//!
//! It reads, and says what it found; it changes nothing. The rules are pure functions over text ([`rooms`], [`sources`],
//! [`documents`]); [`tidy`] fetches the text. It is a tool of this repository, not a part of Standfast.
#![forbid(unsafe_code)]

mod code;
mod documents;
mod finding;
mod rooms;
mod sources;
mod tidy;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [word] = words.as_slice() else { return usage() };
    if word != "tidy" {
        return usage();
    }
    match tidy::check() {
        Ok(report) if report.findings.is_empty() => {
            say(&format!("tidy: {} files and {} packages, nothing to mend", report.files, report.packages));
            ExitCode::SUCCESS
        }
        Ok(report) => {
            for finding in &report.findings {
                say(&finding.to_string());
            }
            say(&format!("tidy: {} to mend", report.findings.len()));
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("tidy: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    say("usage: cargo xtask tidy");
    ExitCode::from(2)
}

/// A closed standard error is no reason to fail: the exit status tells the outcome all the same.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
