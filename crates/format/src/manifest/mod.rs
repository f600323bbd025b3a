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
mod option_words;
mod options;
mod seal;
#[cfg(test)]
mod tests;

pub use identity::{GenerationNumber, JobId, LevelId};
pub use option_words::{
    Compress, DeltaMode, ExternalSockets, Files, Flush, Ids, Incremental, KeepFinished, OptionError, Snapshot, Stack,
    Track,
};
pub use options::{Notices, RecordedInterval, RehearsedCheckpoints, RunOptions};
pub use seal::{MANIFEST_BYTES_MAX, MANIFEST_MAGIC, MANIFEST_VERSION, ManifestError, seal, unseal};

use crate::records::Bytes;
use minicbor::{Decode, Encode};
use standfast_core::Root;

/// Name of its file in a job's directory.
pub const MANIFEST_NAME: &str = "manifest";

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
    /// The epoch that it belongs to, for a part of a distributed job.
    #[n(11)]
    pub epoch: Option<Epoch>,
}

/// A checkpoint of all parts of a distributed job.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    /// Ascends with each checkpoint of the job.
    #[n(0)]
    pub number: u64,
    /// Random: two lives of a coordinator may count alike.
    #[n(1)]
    pub cut: u64,
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
