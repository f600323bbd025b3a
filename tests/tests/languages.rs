//! Programs in all languages: the tests kill them at random moments and restart them each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::result::RunResult;
use standfast_tests::seed;
use standfast_tests::survival::{kills_survived, one_image_serves_many_restarts};
use standfast_tests::victims::{
    ARRAYS, AWK, CHANNELS, FORTRAN, JAVA, MEMORY, NODE, OBJECTS, OCTAVE, PERL, R, ROUTINES, RUST, SIGNALS, THREADS,
    THREADS_MUSL, THREADS_STATIC, Victim, WAITS,
};
use std::io::Write as _;

/// The most times that a test kills each program, unless `STANDFAST_KILLS` sets it. With `VICTIM_TIMES` the programs do
/// that many times the usual work, so that they last for many kills.
const KILLS_MAX: u32 = 3;

fn survives(victim: Victim) -> Result<()> {
    let told = std::env::var("STANDFAST_KILLS").ok().and_then(|text| text.parse().ok());
    let kills = kills_survived(victim, told.unwrap_or(KILLS_MAX))?;
    if let (Some(_), Some(kills)) = (told, kills) {
        writeln!(std::io::stderr(), "{}: killed {kills} times", victim.name)?;
    }
    Ok(())
}

#[test]
fn threaded_c_survives_kills() -> Result<()> {
    survives(THREADS)
}

#[test]
#[ignore = "6 s; Go, which is static, stays"]
fn static_c_survives_kills() -> Result<()> {
    survives(THREADS_STATIC)
}

#[test]
fn go_survives_kills() -> Result<()> {
    survives(ROUTINES)
}

#[test]
fn python_survives_kills() -> Result<()> {
    survives(OBJECTS)
}

#[test]
#[ignore = "9 s; Python stays"]
fn numpy_survives_kills() -> Result<()> {
    survives(ARRAYS)
}

#[test]
#[ignore = "8 s; C with glibc stays"]
fn c_with_musl_survives_kills() -> Result<()> {
    survives(THREADS_MUSL)
}

#[test]
fn rust_survives_kills() -> Result<()> {
    survives(RUST)
}

#[test]
#[ignore = "4 s; threaded C stays"]
fn fortran_with_openmp_survives_kills() -> Result<()> {
    survives(FORTRAN)
}

#[test]
fn java_survives_kills() -> Result<()> {
    survives(JAVA)
}

#[test]
fn node_survives_kills() -> Result<()> {
    survives(NODE)
}

#[test]
#[ignore = "4 s; Python stays as the interpreter"]
fn perl_survives_kills() -> Result<()> {
    survives(PERL)
}

#[test]
#[ignore = "5 s; Python stays as the interpreter"]
fn awk_survives_kills() -> Result<()> {
    survives(AWK)
}

#[test]
#[ignore = "5 s; Python stays as the interpreter"]
fn r_survives_kills() -> Result<()> {
    survives(R)
}

#[test]
#[ignore = "6 s; Python stays as the interpreter"]
fn octave_survives_kills() -> Result<()> {
    survives(OCTAVE)
}

#[test]
fn signals_arrive_once_and_in_order_across_kills() -> Result<()> {
    survives(SIGNALS)
}

#[test]
fn waiting_calls_end_normally_across_kills() -> Result<()> {
    survives(WAITS)
}

#[test]
fn pipes_and_descriptors_keep_their_contents_across_kills() -> Result<()> {
    survives(CHANNELS)
}

#[test]
#[ignore = "20 s; each kind has a victim of its own"]
fn memory_of_all_kinds_survives_kills() -> Result<()> {
    survives(MEMORY)
}

#[test]
fn one_image_can_be_restarted_many_times_and_from_a_copy() -> Result<()> {
    let program = THREADS.with(&[])?;
    one_image_serves_many_restarts(&program, &RunResult::native(&program)?, seed())
}

#[test]
#[ignore = "8 s; that of C stays"]
fn one_image_of_go_can_be_restarted_many_times_and_from_a_copy() -> Result<()> {
    let program = ROUTINES.with(&[])?;
    one_image_serves_many_restarts(&program, &RunResult::native(&program)?, seed())
}
