//! Records of files: how one is found again, and how a restart tells whether it still is what it was.

use super::{Bytes, JobState, checksum};
use minicbor::{Decode, Encode};
use standfast_core::Checksum;

/// A file as it was at the checkpoint, so that a restart can tell whether it finds the same one.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct FileReference {
    /// Absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Length in bytes.
    #[n(1)]
    pub length: u64,
    /// Which file it was, and when it was last touched.
    #[n(2)]
    pub identity: FileIdentity,
    /// What it held below that length; absent where it could not be read, and for files that the kernel makes up.
    #[n(3)]
    pub digest: Option<FileDigest>,
    /// Of an executable or a library the linker's name for it (ELF note `NT_GNU_BUILD_ID`), where it has one.
    #[n(4)]
    pub build_id: Option<Bytes>,
    /// Its other names, where it has some and the job may write it.
    #[n(5)]
    pub other_names: Option<OtherNames>,
}

/// The names of a file beside the one by which it is known (`link(2)`).
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct OtherNames {
    /// How many it has.
    #[n(0)]
    pub count: u64,
    /// Those that were found, as absolute paths.
    #[n(1)]
    pub found: Vec<Bytes>,
}

/// Which file: where all of this is as it was, nobody has changed the file.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileIdentity {
    /// Device that holds it.
    #[n(0)]
    pub device: u64,
    /// Inode number.
    #[n(1)]
    pub inode: u64,
    /// Last modification in nanoseconds since 1970, which programs may set as they like.
    #[n(2)]
    pub modified_nanoseconds: i64,
    /// Last change of content or of attributes, which only the kernel sets.
    #[n(3)]
    pub changed_nanoseconds: i64,
}

/// What a file held.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// How much of it was read.
    #[n(0)]
    pub coverage: Coverage,
    /// XXH3 of the checksums (16 bytes each) of the pieces that [`Coverage::pieces`] names, in their order.
    #[n(1)]
    #[cbor(with = "checksum")]
    pub checksum: Checksum,
}

/// How much of a file a digest covers.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Coverage {
    /// Every byte.
    #[n(0)]
    Whole,
    /// Both ends and samples in between: a difference proves that the file was changed, equality is a hint only.
    #[n(1)]
    Sampled,
}

/// Length of a piece of a file that is covered whole.
const PIECE_BYTES: u64 = 1 << 20;
/// Both ends of a file that is sampled are covered this far: headers and what was written last.
const END_BYTES: u64 = 64 << 10;
/// Length of each sample, and their number.
const SAMPLE_BYTES: u64 = 4096;
const SAMPLES: u64 = 64;

impl Coverage {
    /// The pieces of a file of `length` bytes that are read, as offset and length.
    pub fn pieces(self, length: u64) -> impl Iterator<Item = (u64, u64)> {
        let is_short = length <= 2 * END_BYTES + SAMPLES * SAMPLE_BYTES;
        let (whole, sampled) = if self == Self::Whole || is_short { (length, 0) } else { (0, length) };
        let pieces = (0..whole.div_ceil(PIECE_BYTES)).map(move |piece| {
            let offset = piece * PIECE_BYTES;
            (offset, PIECE_BYTES.min(length - offset))
        });
        let samples = (0..if sampled > 0 { SAMPLES } else { 0 }).map(move |sample| {
            let between = length - 2 * END_BYTES - SAMPLE_BYTES;
            (END_BYTES + (u128::from(between) * u128::from(sample) / u128::from(SAMPLES)) as u64, SAMPLE_BYTES)
        });
        let ends = (sampled > 0).then(|| [(0, END_BYTES), (length - END_BYTES, END_BYTES)]);
        pieces.chain(ends.into_iter().flatten()).chain(samples)
    }
}

impl JobState {
    /// The files that hold the code that the job runs: executables, libraries.
    pub fn code_files(&self) -> impl Iterator<Item = &FileReference> {
        self.processes.iter().flat_map(|process| {
            let executed = process.mappings.iter().filter(|mapping| mapping.protection.execute);
            std::iter::once(&process.executable).chain(executed.filter_map(|mapping| mapping.backing.file()))
        })
    }

    /// Every file that the records name.
    pub fn files(&self) -> impl Iterator<Item = &FileReference> {
        let processes = self.processes.iter().flat_map(|process| {
            let mapped = process.mappings.iter().filter_map(|mapping| mapping.backing.file());
            std::iter::once(&process.executable).chain(mapped)
        });
        processes.chain(self.open_files.iter().filter_map(|open| open.kind.file()))
    }

    /// The same, to be changed.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut FileReference> {
        let processes = self.processes.iter_mut().flat_map(|process| {
            let mapped = process.mappings.iter_mut().filter_map(|mapping| mapping.backing.file_mut());
            std::iter::once(&mut process.executable).chain(mapped)
        });
        processes.chain(self.open_files.iter_mut().filter_map(|open| open.kind.file_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_coverage_takes_every_byte_once() {
        for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 5] {
            let mut at = 0;
            for (offset, bytes) in Coverage::Whole.pieces(length) {
                assert_eq!(offset, at);
                at += bytes;
            }
            assert_eq!(at, length);
        }
    }

    #[test]
    fn samples_lie_within_the_file_and_reach_both_ends() {
        for length in [2 * END_BYTES + SAMPLES * SAMPLE_BYTES + 1, 1 << 30, u64::MAX] {
            let pieces: Vec<_> = Coverage::Sampled.pieces(length).collect();
            assert_eq!(pieces.len() as u64, SAMPLES + 2);
            assert!(pieces.iter().all(|(offset, bytes)| offset.checked_add(*bytes).is_some_and(|end| end <= length)));
            assert!(pieces.contains(&(0, END_BYTES)) && pieces.contains(&(length - END_BYTES, END_BYTES)));
        }
    }

    #[test]
    fn short_files_are_covered_whole_even_where_samples_would_do() {
        let length = 2 * END_BYTES + SAMPLES * SAMPLE_BYTES;
        assert_eq!(Coverage::Sampled.pieces(length).map(|(_, bytes)| bytes).sum::<u64>(), length);
    }
}
