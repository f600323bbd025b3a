//! `cargo xtask simulate`: runs of the simulated cluster, one for each seed. Prints a line for each seed that fails, and a
//! summary; fails if any did. A seed always gives the same run.
//!
//! ```text
//! standfast-sim [--ranks N] [--seeds A..B] [--kills K] [--minutes M]
//!     --minutes: instead of --seeds, as many seeds as there is time for, from a random one on
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]
#![forbid(unsafe_code)]

use standfast_sim::cluster::{Outcome, run};
use standfast_sim::scenario::{Scenario, Wishes};
use std::ops::Range;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask simulate [--ranks N] [--seeds A..B] [--kills K] [--minutes M]";

struct Settings {
    wishes: Wishes,
    seeds: Range<u64>,
    until: Option<Instant>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match settings(&words) {
        Ok(settings) => simulate(settings),
        Err(problem) => {
            eprintln!("simulate: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn settings(words: &[String]) -> Result<Settings, String> {
    let mut settings = Settings { wishes: Wishes::default(), seeds: 0..200, until: None };
    for pair in words.chunks(2) {
        let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<u32>().map_err(|_| format!("{option} takes a whole number, not {value}"));
        match option.as_str() {
            "--ranks" => settings.wishes.ranks = Some(number()?),
            "--kills" => settings.wishes.kills = Some(number()?),
            "--seeds" => settings.seeds = seeds(value).ok_or_else(|| format!("--seeds takes A..B, not {value}"))?,
            "--minutes" => {
                settings.until = Some(Instant::now() + Duration::from_secs(60 * u64::from(number()?)));
                let start = fastrand::u64(..u64::MAX / 2);
                settings.seeds = start..u64::MAX;
            }
            _ => return Err(format!("there is no option {option}")),
        }
    }
    Ok(settings)
}

fn seeds(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once("..")?;
    let seeds = start.parse().ok()?..end.parse().ok()?;
    (!seeds.is_empty()).then_some(seeds)
}

fn simulate(settings: Settings) -> ExitCode {
    let Settings { wishes, seeds, until } = settings;
    println!("seeds from {} on", seeds.start);
    let (mut ran, mut failed, mut total) = (0_u64, 0_u64, Outcome::default());
    for seed in seeds {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        ran += 1;
        // A broken assertion is a finding like any other, and must not hide those of other seeds.
        match catch_unwind(|| run(&Scenario::new(seed, wishes))) {
            Ok(Ok(outcome)) => add(&mut total, &outcome),
            Ok(Err(failure)) => {
                failed += 1;
                println!("seed {seed}: {failure}");
            }
            Err(_) => {
                failed += 1;
                println!("seed {seed}: a broken assertion, see above");
            }
        }
    }
    let Outcome { committed, kills, recoveries, abandoned, messages, .. } = total;
    println!(
        "{ran} seeds, {failed} failed: {committed} epochs, {kills} failures, {recoveries} recoveries, {abandoned} given up, {messages} messages"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(total: &mut Outcome, outcome: &Outcome) {
    total.committed += outcome.committed;
    total.kills += outcome.kills;
    total.recoveries += outcome.recoveries;
    total.abandoned += outcome.abandoned;
    total.messages += outcome.messages;
}
