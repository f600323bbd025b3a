//! Tracked shared mappings of files. What is written to the file in other ways is not seen here, nor meant.

use super::Track;
use standfast_core::PageRange;
use standfast_linux::WrittenScan;
use std::io;

impl Track {
    /// For each of these mappings of files: whether something was written through it since the last look. One that was not
    /// tracked is from now on, if it can be, and counts as not written.
    ///
    /// All pages of it are protected, present or not, so that one that comes to be there by being read does not look as if it
    /// had been written. Of private mappings that could not be believed; what a shared one shows is the file's.
    pub(crate) fn written_through(&mut self, windows: &[PageRange]) -> io::Result<Vec<bool>> {
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let scan = WrittenScan::open(self.process.pid)?;
        let mut seen = Vec::new();
        for window in windows {
            let mut written = Vec::new();
            let is_tracked = scan.written(&[*window], &mut written)?.is_some();
            if !is_tracked && let Some(protection) = self.protection.as_ref().filter(|_| !self.lost) {
                // Where that cannot be had the file counts as one that is open for writing, which it does in any case.
                let _ = protection.track(*window).and_then(|()| protection.protect(*window));
            }
            seen.push(!written.is_empty());
        }
        Ok(seen)
    }
}
