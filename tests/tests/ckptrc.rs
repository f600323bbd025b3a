//! `.ckptrc` in the current directory configures `run`. Standfast follows it, lets options override it, and refuses it if
//! it is wrong or could belong to somebody else.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Ended, Output, PATIENCE, Running};
use standfast_tests::victims::{Program, SMALL};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

const ASKS_FOR_ALL: &str = "# as in 1995\ndir ../kept\nmaxtime 0\nmintime 100\nincremental on\nfork on\n";

fn write_ckptrc(arena: &Arena, text: &str, mode: u32) -> Result<()> {
    let path = arena.work().join(".ckptrc");
    fs::write(&path, text)?;
    fs::set_permissions(&path, Permissions::from_mode(mode)).context("chmod .ckptrc")
}

/// Starts `run` without options on the command line.
fn plain_run(standfast: &Standfast<'_>, arena: &Arena, program: &Program) -> Result<Running> {
    let mut command = standfast.command(&["run", "--"]);
    let output = Output::File(arena.work().join(OUTPUT));
    Running::start(arena, "run", output, command.arg(&program.path))
}

fn is_protected_as(status: &Value, interval_seconds: &Value, keep: u64) -> Result<()> {
    let options = &status["options"];
    ensure!(options["interval"] == *interval_seconds && options["keep"] == keep, "protected with {options}");
    Ok(())
}

#[test]
fn ckptrc_sets_directory_interval_and_count() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    fs::create_dir(arena.folder().join("kept"))?;
    write_ckptrc(&arena, ASKS_FOR_ALL, 0o600)?;
    let running = plain_run(&standfast, &arena, &program)?;
    standfast.await_gate()?;
    let images = arena.folder().join("kept/small.standfast");
    for _ in 0..2 {
        standfast.ask("checkpoint", &images, &[])?.well("checkpoint")?;
    }
    let status = standfast.status(&images)?;
    is_protected_as(&status, &Value::Null, 1)?;
    let kept = status["generations"].as_array().context("status has generations")?.len();
    ensure!(kept == 1, "{kept} checkpoints are kept, and maxfiles is 1 where it is not said");
    open_gate(&arena)?;
    let ended = running.wait(PATIENCE)?.well("the job")?;
    ensure!(status["options"]["min_interval"] == 100.0, "mintime is not followed");
    let lines = ended.errors.lines().filter(|line| line.contains("incremental")).count();
    ensure!(lines == 1, "'incremental' is named in {lines} lines of: {}", ended.errors);
    fs::remove_file(arena.work().join(".ckptrc"))?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn the_command_line_wins_over_ckptrc() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    write_ckptrc(&arena, "dir ../kept\nmaxtime 0\nmaxfiles 5\n", 0o600)?;
    let running = standfast.run(Checkpoints::EveryMilliseconds(3_600_000), &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    let status = standfast.status(&arena.images())?;
    is_protected_as(&status, &Value::from(3600.0), 5)?;
    ensure!(!arena.folder().join("kept").exists(), "dir was followed although -d was given");
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job").map(drop)
}

#[test]
fn standfast_toml_overrides_ckptrc_but_not_the_command_line() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    write_ckptrc(&arena, "maxtime 90\nmaxfiles 5\nmintime 7\n", 0o600)?;
    let settings = "[run]\nkeep = 4\ninterval = \"20m\"\ncompress = \"lz4\"\n";
    fs::write(arena.work().join("standfast.toml"), settings)?;
    let running = standfast.run(Checkpoints::EveryMilliseconds(3_600_000), &SMALL.with(&[])?)?;
    standfast.await_gate()?;
    let status = standfast.status(&arena.images())?;
    is_protected_as(&status, &Value::from(3600.0), 4)?;
    let options = &status["options"];
    ensure!(options["compress"] == "lz4" && options["min_interval"] == 7.0, "protected with {options}");
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job")?;
    fs::write(arena.work().join("standfast.toml"), "[run]\nkeep = 0\n")?;
    let refused = plain_run(&standfast, &arena, &SMALL.with(&[])?)?.wait(PATIENCE)?;
    ensure!(refused.errors.contains("standfast.toml") && refused.errors.contains("--keep"), "{}", refused.errors);
    ensure!(refused.status.code() == Some(1), "it ended with {}", refused.status);
    Ok(())
}

/// Starts a `run` that Standfast must refuse because of its `.ckptrc`, without leaving anything behind.
fn refused(text: &str, mode: u32) -> Result<String> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    write_ckptrc(&arena, text, mode)?;
    let ended: Ended = plain_run(&standfast, &arena, &SMALL.with(&[])?)?.wait(PATIENCE)?;
    ensure!(!arena.work().join("waiting").exists(), "the program was started");
    ensure!(!arena.work().join("small.standfast").exists(), "a directory was made");
    ended.refusal("a run under such a .ckptrc")
}

#[test]
fn a_wrong_line_of_ckptrc_is_named_and_nothing_is_started() -> Result<()> {
    let said = refused("maxtime 60\nincremental perhaps\n", 0o600)?;
    ensure!(said.contains(".ckptrc, line 2: 'perhaps'") && said.contains("'incremental on'"), "said: {said}");
    Ok(())
}

#[test]
fn a_ckptrc_that_others_may_write_is_refused_by_name() -> Result<()> {
    let said = refused("maxtime 60\n", 0o666)?;
    ensure!(said.contains(".ckptrc") && said.contains("other users may write it"), "said: {said}");
    Ok(())
}
