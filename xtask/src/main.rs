//! Checks of the source tree that neither the compiler nor clippy can make: `cargo xtask tidy`. Also starts the
//! simulator: `cargo xtask simulate`.
//!
//! Tidy reads files and reports what it found; it changes nothing. The rules are pure functions over text ([`rooms`],
//! [`sources`], [`parameters`], [`documents`], [`words`], [`names`], [`circles`]); [`tidy`] fetches the text. This is a
//! tool of the repository, not a part of Standfast.
#![forbid(unsafe_code)]

mod circles;
mod code;
mod documents;
mod finding;
mod names;
mod parameters;
mod rooms;
mod sources;
mod tidy;
mod words;

use std::io::Write;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((word, [])) if word == "tidy" => check(),
        Some((word, rest)) if word == "simulate" => simulate(rest),
        _ => usage(),
    }
}

/// Builds and runs the simulator, optimized. The simulator is a separate program on which this one does not depend.
fn simulate(words: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "standfast-sim", "--"]).args(words);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("simulate: cargo could not be started: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn check() -> ExitCode {
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
    say("usage: cargo xtask tidy | simulate [--ranks N] [--seeds A..B] [--kills K] [--minutes M] [--plant FAULT]");
    ExitCode::from(2)
}

/// Prints a line. A closed standard error is no reason to fail, since the exit status still gives the outcome.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
