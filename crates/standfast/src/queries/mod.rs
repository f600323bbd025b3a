//! Queries that change nothing: the state of a job, the contents of its checkpoints, and whether they verify.

mod inspect;
mod status;

pub use inspect::{inspect, verify};
pub use status::{list, status};
