//! The pages of a process that a checkpoint is about.

use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;

/// The populated pages of a process, ascending.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Pages to save.
    pub(crate) changed: Vec<(PageRange, BackingPage)>,
    /// Pages to compare by checksum.
    pub(crate) compared: Vec<(PageRange, BackingPage)>,
    /// Pages that are as in the last committed generation.
    pub(crate) unchanged: PageSet,
    /// Tracked pages that were not written since the last scan.
    pub(crate) still: PageSet,
    /// The number of the process in that generation.
    pub(crate) was: u32,
    /// Pages of tracked mappings that must not be touched.
    pub(crate) guarded: Vec<PageRange>,
    /// Areas in which a scan has found all pages that must not be touched.
    pub(crate) scanned: Vec<PageRange>,
}
