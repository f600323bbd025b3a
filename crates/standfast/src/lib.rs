//! The facade of Standfast: runs, protects and restarts jobs, and answers questions about their checkpoints.
//!
//! It wires the rooms together: the engine freezes, reads and rebuilds processes, the store keeps what comes out of
//! them. What a supervisor has to say goes to a listener; nothing here prints or exits.
//!
//! ```no_run
//! use standfast::{OptionChoices, RunRequest, Unfinished};
//!
//! let request = RunRequest {
//!     directory: "heat.standfast".into(),
//!     program: "./heat".into(),
//!     arguments: vec!["512".into()],
//!     options: OptionChoices { interval: Some("30s".parse()?), ..OptionChoices::default() },
//!     unfinished: Unfinished::Resume,
//!     force: false,
//!     wait: false,
//!     folders: Vec::new(),
//!     ckptrc: None,
//!     front: None,
//!     memory: None,
//!     terminal: standfast::TerminalKind::Shared,
//!     detached: false,
//!     assistance: standfast::Assistance::default(),
//!     streams: standfast::Streams::default(),
//!     shared_binaries: None,
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
mod control;
mod decision;
mod directed;
pub mod doctor;
mod encodings;
mod ending;
mod error;
mod flushing;
mod foreground;
mod front;
mod group;
mod identity;
mod inspect;
mod levels;
mod manner;
mod messages;
mod notice;
mod options;
mod outlook;
pub mod report;
mod request;
mod restart;
mod room;
mod run;
mod schedule;
mod scope;
mod signals;
mod snapshots;
mod spelling;
mod status;
mod supervisor;
mod takeover;
mod terminal;

pub use attach::{AttachRequest, Departure, attach};
pub use chains::{Incremental, MaxFiles, Track};
pub use ckptrc::{CKPTRC, Ckptrc, CkptrcError, LineError, LineFault, TrustFault, read_settings};
pub use clean::{CleanRequest, clean};
pub use coalesce::coalesce;
pub use decision::Unfinished;
pub use directed::MinInterval;
pub use encodings::{Compress, Delta};
pub use ending::{Ending, STOPPED_EXIT_STATUS};
pub use error::{Error, UnansweredReason};
pub use front::{Front, FrontLine, Left, Side, split};
pub use group::{
    GroupEnding, GroupEpoch, GroupNotice, GroupPiece, GroupRebuilt, GroupRequest, GroupSaved, LaunchLimits, Nodes,
    Trouble, examine_group_memory, group_end, group_forget, group_memory, group_rebuild, group_scavenge, group_status,
    group_verify, group_watch, run_group,
};
pub use inspect::{inspect, verify};
pub use levels::{DurableEvery, FlushEvery, Grace, Memory};
pub use manner::{Flush, FlushReport, Manner};
pub use messages::open_messages;
pub use notice::{Listener, Notice, Weight};
pub use options::{
    Files, INTERVAL_MAX, INTERVAL_MIN, Ids, Interval, JobOptions, Keep, KeepFinished, OptionChoices, OptionError, Stack,
};
pub use request::{Afterwards, checkpoint};
pub use restart::{RestartRequest, find_directories, restart};
pub use run::{RunRequest, default_directory, run};
pub use scope::{ExternalSockets, SaveFiles, SaveFolder};
pub use snapshots::{Method, Snapshot, Why};
pub use spelling::{ForShell, InWords, without_numbers};
pub use standfast_core::{printable, printable_json, printable_lines};
pub use standfast_engine::{Assistance, ClockPolicy, JobIds, Streams};
pub use standfast_format::manifest::GenerationNumber;
pub use status::{list, status};
pub use terminal::{DetachKey, TerminalKind};
