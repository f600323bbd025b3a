//! The programs of the papers: their results are correct, and a kill and a restart do not change them.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use standfast_tests::papers::{CELL, MAT, NNET, PAPERS, Paper, SOLVE, STSWM};
use standfast_tests::result::RunResult;
use standfast_tests::survival::survives;
use standfast_tests::victims::Program;
use standfast_tests::{Lacking, skip};

/// The most times that a test kills each program; the soak does so with all of them.
const KILLS_MAX: u32 = 2;

#[test]
fn programs_of_the_papers_verify_and_reproduce_their_results() -> Result<()> {
    for paper in PAPERS {
        let name = paper.victim.name;
        let Some(mut program) = paper.victim.program()? else {
            skip(name, &Lacking::program("Fortran or LAPACK"));
            continue;
        };
        program.arguments = paper.tiny.iter().map(std::ffi::OsString::from).collect();
        let first = RunResult::native(&program).with_context(|| format!("{name} does not find its result true"))?;
        let said = first.output();
        let checks = said.lines().filter(|line| line.starts_with("check ")).count();
        ensure!(checks > 0 && said.contains("\nchecksum "), "{name} does not check its result: {said}");
        RunResult::native(&program)?.must_equal(&first).with_context(|| format!("{name}, run twice"))?;
        if let Some(directed) = paper.directed {
            let program = Program { arguments: program.arguments, ..directed.with(&[])? };
            let found = RunResult::native(&program).with_context(|| format!("{name} with directives"))?;
            found.must_equal(&first).with_context(|| format!("{name} with directives and without"))?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "4 s; another of the papers' programs stays"]
fn a_product_of_matrices_from_disk_survives_kills() -> Result<()> {
    survives(MAT.victim, KILLS_MAX)
}

#[test]
fn a_cellular_automaton_survives_kills() -> Result<()> {
    survives(CELL.victim, KILLS_MAX)
}

#[test]
fn a_shallow_water_model_survives_kills() -> Result<()> {
    survives(STSWM.victim, KILLS_MAX)
}

#[test]
#[ignore = "5 s; another of the papers' programs stays"]
fn a_linear_solver_with_dead_matrices_survives_kills() -> Result<()> {
    survives_directed(SOLVE)
}

#[test]
#[ignore = "6 s; another of the papers' programs stays"]
fn a_neural_network_with_read_only_bytes_survives_kills() -> Result<()> {
    survives_directed(NNET)
}

fn survives_directed(paper: Paper) -> Result<()> {
    survives(paper.directed.context("it has directives")?, KILLS_MAX)
}
