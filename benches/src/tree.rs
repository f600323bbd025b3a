//! How long a checkpoint freezes a tree of processes, and how long a restart takes.

use crate::figures::{Verdict, median, milliseconds};
use crate::pause::checkpoint;
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::victims::FAMILY;
use std::fs;
use std::time::{Duration, Instant};

/// Returns the maximum pause and restart time for trees of this size, with half a megabyte changed in each process.
fn bounds(processes: usize) -> (Duration, Duration) {
    if processes <= 10 {
        (Duration::from_millis(20), Duration::from_millis(100))
    } else {
        (Duration::from_millis(250), Duration::from_millis(2000))
    }
}

/// Measures freeze to thaw, from the second checkpoint on, and the time from the start of a restart until all processes
/// run again.
pub(crate) fn pause_and_restart(processes: usize, repeats: usize) -> Result<[Verdict; 2]> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut running = standfast.run(Checkpoints::OnRequest, &FAMILY.with(&[&processes.to_string()])?)?;
    standfast.await_gate()?;
    checkpoint(standfast, &arena)?;
    let mut pauses = Vec::new();
    for _ in 0..repeats * 3 {
        pauses.push(checkpoint(standfast, &arena)?.pause);
    }
    let mut restarts = Vec::new();
    for repeat in 0..repeats {
        end(&standfast)?;
        running.wait(PATIENCE)?;
        arena.wait_until_empty(PATIENCE)?;
        let begun = Instant::now();
        running = standfast.restart(&arena.images(), &format!("restart-{repeat}"))?;
        until(PATIENCE, "all processes to run again", || {
            let program = standfast.await_program()?;
            Ok((1 + children(program)?.len() == processes).then_some(()))
        })?;
        restarts.push(begun.elapsed());
    }
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    let (pause_bound, restart_bound) = bounds(processes);
    Ok([
        verdict(format!("freeze to thaw of {processes} processes"), &pauses, pause_bound),
        verdict(format!("restart of {processes} processes"), &restarts, restart_bound),
    ])
}

fn verdict(what: String, times: &[Duration], bound: Duration) -> Verdict {
    let time = median(times);
    let promise = format!("{what}: at most {}", milliseconds(bound));
    Verdict { promise, measured: milliseconds(time), holds: time <= bound }
}

/// Kills every process of the job.
fn end(standfast: &Standfast<'_>) -> Result<()> {
    let program = standfast.await_program()?;
    for child in children(program)? {
        kill(child, Signal::SIGKILL)?;
    }
    Ok(kill(program, Signal::SIGKILL)?)
}

fn children(parent: Pid) -> Result<Vec<Pid>> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    text.split_whitespace().map(|pid| Ok(Pid::from_raw(pid.parse()?))).collect()
}
