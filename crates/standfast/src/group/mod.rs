//! Groups: programs of many processes that keep each other's state in memory. Their checkpoints are their own business
//! (`libstandfast_group`); here is who launches them again, on which nodes, and who saves what they leave in memory.

mod job_name;
mod keeping;
mod launch;
mod left;
mod level;
mod lines;
mod nodes;
mod progress;
mod ranks;
mod watcher;

pub use keeping::examine_group_memory;
pub use launch::{GroupEnding, GroupNotice, GroupRequest, run_group};
pub use left::{group_end, group_forget};
pub use level::{
    GroupEpoch, GroupPiece, GroupRebuilt, GroupSaved, group_memory, group_rebuild, group_scavenge, group_status,
    group_verify,
};
pub use nodes::Nodes;
pub use progress::{LaunchLimits, Trouble};
pub use ranks::group_watch;
