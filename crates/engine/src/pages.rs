//! The pages of a process that a checkpoint is about.

use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;

/// The pages of a process that hold something, ascending.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// To be saved.
    pub(crate) changed: Vec<(PageRange, BackingPage)>,
    /// To be compared by checksum.
    pub(crate) compared: Vec<(PageRange, BackingPage)>,
    /// As in the last committed generation.
    pub(crate) unchanged: PageSet,
    /// Tracked, and not written since the last look.
    pub(crate) still: PageSet,
    /// The number that the process has there.
    pub(crate) was: u32,
    /// Pages of tracked mappings that must not be touched.
    pub(crate) guarded: Vec<PageRange>,
    /// Where it was seen which pages must not be touched.
    pub(crate) scanned: Vec<PageRange>,
}
