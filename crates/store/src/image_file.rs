//! An image in its file, on the way back: verified and delivered block by block.

use crate::job::{Shelf, image_name};
use crate::trust::open_trusted;
use crate::{MediumFile, StoreError};
use standfast_format::image::{HEADER_BYTES, Header, Image, ImageError, UnverifiedHeader};
use standfast_format::manifest::{Generation, JobId};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes that are read, verified and placed at a time: enough for full speed, little enough to stay in the cache.
const PORTION_BYTES: usize = 1 << 20;

/// Threads that read at most. Placing pages is bound by the kernel's memory management, which four keep busy.
const READERS_MAX: usize = 4;

/// An open image whose header, tables and state have been verified and are those that the manifest names.
///
/// Errors of the store that come out of [`ImageSource::deliver`] are [`StoreError`]s in their box: after one of those an
/// older generation may still be good.
#[derive(Debug)]
pub struct ImageFile {
    path: PathBuf,
    file: Arc<dyn MediumFile>,
    image: Image,
}

/// What [`ImageFile::verify`] has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Blocks of pages.
    pub blocks: u64,
    /// Length of the file, every byte of it verified.
    pub bytes: u64,
}

impl ImageFile {
    pub(crate) fn open(shelf: &Shelf, job: JobId, generation: &Generation) -> Result<Self, StoreError> {
        let name = image_name(generation.number);
        let path = shelf.path_of(&name);
        let (file, status) = open_trusted(&*shelf.medium, &name, shelf.here.user)?;
        let damaged = |source| StoreError::Image { path: path.clone(), source };
        let header = read_header(&*file, status.bytes).map_err(|error| error.at(&path))?;
        let identity = header.identity();
        if (identity.job, identity.generation) != (job, generation.number) {
            return Err(StoreError::WrongImage(path));
        }
        let (offset, bytes) = header.tail();
        // Allocates what the file holds, not what it says: the header was checked against the length of the file.
        let mut tail = vec![0; bytes as usize];
        file.read_at(&mut tail, offset).map_err(|error| StoreError::reading(&path, error))?;
        let image = Image::verify(header, &tail).map_err(damaged)?;
        if image.root != generation.root {
            return Err(StoreError::WrongImage(path));
        }
        Ok(Self { path, file, image })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.image.header
    }

    /// Reads every block and verifies it.
    ///
    /// # Errors
    /// The first block that is not what was written or cannot be read.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        self.deliver_with(&|_, _| Ok(())).map_err(|failure| match failure {
            Failure::Store(error) => error,
            Failure::Placing(_) => unreachable!("nothing is placed"),
        })?;
        Ok(Verified { blocks: self.image.index.blocks().len() as u64, bytes: self.image.header.file_bytes() })
    }

    fn deliver_with(&self, place: Place<'_>) -> Result<(), Failure> {
        let portions = self.portions();
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let read = || {
            let mut buffer = Vec::new();
            while let Some(portion) = portions.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.deliver_portion(portion.clone(), &mut buffer, place) {
                    // The others find nothing left to do.
                    next.store(portions.len(), Ordering::Relaxed);
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            for _ in 1..cores.min(READERS_MAX).min(portions.len()) {
                scope.spawn(read);
            }
            read();
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn deliver_portion(&self, portion: Range<usize>, buffer: &mut Vec<u8>, place: Place<'_>) -> Result<(), Failure> {
        let index = &self.image.index;
        let blocks = &index.blocks()[portion.clone()];
        let Some(first) = blocks.first() else { return Ok(()) };
        buffer.resize(blocks.iter().map(|block| block.bytes()).sum(), 0);
        self.file
            .read_at(buffer, first.offset())
            .map_err(|error| Failure::Store(StoreError::reading(&self.path, error)))?;
        let mut rest = &buffer[..];
        for block in blocks {
            let (bytes, behind) = rest.split_at(block.bytes());
            block
                .verify(bytes)
                .map_err(|source| Failure::Store(StoreError::Image { path: self.path.clone(), source }))?;
            rest = behind;
        }
        place(index.runs_of(portion), buffer).map_err(Failure::Placing)
    }

    /// The blocks, in groups that are read at once.
    fn portions(&self) -> Vec<Range<usize>> {
        let mut portions = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (at, block) in self.image.index.blocks().iter().enumerate() {
            if bytes + block.bytes() > PORTION_BYTES {
                portions.push(first..at);
                (first, bytes) = (at, 0);
            }
            bytes += block.bytes();
        }
        portions.push(first..self.image.index.blocks().len());
        portions
    }
}

impl ImageSource for ImageFile {
    fn state(&self) -> &JobState {
        &self.image.state
    }

    fn runs(&self) -> &[Run] {
        self.image.index.runs()
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        self.deliver_with(place).map_err(|failure| match failure {
            Failure::Store(error) => Box::new(error),
            Failure::Placing(error) => error,
        })
    }
}

type Place<'a> = &'a (dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync);

/// Whose fault it is that not all pages were delivered.
enum Failure {
    Store(StoreError),
    Placing(BoxError),
}

/// A header that could not be had; the name of the file is added by [`HeaderError::at`].
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

fn read_header(file: &dyn MediumFile, file_bytes: u64) -> Result<Header, HeaderError> {
    let mut page = [0; HEADER_BYTES];
    let available = page.len().min(usize::try_from(file_bytes).unwrap_or(usize::MAX));
    file.read_at(&mut page[..available], 0).map_err(HeaderError::Unreadable)?;
    UnverifiedHeader::new(&page[..available]).and_then(|header| header.verify(file_bytes)).map_err(HeaderError::Bad)
}
