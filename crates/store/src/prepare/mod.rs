//! A generation on its way to the disk: prepared, finished, sealed, committed; or aborted without a trace.

use crate::StoreError;
use standfast_format::manifest::{Generation, GenerationNumber};
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSink, PageBatch};
use std::time::Duration;

/// A generation that takes pages. Dropped before it is sealed, it is aborted.
#[derive(Debug)]
pub struct Prepared {}

impl Prepared {
    /// The number that the generation will have.
    pub fn number(&self) -> GenerationNumber {
        unimplemented!("skeleton")
    }

    /// Makes the finished image durable under its final name. No restart takes it yet: the manifest does not name it.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], [`StoreError::Medium`]; the generation is aborted then.
    ///
    /// # Panics
    /// When [`ImageSink::finish`] has not succeeded before.
    pub fn seal(self) -> Result<Sealed, StoreError> {
        unimplemented!("skeleton")
    }

    /// Gives the generation up and removes what has been written of it.
    pub fn abort(self) {}
}

impl ImageSink for Prepared {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        unimplemented!("skeleton")
    }

    fn submit(&mut self, _batch: PageBatch) -> Result<(), BoxError> {
        unimplemented!("skeleton")
    }

    fn finish(&mut self, _state: &JobState) -> Result<(), BoxError> {
        unimplemented!("skeleton")
    }
}

/// A generation that is durable and has not been named by the manifest. Dropped, it is aborted.
#[derive(Debug)]
pub struct Sealed {}

impl Sealed {
    /// Names the generation in the manifest: from now on a restart takes it.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::NoSpace`], [`StoreError::Medium`]; the generation is aborted then.
    pub fn commit(self, _pause: Duration) -> Result<Generation, StoreError> {
        unimplemented!("skeleton")
    }

    /// Gives the generation up and removes it.
    pub fn abort(self) {}
}
