//! Stops that end in time, on a disk of 100 MB/s, and deadlines that cannot be met.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::Signal;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{OUTPUT, RunResult, open_gate};
use standfast_tests::running::{Output, PATIENCE, Running, patience_for_a_whole_run, until};
use standfast_tests::victims::PACER;
use standfast_tests::{Lacking, seed, skip};
use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sets the disk's speed for a command that was built with `planted-faults`.
const DISK: &str = "STANDFAST_DISK_BYTES_PER_SECOND";
const BYTES_PER_SECOND: f64 = 100e6;
/// Saving all of the program takes longer than the deadline.
const MEGABYTES: &str = "240";
const DEADLINE: Duration = Duration::from_secs(2);

/// Runs the job with a deadline, or continues it, and waits until a stop is said to end in time.
fn supervised(standfast: Standfast<'_>, arena: &Arena, name: &str, program: &[&str]) -> Result<Running> {
    let program = PACER.with(program)?;
    let deadline = format!("{}s", DEADLINE.as_secs());
    let mut command = standfast.run_command_with(
        &["--resume".into(), "--deadline".into(), deadline],
        Checkpoints::OnRequest,
        &program,
    );
    command.env(DISK, BYTES_PER_SECOND.to_string());
    Running::start(arena, name, Output::File(arena.work().join(OUTPUT)), &mut command)
}

/// Returns what the status says about stops, once it says something.
fn stop_of(standfast: Standfast<'_>, arena: &Arena, running: &mut Running) -> Result<Option<bool>> {
    until(PATIENCE, "a verdict about stops", || {
        if running.has_ended()? {
            return Ok(Some(None));
        }
        if !arena.images().join("manifest").exists() {
            return Ok(None);
        }
        Ok(standfast.status(&arena.images())?["live"]["stop"]["is_met"].as_bool().map(Some))
    })
}

#[test]
#[ignore = "a minute, and a build with planted-faults; simulated programs check the estimate in make test"]
fn stops_at_random_moments_end_within_the_deadline() -> Result<()> {
    let lives: u32 = std::env::var("STANDFAST_INTERRUPTIONS").ok().and_then(|it| it.parse().ok()).unwrap_or(4);
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let seconds = (lives * 12).to_string();
    let words = [MEGABYTES, "10", seconds.as_str()];
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let mut slowest = Duration::ZERO;
    for life in 0..lives {
        let mut running = supervised(standfast, &arena, &format!("life-{life}"), &words)?;
        let verdict = stop_of(standfast, &arena, &mut running)?;
        if life == 0 && is_fast(standfast, &arena)? {
            skip("stops end in time on a slow disk", &Lacking::system("a command built with planted-faults"));
            return Ok(());
        }
        let verdict = verdict.with_context(|| format!("it ended in life {life}: {}", running.errors_so_far()))?;
        if !verdict {
            until(PATIENCE, "a deadline that can be met", || {
                Ok(stop_of(standfast, &arena, &mut running)?.unwrap_or(true).then_some(()))
            })?;
        }
        sleep(Duration::from_secs_f64(3.0 * random.f64()));
        let begun = Instant::now();
        running.signal(Signal::SIGTERM)?;
        let ended = running.wait(PATIENCE)?;
        let took = begun.elapsed();
        slowest = slowest.max(took);
        ensure!(ended.exited(75), "seed {seed}, life {life}: {}; {}", ended.status, ended.errors);
        ensure!(took <= DEADLINE, "seed {seed}, life {life}: a stop took {took:?}; {}", ended.errors);
    }
    writeln!(std::io::stderr(), "{lives} stops, the slowest took {slowest:?}")?;
    open_gate(&arena)?;
    let last = supervised(standfast, &arena, "last", &words)?;
    last.wait(patience_for_a_whole_run())?.well("the last life")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&PACER.with(&words)?)?)
}

/// Reports whether the disk is faster than it should be: this build knows nothing of its speed.
fn is_fast(standfast: Standfast<'_>, arena: &Arena) -> Result<bool> {
    let last = &standfast.status(&arena.images())?["live"]["last_checkpoint"];
    let (bytes, time) = (last["file_bytes"].as_f64(), last["durable_nanoseconds"].as_f64());
    let speed = bytes.zip(time).map(|(bytes, time)| bytes / time * 1e9).context("a checkpoint")?;
    Ok(speed > 2.0 * BYTES_PER_SECOND)
}

#[test]
#[ignore = "some seconds; simulated programs check the verdicts in make test"]
fn a_deadline_that_cannot_be_met_is_reported_and_the_program_continues() -> Result<()> {
    let words = ["64", "400", "12"];
    let program = PACER.with(&words)?;
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let options = ["--deadline".to_owned(), "20ms".to_owned()];
    let mut running = standfast.run_with(&options, Checkpoints::OnRequest, &program)?;
    let verdict = stop_of(standfast, &arena, &mut running)?;
    ensure!(verdict == Some(false), "{verdict:?}: {}", running.errors_so_far());
    let said = running.errors_so_far();
    ensure!(said.contains("longer than the deadline of 20ms") && said.contains("hint:"), "it said {said}");
    let status = standfast.ask("status", &arena.images(), &[])?.well("status")?.output;
    ensure!(status.contains("it may take longer than the deadline"), "{status}");
    running.wait(PATIENCE)?.well("the job")?;
    RunResult::read(&arena.work())?.must_equal(&RunResult::native(&program)?)
}

#[test]
#[ignore = "a run of the command; its unit tests refuse the same values"]
fn a_malformed_deadline_is_refused() -> Result<()> {
    let arena = Arena::new()?;
    let options = ["--deadline".to_owned(), "30".to_owned()];
    let run = Standfast::new(&arena)?.run_with(&options, Checkpoints::OnRequest, &PACER.with(&["1", "1", "1"])?)?;
    let refused = run.wait(PATIENCE)?.refusal("a deadline without a unit")?;
    ensure!(refused.contains("with its unit") && !arena.images().exists(), "{refused}");
    Ok(())
}
