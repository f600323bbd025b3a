//! Keeps the checkpoints of a job in one directory. A crash at any moment leaves the last good checkpoint intact. The
//! store finds the newest checkpoint that verifies, and ensures that a job has only one life at a time.
//!
//! The store handles files, not processes: pages and records come in through [`standfast_format::ImageSink`] and go out
//! through [`standfast_format::ImageSource`].
//!
//! ```text
//! DIR/                         0700
//!   manifest                   the authoritative list of generations
//!   generation-00000001.image  one file per generation; those that inherit from another one form a chain with it
//!   standfast-history          what happened to the job, line by line
//!   lease                      who supervises the job; `lock` guards taking it over
//! ```
//!
//! A checkpoint passes through three types, so that the program can resume before the disk has everything:
//!
//! ```text
//! JobDirectory::prepare -> Prepared --finish (all bytes handed to the kernel)--seal (durable)-> Sealed --commit-> Generation
//! ```
//!
//! ```
//! use standfast_format::records::{JobState, ProcessState};
//! use standfast_format::{ImageSink, ImageSource};
//! use standfast_store::{LeaseRequest, JobDirectory, Purpose, Selector};
//! use std::time::Duration;
//!
//! # let place = tempfile::tempdir()?;
//! let directory = JobDirectory::create(&place.path().join("job"))?;
//! let lease = directory.take_lease(LeaseRequest { purpose: Purpose::Live, force: false })?;
//! directory.begin(&lease, Default::default(), Default::default())?;
//!
//! let mut prepared = directory.prepare(&lease)?;
//! // The engine would submit pages here. The program may run on once the sink is finished.
//! prepared.finish(&JobState { processes: vec![ProcessState::default()], ..JobState::default() })?;
//! prepared.seal()?.commit(Duration::from_millis(2))?;
//! lease.release()?;
//!
//! let choice = JobDirectory::open(directory.path())?.choose(Selector::Newest)?;
//! assert_eq!((choice.number.get(), choice.image.state().processes.len()), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
#![forbid(unsafe_code)]

mod chain;
mod choose;
mod clean;
mod coalesce;
mod encode;
mod error;
mod flush;
mod foreign_link;
mod guest;
mod history;
mod holder;
mod image_file;
mod job;
mod lease;
mod level_directory;
mod levels;
mod names;
mod pack;
mod pool;
mod prepare;
mod progress;
mod random;
mod rates;
mod resolve;
mod retention;
mod saved_binaries;
mod shared_binaries;
mod storage_backend;
mod tails;
#[cfg(test)]
mod tests;
mod trust;

pub use chain::{Chain, LINKS_MAX, Verified};
pub use choose::{GenerationChoice, Selector};
pub use clean::{Cleaned, Holdings};
pub use coalesce::{CoalesceRule, Coalesced};
pub use error::{Skipped, StoreError};
pub use flush::{Pacer, Pacing};
pub use job::JobDirectory;
pub use lease::{
    HEARTBEAT, Holder, HostIdentity, Lease, LeaseRequest, LeaseState, ProcessIdentity, Processes, Pulse, Purpose,
    SystemProcesses,
};
pub use levels::{Level, Levels};
pub use pool::Writing;
pub use prepare::{PreparePlan, Prepared, Sealed};
pub use progress::Progress;
pub use random::random_token;
pub use rates::Encodings;
pub use saved_binaries::Binary;
pub use storage_backend::{Directory, FileStatus, LockGuard, StorageBackend, StorageFile};
pub use tails::{KeptTail, TAIL_BYTES_MAX};
pub use trust::{create_directory, open_directory};
