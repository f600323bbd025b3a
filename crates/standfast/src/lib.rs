//! The facade of Standfast: runs, protects and restarts jobs, and answers questions about their checkpoints.
//!
//! It wires the rooms together: the engine freezes, reads and rebuilds processes, the store keeps what comes out of
//! them. What a supervisor has to say goes to a listener; nothing here prints or exits.
//!
//! ```no_run
//! use standfast::{JobContext, OptionChoices, RunRequest, Unfinished};
//!
//! let options = OptionChoices { interval: Some("30s".parse()?), ..OptionChoices::default() };
//! let request = RunRequest {
//!     context: JobContext { options, ..JobContext::of("heat.standfast") },
//!     program: "./heat".into(),
//!     arguments: vec!["512".into()],
//!     unfinished: Unfinished::Resume,
//!     folders: Vec::new(),
//!     ckptrc: None,
//!     terminal: standfast::TerminalKind::Shared,
//!     assistance: standfast::Assistance::default(),
//! };
//! let ending = standfast::run(&request, &mut |notice| eprintln!("{notice}"))?;
//! println!("the program {ending}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod attach;
mod background;
mod chains;
mod checkpoint;
mod ckptrc;
mod clean;
mod coalesce;
mod context;
mod control;
mod decision;
mod default_directory;
pub mod doctor;
mod encodings;
mod ending;
mod error;
mod event;
mod flush_mode;
mod flushing;
mod foreground;
mod foreground_proxy;
mod free_space;
mod group;
mod identity;
mod inspect;
mod interval;
mod job_folders;
mod levels;
mod messages;
mod option_kinds;
mod options;
mod preflight;
mod progress;
mod quoting;
pub mod report;
mod request;
mod requested_checkpoints;
mod restart;
mod run;
mod saved_files;
mod schedule;
mod signals;
mod snapshot_method;
mod snapshots;
mod status;
mod supervisor;
mod takeover;
mod terminal;

pub use attach::{AttachRequest, Departure, attach};
pub use chains::{Incremental, Keep, MaxFiles, Track};
pub use ckptrc::{CKPTRC, Ckptrc, CkptrcError, LineError, LineFault, TrustFault, read_settings};
pub use clean::{CleanRequest, clean};
pub use coalesce::coalesce;
pub use context::JobContext;
pub use decision::Unfinished;
pub use default_directory::{default_directory, find_directories};
pub use encodings::{Compress, DeltaMode};
pub use ending::{Ending, STOPPED_EXIT_STATUS};
pub use error::{Error, UnansweredReason};
pub use event::{JobEvent, Listener, LongWork, Severity};
pub use flush_mode::{Flush, FlushMode, FlushReport};
pub use foreground_proxy::{ForegroundConnection, ForegroundProxy, Left, Side, split};
pub use free_space::Reserve;
pub use group::{
    GroupEnding, GroupEpoch, GroupEvent, GroupRebuilt, GroupRequest, GroupSaved, GroupShard, LaunchLimits, Nodes,
    Trouble, examine_group_memory, group_end, group_memory, group_purge, group_rebuild, group_salvage, group_status,
    group_verify, group_watch, run_group,
};
pub use inspect::{inspect, verify};
pub use interval::{INTERVAL_MAX, INTERVAL_MIN, Interval};
pub use levels::{DurableEvery, FlushEvery, Grace, Memory};
pub use messages::open_messages;
pub use option_kinds::OptionError;
pub use options::{Files, Ids, JobOptions, KeepFinished, OptionChoices, Stack};
pub use quoting::{ForShell, InWords, without_numbers};
pub use request::{Afterwards, checkpoint};
pub use requested_checkpoints::MinInterval;
pub use restart::{RestartRequest, restart};
pub use run::{RunRequest, run};
pub use saved_files::{ExternalSockets, SaveFiles, SaveFolder};
pub use snapshot_method::{Method, Snapshot, Why};
pub use standfast_core::{message_lines, printable, printable_json, printable_lines};
pub use standfast_engine::{Assistance, ClockPolicy, JobIds, RefusalCode, Streams, UnknownRefusalCode};
pub use standfast_format::manifest::GenerationNumber;
pub use status::{list, status};
pub use terminal::{DetachKey, TerminalKind};
