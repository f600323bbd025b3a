//! Files that a restart will miss, seen while there is time to do something about it: databases that are too large to be
//! saved by themselves, and files that the programs of a job hand to each other by name.

use super::{ListingNews, Outline, is_older};
use crate::files::{FileKey, open};
use standfast_format::records::{FileReference, JobState, ObjectKind, OpenFileKind};
use standfast_linux::proc;
use standfast_linux::sys::process;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_APPEND: u32 = libc::O_APPEND as u32;
/// How the files of an SQLite database begin: the database itself, and its log in either order of bytes.
const DATABASES: [&[u8]; 3] = [b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"];
/// At how many checkpoints something must be seen to be named.
const SIGHTINGS: u32 = 2;
/// Directories with files that programs hand to each other, at most.
const PLACES_MAX: usize = 16;

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// Files of the last checkpoint that are open for writing in place and not saved.
    open: Vec<FileReference>,
    databases: HashMap<FileKey, u32>,
    places: HashMap<PathBuf, u32>,
}

impl Unsaved {
    /// Takes note of what a checkpoint does not save. Looks at its records only.
    pub(super) fn note(&mut self, state: &JobState) {
        let key = |file: &FileReference| (file.identity.device, file.identity.inode);
        let of_object = |kind: &ObjectKind| kind.file().map(key);
        let saved: BTreeSet<FileKey> = state.objects.iter().filter_map(|object| of_object(&object.kind)).collect();
        let in_place = state.open_files.iter().filter(|it| it.flags & O_ACCMODE != 0 && it.flags & O_APPEND == 0);
        let files = in_place.filter_map(|it| match &it.kind {
            OpenFileKind::Regular { file, .. } => Some(file),
            _ => None,
        });
        self.open = files.filter(|file| !saved.contains(&key(file))).cloned().collect();
    }

    /// Looks for databases among them.
    pub(super) fn judge_open(&mut self, news: &mut Vec<ListingNews>) {
        let mut paths = Vec::new();
        for file in self.open.drain(..).filter(|file| is_database(&file.path.0)) {
            let sightings = self.databases.entry((file.identity.device, file.identity.inode)).or_default();
            *sightings += 1;
            if *sightings == SIGHTINGS {
                paths.push(PathBuf::from(OsStr::from_bytes(&file.path.0)));
            }
        }
        paths.dedup();
        if !paths.is_empty() {
            news.push(ListingNews::Database { paths });
        }
    }

    /// Looks for files that have been created by the job and are arguments of its programs, though they are in no directory
    /// that is listed or saved.
    pub(super) fn find_handed_on(
        &mut self,
        job: &Outline<'_>,
        is_covered: impl Fn(&Path) -> bool,
        started: i64,
        news: &mut Vec<ListingNews>,
    ) {
        let mut seen: HashMap<PathBuf, PathBuf> = HashMap::new();
        for pid in job.pids {
            let line = proc::read(*pid, "cmdline").unwrap_or_default();
            for argument in line.split(|byte| *byte == 0).filter(|argument| argument.starts_with(b"/")) {
                let path = Path::new(OsStr::from_bytes(argument));
                let Some(place) = path.parent().filter(|place| !is_covered(place)) else { continue };
                let Ok(status) = path.symlink_metadata() else { continue };
                let key = (status.dev(), status.ino());
                let is_ours = status.is_file() && status.uid() == process::effective_user();
                let born = super::directory::born(&status).filter(|_| is_ours && !job.outputs.contains_key(&key));
                if born.is_some_and(|born| !is_older(Some(born), started)) {
                    seen.insert(place.to_owned(), path.to_owned());
                }
            }
        }
        for (place, path) in seen {
            if self.places.len() >= PLACES_MAX && !self.places.contains_key(&place) {
                continue;
            }
            let sightings = self.places.entry(place).or_default();
            *sightings += 1;
            if *sightings == SIGHTINGS {
                news.push(ListingNews::HandedOn { path });
            }
        }
    }
}

/// Whether a file is one of an SQLite database.
pub(crate) fn is_database(path: &[u8]) -> bool {
    let mut beginning = [0u8; 16];
    let read = open(path).and_then(|file| file.read_at(&mut beginning, 0)).unwrap_or(0);
    DATABASES.iter().any(|database| beginning[..read].starts_with(database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_and_its_log_are_known_by_their_beginnings() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for (text, expected) in
            [(&b"SQLite format 3\0rest"[..], true), (b"\x37\x7f\x06\x82....", true), (b"SQLite", false), (b"", false)]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_database(path.as_os_str().as_bytes()), expected);
        }
    }
}
