//! Distributed jobs: a part for each node, and a coordinator where the command was typed.
//!
//! ```text
//! coordinator          standfast run --nodes a,b -- COMMAND        may be lost and typed again
//!    |  streams of a command on each node: --agent NODE standfast part-agent
//! agent                speaks for a node: starts the supervisor of its part, passes messages on, follows its output
//!    |  control socket of the part
//! supervisor           of the part, an ordinary job whose main process is a server (part-server)
//! ```
//!
//! The server of the first node starts the command. What that starts on other nodes, with `standfast rsh`, are commands of
//! their servers. So all processes and all of their connections belong to the job, and `standfast_parts` steers what all
//! parts do together.

mod agent;
mod agent_protocol;
mod coordinator;
mod description;
mod ending;
mod flushes;
mod found;
mod intervals;
mod lead;
mod output;
mod part;
mod questions;
mod reach;
mod recent;
mod remote;
mod restarting;

pub use agent::part_agent;
pub use coordinator::{DistributedRequest, DistributedRestart, is_distributed, restart_distributed, run_distributed};
pub use part::{PartToRestart, restart_part, run_part};
pub use questions::{
    DistributedWatch, NodeImage, checkpoint_distributed, clean_distributed, distributed_status, examine_nodes,
    node_images, verify_distributed,
};
pub use remote::{answer_remote, ask_remote, serve_part};
