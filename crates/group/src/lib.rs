//! Diskless checkpoints: processes keep each other's state in encoded form and recover it together (D1, D3, D4, D6, D7,
//! D18).
//!
//! Nothing here sends, stores, waits or draws a random number. A [`Protocol`] takes events and returns effects. Its
//! driver owns transport, storage and clock: an MPI library in a running job, a simulator in the tests.
//!
//! The crate has all forms of diskless checkpointing in groups, so also recovery in place, parity nodes and several codes
//! that only the simulator uses yet.
#![forbid(unsafe_code)]

mod buffers;
mod costs;
mod decide;
mod description;
mod envelope;
mod identity;
mod layout;
mod message;
mod message_error;
mod payload;
pub mod placement;
mod plan;
mod process;
mod protocol;
mod reckoning;
mod shard;
mod shard_store;
mod slots;
pub mod transfer;
mod weakness;

pub use buffers::Buffers;
pub use decide::{Holding, Refusal, Rejected, Report, Restore, decide};
pub use description::{DeltaDescriptor, Description, Fingerprint, Sums};
pub use envelope::{Envelope, MessageKind, Opened};
pub use identity::{EpochId, EpochLevel, Life, LogicalRank, Membership, Rank, Term};
pub use layout::{Cell, Layout};
pub use message::{Data, Message, Node, Part, decode, encode};
pub use message_error::{MESSAGE_BYTES_MAX, MESSAGE_VERSION, MessageError};
pub use payload::{Nothing, Payload};
pub use plan::{Group, LOGICAL_RANKS_MAX, Plan, PlanError, RecoveryMode};
pub use process::{Effect, Event, Process, ProcessSettings};
pub use protocol::{
    After, Arrival, Beginning, Control, Phase, Protocol, ProtocolEffect, ProtocolEvent, Resumption, Stage, Survey, Work,
};
pub use reckoning::Reckoning;
pub use shard::{AHEAD, Damaged, Place, ShardId};
pub use shard_store::{LoadError, MemoryShardStore, ShardStore, load};
pub use slots::{CHECKSUM_BLOCK_SLOTS, Extent, RegionId, SLOTS_MAX, SlotError, SlotMap, SlotRegion, SlotSet};
