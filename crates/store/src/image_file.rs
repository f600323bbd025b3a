//! Reads one image file. Opening it verifies the header, tables and state; each block is verified as it is read. The
//! chain handles the pages that the image inherits from its parent.

use crate::guest::TAIL_BYTES_MAX;
use crate::level_directory::LevelDirectory;
use crate::names::image_name;
use crate::trust::open_trusted;
use crate::{StorageFile, StoreError};
use standfast_format::image::{HEADER_BYTES, Header, Image, ImageError, UnverifiedHeader};
use standfast_format::manifest::{Generation, GenerationNumber, JobId};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// An open image whose header, tables and state have been verified and match the manifest.
#[derive(Debug)]
pub(crate) struct ImageFile {
    pub(crate) number: GenerationNumber,
    pub(crate) image: Image,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
}

impl ImageFile {
    pub(crate) fn open(
        level_directory: &LevelDirectory,
        job: JobId,
        generation: &Generation,
    ) -> Result<Self, StoreError> {
        let name = image_name(generation);
        let path = level_directory.path_of(&name);
        let (file, status) =
            open_trusted(&*level_directory.storage_backend, &name, level_directory.host_identity.user)?;
        let damaged = |source| StoreError::Image { path: path.clone(), source };
        let header = read_header(&*file, status.bytes).map_err(|error| error.at(&path))?;
        let identity = header.identity();
        let parent = identity.parent.map(|parent| parent.generation);
        if (identity.job, identity.generation, parent) != (job, generation.number, generation.parent) {
            return Err(StoreError::WrongImage(path));
        }
        let (offset, bytes) = header.tail();
        if level_directory.host_identity.is_guest && bytes > TAIL_BYTES_MAX {
            return Err(StoreError::Untrusted {
                path,
                fault: format!("it describes a job in {bytes} bytes, and belongs to another user"),
                hint: "read it as its owner".into(),
            });
        }
        // The allocation is bounded by the real length of the file, since the header was checked against it.
        let mut tail = vec![0; bytes as usize];
        file.read_at(&mut tail, offset).map_err(|error| StoreError::reading(&path, error))?;
        let image = Image::verify(header, &tail).map_err(damaged)?;
        if image.root != generation.root {
            return Err(StoreError::WrongImage(path));
        }
        Ok(Self { number: generation.number, image, path, file })
    }

    /// Returns the path of the file, for messages.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Reads bytes from anywhere in the file without verifying them.
    pub(crate) fn read_unverified(&self, bytes: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_at(bytes, offset).map_err(|error| StoreError::reading(&self.path, error))
    }

    /// Returns the error for a fault in this image.
    pub(crate) fn bad(&self, source: ImageError) -> StoreError {
        StoreError::Image { path: self.path.clone(), source }
    }

    /// Reads adjoining blocks in their stored form, verifies them, and resizes `buffer` to their length.
    pub(crate) fn read_blocks(&self, blocks: Range<usize>, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let blocks = &self.image.index.blocks()[blocks];
        buffer.resize(blocks.iter().map(|block| block.bytes()).sum(), 0);
        let Some(first) = blocks.first() else { return Ok(()) };
        self.file.read_at(buffer, first.offset()).map_err(|error| StoreError::reading(&self.path, error))?;
        let mut rest = &buffer[..];
        for block in blocks {
            let (bytes, after) = rest.split_at(block.bytes());
            block.verify(bytes).map_err(|source| self.bad(source))?;
            rest = after;
        }
        Ok(())
    }
}

/// The reason why a header is unavailable. [`HeaderError::at`] adds the name of the file.
enum HeaderError {
    Unreadable(std::io::Error),
    Bad(ImageError),
}

impl HeaderError {
    fn at(self, path: &std::path::Path) -> StoreError {
        match self {
            Self::Unreadable(error) => StoreError::reading(path, error),
            Self::Bad(source) => StoreError::Image { path: path.to_owned(), source },
        }
    }
}

fn read_header(file: &dyn StorageFile, file_bytes: u64) -> Result<Header, HeaderError> {
    let mut page = [0; HEADER_BYTES];
    let available = page.len().min(usize::try_from(file_bytes).unwrap_or(usize::MAX));
    file.read_at(&mut page[..available], 0).map_err(HeaderError::Unreadable)?;
    UnverifiedHeader::new(&page[..available]).and_then(|header| header.verify(file_bytes)).map_err(HeaderError::Bad)
}
