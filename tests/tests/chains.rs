//! Checkpoints that build upon each other: a restart yields the correct memory whatever the program does to it, and
//! nothing grows without bound.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast, copy_folder};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::{ARRAYS, CHANNELS, MEMORY, OBJECTS, ROUTINES, SIGNALS, SMALL, STRETCHES, Victim, WAITS};
use standfast_tests::{seed, skip};
use std::fs;
use std::time::Duration;

/// Takes checkpoints all the time, and coalesces them all the time.
const BUSY: &[&str] = &["--incremental", "on", "--max-files", "3"];
const INTERVAL: Duration = Duration::from_millis(10);
/// How often a test runs a program that ends before it can be killed.
const TRIES: u32 = 5;

fn churn_survives(options: &'static [&'static str]) -> Result<()> {
    let seed = seed();
    let program = Victim::churned(seed)?;
    let native = RunResult::native(&program)?;
    // If the disk is busy with something else, the program may end before its first checkpoint is durable.
    for _ in 0..TRIES {
        if survives_kills(&program, &native, Torment { interval: INTERVAL, kills_max: 12, seed, options })?.kills > 0 {
            return Ok(());
        }
    }
    bail!("it ended before it could be killed even once, {TRIES} times (STANDFAST_SEED={seed})")
}

#[test]
fn churned_memory_survives_with_chains() -> Result<()> {
    churn_survives(BUSY)
}

#[test]
#[ignore = "5 s; chains stay"]
fn churned_memory_survives_with_copies() -> Result<()> {
    churn_survives(&["--snapshot", "copy", "--keep", "1"])
}

#[test]
fn churned_memory_survives_with_hash_tracking() -> Result<()> {
    churn_survives(&["--track", "hash", "--incremental", "on", "--max-files", "4"])
}

#[test]
fn churned_memory_survives_with_deltas() -> Result<()> {
    churn_survives(&["--delta", "previous", "--compress", "lz4", "--incremental", "on", "--max-files", "5"])
}

#[test]
#[ignore = "5 s; chains stay"]
fn churned_memory_survives_with_full_images() -> Result<()> {
    churn_survives(&["--incremental", "off"])
}

#[test]
fn memory_written_in_stretches_survives_with_chains() -> Result<()> {
    let seed = seed();
    let program = STRETCHES.with(&[&seed.to_string()])?;
    let native = RunResult::native(&program)?;
    let options = &["--max-files", "6", "--snapshot", "copy"];
    let tally = survives_kills(&program, &native, Torment { interval: INTERVAL, kills_max: 6, seed, options })?;
    ensure!(tally.kills >= 1, "it ended before it could be killed even once (STANDFAST_SEED={seed})");
    Ok(())
}

fn survives(victim: Victim) -> Result<()> {
    let Some(program) = victim.program()? else {
        skip(victim.name, &victim.lacking());
        return Ok(());
    };
    let native = RunResult::native(&program)?;
    for _ in 0..TRIES {
        let torment = Torment { interval: INTERVAL, kills_max: 5, seed: seed(), options: BUSY };
        if survives_kills(&program, &native, torment)?.kills >= 1 {
            return Ok(());
        }
    }
    bail!("{} ended before it could be killed even once, {TRIES} times", victim.name)
}

#[test]
#[ignore = "44 s; each kind is killed by itself"]
fn programs_of_all_kinds_survive_kills_with_frequent_checkpoints() -> Result<()> {
    let victims = [SIGNALS, WAITS, CHANNELS, MEMORY, ROUTINES, OBJECTS, ARRAYS];
    victims.into_iter().try_for_each(|victim| survives(victim).context(victim.name))
}

/// Starts a job of the smallest victim, and waits for its gate.
fn at_gate<'a>(arena: &'a Arena, options: &[&str]) -> Result<(Standfast<'a>, Running)> {
    let standfast = Standfast::new(arena)?;
    let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
    let running = standfast.run_with(&options, Checkpoints::OnRequest, &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    Ok((standfast, running))
}

fn generations(standfast: Standfast<'_>, arena: &Arena) -> Result<Vec<Value>> {
    let status = standfast.status(&arena.images())?;
    Ok(status["generations"].as_array().context("status has generations")?.clone())
}

fn numbers(generations: &[Value]) -> Vec<u64> {
    generations.iter().filter_map(|it| it["generation"].as_u64()).collect()
}

fn kill_job(standfast: Standfast<'_>, running: Running) -> Result<()> {
    kill(standfast.await_program()?, Signal::SIGKILL)?;
    running.wait(PATIENCE).map(drop)
}

#[test]
fn every_kept_checkpoint_of_a_chain_can_be_restarted() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--incremental", "on", "--files", "rollback"])?;
    (0..5).try_for_each(|_| standfast.checkpoint())?;
    let found = generations(standfast, &arena)?;
    ensure!(numbers(&found) == [1, 2, 3, 4, 5], "{found:?}");
    ensure!(found[1..].iter().all(|it| it["parent"].is_u64() && it["pages_inherited"].as_u64() > Some(0)), "{found:?}");
    kill_job(standfast, running)?;
    open_gate(&arena)?;
    let native = RunResult::native(&SMALL.with(&[])?)?;
    for number in 1..=5 {
        let copy = arena.folder().join(format!("at-{number}"));
        copy_folder(&arena.images(), &copy)?;
        let mut command = standfast.restart_command(&copy);
        command.args(["--at", &number.to_string()]);
        let restarted = Running::start(&arena, &format!("at-{number}"), Output::Nowhere, &mut command)?;
        restarted.wait(PATIENCE)?.well("the restart")?;
        RunResult::read(&arena.work())?.must_equal(&native).with_context(|| format!("checkpoint {number}"))?;
    }
    Ok(())
}

#[test]
fn a_damaged_link_is_reported_and_an_older_checkpoint_used() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--incremental", "on", "--files", "rollback"])?;
    (0..4).try_for_each(|_| standfast.checkpoint())?;
    kill_job(standfast, running)?;
    let image = arena.images().join("generation-00000002.image");
    let mut bytes = fs::read(&image)?;
    *bytes.last_mut().context("an image is not empty")? ^= 1;
    fs::write(&image, bytes)?;
    let said = standfast.ask("verify", &arena.images(), &[])?;
    ensure!(!said.status.success(), "verify finds nothing wrong");
    ensure!(said.output.contains("checkpoint 1: good"), "said: {}", said.output);
    ensure!(said.output.contains("checkpoint 4: DAMAGED, it is based on checkpoint 2"), "said: {}", said.output);
    open_gate(&arena)?;
    let ended = standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("the restart")?;
    for number in 2..=4 {
        ensure!(ended.errors.contains(&format!("checkpoint {number} cannot be used")), "said: {}", ended.errors);
    }
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&SMALL.with(&[])?)?)
}

#[test]
fn checkpoints_are_coalesced_by_hand_with_and_without_a_supervisor() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--incremental", "on"])?;
    let coalesce = || standfast.ask("coalesce", &arena.images(), &["--json"])?.well("coalesce");
    ensure!(coalesce()?.output.contains("null"), "there is nothing to coalesce yet");
    (0..6).try_for_each(|_| standfast.checkpoint())?;
    ensure!(coalesce()?.output.contains("\"generation\": 5"), "5 is the oldest that is to be kept");
    let found = numbers(&generations(standfast, &arena)?);
    ensure!(found == [1, 5, 6], "{found:?}");
    standfast.verify(&arena.images())?;
    (0..4).try_for_each(|_| standfast.checkpoint())?;
    kill_job(standfast, running)?;
    coalesce()?;
    let found = numbers(&generations(standfast, &arena)?);
    ensure!(found == [5, 9, 10], "{found:?}");
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("the restart")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&SMALL.with(&[])?)?)
}

/// Returns what a supervisor uses: descriptors, and kilobytes of memory.
fn taken_by(supervisor: Pid) -> Result<(usize, u64)> {
    let descriptors = fs::read_dir(format!("/proc/{supervisor}/fd"))?.count();
    let status = fs::read_to_string(format!("/proc/{supervisor}/status"))?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    Ok((descriptors, memory.context("a process has memory")?))
}

#[test]
#[ignore = "19 s: it takes many to tell a leak"]
fn five_hundred_checkpoints_leave_resources_bounded() -> Result<()> {
    let count: u32 = std::env::var("STANDFAST_CHECKPOINTS").ok().and_then(|it| it.parse().ok()).unwrap_or(500);
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--incremental", "on", "--max-files", "8"])?;
    let (mut before, mut bytes_max, mut files_max) = (None, 0, 0);
    for turn in 0..count {
        standfast.checkpoint()?;
        let entries = fs::read_dir(arena.images())?.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len()));
        let sizes: Vec<u64> = entries.collect();
        files_max = files_max.max(sizes.len());
        bytes_max = bytes_max.max(sizes.iter().sum());
        if turn == count / 5 {
            before = Some((taken_by(standfast.supervisor_pid()?)?, bytes_max));
        }
    }
    let (descriptors_now, _) = taken_by(standfast.supervisor_pid()?)?;
    let ((descriptors, memory), bytes_then) = before.context("there were some")?;
    // The bound counts at most twice eight files of the chain, if coalescing does not keep up; one full image before it;
    // the one being coalesced; the one that begins the next chain; manifest, lease, lock and control; copies of the
    // program, the C library and the loader; and temporary files.
    ensure!(files_max <= 2 * 8 + 3 + 4 + 3 + 4, "{files_max} files");
    ensure!(bytes_max <= bytes_then * 2, "{bytes_max} bytes instead of {bytes_then}");
    // A coalescing in progress has the whole chain open, and buffers.
    ensure!(descriptors_now <= descriptors + 16, "{descriptors_now} descriptors instead of {descriptors}");
    let is_bounded = || Ok((taken_by(standfast.supervisor_pid()?)?.1 <= memory + memory / 4).then_some(()));
    until(PATIENCE, &format!("the supervisor to take about {memory} kB again"), is_bounded)?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job").map(drop)
}
