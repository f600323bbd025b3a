//! Errors of bytes that are not a valid image.

use super::IMAGE_VERSION;
use std::fmt;

/// The reason why some bytes are not a valid image. The caller that reads the file adds its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not an image at all.
    #[error("it is not an image of Standfast")]
    Foreign,
    /// It was written by a later Standfast.
    #[error("it has format version {0}, this Standfast reads up to {IMAGE_VERSION}: use a newer Standfast")]
    Version(u32),
    /// The length of the file differs from the one in its header.
    #[error("it is {found} bytes long instead of {expected}")]
    Length {
        /// The length in the header.
        expected: u64,
        /// The real length.
        found: u64,
    },
    /// Some bytes differ from those that were written.
    #[error("its {0} is damaged: the checksum does not match")]
    Damaged(ImagePart),
    /// The bytes are intact but contradict each other.
    #[error("its {0} makes no sense: {1}")]
    Senseless(ImagePart, String),
    /// A part is longer than readers accept.
    #[error("its {part} would take {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// The part.
        part: ImagePart,
        /// Its length in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// A part of an image, displayed by its name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImagePart {
    /// The first page.
    Header,
    /// The table of blocks.
    BlockTable,
    /// The table of runs.
    RunTable,
    /// The table of inherited runs.
    InheritedTable,
    /// The records.
    State,
    /// The block of pages that starts at this offset in the file.
    Block(u64),
}

impl fmt::Display for ImagePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::BlockTable => f.write_str("block table"),
            Self::RunTable => f.write_str("run table"),
            Self::InheritedTable => f.write_str("table of inherited runs"),
            Self::State => f.write_str("state"),
            Self::Block(offset) => write!(f, "block of pages at offset {offset}"),
        }
    }
}
