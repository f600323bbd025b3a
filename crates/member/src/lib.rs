//! One process of a diskless group in a real program: what drives [`standfast_group::Process`].
//!
//! ```text
//!   program --protect, checkpoint--> Member --Input--> Process --Output--> Transport   messages
//!                                      |                            |----> FileShardStore   shards in memory files
//!                                   Regions <------- pages ---------'
//! ```
//!
//! What lies in memory is copied to a [`LevelDirectory`] now and then, and from it comes back what the memory has lost.
//!
//! The recovery mode is *relaunch*: all processes are started again, find in their node's memory what their predecessors left
//! there, and rebuild what is gone ([`standfast_group::RecoveryMode::Relaunch`]). Nothing here knows MPI: a [`Transport`]
//! carries the messages.
#![forbid(unsafe_code)]

mod directory;
mod error;
mod launch_progress;
mod member;
mod memory_place;
mod notes;
mod plan_record;
mod regions;
mod rendezvous;
mod settings;
mod shard_store;
mod transport;

pub use directory::{HeldEpoch, LevelDirectory, Rebuilt, Salvaged, rebuild, salvage};
pub use error::MemberError;
pub use launch_progress::{LaunchProgress, read_error, report_error};
pub use member::{CheckpointEnd, Joined, Member};
pub use regions::{RegionTracking, RegisteredRegions};
pub use rendezvous::{forget_in_memory, held_in_memory};
pub use settings::{Settings, job_named, memory_identity};
pub use shard_store::FileShardStore;
pub use transport::{Patience, Transport, TransportError};
