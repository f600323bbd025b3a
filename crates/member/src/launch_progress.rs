//! Progress of a job's launch, reported in a file for the launching process. The first process reports progress, and each
//! process its errors, since a launcher that kills the others may lose their last output. There are no requests: the
//! launching process reads the file now and then.

use crate::error::MemberError;
use standfast_core::printable;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

const JOINED: &str = "joined";
const LEFT: &str = "left";
const ERROR: &str = "error: ";

/// A state that all processes of a launch have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchProgress {
    /// All are present: the rendezvous is over.
    Joined,
    /// All are done.
    Left,
}

impl LaunchProgress {
    /// Reports it. [`Self::Joined`] replaces all earlier reports, which are obsolete.
    ///
    /// # Errors
    /// File system errors.
    pub(crate) fn report(self, path: &Path) -> Result<(), MemberError> {
        let written = match self {
            Self::Joined => fs::write(path, format!("{JOINED}\n")),
            Self::Left => add(path, LEFT),
        };
        written.map_err(MemberError::file(path))
    }

    /// Returns the last reported state; `None` if none was reported, or none can be read.
    pub fn read(path: &Path) -> Option<Self> {
        fs::read_to_string(path).ok()?.lines().rev().find_map(|line| match line {
            JOINED => Some(Self::Joined),
            LEFT => Some(Self::Left),
            _ => None,
        })
    }
}

/// Reports an error of this process.
///
/// # Errors
/// File system errors.
pub fn report_error(path: &Path, reason: &str) -> io::Result<()> {
    add(path, &format!("{ERROR}{}", printable(&reason.replace('\n', " "))))
}

/// Returns the last error that a process has reported; `None` if none has.
pub fn read_error(path: &Path) -> Option<String> {
    let reported = fs::read_to_string(path).ok()?;
    reported.lines().rev().find_map(|line| line.strip_prefix(ERROR)).map(str::to_owned)
}

/// Appends one line, in one piece even if other processes append.
fn add(path: &Path, line: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reported_progress_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("launch");
        assert_eq!(LaunchProgress::read(&path), None);
        report_error(&path, "none joins").expect("a writable folder");
        assert_eq!((LaunchProgress::read(&path), read_error(&path).as_deref()), (None, Some("none joins")));
        for launch_progress in [LaunchProgress::Joined, LaunchProgress::Left] {
            launch_progress.report(&path).expect("a writable folder");
            assert_eq!((LaunchProgress::read(&path), read_error(&path)), (Some(launch_progress), None));
        }
        report_error(&path, "the last\nword").expect("a writable folder");
        assert_eq!(
            (LaunchProgress::read(&path), read_error(&path).as_deref()),
            (Some(LaunchProgress::Left), Some("the last word"))
        );
    }
}
