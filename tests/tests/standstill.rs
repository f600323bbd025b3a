//! A thread that cannot be stopped leaves the other threads running.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::VFORKED;
use std::fs;

/// Reports whether some process has stopped this one, or is about to.
fn is_traced(process: Pid) -> Result<bool> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).context("status names a tracer")?;
    Ok(tracer.trim() != "0")
}

#[test]
fn other_threads_run_while_a_vfork_parent_is_waited_for() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &VFORKED.with(&[])?)?;
    standfast.await_gate()?;
    let program = standfast.program_pid()?.context("it runs")?;
    let mut command = standfast.command(&["checkpoint"]);
    let mut asked = Running::start(&arena, "asked", Output::Log, command.arg(arena.images()))?;
    until(PATIENCE, "the checkpoint to be given up", || {
        ensure!(!is_traced(program)?, "all threads were stopped for one that does not stop");
        Ok(asked.has_ended()?.then_some(()))
    })?;
    let said = asked.wait(PATIENCE)?.refusal("a checkpoint with a thread in vfork")?;
    ensure!(said.contains("cannot be stopped"), "{said}");
    fs::write(arena.work().join("gate"), "")?;
    standfast.checkpoint()?;
    fs::write(arena.work().join("end"), "")?;
    running.wait(PATIENCE)?.well("the program").map(drop)
}

/// Attempts, since a busy machine may delay one. Without the wait for threads that wake, each attempt fails.
const ATTEMPTS: usize = 5;

/// Imitates the threads of a database that syncs to a slow disk without a pause. Each wait is longer than the time for
/// which the other threads may be stopped for it.
#[test]
fn a_thread_in_repeated_uninterruptible_sleep_can_be_stopped() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &VFORKED.with(&["again"])?)?;
    standfast.await_gate()?;
    let taken = (0..ATTEMPTS).map(|_| standfast.checkpoint()).find(Result::is_ok);
    ensure!(taken.is_some(), "it was never checkpointed; {}", arena.evidence());
    fs::write(arena.work().join("end"), "")?;
    running.wait(PATIENCE)?.well("the program").map(drop)
}
