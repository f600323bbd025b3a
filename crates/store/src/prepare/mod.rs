//! A generation on its way to the disk: it is prepared, finished, sealed and committed, or aborted without a trace.

mod masked;
mod page_filter;
mod pipeline;

use crate::chain::LINKS_MAX;
use crate::encode::{Origin, Shrinker};
use crate::lease::LeaseCore;
use crate::level_directory::{LevelDirectory, Slot};
use crate::names::image_name_of;
use crate::pool::Writing;
use crate::progress::Progress;
use crate::random::temporary_name;
use crate::{JobDirectory, Lease, StorageFile, StoreError};
use pipeline::{Pipeline, Priority, Written};
use standfast_core::PageSet;
use standfast_format::image::{Assembled, Contained, ImageIdentity, Inherited, Parent, assemble};
use standfast_format::manifest::{Epoch, Generation, GenerationNumber, JobId};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSink, PageBatch};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl JobDirectory {
    /// Prepares the next generation: creates its file, its buffers and its writing threads. This takes milliseconds, so
    /// call it before the program is frozen.
    ///
    /// # Errors
    /// [`StoreError::Busy`], [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::StorageBackend`].
    pub fn prepare(&self, lease: &Lease) -> Result<Prepared, StoreError> {
        self.prepare_with(lease, PreparePlan::default())
    }

    /// Like [`JobDirectory::prepare`], but according to a plan. The generation will be full if the planned parent is
    /// gone, or if its chain is not good or too long. [`Prepared::parent`] returns the actual parent.
    ///
    /// # Errors
    /// As for [`JobDirectory::prepare`].
    pub fn prepare_with(&self, lease: &Lease, plan: PreparePlan) -> Result<Prepared, StoreError> {
        let manifest = self.manifest()?;
        let number = manifest.next.max(plan.number_min);
        let draft = Draft::begin(&self.level_directory, lease, Slot::Checkpoint, image_name_of(number, 0))?;
        let bad = self.level_directory.bad_generations().clone();
        let is_good = |generation: &&Generation| {
            let links: Vec<_> = manifest.chain(generation.number).collect();
            let is_there = |link: &&Generation| !bad.contains_key(&link.number) && self.level_directory.has_image(link);
            links.len() < plan.links_max.min(LINKS_MAX) && links.iter().all(is_there)
        };
        let parent = plan.parent.and_then(|number| manifest.generation(number)).filter(is_good);
        self.level_directory.set_parent(Slot::Checkpoint, parent.map(|parent| parent.number));
        let parent = parent.map(|parent| Parent { generation: parent.number, origin: parent.origin });
        let file = draft.create()?;
        let encodings = self.level_directory.encodings();
        let encodings = if plan.in_haste { encodings.in_haste() } else { encodings };
        let origin = parent.map(|parent| Arc::new(Origin::new(&self.level_directory, parent.generation)));
        let shrinker = || Shrinker::new(&self.level_directory, encodings, origin.clone());
        let pipeline = Pipeline::start(Arc::clone(&file), &self.level_directory, plan.writing, &shrinker);
        let pipeline = pipeline.map_err(|error| draft.writing(error))?;
        let (job, inherited, finished) = (manifest.job, Vec::new(), None);
        Ok(Prepared { job, number, parent, origin, inherited, file, pipeline, finished, draft })
    }
}

/// The plan for a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparePlan {
    /// The generation from which it may inherit pages.
    pub parent: Option<GenerationNumber>,
    /// Maximum number of images in a chain, up to 256. A generation that would exceed this is full.
    pub links_max: usize,
    /// When its pages are written.
    pub writing: Writing,
    /// Whether the program is frozen while the generation is written. Blocks then use only encodings that were
    /// explicitly requested.
    pub in_haste: bool,
    /// Lower bound for its number, which makes it the job's newest on whichever level others are.
    pub number_min: GenerationNumber,
}

impl Default for PreparePlan {
    fn default() -> Self {
        let (writing, number_min) = (Writing::default(), GenerationNumber::FIRST);
        Self { parent: None, links_max: LINKS_MAX, writing, in_haste: false, number_min }
    }
}

/// A generation that accepts pages. Dropping it before it is sealed aborts it.
#[derive(Debug)]
pub struct Prepared {
    job: JobId,
    number: GenerationNumber,
    parent: Option<Parent>,
    origin: Option<Arc<Origin>>,
    inherited: Vec<Inherited>,
    file: Arc<dyn StorageFile>,
    // This is declared before the draft, so that the threads end before the file is removed.
    pipeline: Pipeline,
    finished: Option<Finished>,
    draft: Draft,
}

/// The part of a finished image that goes into the manifest.
#[derive(Debug)]
struct Finished {
    generation: Generation,
}

impl Prepared {
    /// Returns the number that the generation will have.
    pub fn number(&self) -> GenerationNumber {
        self.number
    }

    /// Returns how much of it has been written.
    pub fn progress(&self) -> Arc<Progress> {
        self.pipeline.progress()
    }

    /// Returns the generation from which this one may inherit.
    pub fn parent(&self) -> Option<GenerationNumber> {
        self.parent.map(|parent| parent.generation)
    }

    /// Releases the pages that were held back, to be written with low priority while the program runs.
    pub fn release(&mut self) {
        self.pipeline.release(Priority::Low);
    }

    /// Makes the finished image durable under its final name. No restart uses it yet, since the manifest does not name
    /// it.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], [`StoreError::LeaseLost`], [`StoreError::StorageBackend`]; the generation is then
    /// aborted.
    ///
    /// # Panics
    /// If [`ImageSink::finish`] has not succeeded before.
    pub fn seal(mut self) -> Result<Sealed, StoreError> {
        let Finished { generation } = self.finished.take().expect("an image is finished before it is sealed");
        self.pipeline.join_flusher();
        if let Some(error) = self.pipeline.error() {
            return Err(self.draft.writing(error));
        }
        let syncing = Instant::now();
        self.file.sync().map_err(|error| self.draft.writing(error))?;
        self.draft.level_directory.rates.synced(syncing.elapsed());
        self.draft.publish()?;
        Ok(Sealed { generation, draft: self.draft })
    }

    /// Abandons the generation and removes what has been written of it.
    pub fn abort(self) {}

    fn failure(&self) -> BoxError {
        match self.pipeline.error() {
            Some(error) => Box::new(self.draft.writing(error)),
            None => Box::new(StoreError::Abandoned),
        }
    }
}

/// Writes the parts around the pages. The header comes last, so that an interrupted file has none.
pub(crate) fn write_frame(file: &dyn StorageFile, image: &Assembled) -> std::io::Result<()> {
    file.write_at(&image.tail, image.header.tail().0)?;
    file.write_at(image.header_page(), 0)
}

impl ImageSink for Prepared {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        self.pipeline.lend().ok_or_else(|| self.failure())
    }

    fn ready(&self) -> usize {
        self.pipeline.ready()
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        if self.pipeline.submit(batch) { Ok(()) } else { Err(self.failure()) }
    }

    fn follow(&mut self, owner: u32, was: u32) {
        self.origin.iter().for_each(|origin| origin.note(owner, was));
    }

    fn inherit(&mut self, owner: u32, was: u32, pages: &PageSet) -> Result<(), BoxError> {
        assert!(self.parent.is_some(), "a generation without a parent inherits nothing");
        self.inherited.extend(pages.ranges().iter().map(|range| Inherited { owner, range: *range, was }));
        Ok(())
    }

    fn finish(&mut self, state: &JobState) -> Result<(), BoxError> {
        let Some(Written { blocks, zeros }) = self.pipeline.join_writers() else {
            return Err(self.failure());
        };
        self.pipeline.leave_batches(&self.draft.level_directory.pool);
        let mut inherited = std::mem::take(&mut self.inherited);
        inherited.sort_unstable();
        let inherited_pages = inherited.iter().map(|run| run.range.pages()).sum();
        let bases = self.origin.as_ref().map_or_else(Vec::new, |origin| origin.bases(&blocks));
        // A generation that builds on nothing is full.
        let parent = self.parent.filter(|_| !inherited.is_empty() || !bases.is_empty());
        let identity = ImageIdentity { job: self.job, generation: self.number, parent };
        let image = assemble(identity, Contained { blocks, zeros, inherited, bases }, state)
            .map_err(|source| StoreError::Image { path: self.draft.path(), source })?;
        write_frame(&*self.file, &image).map_err(|error| self.draft.writing(error))?;
        let generation = Generation {
            number: self.number,
            parent: parent.map(|parent| parent.generation),
            root: image.root,
            file_bytes: image.header.file_bytes(),
            stored_pages: image.header.stored_pages(),
            taken_nanoseconds: state.clocks.realtime_nanoseconds,
            pause_nanoseconds: 0,
            superseded: false,
            origin: image.root,
            revision: 0,
            inherited_pages,
            epoch: None,
        };
        self.finished = Some(Finished { generation });
        Ok(())
    }
}

/// A generation that is durable but not yet named by the manifest. Dropping it aborts it.
#[derive(Debug)]
pub struct Sealed {
    generation: Generation,
    draft: Draft,
}

impl Sealed {
    /// Makes the generation belong to an epoch of a distributed job.
    pub fn in_epoch(mut self, epoch: Option<Epoch>) -> Self {
        self.generation.epoch = epoch;
        self
    }

    /// Names the generation in the manifest, so that a restart can use it. `pause` is the time for which the program
    /// was frozen.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::StorageBackend`]. The generation is then
    /// aborted, unless the manifest had already been replaced when the error occurred.
    pub fn commit(mut self, pause: Duration) -> Result<Generation, StoreError> {
        let pause_nanoseconds = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let generation = Generation { pause_nanoseconds, ..self.generation.clone() };
        let level_directory = Arc::clone(&self.draft.level_directory);
        let committed = level_directory.update_manifest(&self.draft.lease, |manifest| {
            assert!(manifest.next <= generation.number, "one generation is in the making at a time");
            manifest.add(generation.clone());
        });
        self.draft.kept = level_directory.may_name(generation.number);
        committed.map(|_| generation)
    }

    /// Abandons the generation and removes it.
    pub fn abort(self) {}
}

/// An image file in progress. Dropping this removes the file unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) level_directory: Arc<LevelDirectory>,
    pub(crate) lease: Arc<LeaseCore>,
    slot: Slot,
    /// The final name of the file.
    final_name: String,
    /// The current name of the file.
    name: String,
    pub(crate) kept: bool,
}

impl Draft {
    pub(crate) fn begin(
        level_directory: &Arc<LevelDirectory>,
        lease: &Lease,
        slot: Slot,
        final_name: String,
    ) -> Result<Self, StoreError> {
        let (level_directory, lease) = (Arc::clone(level_directory), Arc::clone(lease.core()));
        level_directory.check_lease(&lease);
        if slot.of(&level_directory).swap(true, Ordering::AcqRel) {
            return Err(StoreError::Busy);
        }
        // The name is random, so that a supervisor that lost its lease unawares cannot touch the file of its successor.
        let name = temporary_name(&final_name);
        Ok(Self { level_directory, lease, slot, final_name, name, kept: false })
    }

    pub(crate) fn create(&self) -> Result<Arc<dyn StorageFile>, StoreError> {
        let create = || self.level_directory.storage_backend.create(&self.name).map_err(|error| self.writing(error));
        self.lease.guarding(create)
    }

    /// Gives the file its final name, durably.
    pub(crate) fn publish(&mut self) -> Result<(), StoreError> {
        let rename = || {
            self.level_directory
                .storage_backend
                .rename(&self.name, &self.final_name)
                .map_err(|error| self.writing(error))
        };
        self.lease.guarding(rename)?;
        self.name.clone_from(&self.final_name);
        self.level_directory.storage_backend.sync().map_err(|error| self.writing(error))
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.level_directory.path_of(&self.final_name)
    }

    pub(crate) fn writing(&self, source: std::io::Error) -> StoreError {
        StoreError::writing(&self.path(), source)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // The next process that takes the lease removes a file that cannot be removed now. If another process has
            // taken the lease already, the final name belongs to that process.
            let remove =
                || self.level_directory.storage_backend.remove(&self.name).map_err(|error| self.writing(error));
            let _ = self.lease.guarding(remove);
        }
        self.level_directory.set_parent(self.slot, None);
        self.slot.of(&self.level_directory).store(false, Ordering::Release);
    }
}
