//! Options of a run: their values, how these are read and shown, and how the manifest of a job keeps them.
//!
//! [`options`] has the table of all options. The other files have their values, several of one subject in each.

mod chains;
mod deadline;
mod encodings;
mod flush_mode;
mod interval;
mod levels;
mod min_interval;
mod notices;
pub(crate) mod option_kinds;
mod options;
mod rehearse;
mod reserve;
mod saved_files;
mod snapshot_method;
mod stopped_status;

pub(crate) use chains::tracking;
pub use chains::{Incremental, Keep, MaxFiles, Track};
pub use deadline::Deadline;
pub(crate) use encodings::encodings;
pub use encodings::{Compress, DeltaMode};
pub(crate) use flush_mode::{Beside, FlushCosts};
pub use flush_mode::{Flush, FlushMode, FlushReport};
pub use interval::{INTERVAL_MAX, INTERVAL_MIN, Interval};
pub use levels::{DurableEvery, FlushEvery, Grace, Memory};
pub use min_interval::MinInterval;
pub use notices::{NoticeMeaning, SignalNotice, SignalNotices};
pub use option_kinds::OptionError;
pub(crate) use option_kinds::words;
pub use options::{Files, Ids, JobOptions, KeepFinished, OptionChoices, Stack};
pub use rehearse::Rehearse;
pub use reserve::Reserve;
pub use saved_files::{ExternalSockets, SaveFiles, SaveFolder};
pub use snapshot_method::{Method, Snapshot, Why};
pub use stopped_status::StoppedStatus;
