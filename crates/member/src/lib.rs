//! One process of a diskless group in a real program: what drives [`standfast_group::Process`].
//!
//! ```text
//!   program --protect, checkpoint--> Member --Input--> Process --Output--> Transport   messages
//!                                      |                            |----> FileShelf   pieces in memory files
//!                                   Regions <------- pages ---------'
//! ```
//!
//! What lies in memory is copied to a [`Directory`] now and then, and from it comes back what the memory has lost.
//!
//! The way back is *relaunch*: all processes are started anew, find in their node's memory what their predecessors left
//! there, and rebuild what is gone ([`standfast_group::WayBack::Relaunch`]). Nothing here knows MPI: a [`Transport`] carries the messages.
#![forbid(unsafe_code)]

mod directory;
mod error;
mod member;
mod memory_place;
mod milestone;
mod notes;
mod plan_record;
mod regions;
mod roll_call;
mod settings;
mod shelf;
mod transport;

pub use directory::{Directory, HeldEpoch, Rebuilt, Scavenged, rebuild, scavenge};
pub use error::MemberError;
pub use member::{Joined, Member, Outcome};
pub use milestone::{Milestone, tell_error, told_error};
pub use regions::{Regions, Tracking};
pub use roll_call::{forget_in_memory, held_in_memory};
pub use settings::{Settings, job_named, memory_identity};
pub use shelf::FileShelf;
pub use transport::{Patience, Transport, TransportError};
