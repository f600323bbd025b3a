//! Saved binaries that the jobs of a user share: a directory of the user's with one name for each executable and library of
//! which some job keeps a copy. Jobs keep hard links, so that the disk holds one copy and each job directory is still whole:
//! copied or moved elsewhere it has files of its own.
//!
//! Where links are impossible (another file system, too many of them) a job has a copy, as if there were no such directory.
//! Nothing in it is believed: whatever is linked from there has been compared with the binary itself, byte by byte, and others
//! can neither write the directory nor the file. What no job links to any more is removed when the next one adds something.

use crate::trust::{check_trusted, open_trusted};
use crate::{Directory, FileStatus, StorageBackend, random};
use rustix::fs::{AtFlags, CWD};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const COMPARED_BYTES: usize = 1 << 20;
/// Names of a file that the directory alone accounts for.
const OWN_LINKS: u64 = 1;

/// The directory.
#[derive(Debug)]
pub(crate) struct SharedBinaries {
    directory: Directory,
    path: PathBuf,
    user: u32,
}

impl SharedBinaries {
    /// Opens it, and makes it (mode 0700) where there is none; `None` where it cannot be had or others can get at it.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).ok()?;
        }
        Self::of(Directory::create(path).ok()?, path)
    }

    /// Opens it if there is one.
    pub(crate) fn find(path: &Path) -> Option<Self> {
        Self::of(Directory::open(path).ok()?, path)
    }

    fn of(directory: Directory, path: &Path) -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        let status = directory.status().ok()?;
        let is_private = check_trusted(path, &status, user).is_ok() && status.mode & 0o077 == 0;
        is_private.then(|| Self { directory, path: path.to_owned(), user })
    }

    /// Gives the copy of `original` that is here the name `to`, if there is one and it holds the same.
    pub(crate) fn link_to(&self, name: &str, original: &Path, to: &Path) -> Option<()> {
        let copy = self.trusted(name)?;
        if !holds_the_same(&File::open(original).ok()?, &copy).ok()? {
            return None;
        }
        // The file that was compared, whatever its name means by now.
        link_file(&copy, to).ok()
    }

    /// Makes `copy`, a file in some job's directory, the one that other jobs link to.
    pub(crate) fn add(&self, name: &str, copy: &Path) {
        // Sharing saves room and nothing else: what fails here is only a copy more.
        let temporary = format!("{name}.{}.tmp", random::random_token());
        let Ok(file) = open_no_link(copy) else { return };
        if link_file(&file, &self.path.join(&temporary)).is_ok() && self.directory.rename(&temporary, name).is_err() {
            let _ = self.directory.remove(&temporary);
        }
        self.sweep();
    }

    /// Removes what no job has any more.
    pub(crate) fn sweep(&self) {
        for name in self.directory.list().unwrap_or_default() {
            let links = open_trusted(&self.directory, &name, self.user).map(|(_, status)| status.links);
            if links.is_ok_and(|links| links <= OWN_LINKS) {
                let _ = self.directory.remove(&name);
            }
        }
    }

    /// Whether the directory of a job and this one are all that has a name for a file.
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
