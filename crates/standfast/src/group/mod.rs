//! Groups: programs of many processes that keep each other's state in memory. The library takes their checkpoints
//! (`libstandfast_group`). This module launches them again, chooses the nodes, and saves what they leave in memory.

mod connections;
mod job_name;
mod launch;
mod left;
mod level;
mod nodes;
mod progress;
mod ranks;
mod shm_check;
mod watcher;

pub use launch::{GroupEnding, GroupEvent, GroupRequest, run_group};
pub use left::{group_end, group_purge};
pub use level::{
    GroupEpoch, GroupRebuilt, GroupSaved, GroupShard, group_memory, group_rebuild, group_salvage, group_status,
    group_verify,
};
pub use nodes::Nodes;
pub use progress::{LaunchLimits, Trouble};
pub use ranks::group_watch;
pub use shm_check::examine_group_memory;
