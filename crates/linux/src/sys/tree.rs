//! Names in the file system, one at a time and by descriptor: no call follows a symbolic link.
//!
//! # Safety
//! Each block passes plain numbers, or addresses of live local values and of zero-terminated strings, to the call that
//! it names.

use super::check;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// openat2(2): opens a directory by its absolute path, no part of which is a symbolic link. Linux 5.6.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    /// `struct open_how`.
    #[repr(C)]
    struct How {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    const RESOLVE_NO_SYMLINKS: u64 = 4;
    let path = string(path.as_os_str())?;
    let flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    let how = How { flags, mode: 0, resolve: RESOLVE_NO_SYMLINKS };
    // SAFETY: both are live, and the size is that of `how`.
    let opened = check(unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &raw const how, size_of::<How>())
    })?;
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
}

/// openat(2) with O_PATH and O_NOFOLLOW: refers to the object of this name itself, without opening it.
pub fn open_name(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let name = string(name)?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is live.
    let opened = check(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags) }.into())?;
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
}

/// mkdirat(2)
pub fn make_directory(directory: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    let name = string(name)?;
    // SAFETY: the name is live.
    check(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), mode) }.into()).map(drop)
}

/// mknodat(2) of a named pipe (S_IFIFO) or the file of a socket (S_IFSOCK).
pub fn make_node(directory: BorrowedFd<'_>, name: &OsStr, kind_and_mode: u32) -> io::Result<()> {
    let name = string(name)?;
    // SAFETY: the name is live.
    check(unsafe { libc::mknodat(directory.as_raw_fd(), name.as_ptr(), kind_and_mode, 0) }.into()).map(drop)
}

/// unlinkat(2); with AT_REMOVEDIR for a directory, which must be empty.
pub fn remove(directory: BorrowedFd<'_>, name: &OsStr, is_directory: bool) -> io::Result<()> {
    let name = string(name)?;
    let flags = if is_directory { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: the name is live.
    check(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) }.into()).map(drop)
}

/// faccessat(2) with our effective ids: reports whether the permissions allow this access to a path (R_OK, W_OK, X_OK).
pub fn may_access(path: &Path, how: i32) -> io::Result<()> {
    let path = string(path.as_os_str())?;
    // SAFETY: the path is live.
    check(unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), how, libc::AT_EACCESS) }.into()).map(drop)
}

/// getegid(2) and getgroups(2): returns the groups that we may give to a file of ours.
pub fn own_groups() -> io::Result<Vec<u32>> {
    const GROUPS_MAX: usize = 65536;
    let mut groups = vec![0; GROUPS_MAX];
    // SAFETY: `groups` has room for the number passed.
    let count = check(unsafe { libc::getgroups(GROUPS_MAX as i32, groups.as_mut_ptr()) }.into())?;
    groups.truncate(count as usize);
    // SAFETY: cannot fail.
    groups.push(unsafe { libc::getegid() });
    Ok(groups)
}

fn string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
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
