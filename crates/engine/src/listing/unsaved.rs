//! Files that a restart will miss, found while there is time to do something about it: databases that are too large to
//! be saved by default, files that are replaced when they are complete, and files that the programs of a job hand to
//! each other by name.

use super::directory::born;
use super::{ListingNews, NAMES_MAX, Outline, is_older};
use crate::files::{FileId, TICK_NANOSECONDS, is_database};
use standfast_format::records::{FileReference, JobState, ObjectKind};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_APPEND: u32 = abi::O_APPEND as u32;
/// Number of checkpoints at which something must be seen before it is reported.
const SIGHTINGS: u32 = 2;
/// The mode usually passed to open(2), and the part of it that mkstemp(3) uses.
const USUAL_MODE: u32 = 0o666;
const OWNER_ONLY: u32 = 0o600;
const PERMISSIONS: u32 = 0o7777;
/// Maximum number of directories with files that programs hand to each other.
const PLACES_MAX: usize = 16;

/// What checkpoints hold about the files in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// Their contents, or that they are the job's own.
    Whole,
    /// Only their names, since others use the directory as well.
    Listed,
    /// Nothing.
    None,
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// Files that were open for writing at the last checkpoint, and are not saved.
    open: Vec<Open>,
    /// When that was, in nanoseconds since 1970.
    taken: i64,
    /// Directories from which such files have disappeared.
    gone_from: BTreeSet<PathBuf>,
    databases: HashMap<FileId, u32>,
    /// Files that no process of the job has open, with their modification times at the last look.
    closed: HashMap<FileId, i64>,
    closed_databases: BTreeSet<FileId>,
    places: HashMap<PathBuf, u32>,
}

#[derive(Debug)]
struct Open {
    file: FileReference,
    /// Whether it may be overwritten, not only appended to.
    is_in_place: bool,
}

impl Unsaved {
    /// Notes what a checkpoint does not save. Reads only its records.
    pub(super) fn note(&mut self, state: &JobState) {
        let key = |file: &FileReference| FileId::of_reference(file);
        let of_object = |kind: &ObjectKind| kind.file().map(key);
        let saved: BTreeSet<FileId> = state.objects.iter().filter_map(|object| of_object(&object.kind)).collect();
        let written = state.open_files.iter().filter(|it| it.flags & O_ACCMODE != 0);
        let files = written.filter_map(|it| {
            let file = it.kind.file().filter(|file| !saved.contains(&key(file)))?.clone();
            Some(Open { file, is_in_place: it.flags & O_APPEND == 0 })
        });
        self.open = files.collect();
        self.taken = i64::try_from(state.clocks.realtime_nanoseconds).unwrap_or(i64::MAX);
    }

    /// Searches the open files for databases.
    pub(super) fn judge_open(&mut self, news: &mut Vec<ListingNews>) {
        let mut paths = Vec::new();
        let in_place = self.open.iter().filter(|open| open.is_in_place).map(|open| &open.file);
        for file in in_place.filter(|file| is_database(&file.path.0)) {
            let sightings = self.databases.entry(FileId::of_reference(file)).or_default();
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

    /// Checks which of them have disappeared, so that a restart would not find them: removed, or renamed and then
    /// replaced.
    pub(super) fn find_gone(&mut self, news: &mut Vec<ListingNews>) {
        for Open { file, .. } in self.open.drain(..) {
            let key = FileId::of_reference(&file);
            let path = Path::new(OsStr::from_bytes(&file.path.0));
            let Some(directory) = path.parent().filter(|_| self.gone_from.len() < PLACES_MAX) else { continue };
            let is_there = path.metadata().is_ok_and(|now| FileId::of(&now) == key);
            if !is_there && !is_in(directory, key, self.taken) && self.gone_from.insert(directory.to_owned()) {
                news.push(ListingNews::Gone { path: path.to_owned() });
            }
        }
    }

    /// Checks whether these files, which no process of the job has open, belong to databases and were written since the
    /// last look.
    pub(super) fn judge_closed(&mut self, files: &[&FileReference], news: &mut Vec<ListingNews>) {
        let last = std::mem::take(&mut self.closed);
        for file in files {
            let key = FileId::of_reference(file);
            let modified = file.identity.modified_nanoseconds;
            self.closed.insert(key, modified);
            let is_written = last.get(&key).is_some_and(|last| *last != modified);
            if is_written && is_database(&file.path.0) && self.closed_databases.insert(key) {
                news.push(ListingNews::ClosedDatabase { path: OsStr::from_bytes(&file.path.0).into() });
            }
        }
    }

    /// Looks for files that the job has created and that are arguments of its programs, although they are in no
    /// directory that is listed or saved.
    pub(super) fn find_handed_on(
        &mut self,
        job: &Outline<'_>,
        cover: impl Fn(&Path) -> Cover,
        started: i64,
        news: &mut Vec<ListingNews>,
    ) {
        let mut seen: HashMap<PathBuf, Argument> = HashMap::new();
        for pid in job.pids {
            for argument in created_arguments(*pid, started) {
                let Some(place) = argument.path.parent() else { continue };
                // A restart restores what the job has open. A temporary file will probably be used by another program
                // next.
                let is_open = job.outputs.contains_key(&argument.key);
                let is_missed = match cover(place) {
                    Cover::None if !is_open => true,
                    Cover::None | Cover::Listed => argument.is_temporary && !(is_open && Some(pid) == job.pids.first()),
                    Cover::Whole => false,
                };
                if !is_missed {
                    continue;
                }
                let is_better = seen.get(place).is_none_or(|known| !known.is_temporary);
                if is_better {
                    seen.insert(place.to_owned(), argument);
                }
            }
        }
        for (place, Argument { path, is_temporary, .. }) in seen {
            if self.places.len() >= PLACES_MAX && !self.places.contains_key(&place) {
                continue;
            }
            let sightings = self.places.entry(place).or_default();
            let was_reported = *sightings >= SIGHTINGS;
            *sightings = if is_temporary { SIGHTINGS } else { *sightings + 1 };
            if *sightings >= SIGHTINGS && !was_reported {
                news.push(ListingNews::HandedOn { path });
            }
        }
    }
}

/// Reports whether a file that existed at `then` is in a directory, under any name. Its inode may be another file's by
/// now.
fn is_in(directory: &Path, FileId { device, inode }: FileId, then: i64) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES_MAX);
    let named = entries.filter(|entry| entry.ino() == inode).filter_map(|entry| entry.metadata().ok());
    let is_it = |now: &Metadata| now.dev() == device && born(now).is_none_or(|born| born <= then + TICK_NANOSECONDS);
    named.into_iter().any(|now| is_it(&now))
}

/// A file that the job has created, and that is an argument of one of its programs.
pub(super) struct Argument {
    pub(super) path: PathBuf,
    key: FileId,
    /// Whether it was made for temporary use: mkstemp(3) and similar functions make files for their owner only, even if
    /// the process makes other files for others.
    is_temporary: bool,
}

/// Returns the files of this user among the arguments of a process that were created since `started`.
pub(super) fn created_arguments(pid: Pid, started: i64) -> Vec<Argument> {
    let line = proc::read(pid, "cmdline").unwrap_or_default();
    let created = |path: &[u8]| {
        let path = Path::new(OsStr::from_bytes(path));
        let status = path.symlink_metadata().ok()?;
        let is_ours = status.is_file() && status.uid() == process::effective_user();
        let born = born(&status).filter(|_| is_ours)?;
        let is_temporary = || status.mode() & PERMISSIONS == OWNER_ONLY && makes_files_for_others(pid);
        let argument = || Argument { path: path.to_owned(), key: FileId::of(&status), is_temporary: is_temporary() };
        (!is_older(Some(born), started)).then(argument)
    };
    line.split(|byte| *byte == 0).filter_map(path_in).filter_map(created).collect()
}

/// Returns the absolute path that an argument is, or that follows an option in it.
fn path_in(argument: &[u8]) -> Option<&[u8]> {
    let (option, path) = argument.split_at(argument.iter().position(|byte| *byte == b'/')?);
    let is_option = matches!(option, [] | [b'-', _]) || option.ends_with(b"=") || option.ends_with(b"@");
    is_option.then_some(path)
}

fn makes_files_for_others(pid: Pid) -> bool {
    Status::of(pid).is_ok_and(|status| USUAL_MODE & !status.umask != OWNER_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_arguments_of_compilers() {
        for (argument, path) in [
            ("/tmp/cc1.s", Some("/tmp/cc1.s")),
            ("-o/tmp/cc1.o", Some("/tmp/cc1.o")),
            ("@/tmp/cc1", Some("/tmp/cc1")),
            ("-plugin-opt=-fresolution=/tmp/cc1.res", Some("/tmp/cc1.res")),
            ("unit1.o", None),
            ("https://example.org/file", None),
            ("s/tmp/var/", None),
        ] {
            assert_eq!(path_in(argument.as_bytes()), path.map(str::as_bytes), "{argument}");
        }
    }
}
