//! Programs in all languages, killed at random moments many times over and restarted each time.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::Result;
use standfast_tests::result::RunResult;
use standfast_tests::seed;
use standfast_tests::survival::{one_image_serves_many_restarts, survives};
use standfast_tests::victims::{
    ARRAYS, AWK, CHANNELS, FORTRAN, JAVA, MEMORY, NODE, OBJECTS, OCTAVE, PERL, R, ROUTINES, RUST, SIGNALS, THREADS,
    THREADS_MUSL, THREADS_STATIC, WAITS,
};

/// How often each is killed at most.
const KILLS_MAX: u32 = 5;

#[test]
fn threaded_c_survives_kills() -> Result<()> {
    survives(THREADS, KILLS_MAX)
}

#[test]
fn static_c_survives_kills() -> Result<()> {
    survives(THREADS_STATIC, KILLS_MAX)
}

#[test]
fn go_survives_kills() -> Result<()> {
    survives(ROUTINES, KILLS_MAX)
}

#[test]
fn python_survives_kills() -> Result<()> {
    survives(OBJECTS, KILLS_MAX)
}

#[test]
fn numpy_survives_kills() -> Result<()> {
    survives(ARRAYS, KILLS_MAX)
}

#[test]
fn c_with_musl_survives_kills() -> Result<()> {
    survives(THREADS_MUSL, KILLS_MAX)
}

#[test]
fn rust_survives_kills() -> Result<()> {
    survives(RUST, KILLS_MAX)
}

#[test]
fn fortran_with_openmp_survives_kills() -> Result<()> {
    survives(FORTRAN, KILLS_MAX)
}

#[test]
fn java_survives_kills() -> Result<()> {
    survives(JAVA, KILLS_MAX)
}

#[test]
fn node_survives_kills() -> Result<()> {
    survives(NODE, KILLS_MAX)
}

#[test]
fn perl_survives_kills() -> Result<()> {
    survives(PERL, KILLS_MAX)
}

#[test]
fn awk_survives_kills() -> Result<()> {
    survives(AWK, KILLS_MAX)
}

#[test]
fn r_survives_kills() -> Result<()> {
    survives(R, KILLS_MAX)
}

#[test]
fn octave_survives_kills() -> Result<()> {
    survives(OCTAVE, KILLS_MAX)
}

#[test]
fn signals_arrive_once_and_in_order_across_kills() -> Result<()> {
    survives(SIGNALS, KILLS_MAX)
}

#[test]
fn waiting_calls_end_as_ever_across_kills() -> Result<()> {
    survives(WAITS, KILLS_MAX)
}

#[test]
fn pipes_and_descriptors_keep_their_contents_across_kills() -> Result<()> {
    survives(CHANNELS, KILLS_MAX)
}

#[test]
fn memory_of_all_kinds_survives_kills() -> Result<()> {
    survives(MEMORY, KILLS_MAX)
}

#[test]
fn one_image_can_be_restarted_many_times_and_from_a_copy() -> Result<()> {
    let program = THREADS.with(&[])?;
    one_image_serves_many_restarts(&program, &RunResult::native(&program)?, seed())
}

#[test]
fn one_image_of_go_can_be_restarted_many_times_and_from_a_copy() -> Result<()> {
    let program = ROUTINES.with(&[])?;
    one_image_serves_many_restarts(&program, &RunResult::native(&program)?, seed())
}
