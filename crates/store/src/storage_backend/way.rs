//! Resolves the path to a directory, component by component. A symbolic link is followed only if nobody else could have
//! put it there.
//!
//! The content of a job directory becomes a running program, and a program's memory is written to it. The module
//! `trust` checks owner and permissions of the directory at the end of the path. This module ensures that it is the
//! directory that the user meant, and not another of the user's directories to which somebody else's link leads.
//!
//! Links of the user and of root are followed wherever they are. Above the last component, a link is also followed if
//! it belongs to the owner of its directory and nobody else can write there. That owner could as well have moved
//! directories. (The administrator of a project's disk is such an owner.) Any other link, in `/tmp` for instance, is
//! refused.

use crate::foreign_link::ForeignLink;
use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};

/// The limit of the kernel.
const LINKS_MAX: usize = 40;
/// Write permission for anybody but the owner.
const WRITTEN_BY_OTHERS: u32 = 0o022;
const ROOT: u32 = 0;
const NO_PATH: &str = "";
/// The file system whose links are not text: they lead to places that no path reaches.
const PROC_MAGIC: i64 = 0x9fa0;

/// The end of a path: a name that is not a link, in a directory that is held open.
#[derive(Debug)]
pub(super) struct End {
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

/// Follows a path for `user`. Its last component need not exist.
pub(super) fn follow(path: &Path, user: u32) -> io::Result<End> {
    let mut here = start(path)?;
    let mut rest = components(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let is_last = rest.is_empty();
        // Opening it as a directory triggers an automount.
        match fs::openat(&here, &name, OFlags::NOFOLLOW | DIRECTORY, Mode::empty()) {
            Ok(_) | Err(Errno::NOENT) if is_last && name != ".." => return Ok(End { parent: here, name }),
            Ok(next) => here = next,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = fs::openat(&here, &name, OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                let status = fs::fstat(&found)?;
                if fs::FileType::from_raw_mode(status.st_mode) != fs::FileType::Symlink {
                    return Err(Errno::NOTDIR.into());
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                if !may_follow(&status, &fs::fstat(&here)?, user, is_last) {
                    let foreign = ForeignLink { name, owner: status.st_uid };
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, foreign));
                }
                if fs::fstatfs(&found)?.f_type == PROC_MAGIC {
                    here = fs::openat(&here, &name, DIRECTORY, Mode::empty())?;
                    continue;
                }
                let target = OsString::from_vec(fs::readlinkat(&found, NO_PATH, Vec::new())?.into_bytes());
                let target = Path::new(&target);
                if target.is_absolute() {
                    here = start(target)?;
                }
                rest = components(target).into_iter().chain(rest).collect();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(End { parent: here, name: ".".into() })
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn start(path: &Path) -> io::Result<OwnedFd> {
    let from = if path.is_absolute() { "/" } else { "." };
    Ok(fs::open(from, DIRECTORY, Mode::empty())?)
}

fn components(path: &Path) -> VecDeque<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::from_bytes(b"..")),
        _ => None,
    };
    path.components().filter_map(name).map(OsStr::to_owned).collect()
}

fn may_follow(link: &Stat, within: &Stat, user: u32, is_last: bool) -> bool {
    let is_owners_alone = link.st_uid == within.st_uid && within.st_mode & WRITTEN_BY_OTHERS == 0;
    link.st_uid == user || link.st_uid == ROOT || (!is_last && is_owners_alone)
}

impl End {
    /// Creates the directory, accessible only to its owner. Returns whether it did not exist before.
    pub(super) fn make(&self) -> io::Result<bool> {
        match fs::mkdirat(&self.parent, &self.name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.parent, &self.name, flags, Mode::empty())?)
    }

    /// Makes the name durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let parent = fs::openat(&self.parent, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(fs::fsync(parent)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn inode(path: &Path, user: u32) -> io::Result<u64> {
        Ok(fs::fstat(follow(path, user)?.open()?)?.st_ino)
    }

    #[test]
    fn own_links_are_resolved_as_the_kernel_does() {
        use std::os::unix::fs::MetadataExt as _;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("real/job")).unwrap();
        symlink("real", at("relative")).unwrap();
        symlink(at("real"), at("absolute")).unwrap();
        symlink("relative/job/../job", at("long")).unwrap();
        symlink("around", at("around")).unwrap();
        for way in ["real/job", "relative/job", "absolute/job", "long", "real/../relative/./job/", "real/job/..", "."] {
            assert_eq!(inode(&at(way), user()).unwrap(), std::fs::metadata(at(way)).unwrap().ino(), "{way}");
        }
        assert_eq!(inode(Path::new("/"), user()).unwrap(), std::fs::metadata("/").unwrap().ino());
        assert_eq!(inode(Path::new("/proc/self/cwd"), user()).unwrap(), std::fs::metadata(".").unwrap().ino());
        let errno = |way: &str| inode(&at(way), user()).unwrap_err().raw_os_error();
        assert_eq!(errno("around"), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(errno("nowhere/job"), Some(Errno::NOENT.raw_os_error()));
        assert_eq!(errno("nowhere"), Some(Errno::NOENT.raw_os_error()));
    }

    #[test]
    fn links_of_others_are_followed_only_in_directories_they_own() {
        let status = |owner, mode| {
            let mut status = fs::stat("/").unwrap();
            (status.st_uid, status.st_mode) = (owner, mode);
            status
        };
        let follows =
            |link, (within, mode), is_last| may_follow(&status(link, 0o777), &status(within, mode), 7, is_last);
        let (temporary, shared) = ((0, 0o1777), (9, 0o2775));
        for is_last in [false, true] {
            assert!(follows(7, temporary, is_last) && follows(0, temporary, is_last), "one's own and root's");
            assert!(!follows(8, temporary, is_last) && !follows(8, shared, is_last), "a stranger's");
            assert!(!follows(9, shared, is_last), "anybody's of a group, with the owner's name on it");
        }
        assert!(follows(9, (9, 0o755), false), "the owner of a project's disk has moved a part of it");
        assert!(!follows(9, (9, 0o755), true), "but the job's directory itself is never another user's link");
        assert!(!follows(8, (9, 0o755), false));
    }
}
