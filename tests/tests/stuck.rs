//! Launches whose launcher stays although they come no further.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::mpi::with_every_program;
use standfast_tests::seed;
use standfast_tests::stuck::{
    a_launch_that_does_not_end_is_ended, a_launch_that_has_lost_a_process_is_ended,
    a_launch_that_never_begins_is_ended, survives_kills_at_the_start,
};

const STRIKES: usize = 3;

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
    with_every_program(a_launch_that_does_not_end_is_ended)
}

#[test]
fn a_job_that_loses_ranks_while_they_start_comes_to_its_result() -> Result<()> {
    with_every_program(|mpi, program| survives_kills_at_the_start(mpi, program, STRIKES, seed()))
}
