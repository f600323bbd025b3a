//! The file `messages` in a job's directory, to which a supervisor writes when nobody waits for it any more.

use rustix::fs::{Mode, OFlags};
use standfast_store::open_directory;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub(crate) const MESSAGES: &str = "messages";

/// Opens the file for appending, and creates it if necessary. Refuses a link, a pipe or another user's file.
///
/// # Errors
/// Those of the file system, and if the directory or the file is not this user's alone.
pub fn open_messages(directory: &Path) -> io::Result<File> {
    let directory = open_directory(directory).map_err(io::Error::other)?;
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, MESSAGES, flags, Mode::RUSR | Mode::WUSR)?);
    let status = file.metadata()?;
    if !status.is_file() || status.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is not a file of this user"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn messages_are_appended_to_a_regular_file_only() {
        let place = tempfile::tempdir().unwrap();
        for line in ["one\n", "two\n"] {
            open_messages(place.path()).unwrap().write_all(line.as_bytes()).unwrap();
        }
        let path = place.path().join(MESSAGES);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::rename(&path, place.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(open_messages(place.path()).is_err(), "a link");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(open_messages(place.path()).is_err(), "a pipe that nobody reads is not waited for");
    }
}
