//! The differential soak: random programs whose observations must be the same with and without checkpoints, kills and
//! restarts. It is to find wrong results that nobody has thought of.
//!
//! ```text
//! themes       what random programs do, for each kind of kernel object
//! generator    makes a program from a seed
//! actors       who and what is in a program while it is generated
//! script       a program as text
//! interpreter  compiles the C program that takes the steps of a script
//! run          runs a program in all ways and compares
//! leftovers    removes what a killed program leaves
//! shrink       makes a program that fails as small as possible
//! batch        many programs, two at a time, and what came of them
//! planted      faults in a command that was built with them, and how many programs it takes to find them
//! ```
//!
//! What differs by design is left out where it would be observed, in `tests/victims/differential`, with the reason. So
//! is each fault that is known and not mended yet: `git grep 'Known:' tests` lists these. To mend one is to remove its
//! line, too.

mod actors;
mod batch;
mod generator;
mod interpreter;
mod leftovers;
mod planted;
mod run;
mod script;
mod shrink;
mod themes;
mod themes_of_processes;

pub use batch::{Batch, Settings};
pub use generator::{Generated, generate};
pub use planted::{FAULTS, Search, find};
pub use run::{Outcome, judge};
pub use script::Script;
