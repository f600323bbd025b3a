//! Follows what the command prints, in the files of its part. A restart cuts them back; what is printed again then is shown
//! again, from where it was cut.

use super::description::PartDirectory;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The longest piece that is passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// Where a command prints something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandStream {
    Output,
    Errors,
}

/// What the command of a part prints.
#[derive(Debug)]
pub(super) struct CommandOutput(Mutex<[(CommandStream, FollowedFile); 2]>);

impl CommandOutput {
    /// Begins with what is printed from now on.
    pub(super) fn from_now(part: &PartDirectory) -> Self {
        let files = [(CommandStream::Output, part.output()), (CommandStream::Errors, part.errors())];
        Self(Mutex::new(files.map(|(stream, path)| (stream, FollowedFile::from_now(path)))))
    }

    /// Passes on what has been printed since the last time. Returns whether that is anything.
    pub(super) fn pass_on(&self, mut to: impl FnMut(CommandStream, &[u8])) -> io::Result<bool> {
        let mut has_printed = false;
        for (stream, file) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            loop {
                let piece = file.next()?;
                if piece.is_empty() {
                    break;
                }
                to(*stream, &piece);
                has_printed = true;
            }
        }
        Ok(has_printed)
    }
}

/// A file that grows.
#[derive(Debug)]
struct FollowedFile {
    path: PathBuf,
    file: Option<File>,
    shown: u64,
}

impl FollowedFile {
    /// Begins at the end that it has now.
    fn from_now(path: PathBuf) -> Self {
        let shown = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, file: None, shown }
    }

    /// Returns what has been added since, at most a piece.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        self.shown = self.shown.min(file.metadata()?.len());
        let mut piece = vec![0; PIECE_BYTES];
        let bytes = file.read_at(&mut piece, self.shown)?;
        piece.truncate(bytes);
        self.shown += bytes as u64;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_added_is_shown_once_also_after_a_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut followed = FollowedFile::from_now(path.clone());
        assert_eq!(followed.next().unwrap(), b"");
        fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(followed.next().unwrap(), b"one\ntwo\n");
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
        assert_eq!(followed.next().unwrap(), b"");
        fs::write(&path, "one\nTWO\n").unwrap();
        assert_eq!(followed.next().unwrap(), b"TWO\n");
    }
}
