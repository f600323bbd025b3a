//! `cargo xtask simulate`: runs of the simulated cluster, one for each seed. Prints a line for each seed that fails, and
//! a summary; fails if any seed did. A seed always gives the same run.
//!
//! ```text
//! standfast-sim [--ranks N] [--seeds A..B] [--kills K] [--minutes M] [--plant FAULT]
//!     --minutes: instead of --seeds, as many seeds as there is time for, beginning with a random one
//!     --plant: with an injected fault, to see that it is found
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]
#![forbid(unsafe_code)]

use standfast_sim::cluster::{Failure, RunOutcome, run};
use standfast_sim::scenario::{Plant, Scenario, Wishes};
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask simulate [--ranks N] [--seeds A..B] [--kills K] [--minutes M] [--plant FAULT]";

struct Settings {
    wishes: Wishes,
    seeds: Range<u64>,
    until: Option<Instant>,
    plant: Option<Plant>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match settings(&words) {
        Ok(settings) => {
            let failed = simulate(&settings, &mut std::io::stdout(), |seed| run(&settings.scenario(seed)));
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("simulate: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn settings(words: &[String]) -> Result<Settings, String> {
    let mut settings = Settings { wishes: Wishes::default(), seeds: 0..200, until: None, plant: None };
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
            "--plant" => {
                let known = Plant::ALL.iter().find(|(name, _)| name == value);
                let names = || Plant::ALL.map(|(name, _)| name).join(", ");
                let (_, plant) = known.ok_or_else(|| format!("--plant takes one of {}, not {value}", names()))?;
                settings.plant = Some(*plant);
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

impl Settings {
    fn scenario(&self, seed: u64) -> Scenario {
        let scenario = Scenario::new(seed, self.wishes);
        match self.plant {
            Some(plant) => scenario.with(plant),
            None => scenario,
        }
    }
}

/// Runs all seeds and returns how many failed.
fn simulate(settings: &Settings, out: &mut impl Write, run: impl Fn(u64) -> Result<RunOutcome, Failure>) -> u64 {
    // A closed standard output is no reason to stop: the exit status reports the result all the same.
    let mut say = |line: String| drop(writeln!(out, "{line}"));
    say(format!("seeds from {} on", settings.seeds.start));
    let (mut ran, mut failed, mut total) = (0_u64, 0_u64, RunOutcome::default());
    for seed in settings.seeds.clone() {
        if settings.until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        ran += 1;
        // A failed assertion is a finding like any other, and must not hide those of other seeds.
        let failure = match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Ok(outcome)) => {
                add(&mut total, &outcome);
                continue;
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "a broken assertion, see above".to_owned(),
        };
        failed += 1;
        say(format!("seed {seed}: {failure}"));
    }
    let RunOutcome { committed, kills, recoveries, abandoned, messages, .. } = total;
    say(format!(
        "{ran} seeds, {failed} failed: {committed} epochs, {kills} failures, {recoveries} recoveries, {abandoned} given up, {messages} messages"
    ));
    failed
}

fn add(total: &mut RunOutcome, outcome: &RunOutcome) {
    total.committed += outcome.committed;
    total.kills += outcome.kills;
    total.recoveries += outcome.recoveries;
    total.abandoned += outcome.abandoned;
    total.messages += outcome.messages;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_that_fails_has_a_line_and_the_summary_counts_them() {
        let run = |seed| match seed {
            3 => Err(Failure("it is not what it was".into())),
            5 => panic!("an assertion"),
            _ => Ok(RunOutcome { committed: 2, ..RunOutcome::default() }),
        };
        let settings = Settings { wishes: Wishes::default(), seeds: 2..7, until: None, plant: None };
        let mut out = Vec::new();
        assert_eq!(simulate(&settings, &mut out, run), 2);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["seeds from 2 on", "seed 3: it is not what it was"]);
        assert!(
            lines[2].starts_with("seed 5: a broken assertion") && lines[3].starts_with("5 seeds, 2 failed: 6 epochs")
        );
    }

    #[test]
    fn options_that_make_no_sense_are_named() {
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            settings(&words).err().expect("it is refused")
        };
        assert!(refused(&["--seeds", "7"]).contains("A..B"));
        assert!(refused(&["--seeds", "7..7"]).contains("A..B"));
        assert!(refused(&["--ranks", "many"]).contains("whole number"));
        assert!(refused(&["--ranks"]).contains("needs a value"));
        assert!(refused(&["--plant", "gremlin"]).contains("id-ignored"));
        assert!(refused(&["--speed", "3"]).contains("--speed"));
    }
}
