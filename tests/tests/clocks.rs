//! A restart after a reboot: the machine's monotonic clocks have started again, but those of the program continue.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Uid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::victims::{CLOCKS, Program, SMALL};
use std::process::Stdio;

/// How far ahead the clocks of the first life are: ten days.
const AHEAD_SECONDS: &str = "864000";

#[test]
fn monotonic_clocks_never_go_back_after_a_reboot() -> Result<()> {
    let program = CLOCKS.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    killed_after_a_life_ahead(&arena, standfast, &program)?;
    let second_life = standfast.restart(&arena.images(), "restart")?;
    standfast.checkpoint_when_supervised()?;
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    let ended = second_life.wait(PATIENCE)?;
    ensure!(ended.killed_by(Signal::SIGKILL), "the second life ended otherwise: {ended:?}");
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "restart-again")?.wait(PATIENCE)?.well("the third life")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn clocks_that_would_go_back_refuse_the_restart_unless_they_may_jump() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    killed_after_a_life_ahead(&arena, standfast, &program)?;
    open_gate(&arena)?;
    let mut new_ids = standfast.restart_command(&arena.images());
    let refused = Running::complete(&arena, "refused", new_ids.args(["--ids", "new"]))?;
    ensure!(refused.exited(1) && refused.errors.contains("--clock-jump"), "not refused: {refused:?}");
    let mut jump = standfast.restart_command(&arena.images());
    let jump = jump.args(["--ids", "new", "--clock-jump"]);
    Running::start(&arena, "jump", Output::Nowhere, jump)?.wait(PATIENCE)?.well("the second life")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

/// Runs a program under clocks that are ahead, takes a checkpoint, and kills it.
fn killed_after_a_life_ahead(arena: &Arena, standfast: Standfast<'_>, program: &Program) -> Result<()> {
    let mut first_life = arena.command("unshare");
    if !Uid::effective().is_root() {
        first_life.args(["--user", "--map-current-user"]);
    }
    first_life.args(["--time", "--monotonic", AHEAD_SECONDS, "--boottime", AHEAD_SECONDS, "--fork"]);
    let run = standfast.run_command(Checkpoints::OnRequest, program);
    first_life.arg(run.get_program()).args(run.get_args()).stdin(Stdio::null());
    let output = Output::File(arena.work().join(OUTPUT));
    let running = Running::start(arena, "run", output, &mut first_life)?;
    standfast.await_gate()?;
    // The clocks of the second life begin ten days behind. The third life begins under the clocks that the second was
    // given.
    standfast.checkpoint()?;
    // Under shifted clocks processes have other start times, so a status from outside cannot identify them.
    for process in arena.processes_of(&program.path) {
        kill(process, Signal::SIGKILL)?;
    }
    running.wait(PATIENCE).map(drop)
}
