//! Programs under the scripts that `standfast batch` prints. Each scheduler is played: its signals, the moments at which
//! it kills, and what it makes of exit statuses. `docs/batch.md` says which scripts ran under real schedulers.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use standfast_tests::arena::Arena;
use standfast_tests::command::Standfast;
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::schedulers::{PlayedJob, Scheduler, survives_interruptions};
use standfast_tests::seed;
use standfast_tests::victims::{HOLDER, Program, SMALL};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

const ALL: [Scheduler; 5] =
    [Scheduler::Slurm, Scheduler::GridEngine, Scheduler::Condor, Scheduler::Kubernetes, Scheduler::Systemd];

/// How often a job is interrupted, unless `STANDFAST_INTERRUPTIONS` says otherwise.
const INTERRUPTIONS: u32 = 10;

/// Time between a signal and the kill. It is that of many batch systems.
const NOTICE: Duration = Duration::from_secs(30);

/// Rounds of the victim for each interruption. It computes about twice as long as a life lasts.
const ROUNDS: u32 = 800;

/// Runs a program whose standard output goes to a file of its own: a script writes to its output as well.
fn with_own_output(program: &Program) -> Program {
    let mut arguments: Vec<OsString> = vec!["-c".into(), "exec \"$0\" \"$@\" > output".into()];
    arguments.push(program.path.clone().into());
    arguments.extend(program.arguments.iter().cloned());
    Program { path: "/bin/sh".into(), arguments }
}

fn shell(script: &str) -> Program {
    Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
}

fn interrupted_often(scheduler: Scheduler) -> Result<()> {
    let named = std::env::var("STANDFAST_INTERRUPTIONS").ok().and_then(|text| text.parse().ok());
    let (times, seed) = (named.unwrap_or(INTERRUPTIONS), seed());
    let program = SMALL.with(&[&(ROUNDS * times).to_string()])?;
    let native = RunResult::native(&program)?;
    let arena = Arena::new()?;
    open_gate(&arena)?;
    let mut job = PlayedJob::new(scheduler, &arena, &["-i", "100ms"], &with_own_output(&program))?;
    let mut random = Rng::with_seed(seed);
    let survived = survives_interruptions(&mut job, &native, times, NOTICE, &mut random);
    let (interrupted, longest) = survived.with_context(|| format!("{scheduler:?}, seed {seed}"))?;
    writeln!(std::io::stderr(), "{scheduler:?}: {interrupted} interruptions, the longest stop took {longest:?}")?;
    ensure!(interrupted * 2 >= times, "it ended after {interrupted} interruptions");
    let cleaned = Standfast::new(&arena)?.ask("clean", &arena.images(), &[])?;
    cleaned.well("clean")?;
    ensure!(!arena.images().exists(), "checkpoints are left");
    Ok(())
}

#[test]
#[ignore = "ten lives; the unit tests of batch check the scripts in make test"]
fn a_job_under_slurm_survives_interruptions() -> Result<()> {
    interrupted_often(Scheduler::Slurm)
}

#[test]
#[ignore = "ten lives; the unit tests of batch check the scripts in make test"]
fn a_job_under_grid_engine_survives_interruptions() -> Result<()> {
    interrupted_often(Scheduler::GridEngine)
}

#[test]
#[ignore = "ten lives; the unit tests of batch check the scripts in make test"]
fn a_job_under_htcondor_survives_interruptions() -> Result<()> {
    interrupted_often(Scheduler::Condor)
}

#[test]
#[ignore = "ten lives; the unit tests of batch check the scripts in make test"]
fn a_job_under_kubernetes_survives_interruptions() -> Result<()> {
    interrupted_often(Scheduler::Kubernetes)
}

#[test]
#[ignore = "ten lives; the unit tests of batch check the scripts in make test"]
fn a_job_under_systemd_survives_interruptions() -> Result<()> {
    interrupted_often(Scheduler::Systemd)
}

/// A program's own status is not taken for that of a stop, even after the signal of a scheduler.
#[test]
#[ignore = "ten lives; the unit test of the phase checks in make test what the scripts ask"]
fn a_program_that_ends_by_itself_does_not_run_again() -> Result<()> {
    for scheduler in ALL {
        for status in [0, 3, 75, 85, 99] {
            let arena = Arena::new()?;
            let script = format!("echo run >> runs; exit {status}");
            let mut job = PlayedJob::new(scheduler, &arena, &["-i", "off"], &shell(&script))?;
            let mut random = Rng::with_seed(1);
            let run = job.run(None, NOTICE, &mut random)?.context("the first run")?;
            match scheduler {
                // It asks before the next start.
                Scheduler::Systemd if status == 0 => {}
                Scheduler::Systemd => ensure!(job.run(None, NOTICE, &mut random)?.is_none(), "{status}: it ran again"),
                _ => {
                    ensure!(!run.is_again, "{scheduler:?}, status {status}: queued again; {}", run.ended.output);
                    ensure!(run.ended.exited(0) == (status == 0), "{scheduler:?}, {status}: {}", run.ended.status);
                }
            }
            ensure!(fs::read_to_string(arena.work().join("runs"))? == "run\n", "{scheduler:?}, {status}: it ran twice");
            arena.wait_until_empty(PATIENCE)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "five jobs; the tests of preflights check in make test that a blocker is reported early"]
fn a_program_that_cannot_be_checkpointed_is_reported_in_the_job_at_once() -> Result<()> {
    for scheduler in ALL {
        let arena = Arena::new()?;
        let held = HOLDER.with(&["userfault"])?;
        let mut job = PlayedJob::new(scheduler, &arena, &["-i", "100ms"], &held)?;
        let run = std::thread::scope(|scope| {
            let running = scope.spawn(|| job.run(None, NOTICE, &mut Rng::with_seed(1)));
            let said = until(PATIENCE, "a report of the blocker", || {
                let said = fs::read_to_string(arena.logs().join("life-1.err")).unwrap_or_default();
                Ok(said.contains("userfaultfd").then_some(()))
            });
            open_gate(&arena)?;
            said?;
            running.join().map_err(|_| anyhow::anyhow!("the scheduler panicked"))?
        });
        run?.context("the first run")?.ended.well("the job")?;
    }
    Ok(())
}
