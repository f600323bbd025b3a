//! The parallel programs in `examples/mpi`: their results are true, and do not depend on the number of ranks.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::papers::{CELL, MAT, Paper, STSWM};
use standfast_tests::parallel::{Mpi, checksum, killed};
use standfast_tests::result::RunResult;
use standfast_tests::victims::Program;
use standfast_tests::{seed, skip};
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

/// In one run of a program.
const STRIKES: usize = 2;

/// Each long enough to be struck, and short otherwise.
const STRUCK: [(&str, &[&str]); 6] = [
    ("pcell", &["600", "300"]),
    ("pmat", &["600"]),
    ("nbody", &["3000", "10"]),
    ("pcg", &["24"]),
    ("pstswm", &["31", "6"]),
    ("psolve", &["300", "6"]),
];

/// By parity and by Reed-Solomon, as chance will have it. `STANDFAST_KILLS` says how often (`make soak`).
#[test]
fn parallel_programs_that_lose_ranks_come_to_the_undisturbed_result() -> Result<()> {
    let mpi = Mpi::Open;
    let (Some(plain), Some(protected)) = (mpi.programs()?, mpi.protected_programs()?) else {
        skip(mpi.name(), "this machine has not that MPI with Fortran and ScaLAPACK");
        return Ok(());
    };
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let kills: usize = std::env::var("STANDFAST_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(STRIKES);
    for (name, arguments) in STRUCK {
        let wanted = on_ranks(mpi, 4, &plain.join(name), arguments)?;
        for _ in 0..kills.div_ceil(STRIKES) {
            let found = killed(mpi, &protected.join(name), arguments, STRIKES, &mut random);
            let found = found.with_context(|| format!("{name}, seed {seed}"))?;
            ensure!(checksum(&found)? == checksum(&wanted)?, "{name}, seed {seed}: {found}{wanted}");
        }
    }
    Ok(())
}

/// What checkpoints take in a program, and in what all programs share: lines that name the interface, and those that keep count of
/// where the program stands.
#[test]
fn checkpoints_take_at_most_ten_lines_of_a_fortran_program() {
    let lines = |text: &str, words: &[&str]| {
        let code = text.lines().filter(|line| !line.trim_start().starts_with('!'));
        code.filter(|line| words.iter().any(|word| line.contains(word))).count()
    };
    let shared = lines(include_str!("../../examples/mpi/parallel.f90"), &["standfast"]);
    for (name, text) in [
        ("pcg", include_str!("../../examples/mpi/pcg.f90")),
        ("pstswm", include_str!("../../examples/mpi/pstswm.f90")),
        ("psolve", include_str!("../../examples/mpi/psolve.f90")),
    ] {
        let own = lines(text, &["standfast", "from = "]);
        assert!(own >= 5 && own + shared <= 10, "{name}: {own} lines of its own and {shared}");
    }
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
