//! `make bench`: the promises about speed. Each is a ratio of two things measured alternately within one run, so that
//! it means the same on a fast machine and on a slow one. Not a place for absolute records.
//!
//! ```text
//! standfast-bench [--megabytes N] [--repeats N]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]
#![forbid(unsafe_code)]

mod bulk;
mod chains;
mod delta;
mod erasure;
mod figures;
mod overhead;
mod pause;
mod reservation;
mod tree;

use anyhow::{Context as _, Result, bail};
use figures::Verdict;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

struct Settings {
    megabytes: u64,
    repeats: usize,
}

fn main() -> ExitCode {
    match settings().and_then(|settings| measure(&settings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("bench: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> Result<Settings> {
    let mut settings = Settings { megabytes: 1024, repeats: 7 };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--megabytes" => settings.megabytes = value.parse().context("--megabytes takes a whole number")?,
            "--repeats" => settings.repeats = value.parse().context("--repeats takes a whole number")?,
            _ => bail!("unknown option {argument}; usage: standfast-bench [--megabytes N] [--repeats N]"),
        }
    }
    if settings.repeats == 0 || settings.megabytes == 0 {
        bail!("nothing to measure: --megabytes and --repeats start at 1");
    }
    Ok(settings)
}

fn measure(settings: &Settings) -> Result<bool> {
    let mut verdicts = Vec::new();
    let mut say = |verdict: Verdict| {
        println!("{verdict}");
        verdicts.push(verdict.holds);
    };
    for verdict in delta::speed(settings.repeats) {
        say(verdict);
    }
    for verdict in erasure::speed(settings.repeats) {
        say(verdict);
    }
    for kind in overhead::LOOPS {
        say(overhead::with_checkpoints_off(kind, settings.repeats)?);
    }
    say(pause::of_a_tiny_process(settings.repeats)?);
    for verdict in tree::pause_and_restart(10, settings.repeats)? {
        say(verdict);
    }
    for verdict in tree::pause_and_restart(200, settings.repeats)? {
        say(verdict);
    }
    say(reservation::of_a_terabyte(settings.repeats)?);
    for verdict in chains::at_one_percent(settings.megabytes, settings.repeats)? {
        say(verdict);
    }
    say(chains::first_write(settings.repeats)?);
    let seconds = Duration::from_secs;
    // Three of the seven: each takes most of a minute.
    let few = settings.repeats.div_ceil(3);
    say(chains::added("small", seconds(10), 1.03, settings.megabytes, few)?);
    say(chains::added("small", seconds(1), 1.10, settings.megabytes, settings.repeats)?);
    say(chains::added("huge", seconds(10), 1.05, settings.megabytes, few)?);
    chains::sizes(settings.megabytes)?;
    for pages in [bulk::Pages::Small, bulk::Pages::Huge] {
        let job = bulk::Job::start(settings.megabytes, pages)?;
        let (checkpoint, restart) = job.measure(settings.repeats)?;
        say(checkpoint);
        say(restart);
    }
    Ok(verdicts.iter().all(|holds| *holds))
}
