//! The manifest: the truth about a job. Which program, which options, which generations there are and how it ended.
//!
//! An image that no manifest names does not exist. The manifest is small and is rewritten whole at every commit; its
//! bytes are sealed ([`seal`] and [`unseal`]). Where it is kept and how it is replaced is the store's business.
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

/// What is known about a job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which job.
    #[n(0)]
    pub job: JobId,
    /// What was run, for people and for the name of the directory.
    #[n(1)]
    pub description: JobDescription,
    /// How the run was asked to protect it; a restart goes on in the same way.
    #[n(2)]
    pub options: RunOptions,
    /// The generations that exist, ascending.
    #[n(3)]
    pub generations: Vec<Generation>,
    /// The number of the next generation.
    #[n(4)]
    pub next: GenerationNumber,
    /// How the job stands.
    #[n(5)]
    pub outcome: Outcome,
    /// Files that the program wrote, as they were when it ended: what a file has grown by since, others have written.
    /// Empty while it runs, and where nobody was there to look.
    #[n(6)]
    pub ends: Vec<FileEnd>,
    /// Where in memory checkpoints go first, if they do.
    #[n(7)]
    pub memory: Option<MemoryPlace>,
    /// When the whole job had ended, in nanoseconds since 1970, where somebody was there to see it: what was written later,
    /// others have written.
    #[n(8)]
    pub ended_nanoseconds: Option<i64>,
}

/// Where in memory the checkpoints of a job go first.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// The directory that was asked for.
    #[n(0)]
    pub place: Bytes,
    /// The level that the present life has there. Any other one belongs to a life that was given up.
    #[n(1)]
    pub level: Option<LevelId>,
    /// Inode number of the job's directory, by which a copy of it is known to have no part in the level.
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
    /// Last modification in nanoseconds since 1970.
    #[n(3)]
    pub modified_nanoseconds: i64,
}

impl Manifest {
    /// The manifest of a job that has just begun.
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

    /// Whether the program has ended with status 0: there is nothing left to continue.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_success()
    }

    /// The generation with this number, if there is one.
    pub fn generation(&self, number: GenerationNumber) -> Option<&Generation> {
        let place = self.generations.binary_search_by_key(&number, |generation| generation.number);
        place.ok().map(|place| &self.generations[place])
    }

    /// Adds a generation in its place; later ones get higher numbers.
    pub fn add(&mut self, generation: Generation) {
        self.next = self.next.max(generation.number.next());
        let place = self.generations.partition_point(|it| it.number < generation.number);
        self.generations.insert(place, generation);
    }

    /// A generation, its parent, and so on down to the full image; nothing where there is no such generation.
    pub fn chain(&self, number: GenerationNumber) -> impl Iterator<Item = &Generation> {
        let parent = |child: &&Generation| child.parent.and_then(|parent| self.generation(parent));
        std::iter::successors(self.generation(number), parent)
    }
}

/// What was run, for people to read.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct JobDescription {
    /// The program as it was named on the command line.
    #[n(0)]
    pub program: Bytes,
    /// Its arguments, without the program's own name.
    #[n(1)]
    pub arguments: Vec<Bytes>,
    /// Where it was started.
    #[n(2)]
    pub working_directory: Bytes,
    /// When, in nanoseconds since 1970.
    #[n(3)]
    pub started_nanoseconds: u64,
    /// Directories that are saved with all that is in them: absolute paths.
    #[n(4)]
    pub folders: Vec<Bytes>,
    /// Whether the files that the job is seen to write are saved, wherever it works.
    #[n(5)]
    pub saves_written: Option<bool>,
}

/// How a run was asked to protect its program. What is absent was not asked for: the default of the reader applies.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Time between checkpoints.
    #[n(0)]
    pub interval: Option<Interval>,
    /// How many generations to keep.
    #[n(1)]
    pub keep: Option<u32>,
    /// How a restart gives the job its process and thread ids.
    #[n(2)]
    pub ids: Option<Ids>,
    /// How much of the main thread's stack is saved.
    #[n(3)]
    pub stack: Option<Stack>,
    /// What a restart does about files that are not what they were.
    #[n(4)]
    pub files: Option<Files>,
    /// How many images there may be before they are coalesced.
    #[n(5)]
    pub max_files: Option<u32>,
    /// Whether checkpoints save only what has changed.
    #[n(6)]
    pub incremental: Option<Incremental>,
    /// How memory is taken while the program stands still.
    #[n(7)]
    pub snapshot: Option<Snapshot>,
    /// Dirty-page detection.
    #[n(8)]
    pub track: Option<Track>,
    /// How many bytes a file may hold that is saved since the program may write it; 0 for none. Where it is absent small ones
    /// are, in case they are gone or overwritten by the restart.
    #[n(9)]
    pub save_files: Option<u64>,
    /// What becomes of connections whose other end is outside the job.
    #[n(10)]
    pub external_sockets: Option<ExternalSockets>,
    /// Minimum interval between program-requested checkpoints; off where it is not honoured.
    #[n(11)]
    pub min_interval: Option<Interval>,
    /// Every Nth in-memory checkpoint is flushed to disk.
    #[n(12)]
    pub flush_every: Option<u32>,
    /// Milliseconds at most between two checkpoints on the disk.
    #[n(13)]
    pub durable_every: Option<u64>,
    /// Milliseconds in which the newest checkpoint is to be on the disk when the job ends.
    #[n(14)]
    pub grace: Option<u64>,
    /// Whether pages are kept as what has changed in them.
    #[n(15)]
    pub delta: Option<DeltaMode>,
    /// Whether pages are compressed.
    #[n(16)]
    pub compress: Option<Compress>,
    /// Where checkpoints in memory are brought to the disk.
    #[n(17)]
    pub flush: Option<Flush>,
    /// What becomes of the checkpoints when the program has ended with status 0.
    #[n(18)]
    pub keep_finished: Option<KeepFinished>,
    /// Bytes that a checkpoint leaves free on the disk.
    #[n(19)]
    pub reserve: Option<u64>,
}

/// What becomes of the checkpoints when the program has ended with status 0.
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

/// Where checkpoints in memory are brought to the disk.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Flush {
    /// Where it costs the program less time.
    #[n(0)]
    Auto,
    /// Beside the program.
    #[n(1)]
    Background,
    /// While the program stands still.
    #[n(2)]
    Foreground,
}

/// Whether pages are kept as what has changed in them.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum DeltaMode {
    /// No.
    #[n(0)]
    None,
    /// Against the generation before, wherever that is shorter.
    #[n(1)]
    Previous,
    /// The same where it pays.
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
    /// By LZ4.
    #[n(1)]
    Lz4,
    /// By Zstandard.
    #[n(2)]
    Zstd,
    /// By that which pays, if any does.
    #[n(3)]
    Auto,
}

/// What becomes of connections whose other end is outside the job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cbor(index_only)]
pub enum ExternalSockets {
    /// They refuse the checkpoint.
    #[default]
    #[n(0)]
    Refuse,
    /// They come back as connections that have been reset.
    #[n(1)]
    Reset,
}

/// Whether checkpoints save only what has changed since the one before.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Incremental {
    /// Each one saves everything.
    #[n(0)]
    Off,
    /// Each one that can.
    #[n(1)]
    On,
    /// Each one for which it pays.
    #[n(2)]
    Auto,
}

/// How memory is taken while the program stands still.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Snapshot {
    /// Written while it stands still.
    #[n(0)]
    Sequential,
    /// Copied; written when it runs on.
    #[n(1)]
    Copy,
    /// As the figures of earlier checkpoints and the memory at hand make it best.
    #[n(2)]
    Auto,
    /// Read from clones of the processes when it runs on.
    #[n(3)]
    Fork,
    /// Read while it runs; what is written meanwhile is read again while it stands still.
    #[n(4)]
    Precopy,
}

/// Dirty-page detection.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Track {
    /// As the kernel allows.
    #[n(0)]
    Auto,
    /// The kernel notes first writes in its page tables.
    #[n(1)]
    Pagemap,
    /// All pages are read and compared by checksum.
    #[n(2)]
    Hash,
    /// Not at all.
    #[n(3)]
    Off,
}

/// Time between checkpoints.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// No checkpoints of their own accord, only on request.
    #[n(0)]
    Off,
    /// Each so long after the last.
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
    /// The old ids where that is allowed, new ones otherwise.
    #[n(0)]
    Auto,
    /// New ids.
    #[n(1)]
    New,
}

/// How much of the main thread's stack is saved.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Stack {
    /// What lies above the stack pointer and its red zone.
    #[n(0)]
    Live,
    /// All of it.
    #[n(1)]
    Whole,
}

/// What a restart does about files that are not what they were at the checkpoint.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Files {
    /// What only the program can have written since is cut off; else the restart is refused.
    #[n(0)]
    Auto,
    /// Whatever a file has grown by is cut off; what was changed below is refused.
    #[n(1)]
    Rollback,
    /// Files stay as they are.
    #[n(2)]
    Keep,
    /// Any difference is refused.
    #[n(3)]
    Refuse,
}

/// One generation: a complete image that can be restarted.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    #[n(0)]
    pub number: GenerationNumber,
    /// The generation whose pages it inherits; none for a full image.
    #[n(1)]
    pub parent: Option<GenerationNumber>,
    /// Its identity: no other image of whatever content passes for it.
    #[n(2)]
    #[cbor(with = "root")]
    pub root: Root,
    /// Length of its file.
    #[n(3)]
    pub file_bytes: u64,
    /// Pages that stand in it.
    #[n(4)]
    pub stored_pages: u64,
    /// When it was taken, in nanoseconds since 1970.
    #[n(5)]
    pub taken_nanoseconds: u64,
    /// How long the program stood still for it.
    #[n(6)]
    pub pause_nanoseconds: u64,
    /// Whether the job was afterwards restarted from an earlier generation, so that this one belongs to a life that was
    /// given up: a restart takes it only when it is asked for by number.
    #[n(7)]
    pub superseded: bool,
    /// The root that it had when it was taken: what its children call it, also when it has been coalesced.
    #[n(8)]
    #[cbor(with = "root")]
    pub origin: Root,
    /// How often it has been coalesced: its file has another name each time.
    #[n(9)]
    pub revision: u32,
    /// Pages that it inherits from its parent.
    #[n(10)]
    pub inherited_pages: u64,
}

/// How a job stands.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs, or it broke off without anybody being there to note how: it can be continued.
    #[n(0)]
    Running,
    /// The program ended by itself with this exit status.
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
    /// It was stopped on request after a checkpoint: it can be continued.
    #[n(3)]
    Stopped,
}

impl Outcome {
    /// Whether the program has ended with status 0.
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
