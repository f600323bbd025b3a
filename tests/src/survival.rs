//! The main promise: a program that is killed at random moments and restarted each time gives the result of an
//! undisturbed run.

use crate::arena::{Arena, KEEP_EVIDENCE};
use crate::command::{Checkpoints, Standfast, copy_folder};
use crate::result::RunResult;
use crate::running::{Ended, PATIENCE, Running, patience_for_a_whole_run, until};
use crate::victims::{Program, Victim};
use crate::{seed, skip};
use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nix::sys::signal::Signal;
use std::thread::sleep;
use std::time::Duration;

/// How to torment a program.
#[derive(Debug, Clone, Copy)]
pub struct Torment {
    /// The time between checkpoints.
    pub interval: Duration,
    /// The maximum number of kills. The program may end before that.
    pub kills_max: u32,
    /// The seed of the random moments.
    pub seed: u64,
    /// Additional options for the run.
    pub options: &'static [&'static str],
}

/// The minimum time for which victims compute.
const WORK: Duration = Duration::from_secs(1);
/// Factors by which successive tries increase the checkpoint rate, for a victim that could not be killed.
const HURRIES: [u32; 3] = [1, 4, 16];

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// How often the program was killed and restarted.
    pub kills: u32,
    /// The messages from the last life.
    pub messages: String,
}

/// The number of tries for a program that may finish before it is killed.
const TRIES: u64 = 5;

/// Kills a victim at random moments, at most `kills_max` times, and restarts it each time. Its result must equal that of
/// an undisturbed run. Skipped if the machine lacks what the victim needs.
///
/// # Errors
/// When any of that does not hold. The error contains all output.
pub fn survives(victim: Victim, kills_max: u32) -> Result<()> {
    kills_survived(victim, kills_max).map(drop)
}

/// Like [`survives`]. Returns how often the victim was killed, or `None` if skipped.
///
/// # Errors
/// Same as for [`survives`].
pub fn kills_survived(victim: Victim, kills_max: u32) -> Result<Option<u32>> {
    survives_with(victim, kills_max, &[])
}

/// Like [`kills_survived`], with more options for the run.
///
/// # Errors
/// Same as for [`survives`].
pub fn survives_with(victim: Victim, kills_max: u32, options: &'static [&'static str]) -> Result<Option<u32>> {
    let Some(program) = victim.program()? else {
        skip(victim.name, &victim.lacking());
        return Ok(None);
    };
    let native = RunResult::native(&program)?;
    // A fast machine may finish before the first checkpoint. The next try then takes checkpoints sooner.
    let mut messages = String::new();
    for hurry in HURRIES {
        let interval = WORK / kills_max.max(1) / hurry;
        let tally = survives_kills(&program, &native, Torment { interval, kills_max, seed: seed(), options })?;
        if tally.kills >= 1 {
            return Ok(Some(tally.kills));
        }
        messages = tally.messages;
    }
    bail!("{} ended before it could be killed even once: {messages}", victim.name)
}

/// Kills `program` at random moments and restarts it until it has ended. Its result must equal `native`.
///
/// # Errors
/// When any of that does not hold. The error contains all output.
pub fn survives_kills(program: &Program, native: &RunResult, torment: Torment) -> Result<Tally> {
    let mut arena = Arena::new()?;
    let outcome = tormented(&arena, program, native, torment);
    explain(&mut arena, outcome, torment.seed)
}

fn tormented(arena: &Arena, program: &Program, native: &RunResult, torment: Torment) -> Result<Tally> {
    let standfast = Standfast::new(arena)?;
    let mut random = Rng::with_seed(torment.seed);
    let interval = u64::try_from(torment.interval.as_millis()).context("an interval of milliseconds")?;
    let options: Vec<_> = torment.options.iter().map(|option| (*option).to_owned()).collect();
    let mut running = standfast.run_with(&options, Checkpoints::EveryMilliseconds(interval), program)?;
    let mut tally = Tally::default();
    while tally.kills < torment.kills_max {
        // Most lives may first save something, so that the job makes progress. Only what a life has saved itself counts.
        // Sometimes the kill comes immediately.
        if tally.kills == 0 || random.u32(..4) > 0 {
            let before = standfast.newest_generation(&arena.images())?;
            standfast.await_generation(before, &mut running)?;
        }
        sleep(torment.interval.mul_f64(random.f64() * 1.5));
        if running.has_ended()? {
            break;
        }
        if !standfast.kill_job()? {
            // The program is just being rebuilt, or has just ended.
            continue;
        }
        let ended = running.wait(PATIENCE)?;
        if ended.exited(0) {
            // The program finished just before the kill.
            tally.messages = ended.errors;
            return judge(arena, native, tally);
        }
        was_killed(&ended)?;
        tally.kills += 1;
        running = standfast.restart(&arena.images(), &format!("restart-{}", tally.kills))?;
    }
    tally.messages = running.wait(patience_for_a_whole_run())?.well("the job")?.errors;
    judge(arena, native, tally)
}

fn judge(arena: &Arena, native: &RunResult, tally: Tally) -> Result<Tally> {
    RunResult::read(&arena.work())?.must_equal(native)?;
    arena.wait_until_empty(PATIENCE)?;
    Ok(tally)
}

/// Restarts one image many times, and kills each restart but the last on its way. Then restarts copies of its directory.
///
/// # Errors
/// When any result differs from `native`.
pub fn one_image_serves_many_restarts(program: &Program, native: &RunResult, seed: u64) -> Result<()> {
    for seed in (0..TRIES).map(|turn| seed.wrapping_add(turn)) {
        let mut arena = Arena::new()?;
        let outcome = restarted_often(&arena, program, native, seed);
        if explain(&mut arena, outcome, seed)? {
            return Ok(());
        }
    }
    bail!("the program ended too early to be killed, {TRIES} times")
}

/// Returns whether the program ran long enough to be killed each time. On a busy machine, it may finish before that.
fn restarted_often(arena: &Arena, program: &Program, native: &RunResult, seed: u64) -> Result<bool> {
    let standfast = Standfast::new(arena)?;
    let mut random = Rng::with_seed(seed);
    let mut running = standfast.run_to_be_copied(Checkpoints::OnRequest, program)?;
    standfast.await_program()?;
    sleep(Duration::from_millis(random.u64(100..400)));
    standfast.checkpoint()?;
    for turn in 0..4 {
        sleep(Duration::from_millis(random.u64(0..200)));
        if !is_killed(standfast, running)? {
            return early(arena, native);
        }
        running = standfast.restart(&arena.images(), &format!("restart-{turn}"))?;
        await_restart(standfast, &mut running)?;
    }
    if !is_killed(standfast, running)? {
        return early(arena, native);
    }
    for turn in 0..2 {
        let copy = arena.folder().join(format!("copy-{turn}"));
        copy_folder(&arena.images(), &copy)?;
        standfast.restart(&copy, &format!("copy-{turn}"))?.wait(PATIENCE)?.well("a restart from a copy")?;
        RunResult::read(&arena.work())?.must_equal(native).context("restarted from a copy")?;
    }
    standfast.restart(&arena.images(), "last")?.wait(PATIENCE)?.well("the last restart")?;
    RunResult::read(&arena.work())?.must_equal(native)?;
    Ok(true)
}

/// Checks that a program that finished too early still has the right result.
fn early(arena: &Arena, native: &RunResult) -> Result<bool> {
    RunResult::read(&arena.work())?.must_equal(native).context("it was not killed any more")?;
    Ok(false)
}

/// Kills the program. Returns `false` if it finished before.
fn is_killed(standfast: Standfast<'_>, running: Running) -> Result<bool> {
    let is_killed = standfast.kill_job()?;
    let ended = running.wait(PATIENCE)?;
    if ended.exited(0) {
        return Ok(false);
    }
    ensure!(is_killed, "nobody killed it: {} {}", ended.status, ended.errors);
    was_killed(&ended)?;
    Ok(true)
}

fn await_restart(standfast: Standfast<'_>, running: &mut Running) -> Result<()> {
    until(PATIENCE, "the restarted program to run", || {
        // The program may have finished by now.
        Ok(if running.has_ended()? { Some(()) } else { standfast.program_pid()?.map(drop) })
    })
}

/// Checks that the program was killed. A kill while the program is still being rebuilt fails the restart; a later one
/// kills the program itself.
pub(crate) fn was_killed(ended: &Ended) -> Result<()> {
    let too_early = ended.exited(1) && ended.errors.contains("killed it");
    let killed = ended.killed_by(Signal::SIGKILL) || too_early;
    ensure!(killed, "the supervisor ended with {}: {}", ended.status, ended.errors);
    Ok(())
}

/// Adds to a failure what a person needs to investigate it, and keeps the scratch folder if requested.
pub(crate) fn explain<T>(arena: &mut Arena, outcome: Result<T>, seed: u64) -> Result<T> {
    if outcome.is_err() && std::env::var_os(KEEP_EVIDENCE).is_some() {
        arena.keep();
    }
    outcome.with_context(|| format!("STANDFAST_SEED={seed} {}", arena.evidence()))
}
