//! Signals to the command that mean something, and the exit status after a stop, as batch systems want them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running};
use standfast_tests::victims::SMALL;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Restarts the job with these options, and waits until it is supervised.
fn continued(arena: &Arena, options: &[&str]) -> Result<Running> {
    let standfast = Standfast::new(arena)?;
    let mut command = standfast.restart_command(&arena.images());
    let running = Running::start(arena, "restart", Output::Nowhere, command.args(options))?;
    standfast.checkpoint_when_supervised()?;
    Ok(running)
}

#[test]
#[ignore = "several lives; the unit tests of signals.rs and notices.rs check the policy in make test"]
fn notices_and_the_status_of_a_stop_are_those_of_the_job_until_a_restart_changes_them() -> Result<()> {
    let program = SMALL.with(&[])?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = words(&["--notice", "USR1=checkpoint", "--notice", "USR2=stop", "--stopped-status", "99"]);
    let mut running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    standfast.await_gate()?;
    standfast.await_program()?;
    running.signal(Signal::SIGUSR1)?;
    let first = standfast.await_generation(None, &mut running)?;
    ensure!(first == Some(1), "SIGUSR1 gave {first:?}; {}", running.errors_so_far());
    running.signal(Signal::SIGUSR2)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(99), "SIGUSR2 gave {}; {}", ended.status, ended.errors);
    arena.wait_until_empty(PATIENCE)?;

    let running = continued(&arena, &[])?;
    running.signal(Signal::SIGUSR2)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(99), "the restarted job has forgotten its options: {}; {}", ended.status, ended.errors);

    let running = continued(&arena, &["--notice", "HUP=stop", "--stopped-status", "85"])?;
    running.signal(Signal::SIGHUP)?;
    let ended = running.wait(PATIENCE)?;
    ensure!(ended.exited(85), "SIGHUP gave {}; {}", ended.status, ended.errors);
    open_gate(&arena)?;
    standfast.restart(&arena.images(), "last")?.wait(PATIENCE)?.well("the last restart")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?).with_context(|| arena.evidence())
}

#[test]
#[ignore = "four refusals of the command line, which its unit tests refuse as well"]
fn a_malformed_notice_is_refused_before_anything_starts() -> Result<()> {
    for (options, wanted) in [
        (&["--notice", "USR1"][..], "write a signal and its meaning"),
        (&["--notice", "KILL=stop"], "write HUP, INT"),
        (&["--notice", "USR1=halt"], "'stop', 'checkpoint', 'pass' or 'ignore'"),
        (&["--stopped-status", "256"], "from 0 to 255"),
    ] {
        let arena = Arena::new()?;
        let run = Standfast::new(&arena)?.run_with(&words(options), Checkpoints::OnRequest, &SMALL.with(&[])?)?;
        let refused = run.wait(PATIENCE)?.refusal("a malformed option")?;
        ensure!(refused.contains(wanted), "{options:?}: it said {refused}");
        ensure!(!arena.images().exists(), "something was begun");
    }
    Ok(())
}
