//! The options of a run, each defined here once. They are kept in the job's manifest, so that a restarted job goes on
//! being protected as its run was; how they are spelt on a command line is the command's business.

use crate::chains::{Incremental, MaxFiles, Track};
use crate::directed::MinInterval;
use crate::encodings::{Compress, Delta};
use crate::levels::{DurableEvery, FlushEvery, Grace};
use crate::manner::Flush;
use crate::scope::{ExternalSockets, SaveFiles};
use crate::snapshots::Snapshot;
use serde::Serialize;
use standfast_engine::{FilePolicy, StackPart};
use standfast_format::manifest;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// Shortest interval between checkpoints. Below this a program would be stopped for most of its life: a tiny one
/// stands still for some milliseconds at each.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Longest interval. Whoever means "never" says `off`; beyond a year arithmetic on clocks is all that could break.
pub const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// How a job is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JobOptions {
    /// When checkpoints are taken.
    pub interval: Interval,
    /// How many generations are kept.
    pub keep: Keep,
    /// Process and thread ids of a restarted job.
    pub ids: Ids,
    /// How much of the main thread's stack is saved.
    pub stack: Stack,
    /// What a restart does about files that are not what they were.
    pub files: Files,
    /// How many images may build upon each other.
    pub max_files: MaxFiles,
    /// Whether checkpoints save only what has changed.
    pub incremental: Incremental,
    /// How memory is taken.
    pub snapshot: Snapshot,
    /// How changes are found.
    pub track: Track,
    /// Which files are saved that the program may write.
    pub save_files: SaveFiles,
    /// What becomes of connections whose other end is outside the job.
    pub external_sockets: ExternalSockets,
    /// Least time between checkpoints that the program asks for.
    pub min_interval: MinInterval,
    /// How many of the checkpoints that went to memory go on to the disk.
    pub flush_every: FlushEvery,
    /// How far the disk may be behind memory.
    pub durable_every: DurableEvery,
    /// How long the newest checkpoint may take to get to the disk in the end.
    pub grace: Grace,
    /// Whether pages are kept as what has changed in them.
    pub delta: Delta,
    /// Whether pages are compressed.
    pub compress: Compress,
    /// Where checkpoints in memory are brought to the disk.
    pub flush: Flush,
}

/// What was said about the options this time: `None` where nothing was, so that the job's own options stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionChoices {
    /// When checkpoints are taken.
    pub interval: Option<Interval>,
    /// How many generations are kept.
    pub keep: Option<Keep>,
    /// Process and thread ids of a restarted job.
    pub ids: Option<Ids>,
    /// How much of the main thread's stack is saved.
    pub stack: Option<Stack>,
    /// What a restart does about files that are not what they were.
    pub files: Option<Files>,
    /// How many images may build upon each other.
    pub max_files: Option<MaxFiles>,
    /// Whether checkpoints save only what has changed.
    pub incremental: Option<Incremental>,
    /// How memory is taken.
    pub snapshot: Option<Snapshot>,
    /// How changes are found.
    pub track: Option<Track>,
    /// Which files are saved that the program may write.
    pub save_files: Option<SaveFiles>,
    /// What becomes of connections whose other end is outside the job.
    pub external_sockets: Option<ExternalSockets>,
    /// Least time between checkpoints that the program asks for.
    pub min_interval: Option<MinInterval>,
    /// How many of the checkpoints that went to memory go on to the disk.
    pub flush_every: Option<FlushEvery>,
    /// How far the disk may be behind memory.
    pub durable_every: Option<DurableEvery>,
    /// How long the newest checkpoint may take to get to the disk in the end.
    pub grace: Option<Grace>,
    /// Whether pages are kept as what has changed in them.
    pub delta: Option<Delta>,
    /// Whether pages are compressed.
    pub compress: Option<Compress>,
    /// Where checkpoints in memory are brought to the disk.
    pub flush: Option<Flush>,
}

impl JobOptions {
    /// The options as a manifest keeps them.
    pub(crate) fn to_record(self) -> manifest::RunOptions {
        let interval = match self.interval {
            Interval::Off => manifest::Interval::Off,
            Interval::Every(interval) => {
                let milliseconds = u64::try_from(interval.as_millis()).expect("an interval is at most a year");
                manifest::Interval::Every { milliseconds }
            }
        };
        let ids = match self.ids {
            Ids::Auto => manifest::Ids::Auto,
            Ids::New => manifest::Ids::New,
        };
        let stack = match self.stack {
            Stack::Live => manifest::Stack::Live,
            Stack::Whole => manifest::Stack::Whole,
        };
        manifest::RunOptions {
            interval: Some(interval),
            keep: Some(self.keep.get().get()),
            ids: Some(ids),
            stack: Some(stack),
            files: Some(self.files.to_record()),
            max_files: Some(self.max_files.get().get()),
            incremental: Some(self.incremental.to_record()),
            snapshot: Some(self.snapshot.to_record()),
            track: Some(self.track.to_record()),
            save_files: self.save_files.to_record(),
            external_sockets: Some(self.external_sockets.to_record()),
            min_interval: Some(self.min_interval.to_record()),
            flush_every: Some(self.flush_every.get().get()),
            durable_every: Some(self.durable_every.to_record()),
            grace: Some(self.grace.to_record()),
            delta: Some(self.delta.to_record()),
            compress: Some(self.compress.to_record()),
            flush: Some(self.flush.to_record()),
        }
    }

    /// The options that a manifest keeps. What it does not name, or what no command line would have let pass, is as
    /// where nothing was said.
    pub(crate) fn from_record(record: manifest::RunOptions) -> Self {
        let interval = record.interval.and_then(|interval| match interval {
            manifest::Interval::Off => Some(Interval::Off),
            manifest::Interval::Every { milliseconds } => {
                let interval = Duration::from_millis(milliseconds);
                (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval).then_some(Interval::Every(interval))
            }
        });
        let ids = record.ids.map(|ids| match ids {
            manifest::Ids::Auto => Ids::Auto,
            manifest::Ids::New => Ids::New,
        });
        let keep = record.keep.and_then(Keep::new);
        let stack = record.stack.map(|stack| match stack {
            manifest::Stack::Live => Stack::Live,
            manifest::Stack::Whole => Stack::Whole,
        });
        let choices = OptionChoices {
            interval,
            keep,
            ids,
            stack,
            files: record.files.map(Files::from_record),
            max_files: record.max_files.and_then(MaxFiles::new),
            incremental: record.incremental.map(Incremental::from_record),
            snapshot: record.snapshot.map(Snapshot::from_record),
            track: record.track.map(Track::from_record),
            save_files: record.save_files.map(SaveFiles::from_record),
            external_sockets: record.external_sockets.map(ExternalSockets::from_record),
            min_interval: record.min_interval.map(MinInterval::from_record),
            flush_every: record.flush_every.and_then(FlushEvery::new),
            durable_every: record.durable_every.and_then(DurableEvery::from_record),
            grace: record.grace.and_then(Grace::from_record),
            delta: record.delta.map(Delta::from_record),
            compress: record.compress.map(Compress::from_record),
            flush: record.flush.map(Flush::from_record),
        };
        choices.or(Self::default())
    }
}

impl OptionChoices {
    /// These choices where they were made, `otherwise` where not.
    pub fn or(self, otherwise: JobOptions) -> JobOptions {
        JobOptions {
            interval: self.interval.unwrap_or(otherwise.interval),
            keep: self.keep.unwrap_or(otherwise.keep),
            ids: self.ids.unwrap_or(otherwise.ids),
            stack: self.stack.unwrap_or(otherwise.stack),
            files: self.files.unwrap_or(otherwise.files),
            max_files: self.max_files.unwrap_or(otherwise.max_files),
            incremental: self.incremental.unwrap_or(otherwise.incremental),
            snapshot: self.snapshot.unwrap_or(otherwise.snapshot),
            track: self.track.unwrap_or(otherwise.track),
            save_files: self.save_files.unwrap_or(otherwise.save_files),
            external_sockets: self.external_sockets.unwrap_or(otherwise.external_sockets),
            min_interval: self.min_interval.unwrap_or(otherwise.min_interval),
            flush_every: self.flush_every.unwrap_or(otherwise.flush_every),
            durable_every: self.durable_every.unwrap_or(otherwise.durable_every),
            grace: self.grace.unwrap_or(otherwise.grace),
            delta: self.delta.unwrap_or(otherwise.delta),
            compress: self.compress.unwrap_or(otherwise.compress),
            flush: self.flush.unwrap_or(otherwise.flush),
        }
    }

    /// These choices where they were made, those of `weaker` where not.
    pub(crate) fn over(self, weaker: Self) -> Self {
        Self {
            interval: self.interval.or(weaker.interval),
            keep: self.keep.or(weaker.keep),
            ids: self.ids.or(weaker.ids),
            stack: self.stack.or(weaker.stack),
            files: self.files.or(weaker.files),
            max_files: self.max_files.or(weaker.max_files),
            incremental: self.incremental.or(weaker.incremental),
            snapshot: self.snapshot.or(weaker.snapshot),
            track: self.track.or(weaker.track),
            save_files: self.save_files.or(weaker.save_files),
            external_sockets: self.external_sockets.or(weaker.external_sockets),
            min_interval: self.min_interval.or(weaker.min_interval),
            flush_every: self.flush_every.or(weaker.flush_every),
            durable_every: self.durable_every.or(weaker.durable_every),
            grace: self.grace.or(weaker.grace),
            delta: self.delta.or(weaker.delta),
            compress: self.compress.or(weaker.compress),
            flush: self.flush.or(weaker.flush),
        }
    }
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

impl FromStr for Interval {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let wrong = || OptionError::Interval { text: text.to_owned() };
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

/// How many generations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Keep(NonZeroU32);

impl Keep {
    /// `None` for zero: the newest good generation is never removed.
    pub fn new(generations: u32) -> Option<Self> {
        NonZeroU32::new(generations).map(Self)
    }

    /// The number.
    pub fn get(self) -> NonZeroU32 {
        self.0
    }
}

impl Default for Keep {
    /// Two, so that one that turns out damaged leaves another to fall back to.
    fn default() -> Self {
        Self(NonZeroU32::new(2).expect("two is not zero"))
    }
}

impl FromStr for Keep {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        text.parse().map(Self).map_err(|_| OptionError::Keep { text: text.to_owned() })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Process and thread ids of a restarted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// The old ones, in namespaces of the job's own where that is allowed.
    #[default]
    Auto,
    /// New ones, no namespaces.
    New,
}

impl FromStr for Ids {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => Ok(Self::Auto),
            "new" => Ok(Self::New),
            _ => Err(OptionError::Ids { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::New => "new",
        })
    }
}

/// How much of the main thread's stack is saved (L10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// What lies above the stack pointer and its red zone; signal handlers may overwrite the rest at any time anyway.
    #[default]
    Live,
    /// All of it, for programs that keep coroutines below the stack pointer of their main thread.
    Whole,
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

impl FromStr for Stack {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "live" => Ok(Self::Live),
            "whole" => Ok(Self::Whole),
            _ => Err(OptionError::Stack { text: text.to_owned() }),
        }
    }
}

/// What a restart does about files that are not what they were at the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Files {
    /// What only the program can have written since is cut off, and kept beside the image; else the restart is refused.
    #[default]
    Auto,
    /// Whatever a file has grown by is cut off and kept; a change of what it held before refuses the restart.
    Rollback,
    /// Files stay as they are.
    Keep,
    /// Any difference refuses the restart.
    Refuse,
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

    fn to_record(self) -> manifest::Files {
        match self {
            Self::Auto => manifest::Files::Auto,
            Self::Rollback => manifest::Files::Rollback,
            Self::Keep => manifest::Files::Keep,
            Self::Refuse => manifest::Files::Refuse,
        }
    }

    fn from_record(record: manifest::Files) -> Self {
        match record {
            manifest::Files::Auto => Self::Auto,
            manifest::Files::Rollback => Self::Rollback,
            manifest::Files::Keep => Self::Keep,
            manifest::Files::Refuse => Self::Refuse,
        }
    }
}

impl FromStr for Files {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => Ok(Self::Auto),
            "rollback" => Ok(Self::Rollback),
            "keep" => Ok(Self::Keep),
            "refuse" => Ok(Self::Refuse),
            _ => Err(OptionError::Files { text: text.to_owned() }),
        }
    }
}

/// A value that is none of the option's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Not an interval.
    #[error("'{text}' is no interval: write a time of 10ms to a year with its unit (90s, 10m, 1h 30m), or 'off'")]
    Interval {
        /// What stood there.
        text: String,
    },
    /// Not a number of generations.
    #[error("'{text}' is no number of generations to keep: write 1 or more")]
    Keep {
        /// What stood there.
        text: String,
    },
    /// Not a number of images.
    #[error("'{text}' is no number of images that may build upon each other: write 1 or more")]
    MaxFiles {
        /// What stood there.
        text: String,
    },
    /// Not a policy for incremental checkpoints.
    #[error("'{text}' does not say whether checkpoints save only what has changed: write 'on', 'off' or 'auto'")]
    Incremental {
        /// What stood there.
        text: String,
    },
    /// Not a way to take memory.
    #[error("'{text}' is no way to take memory: write 'sequential', 'copy', 'fork', 'precopy' or 'auto'")]
    Snapshot {
        /// What stood there.
        text: String,
    },
    /// Not a way to find changes.
    #[error("'{text}' is no way to find what has changed: write 'auto', 'pagemap', 'hash' or 'off'")]
    Track {
        /// What stood there.
        text: String,
    },
    /// Not a size of files.
    #[error("'{text}' is no size of files to save: write a number with its unit (64M, 2G), 'auto' or 'off'")]
    SaveFiles {
        /// What stood there.
        text: String,
    },
    /// Not a policy for connections.
    #[error("'{text}' is no way to treat connections to others: write 'refuse' or 'reset'")]
    ExternalSockets {
        /// What stood there.
        text: String,
    },
    /// Not a least interval.
    #[error("'{text}' is no least interval: write a time with its unit (90s, 10m), 0s, or 'never'")]
    MinInterval {
        /// What stood there.
        text: String,
    },
    /// Not a number of checkpoints.
    #[error(
        "'{text}' does not say which of the checkpoints in memory go on to the disk: write 1 or more for one in so many"
    )]
    FlushEvery {
        /// What stood there.
        text: String,
    },
    /// Not a time between checkpoints on the disk.
    #[error("'{text}' is no time between checkpoints on the disk: write a day at most with its unit (90s, 10m)")]
    DurableEvery {
        /// What stood there.
        text: String,
    },
    /// Not a time for the last flush.
    #[error(
        "'{text}' is no time in which to bring the newest checkpoint to the disk: write a day at most with its unit (30s)"
    )]
    Grace {
        /// What stood there.
        text: String,
    },
    /// Not a way to keep differences.
    #[error(
        "'{text}' does not say whether pages are kept as what has changed in them: write 'none', 'previous' or 'auto'"
    )]
    Delta {
        /// What stood there.
        text: String,
    },
    /// Not a way to compress.
    #[error("'{text}' is no way to compress: write 'none', 'lz4', 'zstd' or 'auto'")]
    Compress {
        /// What stood there.
        text: String,
    },
    /// Not a place for flushes.
    #[error("'{text}' does not say where flushes run: write 'background', 'foreground' or 'auto'")]
    Flush {
        /// What stood there.
        text: String,
    },
    /// Not a policy for ids.
    #[error("'{text}' is no way to give ids: write 'auto' or 'new'")]
    Ids {
        /// What stood there.
        text: String,
    },
    /// Not a policy for files.
    #[error("'{text}' is no way to treat files: write 'auto', 'rollback', 'keep' or 'refuse'")]
    Files {
        /// What stood there.
        text: String,
    },
    /// Not a part of the stack.
    #[error("'{text}' is no part of the stack: write 'live' or 'whole'")]
    Stack {
        /// What stood there.
        text: String,
    },
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
                delta: Delta::Previous,
                compress: Compress::Zstd,
                flush: Flush::Foreground,
            };
            assert_eq!(JobOptions::from_record(options.to_record()), options);
        }
        assert_eq!(JobOptions::from_record(manifest::RunOptions::default()), JobOptions::default());
    }

    #[test]
    fn no_generation_kept_is_refused() {
        assert!("0".parse::<Keep>().is_err());
        assert!("-1".parse::<Keep>().is_err());
        assert_eq!("3".parse(), Ok(Keep::new(3).unwrap()));
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
