//! Black-box tests of the `standfast` command: it is started, disturbed and judged from outside, as a user would.
//!
//! ```text
//! workshop  where victims are compiled, and the cache that they are kept in
//! victims   programs that check themselves
//! papers    the programs in examples that the papers measure
//! parallel  the programs in examples/mpi
//! features  one small victim per kernel feature, found in a folder
//! moments   the gates at which such a victim stands, so that it is struck exactly there
//! trials    what is done to it at each gate
//! arena     a scratch folder for one scenario; whatever still runs of it is ended when it goes
//! running   a command with its output in files and a limit on its time
//! command   the standfast command line and what its answers say
//! result    what a program left behind, compared byte by byte with an undisturbed run
//! screen    what a terminal shows
//! desk      a command on a terminal of its own
//! survival  kill the program at random moments, restart it, again and again
//! tracer    stops a supervisor at chosen system calls: the n-th is where it dies, or fails
//! disaster  a checkpoint or a restart that is struck at its n-th call
//! traces    what outlives the processes of a scenario
//! damage    images with flipped bits
//! mpi       MPI programs that lose ranks and nodes
//! watched   the same under `standfast group run`
//! skip      promises that cannot be tested here
//! simulated nodes with networks, processes and memory of their own
//! stuck     launches that come no further
//! slurm     a stand-in for Slurm
//! groups    what `group run` offers beside that, and Python
//! ```
//!
//! This is not a place for tests that could be done one room deeper: bytes, chains and injected calls have theirs.
#![forbid(unsafe_code)]

pub mod arena;
pub mod command;
pub mod damage;
pub mod desk;
pub mod disaster;
mod examples;
pub mod features;
pub mod groups;
pub mod meter;
pub mod moments;
pub mod mpi;
pub mod papers;
pub mod parallel;
mod programs;
pub mod result;
pub mod running;
pub mod screen;
pub mod simulated;
pub mod skip;
pub mod slurm;
pub mod stuck;
pub mod survival;
pub mod tracer;
pub mod traces;
pub mod trials;
pub mod victims;
pub mod waiting;
pub mod watched;
pub mod workshop;

pub use skip::{Lacking, skip};

/// The seed of a random scenario: `STANDFAST_SEED` where it is set, a fresh one otherwise. Failures name it.
pub fn seed() -> u64 {
    std::env::var("STANDFAST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..))
}
