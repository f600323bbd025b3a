//! What `standfast group run` offers MPI programs, apart from continuing after a loss.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::groups::{
    ends_at_its_time_limit_and_goes_on, goes_on_where_memory_is_too_small, names_messages_under_way, program,
    python_survives_kills, waits_without_computing,
};
use standfast_tests::mpi::{MPIS, Mpi};
use standfast_tests::{Lacking, seed, skip};
use std::path::Path;

fn with_each(name: &str, promise: impl Fn(Mpi, &Path) -> Result<()>) -> Result<()> {
    for mpi in MPIS.iter().copied() {
        match program(mpi, name)? {
            Some(path) => promise(mpi, &path)?,
            None => skip(mpi.name, &Lacking::program("its compiler")),
        }
    }
    Ok(())
}

fn with_open_mpi(name: &str, promise: impl Fn(Mpi, &Path) -> Result<()>) -> Result<()> {
    let mpi = MPIS[0];
    match program(mpi, name)? {
        Some(path) => promise(mpi, &path),
        None => {
            skip(mpi.name, &Lacking::program("its compiler"));
            Ok(())
        }
    }
}

#[test]
fn a_job_saves_its_state_at_its_time_limit() -> Result<()> {
    with_open_mpi("field", ends_at_its_time_limit_and_goes_on)
}

#[test]
fn a_checkpoint_without_memory_is_abandoned_and_the_job_continues() -> Result<()> {
    with_open_mpi("room", |mpi, path| {
        if goes_on_where_memory_is_too_small(mpi, path)?.is_none() {
            skip("too little memory", &Lacking::system("a file system cannot be mounted here"));
        }
        Ok(())
    })
}

#[test]
fn messages_in_flight_at_a_checkpoint_are_reported() -> Result<()> {
    with_each("quiet", |mpi, path| {
        let uncounted = program(mpi, "field")?.expect("its compiler is here");
        names_messages_under_way(mpi, path, &uncounted)
    })
}

#[test]
fn processes_that_wait_in_a_checkpoint_do_not_busy_wait() -> Result<()> {
    with_open_mpi("waits", waits_without_computing)
}

#[test]
#[ignore = "12 s; those in C stay"]
fn a_program_in_python_survives_kills() -> Result<()> {
    // mpi4py comes from Debian, and so does its Python.
    if python_survives_kills("/usr/bin/python3", seed())?.is_none() {
        skip("Python", &Lacking::program("mpi4py or numpy"));
    }
    Ok(())
}
