//! The facade of Standfast: runs, protects and restarts jobs, and answers questions about their checkpoints.
//!
//! It connects the parts: the engine freezes, reads and rebuilds processes, and the store keeps their checkpoints. A
//! supervisor reports to a listener; nothing here prints or exits.
//!
//! ```no_run
//! use standfast::{JobContext, LaunchOptions, OptionChoices, RunRequest, Unfinished};
//!
//! let options = OptionChoices { interval: Some("30s".parse()?), ..OptionChoices::default() };
//! let request = RunRequest {
//!     context: JobContext { options, ..JobContext::of("heat.standfast") },
//!     program: "./heat".into(),
//!     arguments: vec!["512".into()],
//!     launch: LaunchOptions::default(),
//!     unfinished: Unfinished::Resume,
//!     clocks: standfast::ClockPolicy::Continue,
//!     ckptrc: None,
//! };
//! let ending = standfast::run(&request, &mut |notice| eprintln!("{notice}"))?;
//! println!("the program {ending}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod advice;
mod background;
mod checkpoint;
mod clean;
mod coalesce;
mod context;
mod control;
pub mod doctor;
mod ending;
mod error;
mod event;
mod free_space;
mod group;
mod history;
mod identity;
mod interrupts;
mod job_folders;
mod marked;
mod messages;
mod part_link;
mod parts;
mod placeholder;
mod progress;
mod queries;
mod quoting;
mod rehearsal;
pub mod report;
mod reported_image;
mod request;
mod run;
mod settings;
mod shell_command;
mod signals;
mod supervisor;
mod takeover;
mod terminal;
mod watch;

pub use advice::{AdviceRequest, ByteCount, ByteRate, JobDescriptionForAdvice, advise};
pub use clean::{CleanRequest, clean};
pub use coalesce::coalesce;
pub use context::{Hooks, JobContext};
pub use ending::Ending;
pub use error::{Error, UnansweredReason};
pub use event::{ContainerNews, DeadlineNews, JobEvent, Listener, LongWork, Severity};
pub use group::{
    GroupEnding, GroupEpoch, GroupEvent, GroupRebuilt, GroupRequest, GroupSaved, GroupShard, LaunchLimits, Nodes,
    Trouble, examine_group_memory, group_end, group_memory, group_purge, group_rebuild, group_salvage, group_status,
    group_verify, group_watch, run_group,
};
pub use history::{FlushedReport, JobHistory, JobLife, LifeEnd};
pub use messages::open_messages;
pub use part_link::JobPart;
pub use parts::{
    DistributedRequest, DistributedRestart, DistributedWatch, NodeImage, PartToRestart, answer_remote, ask_remote,
    checkpoint_distributed, clean_distributed, distributed_status, examine_nodes, is_distributed, node_images,
    part_agent, restart_distributed, restart_part, run_distributed, run_part, serve_part, verify_distributed,
};
pub use queries::{
    CoreFilesRequest, StatusWatch, inspect, list, overhead, phase, rehearse, status, verify, write_core_files,
};
pub use quoting::{ForShell, InWords, quoted_word, without_numbers};
pub use rehearsal::give_way;
pub use request::{Afterwards, checkpoint};
pub use run::{
    CKPTRC, Ckptrc, CkptrcError, LaunchOptions, LineError, LineFault, RestartRequest, RunRequest, TrustFault,
    Unfinished, default_directory, find_directories, read_settings, restart, run,
};
pub use settings::{
    Compress, Deadline, DeltaMode, DurableEvery, ExternalSockets, Files, Flush, FlushEvery, FlushMode, FlushReport,
    Grace, INTERVAL_MAX, INTERVAL_MIN, Ids, Incremental, Interval, JobOptions, Keep, KeepFinished, MachineSettings,
    MaxFiles, MeanTime, Memory, Method, MinInterval, NoticeMeaning, Notify, OptionChoices, OptionError, Rehearse,
    Reserve, RestartChoices, SaveFiles, SaveFolder, SignalNotice, SignalNotices, Snapshot, Stack, StoppedStatus, Track,
    Why, Writers,
};
pub use standfast_core::{message_lines, printable, printable_json, printable_lines};
pub use standfast_engine::{ClockPolicy, JobIds, RefusalCode, Streams, UnknownRefusalCode};
pub use standfast_format::manifest::GenerationNumber;
pub use standfast_member::EncodeEvery;
pub use terminal::{
    AttachRequest, Departure, DetachKey, ForegroundConnection, ForegroundProxy, Left, Side, TerminalKind, attach, split,
};
pub use watch::{WatchNotice, WatchNoticeError};
