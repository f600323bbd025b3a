//! Standfast reports soon after its start that it cannot checkpoint a program, not an hour later at the first checkpoint.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::open_gate;
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::victims::HOLDER;

/// Runs `hold THING` with checkpoints far away. Returns what standfast has reported by the time its status shows a
/// failure. The program then continues to its end.
fn said_early(thing: &str) -> Result<String> {
    const HOUR: u64 = 3_600_000;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut running = standfast.run(Checkpoints::EveryMilliseconds(HOUR), &HOLDER.with(&[thing])?)?;
    standfast.await_gate()?;
    let failure = until(PATIENCE, "a failure in the status", || {
        ensure!(!running.has_ended()?, "it ended too early: {}", running.errors_so_far());
        Ok(standfast.status(&arena.images())?["live"]["last_failure"].as_str().map(str::to_owned))
    })?;
    let told = running.errors_so_far();
    ensure!(told.contains(&failure), "the status knows {failure:?}, but the user was told {told:?}");
    open_gate(&arena)?;
    running.wait(PATIENCE)?.well("the job").with_context(|| arena.evidence())?;
    Ok(failure)
}

#[test]
fn a_blocker_is_reported_long_before_the_first_checkpoint() -> Result<()> {
    let failure = said_early("userfault")?;
    ensure!(failure.contains("userfaultfd"), "the thing is not named: {failure}");
    Ok(())
}
