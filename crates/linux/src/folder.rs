//! Ring 2: a directory that is held open, and names below it. Whatever other processes do to the directories in it,
//! nothing outside is reached: no name leads out of it, and no symbolic link is followed, neither at the end of a path
//! nor inside it (openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, Linux 5.6).

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, readlinkat_raw};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions, ReadDir};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// An open with these flags neither blocks nor makes a controlling terminal, whatever has replaced the file.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory that is held open.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// The object to which a name below a folder refers. It is held even if the name comes to refer to something else.
#[derive(Debug)]
pub struct HeldPath(File);

/// The access for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

impl Folder {
    /// Opens a directory by its absolute path, no part of which is a symbolic link.
    ///
    /// # Errors
    /// `ELOOP` if a part is a symbolic link; another error if there is no such directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        open(CWD, path, DIRECTORY, 0, NO_LINKS).map(Self)
    }

    /// Opens a directory below this one; the empty name means this one.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn beneath(&self, name: &Path) -> io::Result<Self> {
        self.open_name(name, DIRECTORY, 0).map(Self)
    }

    /// Finds the object to which a name refers, of whatever kind.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn find(&self, name: &Path) -> io::Result<HeldPath> {
        self.open_name(name, OFlags::PATH | OFlags::NOFOLLOW, 0).map(|held| HeldPath(held.into()))
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// When the file does not exist, or may not be opened.
    pub fn open_file(&self, name: &Path, access: Access) -> io::Result<File> {
        self.open_name(name, PLAIN | access.flags(), 0).map(File::from)
    }

    /// Makes an empty file, which must not exist yet.
    ///
    /// # Errors
    /// When it exists, or cannot be made.
    pub fn make_file(&self, name: &Path, mode: u32) -> io::Result<File> {
        self.open_name(name, PLAIN | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode).map(File::from)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// When the name is taken, or it cannot be made.
    pub fn make_directory(&self, name: &Path, mode: u32) -> io::Result<()> {
        let (parent, name) = self.split(name)?;
        Ok(rustix::fs::mkdirat(&parent.0, name, Mode::from_bits_retain(mode))?)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// When the name is taken, or it cannot be made.
    pub fn make_link(&self, name: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.split(name)?;
        Ok(rustix::fs::symlinkat(target, &parent.0, name)?)
    }

    /// Gives the file `name` a second name.
    ///
    /// # Errors
    /// When that name is taken, or it cannot be given.
    pub fn link(&self, name: &Path, other: &Path) -> io::Result<()> {
        let ((from, name), (to, other)) = (self.split(name)?, self.split(other)?);
        Ok(rustix::fs::linkat(&from.0, name, &to.0, other, AtFlags::empty())?)
    }

    /// Removes a name; a directory must be empty.
    ///
    /// # Errors
    /// When nothing has this name, or it cannot be removed.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        let is_directory = self.find(name)?.metadata()?.is_dir();
        let (parent, name) = self.split(name)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&parent.0, name, flags)?)
    }

    /// Lists the entries of the directory.
    ///
    /// # Errors
    /// When the directory may not be listed.
    pub fn entries(&self) -> io::Result<ReadDir> {
        std::fs::read_dir(way_to(self.0.as_raw_fd()))
    }

    /// Returns the status of the directory itself.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.try_clone().map(File::from)?.metadata()
    }

    fn open_name(&self, name: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        open(self.0.as_fd(), name, flags, mode, NO_LINKS | ResolveFlags::BENEATH)
    }

    /// Returns the directory that contains a name, and the name's last component.
    fn split<'a>(&self, name: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let last = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.beneath(name.parent().unwrap_or(Path::new("")))?, last))
    }
}

impl HeldPath {
    /// Finds the object to which a path leads. If its last component is a symbolic link, that is the link itself.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn find(path: &Path) -> io::Result<Self> {
        let held = open(CWD, path, OFlags::PATH | OFlags::NOFOLLOW, 0, ResolveFlags::empty())?;
        Ok(Self(held.into()))
    }

    /// Returns the status of the object.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// When it is not a symbolic link.
    pub fn target(&self) -> io::Result<PathBuf> {
        let mut target = vec![0u8; libc::PATH_MAX as usize];
        let length = readlinkat_raw(&self.0, c"", target.as_mut_slice())?;
        target.truncate(length);
        Ok(OsString::from_vec(target).into())
    }

    /// Opens the object, which must be a file.
    ///
    /// # Errors
    /// When it may not be opened with this access.
    pub fn reopen(&self, access: Access) -> io::Result<File> {
        let flags = access.flags() | OFlags::NONBLOCK | OFlags::NOCTTY;
        open(CWD, &self.way(), flags, 0, ResolveFlags::empty()).map(File::from)
    }

    /// Sets the owner and the group. The object must not be a symbolic link.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::chown(self.way(), Some(user), Some(group))
    }

    /// Sets the permissions. The object must not be a symbolic link.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn allow(&self, mode: u32) -> io::Result<()> {
        std::fs::set_permissions(self.way(), Permissions::from_mode(mode))
    }

    /// Sets the time of the last modification of a file that may be read.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.reopen(Access::Read)?.set_modified(time)
    }

    /// Returns device and inode.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.metadata().map(|status| (status.dev(), status.ino()))
    }

    fn way(&self) -> PathBuf {
        way_to(self.0.as_raw_fd())
    }
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Write => OFlags::RDWR,
        }
    }
}

/// Returns a path that leads to the object that a descriptor of ours holds, and to nothing else.
fn way_to(descriptor: RawFd) -> PathBuf {
    format!("/proc/self/fd/{descriptor}").into()
}

fn open(from: BorrowedFd<'_>, name: &Path, flags: OFlags, mode: u32, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    Ok(openat2(from, name, flags | OFlags::CLOEXEC, Mode::from_bits_retain(mode), resolve)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        (place, path)
    }

    fn is_loop<T>(result: io::Result<T>) -> bool {
        result.err().and_then(|error| error.raw_os_error()) == Some(libc::ELOOP)
    }

    #[test]
    fn a_directory_replaced_by_a_link_is_not_followed() {
        let (_place, path) = place();
        std::fs::create_dir_all(path.join("folder/inner")).unwrap();
        std::fs::create_dir(path.join("outside")).unwrap();
        std::fs::write(path.join("outside/victim"), "untouched").unwrap();
        let folder = Folder::open(&path.join("folder")).unwrap();
        folder.make_file(Path::new("inner/before"), 0o600).unwrap();
        std::fs::rename(path.join("folder/inner"), path.join("away")).unwrap();
        symlink(path.join("outside"), path.join("folder/inner")).unwrap();
        let name = Path::new("inner/victim");
        assert!(is_loop(folder.open_file(name, Access::Write)));
        assert!(is_loop(folder.find(name)) && is_loop(folder.remove(name)));
        assert!(is_loop(folder.make_file(Path::new("inner/new"), 0o600)));
        assert!(is_loop(folder.make_directory(Path::new("inner/new"), 0o700)));
        assert!(is_loop(folder.make_link(Path::new("inner/new"), Path::new("x"))));
        assert!(is_loop(Folder::open(&path.join("folder/inner"))));
        assert_eq!(std::fs::read(path.join("outside/victim")).unwrap(), b"untouched");
        // The link itself can be found and removed.
        let link = folder.find(Path::new("inner")).unwrap();
        assert!(link.metadata().unwrap().is_symlink() && link.target().unwrap() == path.join("outside"));
        folder.remove(Path::new("inner")).unwrap();
        assert!(path.join("outside/victim").exists() && !path.join("folder/inner").exists());
    }

    #[test]
    fn no_name_leads_out() {
        let (_place, path) = place();
        std::fs::create_dir(path.join("folder")).unwrap();
        std::fs::write(path.join("beside"), "").unwrap();
        let folder = Folder::open(&path.join("folder")).unwrap();
        for name in [Path::new("../beside"), &path.join("beside")] {
            assert!(folder.open_file(name, Access::Read).is_err(), "{}", name.display());
        }
        assert!(folder.remove(Path::new("../beside")).is_err() && path.join("beside").exists());
    }

    #[test]
    fn attributes_are_set_on_the_held_file_and_not_on_its_name() {
        let (_place, path) = place();
        let folder = Folder::open(&path).unwrap();
        folder.make_file(Path::new("one"), 0o600).unwrap();
        std::fs::write(path.join("other"), "").unwrap();
        std::fs::set_permissions(path.join("other"), Permissions::from_mode(0o644)).unwrap();
        let held = folder.find(Path::new("one")).unwrap();
        let identity = held.identity().unwrap();
        std::fs::remove_file(path.join("one")).unwrap();
        symlink(path.join("other"), path.join("one")).unwrap();
        held.allow(0o400).unwrap();
        held.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(held.metadata().unwrap().mode() & 0o777, 0o400);
        assert_eq!(held.identity().unwrap(), identity);
        assert_eq!(std::fs::metadata(path.join("other")).unwrap().mode() & 0o777, 0o644);
    }
}
