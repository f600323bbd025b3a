//! The process engine: freezes a job, takes a census, reads its memory; rebuilds it and lets it go.
//!
//! A job is a tree of processes, here a tree of one. The engine knows nothing of files that hold images: pages and
//! records leave through [`standfast_format::ImageSink`] and come back through [`standfast_format::ImageSource`].
#![forbid(unsafe_code)]

mod error;
mod job;

pub use error::{EngineError, Obstacle};
pub use job::{
    Captured, Freezer, Frozen, IdPolicy, Job, Launch, ProcessIdentity, RestartOptions, StreamIdentities, examine,
    restart,
};
