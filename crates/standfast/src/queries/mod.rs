//! Questions about a job that change nothing: how it stands, what its checkpoints hold, whether they verify.

mod inspect;
mod status;

pub use inspect::{inspect, verify};
pub use status::{list, status};
