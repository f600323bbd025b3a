//! Launches that make no progress although their launcher does not end.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::mpi::with_every_program;
use standfast_tests::seed;
use standfast_tests::stuck::{
    a_launch_that_does_not_end_is_ended, a_launch_that_has_lost_a_process_is_ended,
    a_launch_that_never_begins_is_ended, a_launch_that_only_seems_well_is_not_the_last,
    a_node_that_is_gone_in_the_end_is_named, a_node_that_no_launcher_misses_is_left_out, survives_kills_at_the_start,
};

const STRIKES: usize = 3;

#[test]
fn a_job_that_never_begins_is_launched_again() -> Result<()> {
    a_launch_that_never_begins_is_ended()
}

#[test]
#[ignore = "16 s; one that has lost a rank stays"]
fn a_job_that_lost_a_process_is_relaunched() -> Result<()> {
    a_launch_that_has_lost_a_process_is_ended()
}

#[test]
fn a_job_that_lost_a_rank_is_relaunched_even_after_success() -> Result<()> {
    with_every_program(|mpi, program| a_launch_that_only_seems_well_is_not_the_last(mpi, program, seed()))
}

#[test]
fn a_lost_node_is_left_out_even_if_no_process_has_joined() -> Result<()> {
    a_node_that_no_launcher_misses_is_left_out()
}

#[test]
fn a_node_lost_at_the_end_of_the_job_is_named() -> Result<()> {
    with_every_program(a_node_that_is_gone_in_the_end_is_named)
}

#[test]
fn a_finished_job_that_does_not_exit_is_ended_and_not_relaunched() -> Result<()> {
    with_every_program(a_launch_that_does_not_end_is_ended)
}

#[test]
fn a_job_that_loses_ranks_at_the_start_reaches_its_result() -> Result<()> {
    with_every_program(|mpi, program| survives_kills_at_the_start(mpi, program, STRIKES, seed()))
}
