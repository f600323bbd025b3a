//! Parallel programs that know nothing of Standfast, all on this machine: `standfast run mpirun ...`.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::mpi::MPIS;
use standfast_tests::result::RunResult;
use standfast_tests::running::{PATIENCE, patience_for_a_whole_run, until};
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::Program;
use standfast_tests::{Lacking, seed, skip};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Some two seconds.
const STEPS: u32 = 200;
/// The ranks of Debian's MPICH use their processors while they wait, and here there are too many of them.
const STEPS_OF_BUSY_RANKS: u32 = 30;
const RANKS: usize = 3;

/// Checks a promise with the program under every installed MPI.
fn with_every_mpi(promise: impl Fn(&Program, &RunResult) -> Result<()>) -> Result<()> {
    for mpi in MPIS.iter().copied() {
        let steps = if mpi.name == "MPICH" { STEPS_OF_BUSY_RANKS } else { STEPS };
        match mpi.unmodified(steps)? {
            Some(program) => promise(&program, &RunResult::native(&program)?).with_context(|| mpi.name)?,
            None => skip(mpi.name, &Lacking::program("its compiler and its launcher")),
        }
    }
    Ok(())
}

/// Everything is killed at random moments, the launcher first.
fn survives(program: &Program, native: &RunResult) -> Result<()> {
    let torment = Torment { interval: Duration::from_millis(400), kills_max: 3, seed: seed(), options: &[] };
    let tally = survives_kills(program, native, torment)?;
    ensure!(tally.kills > 0, "it ended before it could be killed");
    Ok(())
}

/// MPI ends a program that has lost a rank. The job then continues from its checkpoint.
fn survives_the_loss_of_a_rank(program: &Program, native: &RunResult) -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut running = standfast.run(Checkpoints::OnRequest, program)?;
    let has_begun =
        || fs::read(arena.work().join(standfast_tests::result::OUTPUT)).is_ok_and(|output| !output.is_empty());
    until(PATIENCE, "the first step", || Ok(has_begun().then_some(())))?;
    standfast.checkpoint()?;
    let steps = program.arguments.iter().rev().nth(1).context("the program is the last word but one")?;
    let ranks = arena.processes_of(Path::new(steps));
    ensure!(ranks.len() == RANKS && !running.has_ended()?, "these ranks run: {ranks:?}");
    kill(ranks[1], Signal::SIGKILL)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(!ended.exited(0), "it ended well without one of its ranks: {}", ended.errors);
    arena.wait_until_empty(PATIENCE)?;
    standfast.restart(&arena.images(), "restart")?.wait(patience_for_a_whole_run())?.well("the restarted job")?;
    RunResult::read(&arena.work())?.must_equal(native)?;
    arena.wait_until_empty(PATIENCE)
}

#[test]
#[ignore = "11 s; each kind of object that MPI uses has a victim"]
fn unmodified_programs_of_every_mpi_survive_kills() -> Result<()> {
    with_every_mpi(survives)
}

#[test]
#[ignore = "6 s; as above"]
fn unmodified_programs_of_every_mpi_survive_the_loss_of_a_rank() -> Result<()> {
    with_every_mpi(survives_the_loss_of_a_rank)
}
