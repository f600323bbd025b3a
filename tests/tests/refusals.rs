//! What cannot be carried over is refused by name before anything is written, and the program runs on.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::PATIENCE;
use standfast_tests::victims::HOLDER;
use std::fs;

/// A checkpoint of a program that holds `thing` is refused with one of `names`; nothing appears in the directory.
fn refused(thing: &str, names: &[&str]) -> Result<()> {
    let program = HOLDER.with(&[thing])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = standfast.run(Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    let said = standfast.ask("checkpoint", &arena.images(), &[])?.refusal("a checkpoint")?;
    let lower = said.to_lowercase();
    ensure!(names.iter().any(|name| lower.contains(name)), "the refusal names none of {names:?}: {said}");
    let images = fs::read_dir(arena.images())?.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().contains("image") || name.to_string_lossy().contains("generation")
    });
    ensure!(images.count() == 0, "a refused checkpoint left a file");
    ensure!(standfast.newest_generation(&arena.images())?.is_none(), "a refused checkpoint became a generation");
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job").with_context(|| arena.evidence())?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn a_child_process_is_refused_by_name() -> Result<()> {
    refused("child", &["child process", "process"])
}

#[test]
fn a_tcp_socket_is_refused_by_name() -> Result<()> {
    refused("tcp", &["tcp", "socket"])
}

#[test]
fn a_timer_descriptor_is_refused_by_name() -> Result<()> {
    refused("timer", &["timerfd", "timer"])
}
