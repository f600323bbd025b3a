//! The manifest is the authority about a job: its program, its options, its generations and its outcome.
//!
//! An image that no manifest names does not exist. The manifest is small, and every commit rewrites it whole. Its bytes
//! are sealed ([`seal`] and [`unseal`]). The store decides where it is kept and how it is replaced.
//!
//! ```text
//! 0        8         12        16                     16+n      32+n
//! +--------+---------+---------+----------------------+---------+
//! | magic  | version | n       | n bytes of CBOR      | XXH3    |
//! +--------+---------+---------+----------------------+---------+
//! ```

mod identity;
mod seal;
#[cfg(test)]
mod tests;

pub use identity::{GenerationNumber, JobId, LevelId};
pub use seal::{MANIFEST_BYTES_MAX, MANIFEST_VERSION, ManifestError, seal, unseal};

use crate::records::Bytes;
use minicbor::{Decode, Encode};
use standfast_core::Root;

/// The recorded facts about a job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Identity of the job.
    #[n(0)]
    pub job: JobId,
    /// The program that was run, for people and for the name of the directory.
    #[n(1)]
    pub description: JobDescription,
    /// The requested protection of the run; a restart continues with the same options.
    #[n(2)]
    pub options: RunOptions,
    /// The generations that exist, ascending.
    #[n(3)]
    pub generations: Vec<Generation>,
    /// The number of the next generation.
    #[n(4)]
    pub next: GenerationNumber,
    /// The outcome of the job.
    #[n(5)]
    pub outcome: Outcome,
    /// Files that the program wrote, as they were when it ended: later growth was written by others. Empty while the
    /// program runs, and if nobody was there to look.
    #[n(6)]
    pub ends: Vec<FileEnd>,
    /// The place in memory to which checkpoints go first, if any.
    #[n(7)]
    pub memory: Option<MemoryPlace>,
    /// When the whole job had ended, in nanoseconds since 1970, if somebody was there to see it: later writes are by
    /// others.
    #[n(8)]
    pub ended_nanoseconds: Option<i64>,
}

/// The place in memory to which the checkpoints of a job go first.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// The requested directory.
    #[n(0)]
    pub place: Bytes,
    /// The level of the current life there. Any other level belongs to an abandoned life.
    #[n(1)]
    pub level: Option<LevelId>,
    /// Inode number of the job's directory. A copy of the directory has another one and cannot use the level.
    #[n(2)]
    pub home: u64,
}

/// A file that the program wrote, as it was when the program ended.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Device that holds it.
    #[n(0)]
    pub device: u64,
    /// Inode number.
    #[n(1)]
    pub inode: u64,
    /// Length in bytes.
    #[n(2)]
    pub length: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    #[n(3)]
    pub modified_nanoseconds: i64,
}

impl Manifest {
    /// Creates the manifest of a job that has just begun.
    pub fn new(job: JobId, description: JobDescription, options: RunOptions) -> Self {
        Self {
            job,
            description,
            options,
            generations: Vec::new(),
            next: GenerationNumber::FIRST,
            outcome: Outcome::Running,
            ends: Vec::new(),
            memory: None,
            ended_nanoseconds: None,
        }
    }

    /// Reports whether the program ended with status 0, so that there is nothing left to continue.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_success()
    }

    /// Returns the generation with this number, if there is one.
    pub fn generation(&self, number: GenerationNumber) -> Option<&Generation> {
        let place = self.generations.binary_search_by_key(&number, |generation| generation.number);
        place.ok().map(|place| &self.generations[place])
    }

    /// Inserts a generation in its place. Later generations get higher numbers.
    pub fn add(&mut self, generation: Generation) {
        self.next = self.next.max(generation.number.next());
        let place = self.generations.partition_point(|it| it.number < generation.number);
        self.generations.insert(place, generation);
    }

    /// Returns a generation, its parent, and so on down to the full image. Empty if there is no such generation.
    pub fn chain(&self, number: GenerationNumber) -> impl Iterator<Item = &Generation> {
        let parent = |child: &&Generation| child.parent.and_then(|parent| self.generation(parent));
        std::iter::successors(self.generation(number), parent)
    }
}

/// The program that was run, for people to read.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct JobDescription {
    /// The program as it was named on the command line.
    #[n(0)]
    pub program: Bytes,
    /// Its arguments, without the program's own name.
    #[n(1)]
    pub arguments: Vec<Bytes>,
    /// The directory in which it was started.
    #[n(2)]
    pub working_directory: Bytes,
    /// Time of the start, in nanoseconds since 1970.
    #[n(3)]
    pub started_nanoseconds: u64,
    /// Absolute paths of directories that are saved with all their contents.
    #[n(4)]
    pub folders: Vec<Bytes>,
    /// Whether to save the files that the job is seen to write, wherever it works.
    #[n(5)]
    pub saves_written: Option<bool>,
}

/// The protection requested for a run. An absent option was not requested: the reader's default applies.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Time between checkpoints.
    #[n(0)]
    pub interval: Option<Interval>,
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
    pub min_interval: Option<Interval>,
    /// Every Nth in-memory checkpoint is flushed to disk.
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
    pub rehearse: Option<Rehearse>,
}

/// Which checkpoints are followed by the rehearsal of a restart.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearse {
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

/// Treatment of the checkpoints after the program ended with status 0.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum KeepFinished {
    /// They stay.
    #[n(0)]
    Yes,
    /// They are removed.
    #[n(1)]
    No,
}

/// When checkpoints in memory are copied to the disk.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Flush {
    /// Whenever it costs the program less time.
    #[n(0)]
    Auto,
    /// While the program runs.
    #[n(1)]
    Background,
    /// While the program is frozen.
    #[n(2)]
    Foreground,
}

/// Whether pages are stored as differences.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum DeltaMode {
    /// No.
    #[n(0)]
    None,
    /// Against the previous generation, wherever that is shorter.
    #[n(1)]
    Previous,
    /// Against the previous generation, wherever that pays off.
    #[n(2)]
    Auto,
}

/// Whether pages are compressed.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Compress {
    /// No.
    #[n(0)]
    None,
    /// With LZ4.
    #[n(1)]
    Lz4,
    /// With Zstandard.
    #[n(2)]
    Zstd,
    /// With the codec that pays off, if any does.
    #[n(3)]
    Auto,
}

/// Treatment of connections whose other end is outside the job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cbor(index_only)]
pub enum ExternalSockets {
    /// They block the checkpoint.
    #[default]
    #[n(0)]
    Refuse,
    /// They are restored as connections that have been reset.
    #[n(1)]
    Reset,
}

/// Whether checkpoints save only what has changed since the previous one.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Incremental {
    /// Every checkpoint saves everything.
    #[n(0)]
    Off,
    /// Every checkpoint that can be incremental is.
    #[n(1)]
    On,
    /// Every checkpoint for which it pays off is incremental.
    #[n(2)]
    Auto,
}

/// How memory is captured while the program is frozen.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Snapshot {
    /// Memory is written while the program is frozen.
    #[n(0)]
    Sequential,
    /// Memory is copied, and written after the program resumes.
    #[n(1)]
    Copy,
    /// The best of the others, given the figures of earlier checkpoints and the available memory.
    #[n(2)]
    Auto,
    /// Memory is read from clones of the processes after the program resumes.
    #[n(3)]
    Fork,
    /// Memory is read while the program runs; pages written meanwhile are read again while it is frozen.
    #[n(4)]
    Precopy,
}

/// Dirty-page detection.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Track {
    /// The best method that the kernel allows.
    #[n(0)]
    Auto,
    /// The kernel records first writes in its page tables.
    #[n(1)]
    Pagemap,
    /// All pages are read and compared by checksum.
    #[n(2)]
    Hash,
    /// None.
    #[n(3)]
    Off,
}

/// Time between checkpoints.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
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
}

/// How a restarted job gets its process and thread ids.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Ids {
    /// The old ids if that is allowed, otherwise new ones.
    #[n(0)]
    Auto,
    /// New ids.
    #[n(1)]
    New,
}

/// Saved part of the main thread's stack.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Stack {
    /// The part above the stack pointer and its red zone.
    #[n(0)]
    Live,
    /// All of it.
    #[n(1)]
    Whole,
}

/// What a restart does about files that have changed since the checkpoint.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Files {
    /// Cuts off data that only the program can have appended since; otherwise refuses the restart.
    #[n(0)]
    Auto,
    /// Cuts off everything that was appended; refuses other changes.
    #[n(1)]
    Rollback,
    /// Leaves files as they are.
    #[n(2)]
    Keep,
    /// Refuses any difference.
    #[n(3)]
    Refuse,
}

/// One generation: a complete image from which the job can be restarted.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    #[n(0)]
    pub number: GenerationNumber,
    /// The generation whose pages it inherits; none for a full image.
    #[n(1)]
    pub parent: Option<GenerationNumber>,
    /// Its identity, which no other image of any content can match.
    #[n(2)]
    #[cbor(with = "root")]
    pub root: Root,
    /// Length of its file.
    #[n(3)]
    pub file_bytes: u64,
    /// Number of pages stored in its file.
    #[n(4)]
    pub stored_pages: u64,
    /// When it was taken, in nanoseconds since 1970.
    #[n(5)]
    pub taken_nanoseconds: u64,
    /// How long the program was frozen for it.
    #[n(6)]
    pub pause_nanoseconds: u64,
    /// Whether the job was later restarted from an earlier generation, so that this one belongs to an abandoned life. A
    /// restart then uses it only if it is requested by number.
    #[n(7)]
    pub superseded: bool,
    /// Its root when it was taken. Its children refer to it by this root, even after it has been coalesced.
    #[n(8)]
    #[cbor(with = "root")]
    pub origin: Root,
    /// Number of times that it was coalesced; its file gets a new name each time.
    #[n(9)]
    pub revision: u32,
    /// Number of pages that it inherits from its parent.
    #[n(10)]
    pub inherited_pages: u64,
}

/// The outcome of a job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job runs, or it was interrupted and nobody recorded how: it can be continued.
    #[n(0)]
    Running,
    /// The program exited with this status.
    #[n(1)]
    Exited {
        /// 0 to 255.
        #[n(0)]
        status: i32,
    },
    /// The program was killed by a signal: it can be continued.
    #[n(2)]
    Killed {
        /// Signal number.
        #[n(0)]
        signal: i32,
    },
    /// The job was stopped on request after a checkpoint: it can be continued.
    #[n(3)]
    Stopped,
}

impl Outcome {
    /// Reports whether the program ended with status 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited { status: 0 }
    }
}

/// CBOR form of a [`Root`]: a byte string of 32.
mod root {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};
    use standfast_core::Root;

    pub(super) fn encode<C, W: Write>(
        value: &Root,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        encoder.bytes(&value.to_bytes())?.ok()
    }

    pub(super) fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Root, DecodeError> {
        let bytes = decoder.bytes()?;
        let bytes = bytes.try_into().map_err(|_| DecodeError::message("a root has 32 bytes"))?;
        Ok(Root::from_bytes(bytes))
    }
}
