//! Checkpoints whose memory is read while the program runs: what comes of a clone that is killed, and how much memory of its
//! own the supervisor takes for each way.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::victims::DIRTIER;
use std::fs;
use std::thread;

const MEGABYTES: u64 = 128;
/// What the supervisor takes beside what it holds of the program, in KiB: buffers in flight, code, tables of pages.
const OWN_KIB: u64 = 48 << 10;

fn start(standfast: Standfast<'_>, snapshot: &str) -> Result<Running> {
    let options = ["--incremental", "off", "--snapshot", snapshot].map(str::to_owned);
    let program = DIRTIER.with(&[&MEGABYTES.to_string(), "small", "asked", "100"])?;
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    Ok(running)
}

fn end(standfast: Standfast<'_>, running: Running) -> Result<()> {
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE).map(drop)
}

fn clones(arena: &Arena) -> Vec<Pid> {
    let name = |pid: &Pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    arena.processes().into_iter().filter(|pid| name(pid) == "standfast-clone\n").collect()
}

#[test]
fn a_clone_that_is_killed_costs_its_checkpoint_and_the_program_nothing() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = start(standfast, "fork")?;
    let told = until(PATIENCE, "a clone to be killed before it has been read", || {
        let asked = thread::scope(|scope| {
            let asking = scope.spawn(|| standfast.ask("checkpoint", &arena.images(), &[]));
            while !asking.is_finished() {
                // One that has gone by now was through.
                clones(&arena).into_iter().for_each(|clone| _ = kill(clone, Signal::SIGKILL));
            }
            asking.join().expect("no panic")
        })?;
        Ok((!asked.exited(0)).then_some(asked.errors))
    })?;
    ensure!(told.contains("clone"), "it is not said what happened: {told}");
    ensure!(clones(&arena).is_empty(), "clones are left");
    let go = arena.work().join("go");
    fs::write(&go, "")?;
    until(PATIENCE, "the program to write", || Ok((!go.exists()).then_some(())))?;
    standfast.checkpoint().context("the checkpoint after it")?;
    standfast.verify(&arena.images())?;
    ensure!(clones(&arena).is_empty(), "a clone is left");
    end(standfast, running)
}

/// The most memory that the supervisor has had, in KiB, when two full checkpoints have been taken.
fn most_kib(snapshot: &str) -> Result<u64> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = start(standfast, snapshot)?;
    for _ in 0..2 {
        standfast.checkpoint()?;
    }
    let status = fs::read_to_string(format!("/proc/{}/status", standfast.supervisor_pid()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the kernel tells")?;
    let kib = line.trim().trim_end_matches(" kB").parse().context("a number")?;
    end(standfast, running)?;
    Ok(kib)
}

#[test]
fn copies_take_what_is_saved_and_buffers_and_clones_only_these() -> Result<()> {
    for (snapshot, bound) in [
        ("sequential", OWN_KIB),
        ("fork", OWN_KIB),
        ("copy", (MEGABYTES << 10) * 5 / 4 + OWN_KIB),
        ("precopy", (MEGABYTES << 10) * 5 / 4 + OWN_KIB),
    ] {
        let kib = most_kib(snapshot)?;
        ensure!(kib <= bound, "by {snapshot}: {kib} KiB, and {bound} are promised");
    }
    Ok(())
}
