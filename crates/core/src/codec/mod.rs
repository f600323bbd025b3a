//! Codecs for blocks of bytes: zero, raw, lz4, zstd. [`choice`] decides which one pays off.
//!
//! A compressed block states neither its codec nor its length; the table of its container has both. A reader therefore
//! knows how much memory the block will fill before it reads the first byte, and rejects a block that fills more or
//! less. Each compressor allocates its memory once and reuses it.
//!
//! ```
//! use standfast_core::codec::{Codec, Compressor, Decompressor};
//!
//! let block = b"words, words, words, words, words, words, words".to_vec();
//! let mut compressor = Compressor::new();
//! let packed = compressor.compress(Codec::Lz4, &block);
//! assert!(packed.bytes.len() < block.len());
//!
//! let mut back = vec![0; block.len()];
//! Decompressor::new().decompress(packed.codec, packed.bytes, &mut back).unwrap();
//! assert_eq!(back, block);
//! ```

pub mod choice;
#[cfg(test)]
mod tests;

use crate::is_zero;
use lz4_flex::block::CompressTable;
use std::fmt;
use zstd_safe::{CCtx, DCtx};

/// Largest decoded block: no decoder ever has to fill more in one go.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;

/// A compressed block is kept only if it is shorter by this part of its length (L9: significantly). For less, a raw
/// block serves a restart better, since it can be mapped and read as it is.
const SHORTER_BY_ONE_IN: usize = 16;

/// Of levels -5 to 6, level 1 had the best ratio among those that keep up with a disk. Level 3 takes twice the time for
/// 2 % less.
const ZSTD_LEVEL: i32 = 1;

/// The codec of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// The bytes as they are.
    Raw,
    /// All bytes are zero: nothing is stored.
    Zero,
    /// An LZ4 block without a frame.
    Lz4,
    /// One Zstandard frame that states the length of its content.
    Zstd,
}

impl Codec {
    /// All codecs, by number.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Zero, Self::Lz4, Self::Zstd];

    /// Returns the number of the codec in files.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the codec with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Zero => "zero",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

/// The encoding of the pages of a block in an image: raw, by a codec, or as differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// The pages as they are.
    Raw,
    /// Compressed with [`Codec::Lz4`].
    Lz4,
    /// Compressed with [`Codec::Zstd`].
    Zstd,
    /// Differences from an earlier image ([`crate::delta`]).
    Differences,
    /// Only the nonzero words, for pages with words that a program has excluded. Self-contained.
    Sparse,
}

impl Encoding {
    /// All encodings, by number.
    pub const ALL: [Self; 5] = [Self::Raw, Self::Lz4, Self::Zstd, Self::Differences, Self::Sparse];

    /// Returns the number of the encoding in files.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the encoding with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the codec, if the encoding is a compressing codec.
    pub fn codec(self) -> Option<Codec> {
        match self {
            Self::Raw | Self::Differences | Self::Sparse => None,
            Self::Lz4 => Some(Codec::Lz4),
            Self::Zstd => Some(Codec::Zstd),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Differences => "differences",
            Self::Sparse => "sparse",
        })
    }
}

/// A block in the form in which to store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The codec.
    pub codec: Codec,
    /// The bytes to store.
    pub bytes: &'a [u8],
}

/// Compresses blocks, one after the other, reusing its memory.
pub struct Compressor {
    lz4: CompressTable,
    zstd: CCtx<'static>,
    bytes: Vec<u8>,
}

impl Compressor {
    /// Creates a compressor. Panics if there is no memory for its tables, as any allocation does.
    pub fn new() -> Self {
        Self { lz4: CompressTable::large(), zstd: CCtx::create(), bytes: Vec::new() }
    }

    /// Compresses the block with this codec. A block of zeros always becomes [`Codec::Zero`]. The block stays raw if
    /// the codec would not make it much shorter, or if [`Codec::Zero`] was requested and it is not zero. Panics above
    /// [`BLOCK_BYTES_MAX`].
    pub fn compress<'a>(&'a mut self, codec: Codec, block: &'a [u8]) -> Packed<'a> {
        assert!(block.len() <= BLOCK_BYTES_MAX, "a block of at most {BLOCK_BYTES_MAX} bytes");
        if is_zero(block) {
            return Packed { codec: Codec::Zero, bytes: &[] };
        }
        let raw = Packed { codec: Codec::Raw, bytes: block };
        let length = match codec {
            Codec::Raw | Codec::Zero => return raw,
            Codec::Lz4 => {
                self.make_room(lz4_flex::block::get_maximum_output_size(block.len()));
                let done = lz4_flex::block::compress_into_with_table(block, &mut self.bytes, &mut self.lz4);
                done.expect("there is room for the longest result")
            }
            Codec::Zstd => {
                self.make_room(zstd_safe::compress_bound(block.len()));
                let done = self.zstd.compress(self.bytes.as_mut_slice(), block, ZSTD_LEVEL);
                done.expect("there is room for the longest result and for the tables")
            }
        };
        if length > longest_kept(block.len()) {
            return raw;
        }
        Packed { codec, bytes: &self.bytes[..length] }
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Returns the largest length at which a compressed block of this length is kept.
pub fn longest_kept(block_bytes: usize) -> usize {
    block_bytes - block_bytes.div_ceil(SHORTER_BY_ONE_IN)
}

/// The reason why some bytes are not a block in the stated codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The block would be longer than any that is written.
    #[error("a block of {bytes} bytes is longer than the {BLOCK_BYTES_MAX} that a block may have")]
    TooLong {
        /// The requested length.
        bytes: usize,
    },
    /// The number of bytes is impossible for a block of that length in this codec.
    #[error("{found} bytes cannot be a block of {expected} bytes in the codec {codec}")]
    Length {
        /// The codec.
        codec: Codec,
        /// The length of the block.
        expected: usize,
        /// The number of bytes found.
        found: usize,
    },
    /// The bytes decode to a block of another length, or to more than one.
    #[error("a block in the codec {codec} does not hold the {expected} bytes that it should")]
    Contents {
        /// The codec.
        codec: Codec,
        /// The length of the block.
        expected: usize,
    },
    /// The bytes cannot be decoded.
    #[error("a block in the codec {codec} is damaged")]
    Damaged {
        /// The codec.
        codec: Codec,
    },
}

/// Decompresses blocks.
pub struct Decompressor {
    zstd: DCtx<'static>,
}

impl Decompressor {
    /// Creates a decompressor. Panics if there is no memory for its tables, as any allocation does.
    pub fn new() -> Self {
        Self { zstd: DCtx::create() }
    }

    /// Fills `block` with the decoded bytes. Writes nowhere else, and allocates no memory in proportion to the input.
    ///
    /// # Errors
    /// If the bytes are not a block of exactly this length in this codec; the contents of `block` are then meaningless.
    pub fn decompress(&mut self, codec: Codec, bytes: &[u8], block: &mut [u8]) -> Result<(), CodecError> {
        let expected = block.len();
        if expected > BLOCK_BYTES_MAX {
            return Err(CodecError::TooLong { bytes: expected });
        }
        let fits = match codec {
            Codec::Raw => bytes.len() == expected,
            Codec::Zero => bytes.is_empty(),
            Codec::Lz4 | Codec::Zstd => bytes.len() <= longest_kept(expected),
        };
        if !fits {
            return Err(CodecError::Length { codec, expected, found: bytes.len() });
        }
        let filled = match codec {
            Codec::Raw => {
                block.copy_from_slice(bytes);
                expected
            }
            Codec::Zero => {
                block.fill(0);
                expected
            }
            Codec::Lz4 => lz4_flex::block::decompress_into(bytes, block).map_err(|error| match error {
                lz4_flex::block::DecompressError::OutputTooSmall { .. } => CodecError::Contents { codec, expected },
                _ => CodecError::Damaged { codec },
            })?,
            Codec::Zstd => {
                one_frame(bytes, expected)?;
                self.zstd.decompress(block, bytes).map_err(|_| CodecError::Damaged { codec })?
            }
        };
        if filled == expected { Ok(()) } else { Err(CodecError::Contents { codec, expected }) }
    }
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

/// Rejects input that the library would accept but that is never written here: several frames, skippable frames,
/// dictionaries, and a content of another or unstated length.
fn one_frame(bytes: &[u8], expected: usize) -> Result<(), CodecError> {
    let codec = Codec::Zstd;
    let frame = zstd_safe::find_frame_compressed_size(bytes).map_err(|_| CodecError::Damaged { codec })?;
    let stated = zstd_safe::get_frame_content_size(bytes).map_err(|_| CodecError::Damaged { codec })?;
    let alone = frame == bytes.len() && zstd_safe::get_dict_id_from_frame(bytes).is_none();
    if alone && stated == Some(expected as u64) { Ok(()) } else { Err(CodecError::Contents { codec, expected }) }
}
