//! Programs that make terminals of their own, killed at random moments many times over and restarted each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Result, ensure};
use standfast_tests::result::RunResult;
use standfast_tests::survival::{Torment, survives_kills};
use standfast_tests::victims::{SCRIPT, TERMINALS, TMUX, Victim};
use standfast_tests::{seed, skip};
use std::process::Command;
use std::time::Duration;

/// `needs` is a question to the program that it is about.
fn survives(victim: Victim, needs: &[&str]) -> Result<()> {
    let answers = Command::new(needs[0]).args(&needs[1..]).output().is_ok_and(|answer| answer.status.success());
    let Some(program) = victim.program()?.filter(|_| answers) else {
        skip(victim.name, "this machine lacks it");
        return Ok(());
    };
    let native = RunResult::native(&program)?;
    let torment = Torment { interval: Duration::from_millis(200), kills_max: 5, seed: seed(), options: &[] };
    let tally = survives_kills(&program, &native, torment)?;
    ensure!(tally.kills >= 1, "{} ended before it could be killed even once", victim.name);
    Ok(())
}

#[test]
fn a_conversation_in_python_survives_kills() -> Result<()> {
    survives(TERMINALS, &["python3", "--version"])
}

#[test]
fn script_survives_kills() -> Result<()> {
    survives(SCRIPT, &["script", "--version"])
}

#[test]
fn tmux_with_a_shell_in_it_survives_kills() -> Result<()> {
    survives(TMUX, &["tmux", "-V"])
}
