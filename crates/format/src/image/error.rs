//! Why some bytes are no image.

use super::IMAGE_VERSION;
use std::fmt;

/// Why some bytes are no image. Whoever reads the file adds its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not an image at all.
    #[error("it is not an image of Standfast")]
    Foreign,
    /// Written by a later Standfast.
    #[error("it has format version {0}, this Standfast reads up to {IMAGE_VERSION}: use a newer Standfast")]
    Version(u32),
    /// The file is not as long as its header says.
    #[error("it is {found} bytes long instead of {expected}")]
    Length {
        /// According to the header.
        expected: u64,
        /// In fact.
        found: u64,
    },
    /// Some bytes are not those that were written.
    #[error("its {0} is damaged: the checksum does not match")]
    Damaged(ImagePart),
    /// The bytes are those that were written, yet they contradict each other.
    #[error("its {0} makes no sense: {1}")]
    Senseless(ImagePart, String),
    /// More than any reader would take.
    #[error("its {part} would take {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Which part.
        part: ImagePart,
        /// How long it would be.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
}

/// A part of an image, by the name that messages give it.
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
    /// A block of pages, which starts at this offset in the file.
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
