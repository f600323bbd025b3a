//! The process engine: freezes a job, takes a collection and reads the job's memory; rebuilds the job and lets it run.
//!
//! A job is a tree of processes. The engine does not know the files that hold images: pages and records leave through
//! [`standfast_format::ImageSink`] and come back through [`standfast_format::ImageSource`].
//!
//! ```text
//! Job -- freezer() --> Freezer -- freeze() --> Frozen -- capture(sink) --> collection, pages
//!                                                |-- begin_precopy() --> Precopied, read while the job runs
//!                                                |-- thaw()    the job runs; Captured::read_on(sink), from clones
//!                                                `-- kill()    the job ends where it is
//! restart(source) --> Restarted, a Job
//! rehearse(), examine(pid, ..): report in advance what would go wrong at a checkpoint
//! rehearse_restart(source):     reports what would go wrong at a restart
//! ```
#![forbid(unsafe_code)]

mod attributes;
mod births;
mod capture_options;
mod clones;
mod collect;
mod construction;
mod delays;
mod directions;
mod endpoint;
mod error;
mod exit;
mod file_policy;
mod files;
mod folders;
mod forbidden;
mod foreseen;
mod free_memory;
mod freeze;
mod hashes;
mod identity;
mod inheritance;
mod job;
mod listing;
mod machine;
mod object_key;
mod objects;
mod outputs;
mod pages;
mod partners;
mod pool;
mod precopy;
mod program;
mod promises;
mod read;
mod reading;
mod refusal_code;
#[cfg(test)]
mod refusal_texts;
mod rehearsal;
mod remake;
mod remote_caller;
mod restart;
mod restartable_sequences;
mod reused_ports;
mod scratch;
mod shared;
mod socket_paths;
mod stopwatch;
mod supervisors;
mod table_prefetch;
mod tables;
mod taken_descriptors;
mod terminals;
mod tracer_lock;
mod track;
mod tree;
mod twin;
mod wait_ends;
mod waits;
mod watch;

pub use capture_options::{Asking, CaptureOptions, ExternalSockets, Reading, SavedFiles, StackPart, Tracking};
pub use collect::{Unconfirmed, examine};
pub use construction::JobIds;
pub use delays::{Delays, own_delay};
pub use directions::{Advised, DIRECTORY_VARIABLE, Readiness, RestartNews};
pub use endpoint::TerminalHolder;
pub use error::{Blocker, EngineError};
pub use exit::{Vitality, exiting_since, group_vitality};
pub use file_policy::FilePolicy;
pub use files::first_page;
pub use free_memory::Asked;
pub use freeze::Frozen;
pub use identity::ProcessIdentity;
pub use job::{Assistance, Freezer, Job, Launch, News};
pub use listing::{ListingNews, NotSaved};
pub use objects::{AddressWait, describe_open_file};
pub use outputs::Output;
pub use partners::{
    ClosedHere, CutPartners, CutReport, DistantDatagram, DistantEnd, EndAddresses, EndFate, FoundEnd, Meeting,
    OtherEnd, Partner, RestartPartners, RestartStep, RestartToken, Traffic,
};
pub use precopy::Precopied;
pub use read::Captured;
pub use refusal_code::{RefusalCode, UnknownRefusalCode};
pub use rehearsal::rehearse;
pub use restart::{
    ClockPolicy, FileNote, FileOptions, IdPolicy, KeepTail, RehearsalOptions, Rehearsed, RestartOptions, Restarted,
    Streams, Tail, rehearse_restart, restart,
};
pub use standfast_linux::sys::process::hold_child_signal;
pub use standfast_linux::{InheritedSignals, LaunchTerminal, Terminal, own_group};
pub use stopwatch::{RestartPhase, Stopwatch};
pub use watch::BrokenPromise;
