//! Process and thread ids of restarted jobs: the old ones in namespaces that do not nest, or new ones if those serve.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{PATIENCE, Running, until};
use standfast_tests::victims::{OWNER, Program};
use standfast_tests::{Lacking, skip};
use std::fs;

const LIVES: usize = 10;

/// Returns the process's id in each namespace, from here inwards.
fn ids(pid: Pid) -> Result<Vec<i32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).context("a status with NSpid")?;
    line.split_whitespace().map(|id| id.parse().context("an id")).collect()
}

/// Kills a program that waits at its gate after a checkpoint, and returns the ids that it had.
fn killed_behind_checkpoint(standfast: Standfast<'_>, program: &Program) -> Result<Vec<i32>> {
    let running = standfast.run(Checkpoints::OnRequest, program)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    let pid = standfast.await_program()?;
    let ids = ids(pid)?;
    kill(pid, Signal::SIGKILL)?;
    running.wait(PATIENCE)?;
    Ok(ids)
}

fn restarted(standfast: Standfast<'_>, arena: &Arena, name: &str, more: &[&str]) -> Result<(Running, Pid)> {
    let mut command = standfast.restart_command(&arena.images());
    let mut running = Running::start(arena, name, standfast_tests::running::Output::Nowhere, command.args(more))?;
    let pid = until(PATIENCE, "the restarted program to run", || {
        ensure!(!running.has_ended()?, "the restart ended too early: {}", running.errors_so_far());
        standfast.program_pid()
    })?;
    Ok((running, pid))
}

#[test]
fn ten_restarts_in_a_row_keep_the_ids_and_do_not_nest() -> Result<()> {
    let program = OWNER.with(&["hold"])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let first = killed_behind_checkpoint(standfast, &program)?;
    for life in 1..=LIVES {
        let (running, pid) = restarted(standfast, &arena, &format!("restart-{life}"), &[])?;
        let now = ids(pid)?;
        if now.len() == first.len() && life == 1 {
            skip("restarts do not nest", &Lacking::system("no namespaces here"));
            return Ok(());
        }
        ensure!(now.len() == first.len() + 1, "life {life} lies {} namespaces deep", now.len());
        ensure!(now.last() == first.last(), "life {life} has the id {:?} instead of {:?}", now.last(), first.last());
        standfast.checkpoint_when_supervised()?;
        if life == 1 {
            tells_what_the_job_sees(&running.errors_so_far())?;
        } else {
            ensure!(!running.errors_so_far().contains("namespaces"), "said again: {}", running.errors_so_far());
        }
        if life == LIVES {
            open_gate(&arena)?;
            running.wait(PATIENCE)?.well("the last life").with_context(|| arena.evidence())?;
        } else {
            kill(pid, Signal::SIGKILL)?;
            running.wait(PATIENCE)?;
        }
    }
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

/// Checks that the first restart of a job reports which ids it has, and what follows from that.
fn tells_what_the_job_sees(said: &str) -> Result<()> {
    let always = ["old process ids", "only its own processes", "pid file"];
    // Only the restarts of plain users get a user namespace as well.
    let of_plain_users = ["belong to nobody", "set-uid programs do not work"];
    let is_root = nix::unistd::geteuid().is_root();
    let told = |words: &&str| said.contains(*words);
    ensure!(always.iter().all(told), "not told: {said}");
    ensure!(is_root || of_plain_users.iter().all(told), "not told: {said}");
    Ok(())
}

#[test]
fn doctor_describes_the_namespaces_of_a_restarted_job() -> Result<()> {
    let arena = Arena::new()?;
    let mut command = Standfast::new(&arena)?.command(&["doctor"]);
    let said = Running::complete(&arena, "doctor", &mut command)?.output;
    let line = said.lines().find(|line| line.contains("namespaces for restarted jobs"));
    let line = line.with_context(|| format!("namespaces are not spoken of: {said}"))?;
    let of_plain_users = nix::unistd::geteuid().is_root() || line.contains("nobody") && line.contains("set-uid");
    let is_there = line.contains("only its own processes") && line.contains("pid file") && of_plain_users;
    ensure!(is_there || line.contains("new process ids"), "what follows from them is not told: {line}");
    Ok(())
}

#[test]
fn a_program_that_keeps_no_id_restarts_without_a_namespace() -> Result<()> {
    let program = OWNER.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let first = killed_behind_checkpoint(standfast, &program)?;
    let (running, pid) = restarted(standfast, &arena, "restart", &["--ids", "new"])?;
    ensure!(ids(pid)?.len() == first.len(), "it lies in a namespace: {:?}", ids(pid)?);
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the restart").with_context(|| arena.evidence())?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
fn a_held_recursive_mutex_is_refused_under_new_ids() -> Result<()> {
    let program = OWNER.with(&["hold"])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    killed_behind_checkpoint(standfast, &program)?;
    let said = standfast.ask("restart", &arena.images(), &["--ids", "new"])?.refusal("a restart under new ids")?;
    ensure!(said.contains("a lock at"), "the lock is not named: {said}");
    let (running, _) = restarted(standfast, &arena, "restart", &["--ids", "auto"])?;
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the restart").with_context(|| arena.evidence())?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}
