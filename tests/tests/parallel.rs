//! The parallel programs in `examples/mpi`: their results are true, and do not depend on the number of ranks.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::papers::{CELL, MAT, Paper, STSWM};
use standfast_tests::parallel::{Mpi, checksum};
use standfast_tests::result::RunResult;
use standfast_tests::skip;
use standfast_tests::victims::Program;
use std::path::Path;

/// Each with the serial program that must come to the same checksum.
const TWINS: [(&str, Paper, &[&str]); 3] =
    [("pcell", CELL, &["64", "20"]), ("pmat", MAT, &["60"]), ("pstswm", STSWM, &["10", "3", "2"])];

/// Those without a twin, and whether a rank alone must come to the same checksum.
const OTHERS: [(&str, bool, &[&str]); 3] =
    [("nbody", true, &["500", "4"]), ("pcg", true, &["5"]), ("psolve", false, &["64", "1"])];

#[test]
fn parallel_programs_find_the_truth_with_open_mpi() -> Result<()> {
    find_the_truth(Mpi::Open)
}

#[test]
fn parallel_programs_find_the_truth_with_mpich() -> Result<()> {
    find_the_truth(Mpi::Mpich)
}

fn find_the_truth(mpi: Mpi) -> Result<()> {
    let Some(folder) = mpi.programs()? else {
        skip(mpi.name(), "this machine has not that MPI with Fortran and ScaLAPACK");
        return Ok(());
    };
    for (name, serial, arguments) in TWINS {
        let serial = Program { arguments: Vec::new(), ..serial.victim.with(&[])? };
        let arguments_of_twin = arguments.iter().map(std::ffi::OsString::from).collect();
        let wanted = RunResult::native(&Program { arguments: arguments_of_twin, ..serial })?.output();
        let found = on_ranks(mpi, 4, &folder.join(name), arguments)?;
        ensure!(checksum(&found)? == checksum(&wanted)?, "{name} differs from its serial twin: {found}{wanted}");
    }
    for (name, is_same_alone, arguments) in OTHERS {
        let found = on_ranks(mpi, 4, &folder.join(name), arguments)?;
        checksum(&found)?;
        // The ranks of MPICH burn their processor while they wait: here they are too many for the machine.
        if mpi == Mpi::Mpich {
            continue;
        }
        let again = on_ranks(mpi, if is_same_alone { 1 } else { 4 }, &folder.join(name), arguments)?;
        ensure!(checksum(&found)? == checksum(&again)?, "{name} differs from itself: {found}{again}");
    }
    Ok(())
}

/// What it says; it ends badly where a self-check finds its result untrue.
fn on_ranks(mpi: Mpi, ranks: u32, program: &Path, arguments: &[&str]) -> Result<String> {
    let program = mpi.on_ranks(ranks, program, arguments);
    let output = RunResult::native(&program).with_context(|| format!("{program:?}"))?.output();
    ensure!(output.contains("check "), "it does not check its result: {output}");
    Ok(output)
}
