//! Tracked shared mappings of files. Writes to the file by other means are not seen here, and need not be.

use super::Track;
use standfast_core::{PageRange, PageSet};
use standfast_linux::WrittenScan;
use std::io;

impl Track {
    /// Reports for each of these file mappings whether a page that was protected has been written through it since the last
    /// scan. A mapping that was not tracked is tracked from now on, if possible, and counts as not written. Soft-dirty bits
    /// do not tell.
    ///
    /// Only mapped pages are protected. One that was mapped after the last scan is not known to be written. For private
    /// mappings this would not be reliable; a shared mapping shows the contents of the file.
    pub(crate) fn written_through(&mut self, windows: &[PageRange]) -> io::Result<Vec<bool>> {
        if windows.is_empty() || !self.protection.is_asynchronous() {
            return Ok(vec![false; windows.len()]);
        }
        let scan = WrittenScan::open(self.process.pid)?;
        let (mut seen, mut protected) = (Vec::new(), PageSet::default());
        for window in windows {
            let known = self.protected.intersection(&PageSet::of([*window]));
            let (is_written, now) = match scan.unprotected(*window)? {
                Some(found) => {
                    let found = PageSet::of(found);
                    (!found.intersection(&known).is_empty(), known.union(&found))
                }
                None => (false, self.track_window(&scan, *window)?),
            };
            let marked = scan.marked(*window)?;
            // This fails if the mapping could not be tracked, and then no marker is ours.
            marked.iter().for_each(|range| drop(self.protection.unprotect(*range)));
            if is_written {
                // Nothing more is to be learnt of it.
                self.protection.ignore(*window)?;
            } else {
                protected = protected.union(&now.difference(&PageSet::of(marked)));
            }
            seen.push(is_written);
        }
        self.protected = protected;
        Ok(seen)
    }

    /// Tracks a file mapping from now on, and returns which pages of it are protected: none if that fails. The file then counts
    /// as open for writing, as it does in any case.
    fn track_window(&self, scan: &WrittenScan, window: PageRange) -> io::Result<PageSet> {
        // Protection of an earlier mapping may remain on pages that are writable again.
        let begun = || self.protection.track(window).and_then(|()| self.protection.unprotect(window));
        if self.lost || begun().is_err() {
            return Ok(PageSet::default());
        }
        Ok(PageSet::of(scan.unprotected(window)?.unwrap_or_default()))
    }
}
