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
fn a_job_that_has_lost_a_process_is_launched_again_whatever_its_launcher_does() -> Result<()> {
    a_launch_that_has_lost_a_process_is_ended()
}

#[test]
fn a_job_that_has_lost_a_rank_is_launched_again_also_where_its_launcher_ends_well() -> Result<()> {
    with_every_program(|mpi, program| a_launch_that_only_seems_well_is_not_the_last(mpi, program, seed()))
}

#[test]
fn a_node_that_is_gone_is_left_out_also_where_nobody_has_joined() -> Result<()> {
    a_node_that_no_launcher_misses_is_left_out()
}

#[test]
fn a_node_that_is_gone_when_the_job_is_done_is_named() -> Result<()> {
    with_every_program(a_node_that_is_gone_in_the_end_is_named)
}

#[test]
fn a_job_that_is_done_and_does_not_end_is_ended_and_not_launched_again() -> Result<()> {
    with_every_program(a_launch_that_does_not_end_is_ended)
}

#[test]
fn a_job_that_loses_ranks_while_they_start_comes_to_its_result() -> Result<()> {
    with_every_program(|mpi, program| survives_kills_at_the_start(mpi, program, STRIKES, seed()))
}
