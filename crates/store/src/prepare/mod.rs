//! A generation on its way to the disk: prepared, finished, sealed, committed; or aborted without a trace.

mod pipeline;
mod pool;
mod sift;

pub(crate) use pool::Pool;

use crate::job::{Shelf, TEMPORARY_SUFFIX, image_name};
use crate::lease::LeaseCore;
use crate::{JobDirectory, Lease, MediumFile, StoreError, random};
use pipeline::{Pipeline, Written};
use standfast_format::image::{Assembled, ImageIdentity, assemble};
use standfast_format::manifest::{Generation, GenerationNumber, JobId};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSink, PageBatch};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl JobDirectory {
    /// Makes ready to take the next generation: creates its file, its buffers and its writing threads. Costs
    /// milliseconds, so call it before the program is frozen.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::Medium`].
    pub fn prepare(&self, lease: &Lease) -> Result<Prepared, StoreError> {
        let manifest = self.manifest()?;
        let draft = Draft::begin(Arc::clone(&self.shelf), Arc::clone(lease.core()), manifest.next)?;
        let file = draft.create()?;
        let pipeline =
            Pipeline::start(Arc::clone(&file), self.shelf.pool.take()).map_err(|error| draft.writing(error))?;
        Ok(Prepared { job: manifest.job, file, pipeline, finished: None, draft })
    }
}

/// A generation that takes pages. Dropped before it is sealed, it is aborted.
#[derive(Debug)]
pub struct Prepared {
    job: JobId,
    file: Arc<dyn MediumFile>,
    // Before the draft: the threads end before the file is removed.
    pipeline: Pipeline,
    finished: Option<Finished>,
    draft: Draft,
}

/// What of a finished image goes into the manifest.
#[derive(Debug)]
struct Finished {
    generation: Generation,
}

impl Prepared {
    /// The number that the generation will have.
    pub fn number(&self) -> GenerationNumber {
        self.draft.number
    }

    /// Makes the finished image durable under its final name. No restart takes it yet: the manifest does not name it.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], [`StoreError::LeaseLost`], [`StoreError::Medium`]; the generation is aborted then.
    ///
    /// # Panics
    /// When [`ImageSink::finish`] has not succeeded before.
    pub fn seal(mut self) -> Result<Sealed, StoreError> {
        let Finished { generation } = self.finished.take().expect("an image is finished before it is sealed");
        self.pipeline.join_flusher();
        if let Some(error) = self.pipeline.error() {
            return Err(self.draft.writing(error));
        }
        self.file.sync().map_err(|error| self.draft.writing(error))?;
        self.draft.publish()?;
        Ok(Sealed { generation, draft: self.draft })
    }

    /// Gives the generation up and removes what has been written of it.
    pub fn abort(self) {}

    fn failure(&self) -> BoxError {
        match self.pipeline.error() {
            Some(error) => Box::new(self.draft.writing(error)),
            None => Box::new(StoreError::GivenUp),
        }
    }

    /// Writes what stands around the pages; the header last, so that a file that broke off has none.
    fn write_frame(&self, image: &Assembled) -> Result<(), StoreError> {
        let writing = |error| self.draft.writing(error);
        self.file.write_at(&image.tail, image.header.tail().0).map_err(writing)?;
        self.file.write_at(image.header_page(), 0).map_err(writing)
    }
}

impl ImageSink for Prepared {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        self.pipeline.lend().ok_or_else(|| self.failure())
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        if self.pipeline.submit(batch) { Ok(()) } else { Err(self.failure()) }
    }

    fn finish(&mut self, state: &JobState) -> Result<(), BoxError> {
        let Some(Written { blocks, zeros }) = self.pipeline.join_writers() else {
            return Err(self.failure());
        };
        self.draft.shelf.pool.put(self.pipeline.take_batches());
        let identity = ImageIdentity { job: self.job, generation: self.draft.number, parent: None };
        let image = assemble(identity, blocks, &zeros, state)
            .map_err(|source| StoreError::Image { path: self.draft.path(), source })?;
        self.write_frame(&image)?;
        let generation = Generation {
            number: self.draft.number,
            parent: None,
            root: image.root,
            file_bytes: image.header.file_bytes(),
            stored_pages: image.header.stored_pages(),
            taken_nanoseconds: state.clocks.realtime_nanoseconds,
            pause_nanoseconds: 0,
            superseded: false,
        };
        self.finished = Some(Finished { generation });
        Ok(())
    }
}

/// A generation that is durable and has not been named by the manifest. Dropped, it is aborted.
#[derive(Debug)]
pub struct Sealed {
    generation: Generation,
    draft: Draft,
}

impl Sealed {
    /// Names the generation in the manifest: from now on a restart takes it. `pause` is how long the program stood still.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::Medium`]; the generation is aborted then, unless
    /// the manifest had already been replaced when the error came.
    pub fn commit(mut self, pause: Duration) -> Result<Generation, StoreError> {
        let pause_nanoseconds = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let generation = Generation { pause_nanoseconds, ..self.generation.clone() };
        let shelf = Arc::clone(&self.draft.shelf);
        let committed = shelf.update_manifest(&self.draft.lease, |manifest| {
            assert_eq!(manifest.next, generation.number, "one generation is in the making at a time");
            manifest.next = generation.number.next();
            manifest.generations.push(generation.clone());
        });
        // After an error only the directory tells which manifest it is; one that cannot be read may name the image.
        let known = shelf.known_manifest();
        self.draft.kept = known.as_ref().is_none_or(|manifest| manifest.generation(generation.number).is_some());
        drop(known);
        committed.map(|_| generation)
    }

    /// Gives the generation up and removes it.
    pub fn abort(self) {}
}

/// The file of a generation in the making; removed with this unless it is kept.
#[derive(Debug)]
struct Draft {
    shelf: Arc<Shelf>,
    lease: Arc<LeaseCore>,
    number: GenerationNumber,
    /// The name that the file has now.
    name: String,
    kept: bool,
}

impl Draft {
    fn begin(shelf: Arc<Shelf>, lease: Arc<LeaseCore>, number: GenerationNumber) -> Result<Self, StoreError> {
        assert!(lease.is_of(&shelf.medium), "the lease is that of this directory");
        if shelf.busy.swap(true, Ordering::AcqRel) {
            return Err(StoreError::Busy);
        }
        // Random, so that a supervisor that lost its lease without noticing cannot touch the file of the next.
        let token: String = random::bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}.{token}{TEMPORARY_SUFFIX}", image_name(number));
        Ok(Self { shelf, lease, number, name, kept: false })
    }

    fn create(&self) -> Result<Arc<dyn MediumFile>, StoreError> {
        let create = || self.shelf.medium.create(&self.name).map_err(|error| self.writing(error));
        self.lease.guarding(create)
    }

    /// Gives the file its final name, durably.
    fn publish(&mut self) -> Result<(), StoreError> {
        let name = image_name(self.number);
        let renamed =
            self.lease.guarding(|| self.shelf.medium.rename(&self.name, &name).map_err(|error| self.writing(error)));
        renamed?;
        self.name = name;
        self.shelf.medium.sync().map_err(|error| self.writing(error))
    }

    fn path(&self) -> std::path::PathBuf {
        self.shelf.path_of(&image_name(self.number))
    }

    fn writing(&self, source: std::io::Error) -> StoreError {
        StoreError::writing(&self.path(), source)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // Whoever takes the lease next removes what cannot be removed now. Somebody who has taken it already owns
            // the final name.
            let remove = || self.shelf.medium.remove(&self.name).map_err(|error| self.writing(error));
            let _ = self.lease.guarding(remove);
        }
        self.shelf.busy.store(false, Ordering::Release);
    }
}
