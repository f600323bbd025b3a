//! Queries that change nothing: the state of a job, the contents of its checkpoints, whether they verify, and whether
//! they can be restarted.

mod inspect;
mod rehearse;
mod status;

pub use inspect::{inspect, verify};
pub use rehearse::rehearse;
pub use status::{list, phase, status};
