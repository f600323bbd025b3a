//! Checkpoints that go to memory first: a job continues from the newest one left, whatever is lost, and then releases the
//! memory.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::{DIRTIER, SMALL, Victim};
use standfast_tests::{Lacking, seed, skip};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Returns the place of the memory level: in the arena, so that the test leaves nothing of it anywhere.
fn place(arena: &Arena) -> PathBuf {
    arena.folder().join("memory")
}

/// Starts a job of the smallest victim that has a level in memory, and waits for its gate.
fn at_gate<'a>(arena: &'a Arena, options: &[&str]) -> Result<(Standfast<'a>, Running)> {
    let standfast = Standfast::new(arena)?;
    fs::create_dir(place(arena))?;
    let mut words =
        vec!["--memory".to_owned(), place(arena).display().to_string(), "--files".into(), "rollback".into()];
    words.extend(options.iter().map(|option| (*option).to_owned()));
    let running = standfast.run_with(&words, Checkpoints::OnRequest, &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    Ok((standfast, running))
}

/// Returns the generations by number, each with whether it is in memory and whether it is on the disk.
fn generations(standfast: Standfast<'_>, arena: &Arena) -> Result<Vec<(u64, bool, bool)>> {
    let status = standfast.status(&arena.images())?;
    let one =
        |it: &Value| Some((it["generation"].as_u64()?, it["is_in_memory"].as_bool()?, it["is_on_disk"].as_bool()?));
    status["generations"]
        .as_array()
        .context("status has generations")?
        .iter()
        .map(|it| one(it).context("fields"))
        .collect()
}

fn await_on_disk(standfast: Standfast<'_>, arena: &Arena, number: u64) -> Result<()> {
    let is_there = || Ok(generations(standfast, arena)?.iter().any(|it| it.0 == number && it.2).then_some(()));
    until(PATIENCE, "a checkpoint to get to the disk", is_there)
}

fn kill_both(standfast: Standfast<'_>, running: Running) -> Result<()> {
    let program = standfast.await_program()?;
    kill(standfast.supervisor_pid()?, Signal::SIGKILL)?;
    kill(program, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    // On a busy machine the program takes time to die, and the test must not restart it until then.
    until(PATIENCE, "the program to be dead", || {
        let stat = fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|fields| fields.chars().next());
        Ok(matches!(state, None | Some('Z' | 'X')).then_some(()))
    })
}

fn goes_on(standfast: Standfast<'_>, arena: &Arena, from: u64) -> Result<String> {
    open_gate(arena)?;
    let mut command = standfast.restart_command(&arena.images());
    command.arg("--verbose");
    let restarted = Running::start(arena, "restart", standfast_tests::running::Output::Nowhere, &mut command)?;
    let ended = restarted.wait(PATIENCE)?.well("the restart")?;
    let said = ended.errors.lines().find(|line| line.contains(&format!("continued from checkpoint {from} after ")));
    ensure!(said.is_some_and(|line| line.contains(", fill ")), "said: {}", ended.errors);
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&SMALL.with(&[])?)?)?;
    ensure!(fs::read_dir(place(arena))?.count() == 0, "memory is given back");
    Ok(ended.errors)
}

#[test]
fn a_job_continues_from_memory_and_after_a_reboot_from_disk() -> Result<()> {
    for reboot in [false, true] {
        let arena = Arena::new()?;
        let (standfast, running) = at_gate(&arena, &["--flush-every", "3"])?;
        (0..4).try_for_each(|_| standfast.checkpoint())?;
        await_on_disk(standfast, &arena, 4)?;
        (0..2).try_for_each(|_| standfast.checkpoint())?;
        let found = generations(standfast, &arena)?;
        ensure!(found.contains(&(6, true, false)) && found.contains(&(4, true, true)), "{found:?}");
        standfast.verify(&arena.images())?;
        kill_both(standfast, running)?;
        if reboot {
            fs::remove_dir_all(place(&arena))?;
            fs::create_dir(place(&arena))?;
        }
        let said = goes_on(standfast, &arena, if reboot { 4 } else { 6 })?;
        ensure!(said.contains("checkpoints in memory are lost") == reboot, "said: {said}");
    }
    Ok(())
}

#[test]
fn a_stopped_job_flushes_its_checkpoint_and_frees_memory() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100"])?;
    (0..3).try_for_each(|_| standfast.checkpoint())?;
    running.signal(Signal::SIGTERM)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(75), "{:?} said: {}", ended.status, ended.errors);
    ensure!(fs::read_dir(place(&arena))?.count() == 0, "memory is given back");
    let found = generations(standfast, &arena)?;
    ensure!(found.last() == Some(&(4, false, true)), "{found:?}");
    goes_on(standfast, &arena, 4).map(drop)
}

#[test]
fn a_job_stopped_before_its_flush_continues_from_memory() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100", "--grace", "0s"])?;
    (0..2).try_for_each(|_| standfast.checkpoint())?;
    await_on_disk(standfast, &arena, 1)?;
    running.signal(Signal::SIGTERM)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(75), "{:?} said: {}", ended.status, ended.errors);
    let told = "the newest checkpoint (3) is only in memory";
    ensure!(ended.errors.contains(told) && ended.errors.contains("newest on disk: 1"), "said: {}", ended.errors);
    goes_on(standfast, &arena, 3).map(drop)
}

#[test]
fn a_job_continues_after_its_memory_level_is_emptied() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100"])?;
    (0..3).try_for_each(|_| standfast.checkpoint())?;
    await_on_disk(standfast, &arena, 1)?;
    for level in fs::read_dir(place(&arena))?.flatten() {
        fs::remove_dir_all(level.path())?;
    }
    // The first checkpoint goes to the disk, since memory is gone; then memory is made again.
    (0..2).try_for_each(|_| standfast.checkpoint())?;
    let found = generations(standfast, &arena)?;
    let newest = found.last().context("there are some")?.0;
    ensure!(found.last() == Some(&(newest, true, false)) && found.contains(&(newest - 1, false, true)), "{found:?}");
    kill_both(standfast, running)?;
    goes_on(standfast, &arena, newest).map(drop)
}

#[test]
fn an_orphan_is_saved_to_disk_and_continues_from_there() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100"])?;
    (0..3).try_for_each(|_| standfast.checkpoint())?;
    kill(standfast.supervisor_pid()?, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    standfast.ask("checkpoint", &arena.images(), &["--stop"])?.well("checkpoint --stop")?;
    let found = generations(standfast, &arena)?;
    ensure!(found.last() == Some(&(4, false, true)), "{found:?}");
    goes_on(standfast, &arena, 4).map(drop)
}

#[test]
fn memory_off_still_restarts_from_the_old_memory_level() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100"])?;
    (0..3).try_for_each(|_| standfast.checkpoint())?;
    kill_both(standfast, running)?;
    open_gate(&arena)?;
    let mut command = standfast.restart_command(&arena.images());
    command.args(["--memory", "off", "--verbose"]);
    let restarted = Running::start(&arena, "off", standfast_tests::running::Output::Nowhere, &mut command)?;
    let ended = restarted.wait(PATIENCE)?.well("the restart")?;
    ensure!(ended.errors.contains("continued from checkpoint 3"), "said: {}", ended.errors);
    ensure!(fs::read_dir(place(&arena))?.count() == 0, "memory is given back");
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&SMALL.with(&[])?)?)
}

#[test]
fn churned_memory_survives_from_memory_and_from_disk() -> Result<()> {
    let seed = seed();
    let program = Victim::churned(seed)?;
    let native = RunResult::native(&program)?;
    // The memory level lies where the program runs, so that the result shows whether memory was released.
    let options =
        &["--memory", ".", "--flush-every", "3", "--max-files", "4", "--incremental", "on", "--delta", "previous"];
    let torment = Torment { interval: Duration::from_millis(10), kills_max: 8, seed, options };
    let tally = survives_kills(&program, &native, torment)?;
    ensure!(tally.kills >= 1, "it ended before it could be killed even once (STANDFAST_SEED={seed})");
    Ok(())
}

#[test]
fn flush_foreground_flushes_while_the_program_is_paused() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "1", "--flush", "foreground"])?;
    for number in 1..=3 {
        standfast.checkpoint()?;
        await_on_disk(standfast, &arena, number)?;
    }
    let status = standfast.status(&arena.images())?;
    let flush = &status["live"]["flush"];
    ensure!(flush["flush_mode"] == "foreground" && flush["is_asked"] == true, "{flush}");
    until(PATIENCE, "it to be measured", || {
        let status = standfast.status(&arena.images())?;
        Ok(status["live"]["flush"]["foreground_nanoseconds_per_mib"].as_u64().filter(|time| *time > 0))
    })?;
    let said = standfast.ask("status", &arena.images(), &[])?.well("status")?.output;
    ensure!(said.contains("while the program is paused, as requested"), "it says: {said}");
    // The program is still running, and still at its gate.
    kill_both(standfast, running)?;
    fs::remove_dir_all(place(&arena))?;
    fs::create_dir(place(&arena))?;
    goes_on(standfast, &arena, 3).map(drop)
}

#[test]
fn durable_every_limits_how_far_the_disk_lags() -> Result<()> {
    let arena = Arena::new()?;
    let (standfast, running) = at_gate(&arena, &["--flush-every", "100", "--durable-every", "1s"])?;
    standfast.checkpoint()?;
    await_on_disk(standfast, &arena, 1)?;
    // Neither checkpoint is due for a flush, so only the time limit brings one to the disk: the newest.
    (0..2).try_for_each(|_| standfast.checkpoint())?;
    await_on_disk(standfast, &arena, 3)?;
    kill_both(standfast, running)?;
    goes_on(standfast, &arena, 3).map(drop)
}

/// Half of the place has room for one generation of the program.
#[test]
fn memory_too_small_for_two_generations_is_reported_and_unused() -> Result<()> {
    const PLACE_BYTES: &str = "size=16m";
    const PROGRAM_MEGABYTES: &str = "6";
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    fs::create_dir(place(&arena))?;
    let script = "mount -t tmpfs -o \"$1\" none \"$2\" && shift 2 && exec \"$@\"";
    let can_mount = arena.command("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success());
    if !can_mount {
        skip("a level that is too small", &Lacking::system("a file system cannot be mounted here"));
        return Ok(());
    }
    for (asked, is_told) in [(place(&arena).display().to_string(), true), ("off".to_owned(), false)] {
        let program = DIRTIER.with(&[PROGRAM_MEGABYTES, "small", "asked", "10"])?;
        let options = ["--memory".to_owned(), asked, "--fresh".into()];
        let inner = standfast.run_command_with(&options, Checkpoints::OnRequest, &program);
        let mut command = arena.command("unshare");
        command.args(["-Urm", "sh", "-c", script, "sh", PLACE_BYTES]).arg(place(&arena)).arg(inner.get_program());
        command.args(inner.get_args()).stdin(std::process::Stdio::null());
        let running = Running::start(&arena, "small-place", standfast_tests::running::Output::Log, &mut command)?;
        standfast.await_gate()?;
        standfast.checkpoint()?;
        let found = generations(standfast, &arena)?;
        ensure!(!found.is_empty() && found.iter().all(|it| !it.1 && it.2), "{found:?}");
        let said = running.errors_so_far();
        let told = "two checkpoints of the program do not fit in half";
        ensure!(said.contains(told) == is_told, "said: {said}");
        kill_both(standfast, running)?;
        fs::remove_file(arena.work().join("waiting"))?;
    }
    Ok(())
}
