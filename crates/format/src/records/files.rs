//! Records of files: how a restart finds one again, and how it detects that a file has changed.

use super::{Bytes, JobState, checksum};
use minicbor::{Decode, Encode};
use standfast_core::Checksum;

/// A file as it was at the checkpoint, so that a restart can recognise it.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct FileReference {
    /// Absolute path.
    #[n(0)]
    pub path: Bytes,
    /// Length in bytes.
    #[n(1)]
    pub length: u64,
    /// Its identity and times.
    #[n(2)]
    pub identity: FileIdentity,
    /// Digest of its content up to that length; absent if it was unreadable, and for files that the kernel generates.
    #[n(3)]
    pub digest: Option<FileDigest>,
    /// Build id of an executable or a library (ELF note `NT_GNU_BUILD_ID`), if it has one.
    #[n(4)]
    pub build_id: Option<Bytes>,
    /// Its other names, if it has some and the job may write it.
    #[n(5)]
    pub other_names: Option<OtherNames>,
}

/// The names of a file besides the recorded one (`link(2)`).
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq, Default)]
pub struct OtherNames {
    /// Their number.
    #[n(0)]
    pub count: u64,
    /// Absolute paths of those that were found.
    #[n(1)]
    pub found: Vec<Bytes>,
}

/// Identity of a file: if all of this is unchanged, nobody has changed the file.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileIdentity {
    /// Device that holds it.
    #[n(0)]
    pub device: u64,
    /// Inode number.
    #[n(1)]
    pub inode: u64,
    /// Time of the last modification in nanoseconds since 1970. Programs can set it freely.
    #[n(2)]
    pub modified_nanoseconds: i64,
    /// Time of the last change of content or attributes, which only the kernel sets.
    #[n(3)]
    pub changed_nanoseconds: i64,
}

/// Digest of the content of a file.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// The part of it that was read.
    #[n(0)]
    pub coverage: Coverage,
    /// XXH3 of the checksums (16 bytes each) of the pieces that [`Coverage::pieces`] returns, in that order.
    #[n(1)]
    #[cbor(with = "checksum")]
    pub checksum: Checksum,
}

/// The part of a file that a digest covers.
#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
#[cbor(index_only)]
pub enum Coverage {
    /// Every byte.
    #[n(0)]
    Whole,
    /// Both ends and samples in between: a difference proves that the file was changed, but equality is only a hint.
    #[n(1)]
    Sampled,
}

/// Length of a piece of a fully covered file.
const PIECE_BYTES: u64 = 1 << 20;
/// Covered length at both ends of a sampled file, for headers and recently written data.
const END_BYTES: u64 = 64 << 10;
/// Length of each sample, and their number.
const SAMPLE_BYTES: u64 = 4096;
const SAMPLES: u64 = 64;

impl Coverage {
    /// Returns the pieces to read of a file of `length` bytes, as offset and length.
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
    /// Returns the files that hold the code of the job: executables and libraries.
    pub fn code_files(&self) -> impl Iterator<Item = &FileReference> {
        self.processes.iter().flat_map(|process| {
            let executed = process.mappings.iter().filter(|mapping| mapping.protection.execute);
            std::iter::once(&process.executable).chain(executed.filter_map(|mapping| mapping.backing.file()))
        })
    }

    /// Returns every file that the records name.
    pub fn files(&self) -> impl Iterator<Item = &FileReference> {
        let processes = self.processes.iter().flat_map(|process| {
            let mapped = process.mappings.iter().filter_map(|mapping| mapping.backing.file());
            std::iter::once(&process.executable).chain(mapped)
        });
        processes.chain(self.open_files.iter().filter_map(|open| open.kind.file()))
    }

    /// Returns every file that the records name, mutably.
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
    fn short_files_are_read_whole_even_when_sampled() {
        let length = 2 * END_BYTES + SAMPLES * SAMPLE_BYTES;
        assert_eq!(Coverage::Sampled.pieces(length).map(|(_, bytes)| bytes).sum::<u64>(), length);
    }
}
