//! MPI programs that lose ranks and nodes, and go on from the memory of the others.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::mpi::{Code, MPIS, survives, survives_watched};
use standfast_tests::{seed, skip};

const STRIKES: usize = 3;

fn with_every_mpi(code: Code) -> Result<()> {
    for mpi in MPIS {
        match mpi.program()? {
            Some(program) => survives(mpi, &program, code, STRIKES, seed())?,
            None => skip(mpi.name, "its compiler is not here"),
        }
    }
    Ok(())
}

#[test]
fn a_job_under_parity_survives_lost_ranks_and_nodes() -> Result<()> {
    with_every_mpi(Code::Parity)
}

#[test]
fn a_job_under_reed_solomon_survives_two_lost_nodes() -> Result<()> {
    with_every_mpi(Code::ReedSolomon)
}

#[test]
fn a_watched_job_is_launched_again_by_itself() -> Result<()> {
    for mpi in MPIS {
        match mpi.program()? {
            Some(program) => survives_watched(mpi, &program, STRIKES, seed())?,
            None => skip(mpi.name, "its compiler is not here"),
        }
    }
    Ok(())
}
