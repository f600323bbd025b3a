//! Follows what the command prints, in the files of its part. A restart cuts them back; what is printed again then is shown
//! again, from where it was cut.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The longest piece that is passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// A file that grows.
#[derive(Debug)]
pub(super) struct FollowedFile {
    path: PathBuf,
    file: Option<File>,
    shown: u64,
}

impl FollowedFile {
    /// Begins at the end that it has now.
    pub(super) fn from_now(path: PathBuf) -> Self {
        let shown = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, file: None, shown }
    }

    /// Returns what has been added since, at most a piece.
    pub(super) fn next(&mut self) -> io::Result<Vec<u8>> {
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
