//! Tracked shared mappings of files. Writes to the file by other means are not seen here, and need not be.

use super::Track;
use standfast_core::PageRange;
use standfast_linux::WrittenScan;
use std::io;

impl Track {
    /// Reports for each of these file mappings whether something was written through it since the last scan. A mapping
    /// that was not tracked is tracked from now on, if possible, and counts as not written. Soft-dirty bits do not tell.
    ///
    /// All pages of it are protected, present or not, so that a page that a read brings in does not look written. For
    /// private mappings this would not be reliable; a shared mapping shows the contents of the file.
    pub(crate) fn written_through(&mut self, windows: &[PageRange]) -> io::Result<Vec<bool>> {
        if windows.is_empty() || !self.protection.is_asynchronous() {
            return Ok(vec![false; windows.len()]);
        }
        let scan = WrittenScan::open(self.process.pid)?;
        let mut seen = Vec::new();
        for window in windows {
            let mut written = Vec::new();
            let is_tracked = scan.written(&[*window], &mut written)?.is_some();
            if !is_tracked && !self.lost {
                // If this fails, the file counts as open for writing, as it does in any case.
                let _ = self.protection.track(*window).and_then(|()| self.protection.protect(*window));
            }
            seen.push(!written.is_empty());
        }
        Ok(seen)
    }
}
