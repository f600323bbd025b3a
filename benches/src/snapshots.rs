//! The methods of capture: how long a clone freezes a program, compared with fork(2) alone, and how long the best method
//! freezes a program that writes.

use crate::figures::{Verdict, median, milliseconds, within};
use crate::pause::checkpoint;
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::victims::DIRTIER;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The maximum time for a clone relative to a fork.
const CLONE_MAX: f64 = 1.5;
/// The maximum pause of the best method for a program that writes a tenth of its pages each second.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The interval at which the program writes a hundredth of its pages.
const TENTH: Duration = Duration::from_millis(100);

/// Measures a full checkpoint from a clone against a bare fork, in turns.
pub(crate) fn clone_against_fork(megabytes: u64, repeats: usize) -> Result<Verdict> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--incremental", "off", "--snapshot", "fork"].map(str::to_owned);
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "forks"])?;
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let (mut clones, mut forks) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let go = arena.work().join("go");
        fs::write(&go, "")?;
        until(PATIENCE, "the program to fork", || Ok((!go.exists()).then_some(())))?;
        let took = fs::read_to_string(arena.work().join("took"))?;
        forks.push(Duration::from_nanos(took.parse().with_context(|| format!("it took {took:?}"))?));
        clones.push(checkpoint(standfast, &arena)?.pause);
    }
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    Ok(within(format!("{megabytes} MB, full, by fork: the pause against a bare fork"), &clones, &forks, CLONE_MAX))
}

/// Measures the pause of full checkpoints for a program that writes a tenth of its pages each second, by the fastest
/// method.
pub(crate) fn best_of_a_writing_program(megabytes: u64, repeats: usize) -> Result<Verdict> {
    let mut pauses = Vec::new();
    for snapshot in ["fork", "precopy"] {
        pauses.push((median(&paused(snapshot, megabytes, repeats)?), snapshot));
    }
    let (pause, best) = pauses.iter().min().copied().context("there are two ways")?;
    let all: Vec<_> = pauses.iter().map(|(pause, snapshot)| format!("{snapshot} {}", milliseconds(*pause))).collect();
    Ok(Verdict {
        promise: format!("{megabytes} MB, full, 10 % dirty a second: pause at most {}", milliseconds(PAUSE_MAX)),
        measured: format!("{best} ({})", all.join(", ")),
        holds: pause <= PAUSE_MAX,
    })
}

fn paused(snapshot: &str, megabytes: u64, repeats: usize) -> Result<Vec<Duration>> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--incremental", "off", "--snapshot", snapshot].map(str::to_owned);
    let program = DIRTIER.with(&[&megabytes.to_string(), "small", "asked", "10"])?;
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let (go, is_done) = (arena.work().join("go"), AtomicBool::new(false));
    let pauses = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // If the program has not handled the previous request yet, that one counts.
                let _ = fs::write(&go, "");
                thread::sleep(TENTH);
            }
        });
        // The first checkpoint must start tracking memory and populate buffers.
        let pauses: Result<Vec<Duration>> =
            (0..=repeats).map(|_| checkpoint(standfast, &arena).map(|taken| taken.pause)).collect();
        is_done.store(true, Ordering::Relaxed);
        pauses
    });
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    pauses.map(|pauses| pauses[1..].to_vec())
}
