//! Where engine and store meet: pages and records go into an [`ImageSink`] and come out of an [`ImageSource`].
//!
//! The engine knows processes and no files, the store knows files and no processes. A test can put a vector behind either
//! trait, so that a fault of one side shows without the other.

use crate::records::JobState;
use standfast_core::directions::MaskedPages;
use standfast_core::{PageRange, PageSet};
use std::sync::Arc;

/// A problem on the other side of the trait, carried through without being looked at.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Pages of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Whose pages they are: [`JobState::owner`] tells.
    pub owner: u32,
    /// Which pages: addresses of a process, offsets in an object.
    pub range: PageRange,
    /// What they hold.
    pub contents: Contents,
}

/// What the pages of a run hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contents {
    /// Bytes that stand in the image.
    Stored,
    /// Zeros that differ from what lies beneath: pages of a private file mapping that the program has cleared. Zero
    /// pages of anonymous memory stand in no run at all.
    Zero,
}

/// What pages lie upon: decides whether a page of zeros may simply be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackingPage {
    /// Fresh memory reads as zero: a zero page is not stored.
    Zeros,
    /// A file shows through where no page is stored: a zero page is recorded as such.
    File,
}

/// Where some adjoining pages of a batch belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRange {
    /// The number of their owner in the image.
    pub owner: u32,
    /// Which of its pages they are.
    pub range: PageRange,
    /// What lies beneath them.
    pub backing_page: BackingPage,
}

/// Some pages on their way into an image: `ranges` tells, in order, where each page of `bytes` belongs.
#[derive(Debug, Default)]
pub struct PageBatch {
    /// Where the pages belong. The sum of their lengths is the length of `bytes`.
    pub ranges: Vec<BatchRange>,
    /// Their contents, one after the other. Lent at full length with contents that mean nothing: fill from the start and
    /// cut it to what was filled.
    pub bytes: Vec<u8>,
    /// What of some of these pages does not count. They are all of one owner then.
    pub masked_pages: Option<Arc<MaskedPages>>,
}

/// Takes an image: batches of pages, then the records. Whoever owns the sink then commits or aborts it.
pub trait ImageSink {
    /// Lends a batch without ranges, whose buffer is reused and already populated; waits while all are in flight.
    ///
    /// # Errors
    /// When an earlier batch could not be written: no further one is worth reading.
    fn lend(&mut self) -> Result<PageBatch, BoxError>;

    /// How many batches it pays to have on loan at the same time. One that was not needed is submitted without ranges.
    fn ready(&self) -> usize {
        1
    }

    /// Takes a filled batch. Batches may come in any order of addresses, but no page twice.
    ///
    /// # Errors
    /// As for [`ImageSink::lend`].
    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError>;

    /// Says that `owner` goes on with what was owner `was` in the image that this one builds upon, if there is one: what has
    /// changed in its pages may be kept as differences against these. To be said before its pages come.
    fn follow(&mut self, owner: u32, was: u32) {
        let _ = (owner, was);
    }

    /// Notes pages of `owner` that hold what the pages of the same addresses of owner `was` hold in the image that this
    /// one builds upon. Costs no bytes in the data area.
    ///
    /// # Errors
    /// When this image builds upon none.
    fn inherit(&mut self, owner: u32, was: u32, pages: &PageSet) -> Result<(), BoxError> {
        Err(format!("{} pages of owner {owner} (then {was}) in an image that builds upon none", pages.pages()).into())
    }

    /// Takes the records and returns once all bytes have been handed to the medium (not yet made durable).
    ///
    /// # Errors
    /// When anything could not be written.
    fn finish(&mut self, state: &JobState) -> Result<(), BoxError>;
}

/// Gives an image back. Header, index and records have been verified when one exists; pages are verified as they come.
pub trait ImageSource {
    /// The records.
    fn state(&self) -> &JobState;

    /// All runs of the image, ascending by owner and address.
    fn runs(&self) -> &[Run];

    /// Verifies and delivers every stored page exactly once. `place` is called from several threads at the same time,
    /// each time with runs (all [`Contents::Stored`]) and their bytes one after the other.
    ///
    /// # Errors
    /// The first failure of `place`, or a block that does not verify. Some pages may have been placed by then.
    #[expect(clippy::type_complexity, reason = "an alias would hide the one signature that callers must match")]
    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError>;
}
