//! Compares what `standfast advise` predicts with what happens to programs under failures.
//!
//! ```text
//! predictions [--seconds S] [--runs N] [--seed S] [--program NAME] [--record yes]
//!     --seconds: running time of each program alone [default: 20]
//!     --runs: runs with failures of each program [default: 20]
//!     --record: prints what checkpoints cost at several intervals instead, as a table
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]

use anyhow::{Context as _, Result, bail, ensure};
use standfast_tests::predictions::{Plan, compare, record};
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    match compared() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("predictions: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn compared() -> Result<()> {
    let Arguments { plan, records } = arguments()?;
    if records {
        return record(&plan, &mut |line| println!("{line}"));
    }
    println!("seed {}", plan.seed);
    let mut wrong = 0;
    compare(&plan, &mut |comparison| {
        println!("{comparison}");
        wrong += usize::from(!comparison.has_overhead_as_predicted()) + usize::from(!comparison.ends_as_predicted());
    })?;
    ensure!(wrong == 0, "{wrong} predictions were wrong");
    Ok(())
}

struct Arguments {
    plan: Plan,
    /// Whether to print what checkpoints cost, and to compare nothing.
    records: bool,
}

fn arguments() -> Result<Arguments> {
    let mut plan = Plan { seconds: 20.0, runs: 20, seed: fastrand::u64(..), only: None };
    let mut records = false;
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--seconds" => plan.seconds = value.parse().context("--seconds takes a number")?,
            "--runs" => plan.runs = value.parse().context("--runs takes a whole number")?,
            "--seed" => plan.seed = value.parse().context("--seed takes a whole number")?,
            "--program" => plan.only = Some(value),
            "--record" => records = value == "yes",
            _ => bail!(
                "unknown option {argument}; usage: predictions [--seconds S] [--runs N] [--seed S] [--program NAME] \
                 [--record yes]"
            ),
        }
    }
    Ok(Arguments { plan, records })
}
