//! MPI programs that lose ranks and nodes, and continue from the memory of the others.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result};
use standfast_tests::mpi::{Code, MPIS, Mpi, RANKS, survives, with_every_program};
use standfast_tests::simulated::Nodes;
use standfast_tests::{Lacking, seed, skip, slurm, watched};
use std::path::Path;

const STRIKES: usize = 2;
const NODE_STRIKES: usize = 4;

fn with_every_mpi(code: Code) -> Result<()> {
    with_every_program(|mpi, program| survives(mpi, program, code, STRIKES, seed()))
}

#[test]
fn a_job_under_parity_survives_lost_ranks_and_nodes() -> Result<()> {
    with_every_mpi(Code::Parity)
}

#[test]
#[ignore = "9 s; lost nodes under parity stay"]
fn a_job_under_reed_solomon_survives_two_lost_nodes() -> Result<()> {
    with_every_mpi(Code::ReedSolomon)
}

#[test]
fn the_headers_are_cpp_as_well() -> Result<()> {
    with_every_program(|mpi, _| mpi.reads_headers_as_cpp())
}

#[test]
#[ignore = "12 s; those in C stay"]
fn a_program_in_cpp_survives_kills() -> Result<()> {
    for mpi in MPIS.iter().copied() {
        match mpi.cpp_program()? {
            Some(program) => watched::survives_kills(mpi, &program, STRIKES, seed())?,
            None => skip(mpi.name, &Lacking::program("its compiler for C++")),
        }
    }
    Ok(())
}

#[test]
fn a_watched_job_is_launched_again_by_itself() -> Result<()> {
    with_every_program(|mpi, program| watched::survives_kills(mpi, program, STRIKES, seed()))
}

#[test]
#[ignore = "24 s; one that ends by itself stays"]
fn a_watched_job_that_hangs_is_ended_and_relaunched() -> Result<()> {
    with_every_program(|mpi, program| watched::survives_a_hang(mpi, program, seed()))
}

#[test]
#[ignore = "18 s; the time limit, which saves as well, stays"]
fn a_job_continues_from_salvaged_and_rebuilt_memory() -> Result<()> {
    with_every_program(|mpi, program| watched::goes_on_from_what_was_saved(mpi, program, seed()))
}

/// Runs `promise` with the MPIs that are tested on nodes with networks of their own. MPICH is not among them: it
/// sometimes hangs in MPI_Finalize there, or leaves processes of its own behind (docs/group.md). `promise` returns
/// `false` if there can be no such nodes.
fn with_mpis_on_nodes(promise: impl Fn(Mpi, &Path) -> Result<bool>) -> Result<()> {
    for mpi in MPIS.iter().copied().filter(|mpi| mpi.name.starts_with("Open MPI")) {
        match mpi.program()? {
            Some(program) if !promise(mpi, &program).context(mpi.name)? => {
                skip("simulated nodes", &Lacking::system("this machine gives a plain user no namespaces"));
            }
            Some(_) => {}
            None => skip(mpi.name, &Lacking::program("its compiler")),
        }
    }
    Ok(())
}

fn with_nodes(count: usize, promise: impl Fn(Mpi, &Path, &Nodes) -> Result<()>) -> Result<()> {
    with_mpis_on_nodes(|mpi, program| match Nodes::new(count)? {
        Some(nodes) => promise(mpi, program, &nodes).map(|()| true),
        None => Ok(false),
    })
}

#[test]
fn a_job_survives_nodes_that_go_and_come_back_with_an_old_epoch() -> Result<()> {
    with_nodes(RANKS + 1, |mpi, program, nodes| watched::survives_lost_nodes(mpi, program, nodes, seed()))
}

#[test]
fn a_job_in_a_slurm_allocation_survives_a_lost_node() -> Result<()> {
    with_nodes(RANKS + 1, |mpi, program, nodes| slurm::survives_a_lost_node(mpi, program, nodes, seed()))
}

fn struck_on_nodes(code: Code) -> Result<()> {
    with_mpis_on_nodes(|mpi, program| watched::survives_strikes(mpi, program, code, NODE_STRIKES, seed()))
}

#[test]
fn a_job_under_parity_survives_strikes_at_its_ranks_and_nodes() -> Result<()> {
    struck_on_nodes(Code::Parity)
}

#[test]
#[ignore = "14 s; the one under parity stays"]
fn a_job_under_reed_solomon_survives_strikes_at_its_ranks_and_nodes() -> Result<()> {
    struck_on_nodes(Code::ReedSolomon)
}

#[test]
fn a_job_without_a_spare_node_ends_and_continues_with_fewer() -> Result<()> {
    with_nodes(RANKS, |mpi, program, nodes| watched::goes_on_with_fewer_nodes(mpi, program, nodes, seed()))
}
