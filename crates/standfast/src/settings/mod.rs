//! Options of a run: their values, how these are read and shown, and how the manifest of a job keeps them.
//!
//! [`options`] has the table of all options. The other files have their values, several of one subject in each. Values
//! that are one of a few words are those of [`standfast_format::manifest`].

mod chains;
mod deadline;
mod encodings;
mod flush_mode;
mod interval;
mod levels;
mod machine_settings;
mod mean_time;
mod min_interval;
mod notices;
mod option_kinds;
mod options;
mod rehearse;
mod reserve;
mod saved_files;
mod snapshot_method;
mod stopped_status;
mod writers;

pub use chains::{Keep, MaxFiles};
pub(crate) use chains::{tracking, unchanged_percent_min};
pub use deadline::Deadline;
pub(crate) use encodings::encodings;
pub(crate) use flush_mode::{Beside, FlushCosts};
pub use flush_mode::{FlushMode, FlushReport};
pub use interval::{INTERVAL_MAX, INTERVAL_MIN, Interval};
pub use levels::{DurableEvery, FlushEvery, Grace, Memory};
pub use machine_settings::{MachineSettings, Notify};
pub use mean_time::MeanTime;
pub use min_interval::MinInterval;
pub use notices::{NoticeMeaning, SignalNotice, SignalNotices};
pub(crate) use option_kinds::parse_bytes;
pub use options::{JobOptions, OptionChoices, RestartChoices};
pub(crate) use options::{file_policy, id_policy, stack_part};
pub use rehearse::Rehearse;
pub use reserve::Reserve;
pub use saved_files::{SaveFiles, SaveFolder};
pub use snapshot_method::{Method, Why};
pub use standfast_format::manifest::{
    Compress, DeltaMode, ExternalSockets, Files, Flush, Ids, Incremental, KeepFinished, OptionError, Snapshot, Stack,
    Track,
};
pub use stopped_status::StoppedStatus;
pub use writers::Writers;
