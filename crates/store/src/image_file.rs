//! An image in its file, on the way back: verified and delivered block by block.

use crate::StoreError;
use standfast_format::image::Header;
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};

/// An open image whose header, tables and state have been verified and are those that the manifest names.
///
/// Errors of the store that come out of [`ImageSource::deliver`] are [`StoreError`]s in their box: after one of those an
/// older generation may still be good.
#[derive(Debug)]
pub struct ImageFile {}

/// What [`ImageFile::verify`] has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Blocks of pages.
    pub blocks: u64,
    /// Length of the file, every byte of it verified.
    pub bytes: u64,
}

impl ImageFile {
    /// The header.
    pub fn header(&self) -> &Header {
        unimplemented!("skeleton")
    }

    /// Reads every block and verifies it.
    ///
    /// # Errors
    /// The first block that is not what was written or cannot be read.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        unimplemented!("skeleton")
    }
}

impl ImageSource for ImageFile {
    fn state(&self) -> &JobState {
        unimplemented!("skeleton")
    }

    fn runs(&self) -> &[Run] {
        unimplemented!("skeleton")
    }

    fn deliver(&self, _place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        unimplemented!("skeleton")
    }
}
