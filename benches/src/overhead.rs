//! What supervision costs while no checkpoint is taken: the difference must disappear in the noise of native runs.

use crate::figures::{Verdict, median, ratio};
use anyhow::{Context as _, Result};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::victims::{LOOPS as VICTIM, Program};
use std::process::Stdio;
use std::time::Duration;

/// The loops that a preload-based checkpointer slows down 8, 7 and 30 times.
pub(crate) const LOOPS: [&str; 3] = ["malloc", "open", "spawn"];

/// About half a second for each loop.
const ROUNDS: &str = "80000";

/// The maximum slowdown, unless native runs differ more among themselves. Supervision adds nothing to these calls. But a
/// loop of 0.6 microseconds runs at one of two speeds, 4 % apart, depending on where the kernel placed its pages, also
/// natively. At 1.01, the row missed in every second run of the same code on one host.
const BOUND: f64 = 1.05;

/// Runs the loop natively, supervised, and natively again, repeatedly.
pub(crate) fn with_checkpoints_off(kind: &str, repeats: usize) -> Result<Verdict> {
    let program = VICTIM.with(&[kind, ROUNDS])?;
    let (mut native, mut supervised, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeats {
        native.push(natively(&program)?);
        supervised.push(under_supervision(&program)?);
        again.push(natively(&program)?);
    }
    let all: Vec<Duration> = native.iter().chain(&again).copied().collect();
    let found = ratio(median(&supervised), median(&all));
    let spread = spread(&native, &again);
    let measured = format!("{found:.3} (native against native: up to {spread:.3})");
    let promise = format!("{kind} loop, checkpoints off: at most {BOUND}, or native's own spread");
    Ok(Verdict { promise, measured, holds: found <= BOUND.max(spread) })
}

/// Returns the median ratio between adjacent native runs.
fn spread(native: &[Duration], again: &[Duration]) -> f64 {
    let both_ways = |(a, b): (&Duration, &Duration)| ratio(*a, *b).max(ratio(*b, *a));
    let mut ratios: Vec<f64> = native.iter().zip(again).map(both_ways).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
}

fn natively(program: &Program) -> Result<Duration> {
    let arena = Arena::new()?;
    let mut command = arena.command(&program.path);
    command.args(&program.arguments).stdin(Stdio::null());
    said(Running::start(&arena, "native", Output::Log, &mut command)?)
}

fn under_supervision(program: &Program) -> Result<Duration> {
    let arena = Arena::new()?;
    said(Standfast::new(&arena)?.run(Checkpoints::OnRequest, program)?)
}

fn said(running: Running) -> Result<Duration> {
    let ended = running.wait(PATIENCE)?.well("the loop")?;
    let nanoseconds = ended.output.trim().parse().with_context(|| format!("the loop said {:?}", ended.output))?;
    Ok(Duration::from_nanos(nanoseconds))
}
