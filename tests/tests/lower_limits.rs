//! Restarts where the program may have less than before.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::OWNER;
use std::process::Stdio;

/// Fewer descriptors than usual, and enough for the restart.
const DESCRIPTORS: &str = "400";

#[test]
fn a_limit_that_cannot_be_raised_again_is_reported() -> Result<()> {
    let program = OWNER.with(&["hold"])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    let restart = standfast.restart_command(&arena.images());
    let mut command = arena.command("sh");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"")]);
    command.arg(restart.get_program()).args(restart.get_args()).stdin(Stdio::null());
    let mut running = Running::start(&arena, "restart", Output::Nowhere, &mut command)?;
    let told = format!("the program's limit RLIMIT_NOFILE is {DESCRIPTORS} here, before it was ");
    until(PATIENCE, "the restart to report the limit", || {
        ensure!(!running.has_ended()?, "the restart ended too early: {}", running.errors_so_far());
        Ok(running.errors_so_far().contains(&told).then_some(()))
    })?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the restart").with_context(|| arena.evidence())?;
    Ok(())
}
