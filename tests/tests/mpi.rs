//! MPI programs that lose ranks and nodes, and go on from the memory of the others.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::mpi::{Code, MPIS, Mpi, survives};
use standfast_tests::{seed, skip, watched};
use std::path::Path;

const STRIKES: usize = 2;

fn with_every_mpi(code: Code) -> Result<()> {
    with_every_program(|mpi, program| survives(mpi, program, code, STRIKES, seed()))
}

#[test]
fn a_job_under_parity_survives_lost_ranks_and_nodes() -> Result<()> {
    with_every_mpi(Code::Parity)
}

#[test]
fn a_job_under_reed_solomon_survives_two_lost_nodes() -> Result<()> {
    with_every_mpi(Code::ReedSolomon)
}

fn with_every_program(promise: impl Fn(Mpi, &Path) -> Result<()>) -> Result<()> {
    for mpi in MPIS {
        match mpi.program()? {
            Some(program) => promise(mpi, &program)?,
            None => skip(mpi.name, "its compiler is not here"),
        }
    }
    Ok(())
}

#[test]
fn a_watched_job_is_launched_again_by_itself() -> Result<()> {
    with_every_program(|mpi, program| watched::survives_kills(mpi, program, STRIKES, seed()))
}

#[test]
fn a_watched_job_that_hangs_ends_itself_and_is_launched_again() -> Result<()> {
    with_every_program(|mpi, program| watched::survives_a_hang(mpi, program, seed()))
}

#[test]
fn what_a_job_held_in_memory_is_saved_rebuilt_and_gone_on_from() -> Result<()> {
    with_every_program(|mpi, program| watched::goes_on_from_what_was_saved(mpi, program, seed()))
}

#[test]
fn a_spare_node_takes_the_place_of_a_dead_one() -> Result<()> {
    with_every_program(|mpi, program| watched::survives_dead_nodes(mpi, program, seed()))
}
