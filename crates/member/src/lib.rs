//! One process of a diskless group in a real program. It drives [`standfast_group::Process`].
//!
//! ```text
//!   program --protect, checkpoint--> Member --Event--> Process --Effect--> Transport   messages
//!                                      |                            |----> FileShardStore   shards in memory files
//!                                   Regions <------- pages ---------'
//! ```
//!
//! Shards in memory are copied to a [`LevelDirectory`] now and then. The directory replaces what the memory has lost.
//!
//! The recovery mode is *relaunch*: all processes are started again, find the shards that their predecessors left in
//! their node's memory, and rebuild what is missing ([`standfast_group::RecoveryMode::Relaunch`]). Nothing here knows
//! MPI: a [`Transport`] carries the messages.
#![forbid(unsafe_code)]

mod directory;
mod driver_message;
mod encode_every;
mod error;
mod launch_progress;
mod member;
mod memory_place;
mod plan_record;
mod regions;
mod rendezvous;
mod settings;
mod shard_store;
mod transport;
pub mod variables;

pub use directory::{HeldEpoch, LevelDirectory, Rebuilt, Salvaged, rebuild, salvage};
pub use encode_every::EncodeEvery;
pub use error::MemberError;
pub use launch_progress::{LaunchProgress, read_error, report_error};
pub use member::{CheckpointEnd, Joined, Member};
pub use regions::{RegionTracking, RegisteredRegions};
pub use rendezvous::{held_in_memory, purge_memory};
pub use settings::{Settings, job_named, memory_identity};
pub use shard_store::FileShardStore;
pub use transport::{Patience, Transport, TransportError};
