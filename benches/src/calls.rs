//! How long the calls of libstandfast take, in an unprotected program and in one with many regions.

use crate::directives::checkpoints_left;
use crate::figures::{Verdict, median, milliseconds, ratio};
use anyhow::{Context as _, Result};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::RunResult;
use standfast_tests::running::PATIENCE;
use standfast_tests::victims::CALLS;
use std::time::Duration;

/// Measures the promises. They are absolute, since calls that a loop makes in each round must not be noticeable.
pub(crate) fn promises() -> Result<Vec<Verdict>> {
    let program = CALLS.with(&[])?;
    let outside = RunResult::native(&program)?.output();
    let arena = Arena::new()?;
    let options = ["--min-interval", "1h"].map(str::to_owned);
    let running = Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &program)?;
    running.wait(PATIENCE)?.well("the program")?;
    let inside = RunResult::read(&arena.work())?.output();
    Ok(vec![
        at_most("exclude() outside Standfast", figure(&outside, "exclude")?, 10.0, "ns"),
        at_most("checkpoint_here() that is not due", figure(&inside, "not-due")?, 50.0, "ns"),
        at_most("exclude() with 100,000 regions, median", figure(&inside, "exclude")?, 300.0, "ns"),
        at_most("table of regions, a region", figure(&inside, "table")?, 16.0, "bytes"),
        waits()?,
    ])
}

/// Measures how long a program waits for a checkpoint that it asks for. Other programs run while a checkpoint is
/// prepared and confirmed; this one waits for all that comes before it may run again.
fn waits() -> Result<Verdict> {
    const BOUND: f64 = 3.0;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--min-interval", "100ms", "--incremental", "off", "--snapshot", "sequential", "--keep", "1000"];
    let program = CALLS.with(&["waits"])?;
    let running = standfast.run_with(&options.map(str::to_owned), Checkpoints::OnRequest, &program)?;
    running.wait(PATIENCE)?.well("the program")?;
    let waited = Duration::from_nanos(figure(&RunResult::read(&arena.work())?.output(), "waits")? as u64);
    let pauses: Vec<_> = checkpoints_left(&standfast, &arena)?.iter().skip(1).map(|taken| taken.pause).collect();
    let (pause, found) = (median(&pauses), ratio(waited, median(&pauses)));
    Ok(Verdict {
        promise: format!("wait in checkpoint_here() against the pause: at most {BOUND}"),
        measured: format!("{found:.2} ({} against {})", milliseconds(waited), milliseconds(pause)),
        holds: found <= BOUND,
    })
}

fn figure(said: &str, name: &str) -> Result<f64> {
    let found = said.lines().filter_map(|line| line.split_once(' ')).find(|(what, _)| *what == name);
    let (_, number) = found.with_context(|| format!("it said nothing of {name}: {said}"))?;
    number.parse().with_context(|| format!("{number} is no number"))
}

fn at_most(what: &str, found: f64, bound: f64, unit: &str) -> Verdict {
    Verdict {
        promise: format!("{what}: at most {bound} {unit}"),
        measured: format!("{found} {unit}"),
        holds: found <= bound,
    }
}
