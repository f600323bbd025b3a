//! Queries that change nothing: the state of a job, the contents of its checkpoints, also as core files, whether they
//! verify, and whether they can be restarted.

mod core_files;
mod inspect;
mod rehearse;
mod status;
mod status_watch;

pub use core_files::{CoreFilesRequest, write_core_files};
pub use inspect::{inspect, verify};
pub use rehearse::rehearse;
pub use status::{list, overhead, phase, status};
pub use status_watch::StatusWatch;
