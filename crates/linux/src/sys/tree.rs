//! Names in the file system, one at a time and by descriptor: no call follows a symbolic link.

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::process::{getegid, getgroups};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// openat2(2): opens a directory by its absolute path, no part of which is a symbolic link. Linux 5.6.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// openat(2) with O_PATH and O_NOFOLLOW: refers to the object of this name itself, without opening it.
pub fn open_name(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// mkdirat(2)
pub fn make_directory(directory: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(directory, name, Mode::from_bits_retain(mode))?)
}

/// mknodat(2) of a named pipe (S_IFIFO) or the file of a socket (S_IFSOCK).
pub fn make_node(directory: BorrowedFd<'_>, name: &OsStr, kind_and_mode: u32) -> io::Result<()> {
    let (kind, mode) = (FileType::from_raw_mode(kind_and_mode), Mode::from_raw_mode(kind_and_mode));
    Ok(rustix::fs::mknodat(directory, name, kind, mode, 0)?)
}

/// unlinkat(2); with AT_REMOVEDIR for a directory, which must be empty.
pub fn remove(directory: BorrowedFd<'_>, name: &OsStr, is_directory: bool) -> io::Result<()> {
    let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    Ok(rustix::fs::unlinkat(directory, name, flags)?)
}

/// faccessat(2) with our effective ids: reports whether the permissions allow this access to a path (R_OK, W_OK, X_OK).
pub fn may_access(path: &Path, how: i32) -> io::Result<()> {
    Ok(rustix::fs::accessat(CWD, path, Access::from_bits_retain(how as u32), AtFlags::EACCESS)?)
}

/// getegid(2) and getgroups(2): returns the groups that we may give to a file of ours.
pub fn own_groups() -> io::Result<Vec<u32>> {
    let groups = getgroups()?;
    Ok(groups.into_iter().chain([getegid()]).map(|group| group.as_raw()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn no_symbolic_link_is_followed() {
        let root = std::env::temp_dir().canonicalize().unwrap().join(format!("standfast-tree-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let directory = open_directory(&root).unwrap();
        make_directory(directory.as_fd(), OsStr::new("true"), 0o700).unwrap();
        std::os::unix::fs::symlink("true", root.join("link")).unwrap();
        assert!(open_directory(&root.join("true")).is_ok());
        assert_eq!(open_directory(&root.join("link")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(open_directory(&root.join("link/..")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        make_node(directory.as_fd(), OsStr::new("pipe"), libc::S_IFIFO | 0o600).unwrap();
        assert!(make_node(directory.as_fd(), OsStr::new("pipe"), libc::S_IFIFO | 0o600).is_err());
        for (name, is_directory) in [("pipe", false), ("link", false), ("true", true)] {
            remove(directory.as_fd(), OsStr::new(name), is_directory).unwrap();
        }
        fs::remove_dir(&root).unwrap();
    }
}
