//! Saved binaries that the jobs of a user share. One directory has a name for each executable and library of which a
//! job keeps a copy. Jobs keep hard links, so that the disk holds one copy. Each job directory is still self-contained:
//! a copy of it elsewhere has files of its own.
//!
//! If links are impossible (another file system, or too many links), a job has its own copy, as if there were no such
//! directory. Nothing in the directory is trusted. Before a file is linked from it, the file is compared with the
//! binary itself, byte by byte. Others can write neither the directory nor the file. Files that no job links to any
//! more are removed when the next job adds something.

use crate::trust::{check_trusted, open_trusted};
use crate::{Directory, FileStatus, StorageBackend, random};
use rustix::fs::{AtFlags, CWD};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const COMPARED_BYTES: usize = 1 << 20;
/// Links of a file that the directory itself accounts for.
const OWN_LINKS: u64 = 1;

/// The directory of shared binaries.
#[derive(Debug)]
pub(crate) struct SharedBinaries {
    directory: Directory,
    path: PathBuf,
    user: u32,
}

impl SharedBinaries {
    /// Opens the directory, and creates it (mode 0700) if there is none. Returns `None` if it is unavailable or open to
    /// others.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).ok()?;
        }
        Self::of(Directory::create(path).ok()?, path)
    }

    /// Opens the directory if it exists.
    pub(crate) fn find(path: &Path) -> Option<Self> {
        Self::of(Directory::open(path).ok()?, path)
    }

    fn of(directory: Directory, path: &Path) -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        let status = directory.status().ok()?;
        let is_private = check_trusted(path, &status, user).is_ok() && status.mode & 0o077 == 0;
        is_private.then(|| Self { directory, path: path.to_owned(), user })
    }

    /// Links the shared copy of `original` to the name `to`, if there is one with the same content.
    pub(crate) fn link_to(&self, name: &str, original: &Path, to: &Path) -> Option<()> {
        let copy = self.trusted(name)?;
        if !holds_the_same(&File::open(original).ok()?, &copy).ok()? {
            return None;
        }
        // This links the file that was compared, even if its name now means another file.
        link_file(&copy, to).ok()
    }

    /// Makes `copy`, a file in a job's directory, the one that other jobs link to.
    pub(crate) fn add(&self, name: &str, copy: &Path) {
        // Sharing only saves space: a failure here merely costs one more copy.
        let temporary = format!("{name}.{}.tmp", random::random_token());
        let Ok(file) = open_no_link(copy) else { return };
        if link_file(&file, &self.path.join(&temporary)).is_ok() && self.directory.rename(&temporary, name).is_err() {
            let _ = self.directory.remove(&temporary);
        }
    }

    /// Removes the files that no job links to any more.
    pub(crate) fn sweep(&self) {
        for name in self.directory.list().unwrap_or_default() {
            let links = open_trusted(&self.directory, &name, self.user).map(|(_, status)| status.links);
            if links.is_ok_and(|links| links <= OWN_LINKS) {
                let _ = self.directory.remove(&name);
            }
        }
    }

    /// Reports whether a file has no names except those in this directory and in the directory of one job.
    pub(crate) fn has_only_one_job(&self, name: &str, copy: &FileStatus) -> bool {
        let here = open_trusted(&self.directory, name, self.user);
        copy.links == OWN_LINKS + 1 && here.is_ok_and(|(_, status)| status.inode == copy.inode)
    }

    fn trusted(&self, name: &str) -> Option<File> {
        open_trusted(&self.directory, name, self.user).ok()?;
        let file = open_no_link(&self.path.join(name)).ok()?;
        let metadata = file.metadata().ok()?;
        let is_ours = metadata.is_file() && metadata.uid() == self.user && metadata.mode() & 0o022 == 0;
        is_ours.then_some(file)
    }
}

fn open_no_link(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn link_file(file: &File, to: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}

fn holds_the_same(one: &File, other: &File) -> io::Result<bool> {
    let length = one.metadata()?.len();
    if other.metadata()?.len() != length {
        return Ok(false);
    }
    let (mut here, mut there) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut at = 0;
    while at < length {
        let bytes = usize::try_from(length - at).unwrap_or(COMPARED_BYTES).min(COMPARED_BYTES);
        one.read_exact_at(&mut here[..bytes], at)?;
        other.read_exact_at(&mut there[..bytes], at)?;
        if here[..bytes] != there[..bytes] {
            return Ok(false);
        }
        at += bytes as u64;
    }
    Ok(true)
}
