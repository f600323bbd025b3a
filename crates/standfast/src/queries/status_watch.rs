//! The state of a job again and again. What was read of its history is kept: only what was appended is read.

use super::status::status_with;
use crate::Error;
use crate::history::JobHistory;
use crate::report::StatusReport;
use standfast_store::JobDirectory;
use std::path::PathBuf;

/// Looks at a job again and again.
#[derive(Debug)]
pub struct StatusWatch {
    directory: PathBuf,
    history: JobHistory,
    /// Bytes of the newer part of the history that were read; `None` before the first look.
    offset: Option<u64>,
}

impl StatusWatch {
    /// Makes a watch of the job in `directory`.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, history: JobHistory::default(), offset: None }
    }

    /// Returns the state of the job.
    ///
    /// # Errors
    /// As for [`crate::status`].
    pub fn look(&mut self) -> Result<StatusReport, Error> {
        let opened = JobDirectory::look(&self.directory).map_err(|error| Error::of_store(&self.directory, error))?;
        self.follow(&opened);
        status_with(&self.directory, opened, &self.history)
    }

    /// Returns what is known of the job's past.
    pub fn history(&self) -> &JobHistory {
        &self.history
    }

    /// Reads what was appended to the history. One that cannot be read stays as it was.
    fn follow(&mut self, opened: &JobDirectory) {
        let appended = self.offset.map(|offset| opened.history_after(offset));
        match appended {
            Some(Ok(Some((text, end)))) => {
                self.history.add_lines(&text);
                self.offset = Some(end);
            }
            // The first look, or another file has taken its place.
            None | Some(Ok(None)) => {
                let (Ok(earlier), Ok(Some((text, end)))) = (opened.earlier_history(), opened.history_after(0)) else {
                    return;
                };
                self.history = JobHistory::parse(&earlier);
                self.history.add_lines(&text);
                self.offset = Some(end);
            }
            Some(Err(_)) => {}
        }
    }
}
