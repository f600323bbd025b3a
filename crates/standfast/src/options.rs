//! The options of a run, each defined here once. They are kept in the job's manifest, so that a restarted job goes on
//! being protected as its run was; how they are spelt on a command line is the command's business.

mod kinds;

pub use kinds::OptionError;
pub(crate) use kinds::{Kept, day_at_most, milliseconds, number, time, words};

use crate::chains::{Incremental, MaxFiles, Track};
use crate::encodings::{Compress, DeltaMode};
use crate::flush_mode::Flush;
use crate::levels::{DurableEvery, FlushEvery, Grace};
use crate::requested_checkpoints::MinInterval;
use crate::saved_files::{ExternalSockets, SaveFiles};
use crate::snapshots::Snapshot;
use serde::Serialize;
use standfast_engine::{FilePolicy, IdPolicy, StackPart};
use standfast_format::manifest;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Shortest interval between checkpoints. Below this a program would be stopped for most of its life: a tiny one
/// stands still for some milliseconds at each.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Longest interval. Whoever means "never" says `off`; beyond a year arithmetic on clocks is all that could break.
pub const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Defines what belongs to every option: its place among those of a job, among those that were said this time, and in the
/// manifest, which names them alike.
macro_rules! options {
    ($($(#[$meaning:meta])* $option:ident: $kind:ty,)+) => {
        /// How a job is protected.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct JobOptions {
            $($(#[$meaning])* pub $option: $kind,)+
        }

        /// What was said about the options this time: `None` where nothing was, so that the job's own options stand.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct OptionChoices {
            $($(#[$meaning])* pub $option: Option<$kind>,)+
        }

        impl JobOptions {
            /// The options as a manifest keeps them.
            pub(crate) fn to_record(self) -> manifest::RunOptions {
                manifest::RunOptions { $($option: self.$option.to_record()),+ }
            }

            /// The options that a manifest keeps. What it does not name, or what no command line would have let pass, is as
            /// where nothing was said.
            pub(crate) fn from_record(record: manifest::RunOptions) -> Self {
                OptionChoices { $($option: record.$option.and_then(Kept::from_record)),+ }.or(Self::default())
            }
        }

        impl OptionChoices {
            /// These choices where they were made, `otherwise` where not.
            pub fn or(self, otherwise: JobOptions) -> JobOptions {
                JobOptions { $($option: self.$option.unwrap_or(otherwise.$option)),+ }
            }

            /// These choices where they were made, those of `weaker` where not.
            pub(crate) fn over(self, weaker: Self) -> Self {
                Self { $($option: self.$option.or(weaker.$option)),+ }
            }
        }
    };
}

options! {
    /// When checkpoints are taken.
    interval: Interval,
    /// How many generations are kept.
    keep: Keep,
    /// Process and thread ids of a restarted job.
    ids: Ids,
    /// How much of the main thread's stack is saved.
    stack: Stack,
    /// What a restart does about files that are not what they were.
    files: Files,
    /// How many images may build upon each other.
    max_files: MaxFiles,
    /// Whether checkpoints save only what has changed.
    incremental: Incremental,
    /// How memory is taken.
    snapshot: Snapshot,
    /// How changes are found.
    track: Track,
    /// Which files are saved that the program may write.
    save_files: SaveFiles,
    /// What becomes of connections whose other end is outside the job.
    external_sockets: ExternalSockets,
    /// Minimum interval between program-requested checkpoints.
    min_interval: MinInterval,
    /// How many of the checkpoints that went to memory go on to the disk.
    flush_every: FlushEvery,
    /// How far the disk may be behind memory.
    durable_every: DurableEvery,
    /// How long the newest checkpoint may take to get to the disk in the end.
    grace: Grace,
    /// Whether pages are kept as what has changed in them.
    delta: DeltaMode,
    /// Whether pages are compressed.
    compress: Compress,
    /// Where checkpoints in memory are brought to the disk.
    flush: Flush,
    /// Whether checkpoints stay when the program has finished.
    keep_finished: KeepFinished,
}

/// When checkpoints are taken by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Only when asked for, and on SIGTERM.
    Off,
    /// This long after the last one.
    Every(Duration),
}

impl Default for Interval {
    /// Ten minutes, the default of the 1995 paper's library.
    fn default() -> Self {
        Self::Every(Duration::from_secs(600))
    }
}

impl Kept for Interval {
    type Record = manifest::Interval;

    fn to_record(self) -> Option<Self::Record> {
        Some(match self {
            Self::Off => Self::Record::Off,
            Self::Every(interval) => Self::Record::Every { milliseconds: milliseconds(interval) },
        })
    }

    fn from_record(record: Self::Record) -> Option<Self> {
        match record {
            Self::Record::Off => Some(Self::Off),
            Self::Record::Every { milliseconds } => {
                let interval = Duration::from_millis(milliseconds);
                (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval).then_some(Self::Every(interval))
            }
        }
    }
}

impl FromStr for Interval {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let hint = "is not an interval: write a time from 10ms to a year with its unit (90s, 10m, 1h 30m), or 'off'";
        let wrong = || OptionError::new(text, hint);
        let interval = humantime::parse_duration(text).map_err(|_| wrong())?;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            return Err(wrong());
        }
        Ok(Self::Every(interval))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(interval) => humantime::format_duration(*interval).fmt(f),
        }
    }
}

impl Serialize for Interval {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_none(),
            Self::Every(interval) => serializer.serialize_f64(interval.as_secs_f64()),
        }
    }
}

number! {
    /// How many generations are kept.
    Keep, "is not a number of checkpoints to keep",
    /// Two, so that one that turns out damaged leaves another to fall back to.
    2
}

words! {
    /// Process and thread ids of a restarted job.
    kept Ids, "is not a policy for process ids",
    /// The old ones, in namespaces of the job's own where that is allowed.
    #[default]
    Auto = "auto",
    /// New ones, no namespaces.
    New = "new",
}

words! {
    /// Whether checkpoints stay when the program has ended with status 0.
    kept KeepFinished, "is no answer",
    /// They stay: one of them can be repeated, or looked at.
    #[default]
    Yes = "yes" | "on",
    /// They are removed.
    No = "no" | "off",
}

words! {
    /// How much of the main thread's stack is saved (L10).
    kept Stack, "is not a part of the stack",
    /// What lies above the stack pointer and its red zone; signal handlers may overwrite the rest at any time anyway.
    #[default]
    Live = "live",
    /// All of it, for programs that keep coroutines below the stack pointer of their main thread.
    Whole = "whole",
}

impl Stack {
    /// As the engine says it.
    pub(crate) fn part(self) -> StackPart {
        match self {
            Self::Live => StackPart::Live,
            Self::Whole => StackPart::Whole,
        }
    }
}

words! {
    /// What a restart does about files that are not what they were at the checkpoint.
    kept Files, "is not a policy for files",
    /// What only the program can have written since is cut off, and kept beside the image; else the restart is refused.
    #[default]
    Auto = "auto",
    /// Whatever a file has grown by is cut off and kept; a change of what it held before refuses the restart.
    Rollback = "rollback",
    /// Files stay as they are.
    Keep = "keep",
    /// Any difference refuses the restart.
    Refuse = "refuse",
}

impl Ids {
    /// As the engine says it.
    pub(crate) fn policy(self) -> IdPolicy {
        match self {
            Self::Auto => IdPolicy::Auto,
            Self::New => IdPolicy::New,
        }
    }
}

impl Files {
    /// As the engine says it.
    pub(crate) fn policy(self) -> FilePolicy {
        match self {
            Self::Auto => FilePolicy::Auto,
            Self::Rollback => FilePolicy::Rollback,
            Self::Keep => FilePolicy::Keep,
            Self::Refuse => FilePolicy::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_people_write_them() {
        let seconds = |seconds| Interval::Every(Duration::from_secs(seconds));
        assert_eq!("10m".parse(), Ok(seconds(600)));
        assert_eq!("1h 30m".parse(), Ok(seconds(5400)));
        assert_eq!("200ms".parse(), Ok(Interval::Every(Duration::from_millis(200))));
        assert_eq!("off".parse(), Ok(Interval::Off));
    }

    #[test]
    fn intervals_without_unit_or_sense_are_refused_with_the_remedy() {
        for text in ["600", "0s", "1ms", "-1s", "auto", "", "1000 years"] {
            let refused = text.parse::<Interval>().expect_err(text);
            assert!(refused.to_string().contains("with its unit"), "{refused}");
        }
    }

    #[test]
    fn an_interval_survives_being_shown_and_read() {
        for interval in [Interval::Off, Interval::default(), Interval::Every(Duration::from_millis(1500))] {
            assert_eq!(interval.to_string().parse(), Ok(interval));
        }
    }

    #[test]
    fn options_survive_the_manifest() {
        for interval in
            [Interval::Off, Interval::default(), Interval::Every(INTERVAL_MIN), Interval::Every(INTERVAL_MAX)]
        {
            let options = JobOptions {
                interval,
                keep: Keep::new(7).unwrap(),
                ids: Ids::New,
                stack: Stack::Whole,
                files: Files::Keep,
                max_files: MaxFiles::new(5).unwrap(),
                incremental: Incremental::On,
                snapshot: Snapshot::Copy,
                track: Track::Hash,
                save_files: SaveFiles::UpTo(1 << 20),
                external_sockets: ExternalSockets::Reset,
                min_interval: MinInterval::Never,
                flush_every: FlushEvery::new(3).unwrap(),
                durable_every: "90s".parse().unwrap(),
                grace: "5s".parse().unwrap(),
                delta: DeltaMode::Previous,
                compress: Compress::Zstd,
                flush: Flush::Foreground,
                keep_finished: KeepFinished::No,
            };
            assert_eq!(JobOptions::from_record(options.to_record()), options);
        }
        assert_eq!(JobOptions::from_record(manifest::RunOptions::default()), JobOptions::default());
    }

    #[test]
    fn only_what_was_said_replaces_the_options_of_the_job() {
        let job = JobOptions {
            interval: Interval::Off,
            keep: Keep::new(5).unwrap(),
            ids: Ids::New,
            stack: Stack::Live,
            files: Files::Refuse,
            ..JobOptions::default()
        };
        assert_eq!(OptionChoices::default().or(job), job);
        let said = OptionChoices { keep: Keep::new(1), ..OptionChoices::default() };
        assert_eq!(said.or(job), JobOptions { keep: Keep::new(1).unwrap(), ..job });
    }
}
