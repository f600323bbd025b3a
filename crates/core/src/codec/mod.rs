//! Codecs for blocks of bytes: zeros, as they are, lz4, zstd. Which one pays is decided in [`choice`].
//!
//! A compressed block says neither its codec nor its length: both stand in the table of whoever keeps it, so a reader
//! knows how much memory it will fill before it looks at the first byte, and a block that would fill more or less is
//! refused. Memory is taken once for each compressor and used again.
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

/// Most bytes that a block may stand for: what a decoder is ever asked to fill in one go.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;

/// A compressed block is kept only where it is shorter by this part of its length (L9: significantly). For less, a block
/// that can be mapped and read as it is serves a restart better.
const SHORTER_BY_ONE_IN: usize = 16;

/// Of levels -5 to 6, 1 had the best ratio among those that can keep up with a disk: 3 takes twice the time for 2 % less.
const ZSTD_LEVEL: i32 = 1;

/// How the bytes of a block are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// As they are.
    Raw,
    /// They are all zero: nothing is kept.
    Zero,
    /// An LZ4 block, without a frame around it.
    Lz4,
    /// One Zstandard frame that states its content's length.
    Zstd,
}

impl Codec {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Zero, Self::Lz4, Self::Zstd];

    /// The number that stands for it in a file.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The codec with this number.
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

/// How the pages of a block are kept in an image: by a codec, or as differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// In [`Codec::Lz4`].
    Lz4,
    /// In [`Codec::Zstd`].
    Zstd,
    /// As what has changed in them since an earlier image ([`crate::delta`]).
    Differences,
    /// As the words of them that are not zero: pages of which a program has excluded some. Stands alone.
    Sparse,
}

impl Encoding {
    /// All of them, by number.
    pub const ALL: [Self; 5] = [Self::Raw, Self::Lz4, Self::Zstd, Self::Differences, Self::Sparse];

    /// The number that stands for it in a file.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The encoding with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The codec, where it is one that makes blocks shorter.
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

/// A block and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The codec.
    pub codec: Codec,
    /// What is to be kept.
    pub bytes: &'a [u8],
}

/// Compresses blocks, one after the other in the same memory.
pub struct Compressor {
    lz4: CompressTable,
    zstd: CCtx<'static>,
    bytes: Vec<u8>,
}

impl Compressor {
    /// A compressor. Panics where there is no memory for its tables, as any allocation does.
    pub fn new() -> Self {
        Self { lz4: CompressTable::large(), zstd: CCtx::create(), bytes: Vec::new() }
    }

    /// The block in this codec; as it is where that would not make it much shorter or where [`Codec::Zero`] was asked for
    /// and it is not; and nothing where it is all zeros, whatever was asked for. Panics above [`BLOCK_BYTES_MAX`].
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

/// Most bytes that a compressed block of this length may have.
pub fn longest_kept(block_bytes: usize) -> usize {
    block_bytes - block_bytes.div_ceil(SHORTER_BY_ONE_IN)
}

/// Why some bytes are not a block in the codec that they are said to be in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The block would be longer than any that is written.
    #[error("a block of {bytes} bytes is longer than the {BLOCK_BYTES_MAX} that a block may have")]
    TooLong {
        /// The length that was asked for.
        bytes: usize,
    },
    /// The bytes are not as many as the codec has for a block of that length.
    #[error("{found} bytes cannot be a block of {expected} bytes in the codec {codec}")]
    Length {
        /// The codec.
        codec: Codec,
        /// The block's length.
        expected: usize,
        /// The bytes that are there.
        found: usize,
    },
    /// The bytes stand for a block of another length, or for more than one.
    #[error("a block in the codec {codec} does not hold the {expected} bytes that it should")]
    Contents {
        /// The codec.
        codec: Codec,
        /// The block's length.
        expected: usize,
    },
    /// The bytes cannot be read.
    #[error("a block in the codec {codec} is damaged")]
    Damaged {
        /// The codec.
        codec: Codec,
    },
}

/// Brings blocks back.
pub struct Decompressor {
    zstd: DCtx<'static>,
}

impl Decompressor {
    /// A decompressor. Panics where there is no memory for its tables, as any allocation does.
    pub fn new() -> Self {
        Self { zstd: DCtx::create() }
    }

    /// Fills `block` with what the bytes stand for. Writes nowhere else and takes no memory that grows with the bytes.
    ///
    /// # Errors
    /// When the bytes are not a block of exactly this length in this codec; what `block` then holds means nothing.
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

/// Refuses what the library would read and nobody here writes: several frames, frames to be skipped, dictionaries, a
/// content of another or unstated length.
fn one_frame(bytes: &[u8], expected: usize) -> Result<(), CodecError> {
    let codec = Codec::Zstd;
    let frame = zstd_safe::find_frame_compressed_size(bytes).map_err(|_| CodecError::Damaged { codec })?;
    let stated = zstd_safe::get_frame_content_size(bytes).map_err(|_| CodecError::Damaged { codec })?;
    let alone = frame == bytes.len() && zstd_safe::get_dict_id_from_frame(bytes).is_none();
    if alone && stated == Some(expected as u64) { Ok(()) } else { Err(CodecError::Contents { codec, expected }) }
}
