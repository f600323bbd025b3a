//! How far a launch of a job is, told in a file for who has launched it: by the first process, and by each the errors that it was
//! given, since a launcher that ends the others may lose their last words. They are not asked for anything: that one reads the
//! file now and then.

use crate::error::MemberError;
use standfast_core::printable;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

const JOINED: &str = "joined";
const LEFT: &str = "left";
const ERROR: &str = "error: ";

/// What all processes of a launch have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchProgress {
    /// They are there: the rendezvous is over.
    Joined,
    /// They are done.
    Left,
}

impl LaunchProgress {
    /// Tells of it. What was told before they joined is of no more use.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn tell(self, path: &Path) -> Result<(), MemberError> {
        let told = match self {
            Self::Joined => fs::write(path, format!("{JOINED}\n")),
            Self::Left => add(path, LEFT),
        };
        told.map_err(MemberError::file(path))
    }

    /// The last one that was told; `None` where none was, or none can be read.
    pub fn read(path: &Path) -> Option<Self> {
        fs::read_to_string(path).ok()?.lines().rev().find_map(|line| match line {
            JOINED => Some(Self::Joined),
            LEFT => Some(Self::Left),
            _ => None,
        })
    }
}

/// Tells of an error that this process was given.
///
/// # Errors
/// Those of the file system.
pub fn report_error(path: &Path, reason: &str) -> io::Result<()> {
    add(path, &format!("{ERROR}{}", printable(&reason.replace('\n', " "))))
}

/// The last error of which a process has told; `None` where none has.
pub fn read_error(path: &Path) -> Option<String> {
    let told = fs::read_to_string(path).ok()?;
    told.lines().rev().find_map(|line| line.strip_prefix(ERROR)).map(str::to_owned)
}

/// One line, whole whoever else adds some.
fn add(path: &Path, line: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_last_is_heard() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("launch");
        assert_eq!(LaunchProgress::read(&path), None);
        report_error(&path, "none joins").expect("a writable folder");
        assert_eq!((LaunchProgress::read(&path), read_error(&path).as_deref()), (None, Some("none joins")));
        for launch_progress in [LaunchProgress::Joined, LaunchProgress::Left] {
            launch_progress.tell(&path).expect("a writable folder");
            assert_eq!((LaunchProgress::read(&path), read_error(&path)), (Some(launch_progress), None));
        }
        report_error(&path, "the last\nword").expect("a writable folder");
        assert_eq!(
            (LaunchProgress::read(&path), read_error(&path).as_deref()),
            (Some(LaunchProgress::Left), Some("the last word"))
        );
    }
}
