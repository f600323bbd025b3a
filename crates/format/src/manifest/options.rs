//! The options of a run, as its manifest keeps them.

use super::option_words::{
    Compress, DeltaMode, ExternalSockets, Files, Flush, Ids, Incremental, KeepFinished, Snapshot, Stack, Track,
};
use minicbor::{Decode, Encode};

/// The protection requested for a run. An absent option was not requested: the reader's default applies.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Time between checkpoints.
    #[n(0)]
    pub interval: Option<RecordedInterval>,
    /// Number of generations to keep.
    #[n(1)]
    pub keep: Option<u32>,
    /// How a restart assigns process and thread ids.
    #[n(2)]
    pub ids: Option<Ids>,
    /// Saved part of the main thread's stack.
    #[n(3)]
    pub stack: Option<Stack>,
    /// What a restart does about files that have changed.
    #[n(4)]
    pub files: Option<Files>,
    /// Maximum number of images before they are coalesced.
    #[n(5)]
    pub max_files: Option<u32>,
    /// Whether checkpoints save only what has changed.
    #[n(6)]
    pub incremental: Option<Incremental>,
    /// How memory is captured while the program is frozen.
    #[n(7)]
    pub snapshot: Option<Snapshot>,
    /// Dirty-page detection.
    #[n(8)]
    pub track: Option<Track>,
    /// Largest size in bytes of a file that is saved because the program may write it; 0 for none. If absent, small
    /// files are saved, in case they are missing or overwritten at the restart.
    #[n(9)]
    pub save_files: Option<u64>,
    /// Treatment of connections whose other end is outside the job.
    #[n(10)]
    pub external_sockets: Option<ExternalSockets>,
    /// Minimum interval between program-requested checkpoints; off if requests are not honoured.
    #[n(11)]
    pub min_interval: Option<RecordedInterval>,
    /// Every Nth in-memory checkpoint is flushed to disk; 0 if the number is chosen.
    #[n(12)]
    pub flush_every: Option<u32>,
    /// Maximum milliseconds between two checkpoints on the disk.
    #[n(13)]
    pub durable_every: Option<u64>,
    /// Milliseconds within which the newest checkpoint must be on the disk when the job ends.
    #[n(14)]
    pub grace: Option<u64>,
    /// Whether pages are stored as differences.
    #[n(15)]
    pub delta: Option<DeltaMode>,
    /// Whether pages are compressed.
    #[n(16)]
    pub compress: Option<Compress>,
    /// When checkpoints in memory are copied to the disk.
    #[n(17)]
    pub flush: Option<Flush>,
    /// Treatment of the checkpoints after the program ended with status 0.
    #[n(18)]
    pub keep_finished: Option<KeepFinished>,
    /// Bytes that a checkpoint must leave free on the disk.
    #[n(19)]
    pub reserve: Option<u64>,
    /// Which checkpoints are followed by the rehearsal of a restart.
    #[n(20)]
    pub rehearse: Option<RehearsedCheckpoints>,
    /// Exit status of the command after the job was stopped on request.
    #[n(21)]
    pub stopped_status: Option<u8>,
    /// What signals to the supervisor mean.
    #[n(22)]
    pub notice: Option<Notices>,
    /// Milliseconds within which a stop must end; 0 without a limit.
    #[n(23)]
    pub deadline: Option<u64>,
    /// Threads that compress and write a checkpoint.
    #[n(24)]
    pub writers: Option<u32>,
    /// Seconds between two failures on average; 0 if that is learnt, the largest number if nothing fails.
    #[n(25)]
    pub mtbf: Option<u64>,
}

/// What signals to the supervisor mean. In each set bit n stands for signal n + 1. Signals in no set are for the program.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    /// The program stops after a checkpoint.
    #[n(0)]
    pub stop: u64,
    /// A checkpoint is taken.
    #[n(1)]
    pub checkpoint: u64,
    /// They are for the program.
    #[n(2)]
    pub pass: u64,
    /// Nothing.
    #[n(3)]
    pub ignore: u64,
}

/// Which checkpoints are followed by the rehearsal of a restart.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RehearsedCheckpoints {
    /// None.
    #[n(0)]
    Off,
    /// The first of each life, and those after it until one could be restarted.
    #[n(1)]
    First,
    /// Every Nth.
    #[n(2)]
    Every {
        /// N.
        #[n(0)]
        checkpoints: u32,
    },
}

/// A time between checkpoints, as a manifest keeps it.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedInterval {
    /// No automatic checkpoints, only requested ones.
    #[n(0)]
    Off,
    /// A checkpoint after each interval.
    #[n(1)]
    Every {
        /// Length in milliseconds.
        #[n(0)]
        milliseconds: u64,
    },
    /// A checkpoint when that is best.
    #[n(2)]
    Auto,
}
