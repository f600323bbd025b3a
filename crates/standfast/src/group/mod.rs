//! Groups: programs of many processes that keep each other's state in memory. Their checkpoints are their own business
//! (`libstandfast_group`); here is who launches them again.

mod launch;

pub use launch::{GroupEnding, GroupNotice, GroupRequest, run_group};
