//! The image of one generation: its bytes, and their verified meaning. Pure, like the whole crate.
//!
//! ```text
//! 0        4096                        d            b            r          file length
//! +--------+---------------------------+------------+------------+----------+
//! | header | data area: stored pages,  | block      | run tables | state    |
//! | page   | in blocks of up to 64     | table      | (two)      | (CBOR)   |
//! +--------+---------------------------+------------+------------+----------+
//!     |                 ^                   | | | one checksum per block
//!     |                 +-------------------+-+-+
//!     +--- lengths, offsets and checksums of all that follows; last of all a checksum of the header page itself
//! ```
//!
//! Pages are written as they come, so the data area is not ordered by address; the tables after it restore the order.
//! The header is written last, so an interrupted file has none. The parts adjoin without gaps, so exactly one checksum
//! covers every byte. `docs/format.md` describes each field.
//!
//! Reading goes from [`UnverifiedHeader`] through [`Header`] to [`Image`]. Only [`Image`] gives access to pages and
//! state.

mod assemble;
mod encoding;
mod error;
mod header;
mod index;
#[cfg(test)]
mod tests;

pub use assemble::{Assembled, Contained, NewBlock, assemble};
pub use encoding::{BlockEncoder, PageDifferences};
pub use error::{ImageError, ImagePart};
pub use header::{
    HEADER_BYTES, Header, IMAGE_VERSION, ImageIdentity, MAGIC_BYTES, Parent, STATE_BYTES_MAX, TABLE_BYTES_MAX,
    UnverifiedHeader, is_image,
};
pub use index::{BLOCK_PAGES_MAX, Base, Block, Index, Inherited, sorted_runs};

use crate::records::JobState;
use standfast_core::Root;

/// An image whose header, tables and state have been verified. Its pages are verified block by block, as they are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// The header.
    pub header: Header,
    /// The place of every page.
    pub index: Index,
    /// Everything except the pages.
    pub state: JobState,
    /// The root by which the manifest must name it.
    pub root: Root,
}

impl Image {
    /// Verifies everything after the data area: `tail` is the part of the file given by [`Header::tail`].
    ///
    /// # Errors
    /// If a byte differs from what was written, or the tables or the state make no sense.
    pub fn verify(header: Header, tail: &[u8]) -> Result<Self, ImageError> {
        let parts = header.split_tail(tail)?;
        let index = Index::decode(&header, parts.blocks, parts.runs, parts.inherited)?;
        let state = decode_state(parts.state)?;
        index.check_owners(&state)?;
        let root = Root::of(&[header.page(), parts.blocks, parts.runs, parts.inherited, parts.state]);
        Ok(Self { header, index, state, root })
    }
}

fn decode_state(bytes: &[u8]) -> Result<JobState, ImageError> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let state: JobState =
        decoder.decode().map_err(|error| ImageError::Senseless(ImagePart::State, error.to_string()))?;
    if decoder.position() != bytes.len() {
        return Err(ImageError::Senseless(ImagePart::State, "more follows after its end".into()));
    }
    Ok(state)
}
