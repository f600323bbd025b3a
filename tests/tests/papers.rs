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
fn each_program_finds_its_result_true_and_finds_it_again() -> Result<()> {
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
fn matrices_that_are_dead_between_two_systems_are_not_missed_after_kills() -> Result<()> {
    survives_directed(SOLVE)
}

#[test]
#[ignore = "6 s; another of the papers' programs stays"]
fn links_of_which_a_few_bytes_are_read_only_survive_kills() -> Result<()> {
    survives_directed(NNET)
}

fn survives_directed(paper: Paper) -> Result<()> {
    survives(paper.directed.context("it has directives")?, KILLS_MAX)
}
