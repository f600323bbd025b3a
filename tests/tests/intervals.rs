//! What the history of a job tells: its failures, what checkpoints cost, the best interval, and advice.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, patience_for_a_whole_run};
use standfast_tests::victims::PACER;

/// Runs a program whose interval is left to the supervisor, kills everything, and continues it: its history tells what it has
/// lost, and the next life has learnt from the first.
#[test]
fn a_killed_job_knows_its_failures_and_what_checkpoints_cost() -> Result<()> {
    let program = PACER.with(&["8", "2", "3600"])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    // A job that fails so often is saved each second.
    let mut running = standfast.run_with(&["--mtbf=10s".to_owned()], Checkpoints::Automatically, &program)?;
    standfast.await_program()?;
    let second = standfast.await_generation(Some(1), &mut running)?.context("it goes on")?;
    let status = standfast.status(&arena.images())?;
    let chosen = &status["live"]["chosen_interval"];
    ensure!(chosen["known"] == "told" && chosen["mean_time_seconds"] == 10.0, "{chosen}");
    ensure!(chosen["seconds"].as_f64().is_some_and(|seconds| (0.9..30.0).contains(&seconds)), "{chosen}");
    let overhead = &status["overhead"];
    ensure!(overhead["checkpoints"].as_u64() >= Some(second) && overhead["failures"] == 0, "{overhead}");
    ensure!(overhead["checkpoint_seconds"].as_f64() > Some(0.0), "{overhead}");
    let shown = standfast.ask("status", &arena.images(), &[])?.well("status")?.output;
    ensure!(shown.contains("automatic: every ") && shown.contains("as --mtbf says"), "{shown}");
    ensure!(standfast.kill_job()?, "it was there");
    running.wait(PATIENCE)?;

    let mut restart = standfast.restart_command(&arena.images());
    let mut restarted = Running::start(&arena, "restart", Output::Nowhere, restart.args(["--mtbf", "auto"]))?;
    let last = standfast.newest_generation(&arena.images())?;
    standfast.await_program()?;
    standfast.await_generation(last, &mut restarted)?.context("it goes on")?;
    let status = standfast.status(&arena.images())?;
    ensure!(status["overhead"]["failures"] == 1, "{}", status["overhead"]);
    ensure!(status["overhead"]["restart_seconds"].as_f64() > Some(0.0), "{}", status["overhead"]);
    ensure!(status["live"]["chosen_interval"]["known"] == "observed", "{}", status["live"]["chosen_interval"]);
    let advice = standfast.ask("advise", &arena.images(), &["--json"])?.well("advise")?.output;
    let advice: Value = serde_json::from_str(&advice)?;
    ensure!(advice["inputs"][0]["from"] == "measured" && advice["measured"].as_array().is_some_and(|it| it.len() > 1));
    ensure!(advice["interval_seconds"].as_f64() > Some(0.0), "{advice}");
    standfast.checkpoint()?;
    ensure!(standfast.ask("checkpoint", &arena.images(), &["--stop"])?.status.success());
    restarted.wait(PATIENCE)?;
    let stopped = standfast.status(&arena.images())?;
    ensure!(stopped["overhead"]["failures"] == 1, "a stop is no failure: {}", stopped["overhead"]);
    Ok(())
}

/// A job whose supervisor cannot write its history is protected as before.
#[test]
fn a_job_without_a_history_is_protected_all_the_same() -> Result<()> {
    let program = PACER.with(&["8", "2", "3"])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    std::fs::create_dir_all(arena.images().join("standfast-history"))?;
    std::fs::set_permissions(arena.images(), std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let running = standfast.run(Checkpoints::Automatically, &program)?;
    standfast.await_program()?;
    standfast.checkpoint()?;
    ensure!(standfast.status(&arena.images())?["overhead"].is_null());
    open_gate(&arena)?;
    running.wait(patience_for_a_whole_run())?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)?;
    ensure!(arena.work().join(OUTPUT).exists());
    Ok(())
}
