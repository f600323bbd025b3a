//! Checkpoints that read memory while the program runs: the effect of a killed clone, and how much memory of its own the
//! supervisor needs with each way to take memory.
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
/// Memory that the supervisor needs in addition to what it holds of the program, in KiB: buffers in flight, code, tables
/// of pages.
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
fn a_killed_clone_fails_only_its_checkpoint() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = start(standfast, "fork")?;
    let told = until(PATIENCE, "a clone to be killed before it has been read", || {
        let asked = thread::scope(|scope| {
            let asking = scope.spawn(|| standfast.ask("checkpoint", &arena.images(), &[]));
            while !asking.is_finished() {
                // A clone that has ended by now has been read completely.
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

/// Reads a figure from a file of `/proc/PID`, in KiB.
fn figure(pid: Pid, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Returns the memory that only this process holds, in KiB: for a clone, the pages that the program has written since,
/// and page tables.
fn own_kib(pid: Pid) -> Option<u64> {
    let pages = figure(pid, "smaps_rollup", "Private_Clean:")? + figure(pid, "smaps_rollup", "Private_Dirty:")?;
    Some(pages + figure(pid, "status", "VmPTE:")?)
}

#[test]
fn memory_shared_since_a_fork_stays_shared_after_a_checkpoint() -> Result<()> {
    for snapshot in ["sequential", "copy", "fork", "precopy"] {
        let arena = Arena::new()?;
        let standfast = Standfast::new(&arena)?;
        let options = ["--incremental", "off", "--snapshot", snapshot].map(str::to_owned);
        let program = DIRTIER.with(&["32", "small", "family"])?;
        let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
        standfast.await_gate()?;
        let main = standfast.await_program()?;
        let shared = || figure(main, "smaps_rollup", "Shared_Dirty:").context("the kernel tells");
        let all = until(PATIENCE, "the child to be there", || Ok(Some(shared()?).filter(|all| *all >= 32 << 10)))?;
        standfast.checkpoint()?;
        let still = shared()?;
        ensure!(still >= all * 9 / 10, "by {snapshot}: of {all} KiB only {still} are shared");
        ensure!(standfast.kill_job()?, "the program has ended");
        running.wait(PATIENCE)?;
    }
    Ok(())
}

/// D5, FORK: twice what the program writes, which is a tenth here, as soon as the clone has been made.
#[test]
fn a_clone_uses_at_most_twice_the_memory_written_meanwhile() -> Result<()> {
    const WRITTEN_KIB: u64 = (MEGABYTES << 10) / 10;
    const FIXED_KIB: u64 = 4 << 10;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = start(standfast, "fork")?;
    let go = arena.work().join("go");
    let most = until(PATIENCE, "a clone whose memory can be looked at while the program writes", || {
        let most = thread::scope(|scope| {
            let asking = scope.spawn(|| standfast.checkpoint());
            let (mut most, mut has_written) = (None, false);
            while !asking.is_finished() {
                for clone in clones(&arena) {
                    if !std::mem::replace(&mut has_written, true) {
                        fs::write(&go, "")?;
                    }
                    most = most.max(own_kib(clone));
                }
            }
            asking.join().expect("no panic")?;
            anyhow::Ok(most)
        })?;
        until(PATIENCE, "the program to write", || Ok((!go.exists()).then_some(())))?;
        // Before the program writes, a clone has hardly any memory of its own.
        Ok(most.filter(|most| *most > FIXED_KIB))
    })?;
    let bound = 2 * WRITTEN_KIB + FIXED_KIB;
    ensure!(most <= bound, "{most} KiB, and {bound} are promised");
    end(standfast, running)
}

/// D5, INC: the changed memory and a fixed buffer, however much memory the program has.
#[test]
fn a_copy_uses_only_the_changed_memory_and_a_fixed_buffer() -> Result<()> {
    const MEGABYTES: u64 = 512;
    const CHANGED_KIB: u64 = (MEGABYTES << 10) / 20;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--incremental", "on", "--snapshot", "copy"].map(str::to_owned);
    let program = DIRTIER.with(&[&MEGABYTES.to_string(), "small", "asked", "50"])?;
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    // The first checkpoint saves everything.
    standfast.checkpoint()?;
    let supervisor = standfast.supervisor_pid()?;
    let go = arena.work().join("go");
    for turn in 0..3 {
        fs::write(&go, "")?;
        until(PATIENCE, "the program to write", || Ok((!go.exists()).then_some(())))?;
        // This resets the high-water mark (proc(5)).
        fs::write(format!("/proc/{supervisor}/clear_refs"), "5")?;
        standfast.checkpoint()?;
        let (most, bound) = (high_water_kib(supervisor)?, CHANGED_KIB + OWN_KIB);
        // The buffers of the checkpoint that saved everything are freed after the next one.
        ensure!(turn == 0 || most <= bound, "{most} KiB, and {bound} are promised");
    }
    end(standfast, running)
}

fn high_water_kib(pid: Pid) -> Result<u64> {
    figure(pid, "status", "VmHWM:").context("the kernel tells")
}

/// Returns the most memory that the supervisor has had after two full checkpoints, in KiB.
fn most_kib(snapshot: &str) -> Result<u64> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let running = start(standfast, snapshot)?;
    for _ in 0..2 {
        standfast.checkpoint()?;
    }
    let kib = high_water_kib(standfast.supervisor_pid()?)?;
    end(standfast, running)?;
    Ok(kib)
}

#[test]
fn the_memory_of_the_supervisor_is_bounded_for_each_snapshot() -> Result<()> {
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
