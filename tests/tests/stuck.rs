//! Launches whose launcher stays although they come no further.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::mpi::{MPIS, Mpi};
use standfast_tests::stuck::{
    a_launch_that_does_not_end_is_ended, a_launch_that_has_lost_a_process_is_ended,
    a_launch_that_never_begins_is_ended, survives_kills_at_the_start,
};
use standfast_tests::{seed, skip};
use std::path::Path;

const STRIKES: usize = 3;

fn with_each(promise: impl Fn(Mpi, &Path) -> Result<()>) -> Result<()> {
    for mpi in MPIS.iter().copied() {
        match mpi.program()? {
            Some(program) => promise(mpi, &program)?,
            None => skip(mpi.name, "its compiler is not here"),
        }
    }
    Ok(())
}

#[test]
fn a_job_that_never_begins_is_launched_again() -> Result<()> {
    a_launch_that_never_begins_is_ended()
}

#[test]
fn a_job_that_has_lost_a_process_is_launched_again_whatever_its_launcher_does() -> Result<()> {
    a_launch_that_has_lost_a_process_is_ended()
}

#[test]
fn a_job_that_is_done_and_does_not_end_is_ended_and_not_launched_again() -> Result<()> {
    with_each(a_launch_that_does_not_end_is_ended)
}

#[test]
fn a_job_that_loses_ranks_while_they_start_comes_to_its_result() -> Result<()> {
    with_each(|mpi, program| survives_kills_at_the_start(mpi, program, STRIKES, seed()))
}
