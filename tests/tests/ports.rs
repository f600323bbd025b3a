//! Ports of a killed job: connections linger there for a minute, which a restart does not wait for, and reports where it must.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::victims::HOLDER;
use std::fs;

const WAITS: &str = "waiting for port 127.0.0.1:";

/// Restarts a server, of which a connection lingers that was made after its checkpoint.
fn restarted_beside_what_lingers(arena: &Arena, manner: &str) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &HOLDER.with(&["server", manner])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    open_gate(arena)?;
    let lingering = arena.work().join("lingering");
    until(PATIENCE, "a connection to linger", || Ok(lingering.exists().then_some(())))?;
    ensure!(standfast.kill_job()?, "the server has ended by itself");
    running.wait(PATIENCE)?;
    standfast.restart(&arena.images(), "restart")
}

#[test]
fn a_restart_does_not_wait_for_connections_that_linger_at_a_port() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "shared")?;
    fs::write(arena.work().join("end"), "")?;
    let ended = restarted.wait(PATIENCE)?.well("the restarted server").with_context(|| arena.evidence())?;
    ensure!(!ended.errors.contains(WAITS), "{}", ended.errors);
    Ok(())
}

#[test]
fn a_restart_that_waits_for_a_port_says_so() -> Result<()> {
    let arena = Arena::new()?;
    let restarted = restarted_beside_what_lingers(&arena, "alone")?;
    until(PATIENCE, "the wait to be reported", || Ok(restarted.errors_so_far().contains(WAITS).then_some(())))?;
    // It would go on after a minute.
    arena.clear();
    restarted.wait(PATIENCE)?;
    Ok(())
}
