//! Typical jobs of many processes: the tests kill them at random moments and restart them each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::result::{RunResult, open_gate};
use standfast_tests::running::{PATIENCE, until};
use standfast_tests::survival::{survives, survives_with};
use standfast_tests::traces;
use standfast_tests::victims::{
    HOLDER, JAVA_CHILDREN, LOADER, MAKE, PIPELINES, PIPELINES_DASH, POOL, POSTGRES, REDIS, RING, SUBPROCESSES, WEB,
    XARGS,
};
use std::{fs, thread};

/// The most times that a test kills each job, unless `STANDFAST_KILLS` sets it.
const KILLS_MAX: u32 = 2;

fn kills_max() -> u32 {
    std::env::var("STANDFAST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS_MAX)
}

#[test]
fn a_script_of_bash_survives_kills() -> Result<()> {
    survives(PIPELINES, kills_max())
}

#[test]
#[ignore = "7 s; that of bash stays"]
fn a_script_of_dash_survives_kills() -> Result<()> {
    survives(PIPELINES_DASH, kills_max())
}

#[test]
fn make_with_parallel_jobs_survives_kills() -> Result<()> {
    survives(MAKE, kills_max())
}

#[test]
#[ignore = "13 s; make with parallel jobs stays"]
fn xargs_with_parallel_jobs_survives_kills() -> Result<()> {
    survives(XARGS, kills_max())
}

#[test]
fn subprocesses_of_python_survive_kills() -> Result<()> {
    survives(SUBPROCESSES, kills_max())
}

#[test]
#[ignore = "9 s; subprocesses and loaders of Python stay"]
fn pools_of_python_survive_kills() -> Result<()> {
    survives(POOL, kills_max())
}

/// The directories of the workers' sockets disappear with the workers; five kills meet most of the possible cases.
#[test]
fn python_batch_loaders_survive_kills() -> Result<()> {
    survives(LOADER, kills_max().max(5))
}

#[test]
#[ignore = "16 s; Redis and its clients stay"]
fn a_web_server_in_go_and_its_client_survive_kills() -> Result<()> {
    survives(WEB, kills_max())
}

#[test]
#[ignore = "13 s; Java and subprocesses of Python stay"]
fn java_with_children_survives_kills() -> Result<()> {
    survives(JAVA_CHILDREN, kills_max())
}

#[test]
fn redis_and_its_clients_survive_kills() -> Result<()> {
    survives(REDIS, kills_max())
}

#[test]
fn postgresql_and_its_clients_survive_kills() -> Result<()> {
    // A database keeps most of its files closed most of the time.
    survives_with(POSTGRES, kills_max(), &["--save-folder", "data"]).map(drop)
}

/// The number of times that both jobs are saved at the same time.
const CHECKPOINTS: u32 = 8;

#[test]
fn two_jobs_with_kernel_objects_do_not_interfere() -> Result<()> {
    let program = RING.with(&[])?;
    let native = RunResult::native(&program)?;
    let arenas = [Arena::new()?, Arena::new()?];
    let jobs = arenas.each_ref().map(|arena| Standfast::new(arena)?.run(Checkpoints::OnRequest, &program));
    let both = |act: &(dyn Fn(&Arena) -> Result<()> + Sync)| {
        thread::scope(|scope| {
            let threads = arenas.each_ref().map(|arena| scope.spawn(move || act(arena)));
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })
    };
    both(&|arena| Standfast::new(arena)?.await_gate())?;
    for _ in 0..CHECKPOINTS {
        both(&|arena| Standfast::new(arena)?.checkpoint())?;
    }
    both(&|arena| {
        ensure!(Standfast::new(arena)?.kill_job()?, "it ended by itself");
        Ok(())
    })?;
    for job in jobs {
        job?.wait(PATIENCE)?;
    }
    both(&|arena| {
        open_gate(arena)?;
        Standfast::new(arena)?.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart")?;
        RunResult::read(&arena.work())?.must_equal(&native)?;
        arena.wait_until_empty(PATIENCE)?;
        traces::ensure_none(arena)
    })
}

#[test]
fn a_segment_created_after_the_checkpoint_is_removed_at_restart() -> Result<()> {
    let key = std::process::id().to_string();
    let is_there = || -> Result<bool> {
        let segments = fs::read_to_string("/proc/sysvipc/shm")?;
        Ok(segments.lines().any(|line| line.split_whitespace().next() == Some(&key)))
    };
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let (linger, made) = (arena.work().join("linger"), arena.work().join("made"));
    fs::write(&linger, "")?;
    let job = standfast.run(Checkpoints::OnRequest, &HOLDER.with(&["late-segment", &key])?)?;
    standfast.await_gate()?;
    standfast.checkpoint()?;
    open_gate(&arena)?;
    until(PATIENCE, "the segment", || Ok(made.exists().then_some(())))?;
    ensure!(standfast.kill_job()? && is_there()?, "it ended by itself");
    job.wait(PATIENCE)?;
    fs::remove_file(&linger)?;
    standfast.restart(&arena.images(), "restart")?.wait(PATIENCE)?.well("restart").with_context(|| arena.evidence())?;
    ensure!(!is_there()?, "the segment is left behind");
    arena.wait_until_empty(PATIENCE)
}
