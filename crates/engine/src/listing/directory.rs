//! What is in a directory, within limits, and whether others are likely to write there.

use crate::files::{FileId, identity};
use standfast_format::records::FileIdentity;
use standfast_linux::proc;
use standfast_linux::sys::{file, process};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Anybody may write there.
const OTHERS_WRITE: u32 = 0o002;

/// How much may be listed, which all directories of a job share. Time counts as far as this thread has a processor: a busy
/// machine does not make a directory larger.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    names: usize,
    until_nanoseconds: u64,
}

impl Budget {
    pub(super) fn new(names: usize, time: Duration) -> Self {
        let until_nanoseconds = processor_nanoseconds() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        Self { names, until_nanoseconds }
    }

    fn take(&mut self) -> bool {
        let is_left = self.names > 0 && processor_nanoseconds() < self.until_nanoseconds;
        self.names = self.names.saturating_sub(1);
        is_left
    }
}

fn processor_nanoseconds() -> u64 {
    process::clock_nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A regular file, or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) length: u64,
    pub(crate) identity: FileIdentity,
    pub(crate) born_nanoseconds: Option<i64>,
    pub(crate) owner: u32,
    pub(crate) links: u64,
}

impl Entry {
    fn of(status: &Metadata) -> Self {
        Self {
            length: status.len(),
            identity: identity(status),
            born_nanoseconds: born(status),
            owner: status.uid(),
            links: status.nlink(),
        }
    }

    pub(crate) fn key(&self) -> FileId {
        FileId::of_identity(&self.identity)
    }
}

/// When a file was created, where its file system tells.
pub(super) fn born(status: &Metadata) -> Option<i64> {
    let since = status.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().filter(|born| *born > 0)
}

/// Everything in one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) files: BTreeMap<OsString, Entry>,
    pub(crate) directories: Vec<OsString>,
    pub(crate) links: BTreeMap<OsString, Entry>,
    pub(crate) others: Vec<OsString>,
}

impl Contents {
    /// `None` where that is more than the budget allows.
    pub(super) fn within(path: &Path, budget: &mut Budget) -> io::Result<Option<Self>> {
        let mut found = Self::default();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if !budget.take() {
                return Ok(None);
            }
            let name = entry.file_name();
            match entry.metadata() {
                Ok(status) if status.is_file() => drop(found.files.insert(name, Entry::of(&status))),
                Ok(status) if status.is_dir() => found.directories.push(name),
                Ok(status) if status.is_symlink() => drop(found.links.insert(name, Entry::of(&status))),
                Ok(_) => found.others.push(name),
                // It has gone meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(found))
    }

    /// The names of all that is no regular file.
    pub(crate) fn other_names(&self) -> impl Iterator<Item = &OsString> {
        self.directories.iter().chain(self.links.keys()).chain(&self.others)
    }

    /// All of it, however much.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut budget = Budget::new(usize::MAX, super::LISTING_AT_RESTART_MAX);
        Self::within(path, &mut budget)?.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

/// Device and inode of a directory that can be listed; `None` where it lies on another machine, or is made up by the kernel.
pub(super) fn local_directory(path: &Path) -> Option<Metadata> {
    let open = File::open(path).ok()?;
    let status = open.metadata().ok().filter(Metadata::is_dir)?;
    file::is_local(open.as_fd()).is_ok_and(|is_local| is_local).then_some(status)
}

/// Whether others are likely to write there as well, as far as the directory itself tells. `home` is the user's.
pub(super) fn is_common(path: &Path, status: &Metadata, home: Option<&Path>) -> bool {
    path.parent().is_none()
        || home.is_some_and(|home| home == path)
        || status.mode() & OTHERS_WRITE != 0
        || status.uid() != process::effective_user()
}

/// The home directory of a process, by its own word.
pub(super) fn home_of(pid: i32) -> Option<PathBuf> {
    let environment = proc::read(pid, "environ").ok()?;
    let home = environment.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(b"HOME="))?;
    let home = PathBuf::from(OsStr::from_bytes(home));
    Some(home.canonicalize().unwrap_or(home))
}
