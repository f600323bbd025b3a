//! The parallel programs in `examples/mpi`: their results are correct, and do not depend on the number of ranks.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::papers::{CELL, MAT, Paper, STSWM};
use standfast_tests::parallel::{Mpi, STRUCK, checksum, survives_kills, undisturbed};
use standfast_tests::result::RunResult;
use standfast_tests::victims::Program;
use standfast_tests::{Lacking, seed, skip};

/// Programs, each with the serial program that must give the same checksum.
const TWINS: [(&str, Paper, &[&str]); 3] =
    [("pcell", CELL, &["64", "20"]), ("pmat", MAT, &["60"]), ("pstswm", STSWM, &["10", "3", "2"])];

/// Programs without a twin, and whether a single rank must give the same checksum.
const OTHERS: [(&str, bool, &[&str]); 3] =
    [("nbody", true, &["500", "4"]), ("pcg", true, &["5"]), ("psolve", false, &["64", "1"])];

#[test]
fn parallel_programs_compute_correct_results_with_open_mpi() -> Result<()> {
    find_the_truth(Mpi::Open)
}

#[test]
fn parallel_programs_compute_correct_results_with_mpich() -> Result<()> {
    find_the_truth(Mpi::Mpich)
}

/// Kills of each program.
const KILLS: usize = 10;

/// Kills the programs under parity or Reed-Solomon, as chance decides.
fn survive_kills(names: &[&str]) -> Result<()> {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for struck in STRUCK.into_iter().filter(|(name, _)| names.contains(name)) {
        let here = survives_kills(Mpi::Open, struck.0, struck.1, KILLS, &mut random);
        if !here.with_context(|| format!("{}, seed {seed}", struck.0))? {
            skip(Mpi::Open.name(), &Lacking::program("that MPI with Fortran and ScaLAPACK"));
        }
    }
    Ok(())
}

#[test]
fn c_programs_that_lose_ranks_reach_the_same_result() -> Result<()> {
    survive_kills(&["pcell", "pmat", "nbody"])
}

#[test]
#[ignore = "57 s; those in C stay"]
fn fortran_programs_that_lose_ranks_reach_the_same_result() -> Result<()> {
    survive_kills(&["pcg", "pstswm", "psolve"])
}

/// Counts the lines for checkpoints in a program and in the file that all programs share. These are the lines that name
/// the interface. In Fortran, they are also the lines that track the program's progress, since its loops would otherwise
/// do that themselves.
#[test]
fn checkpoints_take_at_most_ten_lines_of_a_program() {
    let lines = |text: &str, words: &[&str]| {
        let is_comment = |line: &&str| ["!", "/*", "*"].iter().any(|sign| line.trim_start().starts_with(sign));
        let code = text.lines().filter(|line| !is_comment(line));
        code.filter(|line| words.iter().any(|word| line.contains(word))).count()
    };
    let in_c = include_str!("../../examples/mpi/parallel.h");
    let in_fortran = include_str!("../../examples/mpi/parallel.f90");
    for (name, shared, text) in [
        ("pcell", in_c, include_str!("../../examples/mpi/pcell.c")),
        ("pmat", in_c, include_str!("../../examples/mpi/pmat.c")),
        ("nbody", in_c, include_str!("../../examples/mpi/nbody.c")),
        ("pcg", in_fortran, include_str!("../../examples/mpi/pcg.f90")),
        ("pstswm", in_fortran, include_str!("../../examples/mpi/pstswm.f90")),
        ("psolve", in_fortran, include_str!("../../examples/mpi/psolve.f90")),
    ] {
        let (own, shared) = (lines(text, &["standfast", "from = "]), lines(shared, &["standfast"]));
        assert!(own >= 5 && shared >= 3 && own + shared <= 10, "{name}: {own} lines of its own and {shared}");
    }
}

fn find_the_truth(mpi: Mpi) -> Result<()> {
    let Some(folder) = mpi.programs()? else {
        skip(mpi.name(), &Lacking::program("that MPI with Fortran and ScaLAPACK"));
        return Ok(());
    };
    for (name, serial, arguments) in TWINS {
        let serial = Program { arguments: Vec::new(), ..serial.victim.with(&[])? };
        let arguments_of_twin = arguments.iter().map(std::ffi::OsString::from).collect();
        let wanted = RunResult::native(&Program { arguments: arguments_of_twin, ..serial })?.output();
        let found = undisturbed(mpi, 4, &folder.join(name), arguments)?;
        ensure!(checksum(&found)? == checksum(&wanted)?, "{name} differs from its serial twin: {found}{wanted}");
    }
    for (name, is_same_alone, arguments) in OTHERS {
        let found = undisturbed(mpi, 4, &folder.join(name), arguments)?;
        checksum(&found)?;
        // The ranks of MPICH use their processor while they wait; here there are too many of them for the machine.
        if mpi == Mpi::Mpich {
            continue;
        }
        let again = undisturbed(mpi, if is_same_alone { 1 } else { 4 }, &folder.join(name), arguments)?;
        ensure!(checksum(&found)? == checksum(&again)?, "{name} differs from itself: {found}{again}");
    }
    Ok(())
}
