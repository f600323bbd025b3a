//! The interface between engine and store: pages and records go into an [`ImageSink`] and come out of an
//! [`ImageSource`].
//!
//! The engine handles processes, not files; the store handles files, not processes. A test can implement either trait
//! with a vector, and so isolate a fault of one side from the other.

use crate::records::JobState;
use standfast_core::directions::MaskedPages;
use standfast_core::{PageRange, PageSet};
use std::sync::Arc;

/// An error from the other side of the trait, passed through without being examined.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Pages of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The owner of the pages, resolved by [`JobState::owner`].
    pub owner: u32,
    /// The pages: addresses in a process, or offsets in an object.
    pub range: PageRange,
    /// The contents of the pages.
    pub contents: Contents,
}

/// The contents of the pages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contents {
    /// Bytes stored in the image.
    Stored,
    /// Zeros that differ from the backing: pages of a private file mapping that the program has cleared. Zero pages of
    /// anonymous memory are in no run.
    Zero,
}

/// The backing of pages. It decides whether a page of zeros can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackingPage {
    /// Fresh memory reads as zero: a zero page is not stored.
    Zeros,
    /// A file is visible wherever no page is stored: a zero page is recorded as such.
    File,
}

/// The place of some adjoining pages of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRange {
    /// The number of their owner in the image.
    pub owner: u32,
    /// The pages of that owner.
    pub range: PageRange,
    /// Their backing.
    pub backing_page: BackingPage,
}

/// Some pages on their way into an image: `ranges` gives the place of each page of `bytes`, in order.
#[derive(Debug, Default)]
pub struct PageBatch {
    /// The places of the pages. The sum of their lengths is the length of `bytes`.
    pub ranges: Vec<BatchRange>,
    /// The contents of the pages, one after the other. A lent batch has full length and meaningless contents: fill it
    /// from the start, then truncate it to the filled length.
    pub bytes: Vec<u8>,
    /// The words of these pages that do not count. If present, all pages belong to one owner.
    pub masked_pages: Option<Arc<MaskedPages>>,
}

/// Accepts an image: batches of pages, then the records. The owner of the sink then commits or aborts it.
pub trait ImageSink {
    /// Lends a batch without ranges, whose buffer is reused and already populated. Waits while all batches are in
    /// flight.
    ///
    /// # Errors
    /// If an earlier batch could not be written: further batches are not worth reading.
    fn lend(&mut self) -> Result<PageBatch, BoxError>;

    /// Returns how many batches are worth having on loan at once. To return an unneeded batch, submit it without
    /// ranges.
    fn ready(&self) -> usize {
        1
    }

    /// Accepts a filled batch. Batches may come in any order of addresses, but no page may come twice.
    ///
    /// # Errors
    /// As for [`ImageSink::lend`].
    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError>;

    /// Declares that `owner` continues owner `was` of the image on which this one builds, if there is one. Changed
    /// pages may then be stored as differences against the pages of `was`. Call this before submitting pages of
    /// `owner`.
    fn follow(&mut self, owner: u32, was: u32) {
        let _ = (owner, was);
    }

    /// Records pages of `owner` whose contents equal those at the same addresses of owner `was` in the image on which
    /// this one builds. They take no bytes in the data area.
    ///
    /// # Errors
    /// If this image builds on no other.
    fn inherit(&mut self, owner: u32, was: u32, pages: &PageSet) -> Result<(), BoxError> {
        Err(format!("{} pages of owner {owner} (then {was}) in an image that builds upon none", pages.pages()).into())
    }

    /// Accepts the records, and returns once all bytes have been handed to the medium (not yet made durable).
    ///
    /// # Errors
    /// If anything could not be written.
    fn finish(&mut self, state: &JobState) -> Result<(), BoxError>;
}

/// Reads an image back. Its header, index and records are already verified; pages are verified as they are read.
pub trait ImageSource {
    /// Returns the records.
    fn state(&self) -> &JobState;

    /// Returns all runs of the image, ascending by owner and address.
    fn runs(&self) -> &[Run];

    /// Verifies and delivers every stored page exactly once. Calls `place` from several threads at the same time, each
    /// time with runs (all [`Contents::Stored`]) and their concatenated bytes.
    ///
    /// # Errors
    /// The first failure of `place`, or a block that does not verify. Some pages may already have been placed.
    #[expect(clippy::type_complexity, reason = "an alias would hide the one signature that callers must match")]
    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError>;
}
