//! Black-box tests of the `standfast` command: they start, disturb and judge it from outside, as a user would.
//!
//! ```text
//! workshop  compiles victims and caches the results
//! victims   programs that check themselves
//! papers    the programs in examples that the papers measure
//! parallel  the programs in examples/mpi
//! features  one small victim per kernel feature, found in a folder
//! moments   the gates at which such a victim waits, so that a strike hits exactly there
//! trials    what happens to such a victim at each gate
//! arena     a scratch folder for one scenario; kills all remaining processes when dropped
//! running   a command with its output in files and a time limit
//! command   the standfast command line and its answers
//! container the command as process 1 of a container, under the restrictions of Docker
//! result    the files that a program leaves, compared byte by byte with an undisturbed run
//! screen    what a terminal shows
//! desk      a command on a terminal of its own
//! survival  kills the program at random moments and restarts it, again and again
//! tracer    stops a supervisor at chosen system calls; it dies at the n-th call, or the call fails
//! disaster  kills a checkpoint or a restart at its n-th call, or makes that call fail
//! traces    what outlives the processes of a scenario
//! damage    images with flipped bits
//! differential  random programs, compared with themselves without Standfast
//! cuts      checkpoints of distributed jobs whose connections are busy
//! distributed  distributed jobs on simulated nodes, struck in every way
//! mpi       MPI programs that lose ranks and nodes
//! watched   the same under `standfast group run`
//! predictions  what the cost model says, and what happens
//! skip      promises that cannot be tested here
//! simulated nodes with their own networks, processes and memory
//! stuck     launches that make no progress
//! slurm     a stand-in for Slurm
//! schedulers  the signals of batch systems, played against the scripts of `standfast batch`
//! groups    other features of `group run`, and Python
//! ```
//!
//! Tests of bytes, chains and injected calls do not belong here: the crates below have their own.
#![forbid(unsafe_code)]

pub mod arena;
pub mod command;
pub mod container;
pub mod cuts;
pub mod damage;
pub mod desk;
pub mod differential;
pub mod disaster;
pub mod distributed;
mod examples;
pub mod features;
pub mod groups;
pub mod meter;
pub mod moments;
pub mod mpi;
pub mod papers;
pub mod parallel;
pub mod predictions;
pub mod programs;
pub mod result;
pub mod running;
pub mod schedulers;
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

/// Returns the seed of a random scenario: `STANDFAST_SEED` if set, otherwise a fresh one. Failures report it.
pub fn seed() -> u64 {
    std::env::var("STANDFAST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..))
}
