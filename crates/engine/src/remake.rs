//! Directories, named pipes and files of sockets that have disappeared since the checkpoint and that a restart
//! recreates. All of this is decided before anything is made. If the restart fails afterwards, what was made is removed.
//!
//! Things are made only if they belonged to the user who restarts the job, and only below an existing directory. Nothing
//! is made through a symbolic link, or in a mount point whose file system is missing. Nor is anything made in a
//! directory that another user has put in the place of ours.

use crate::EngineError;
use crate::error::kernel;
use crate::files::FileId;
use standfast_format::records::{JobState, Surrounding};
use standfast_linux::abi;
use standfast_linux::sys::process::effective_user;
use standfast_linux::sys::tree;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

const PERMISSIONS: u32 = 0o7777;
/// The permissions until owner and group are right.
const OWNER_ONLY: u32 = 0o700;

/// What to make, decided step by step.
pub(crate) struct Remaking<'a> {
    recorded: BTreeMap<&'a Path, &'a Surrounding>,
    user: u32,
    groups: Vec<u32>,
    plan: RemakePlan,
}

/// What to make.
#[derive(Debug, Default)]
pub(crate) struct RemakePlan {
    /// Parents come before their contents.
    steps: BTreeMap<PathBuf, Step>,
    /// Missing files that other code will make later.
    expected: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    mode: u32,
    user: u32,
    group: u32,
}

impl<'a> Remaking<'a> {
    pub(crate) fn new(job: &'a JobState) -> Self {
        let recorded = job.surroundings.iter().flatten().filter(|it| !it.removed);
        let recorded = recorded.map(|it| (Path::new(OsStr::from_bytes(&it.path.0)), it)).collect();
        let groups = tree::own_groups().unwrap_or_default();
        Self { recorded, user: effective_user(), groups, plan: RemakePlan::default() }
    }

    pub(crate) fn into_plan(self) -> RemakePlan {
        self.plan
    }

    /// Ensures that the directory of `path` will exist; otherwise returns why not.
    pub(crate) fn provide_parent(&mut self, path: &Path) -> Result<(), String> {
        match path.parent() {
            Some(parent) if path.is_absolute() => self.provide(parent, abi::S_IFDIR),
            _ => Err("it has no absolute path".to_owned()),
        }
    }

    /// Ensures that what was at `path` will exist, with this file type. What exists already must still be ours, and in
    /// its place.
    pub(crate) fn provide(&mut self, path: &Path, kind: u32) -> Result<(), String> {
        let is_kind = |there: &Metadata| there.mode() & abi::S_IFMT == kind;
        match std::fs::metadata(path) {
            Ok(there) if is_kind(&there) => return self.refuse_usurped(path),
            Ok(_) => return Err(format!("{} is something else now", path.display())),
            Err(_) if self.plan.steps.contains_key(path) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.to_string()),
            Err(_) if std::fs::symlink_metadata(path).is_ok() => {
                return Err(format!("{} is a symbolic link now, which leads nowhere", path.display()));
            }
            Err(_) => {}
        }
        let recorded = self.recorded.get(path).copied().filter(|it| it.mode & abi::S_IFMT == kind);
        let Some(recorded) = recorded.filter(|_| is_plain(path)) else {
            return Err(format!("{} is gone", path.display()));
        };
        let Some((parent, above)) = path.parent().and_then(|it| Some((it, *self.recorded.get(it)?))) else {
            return Err(format!("{} is gone", path.display()));
        };
        // Files may have other device numbers than their directories (overlayfs).
        if kind == abi::S_IFDIR && recorded.device != above.device {
            return Err(format!("{} is gone, on which a file system was mounted", path.display()));
        }
        if self.user != 0 && recorded.user != self.user {
            return Err(format!("{} is gone, which belonged to user {}", path.display(), recorded.user));
        }
        if self.user != 0 && !self.groups.contains(&recorded.group) {
            return Err(format!("{} is gone, which belonged to group {}", path.display(), recorded.group));
        }
        self.provide(parent, abi::S_IFDIR)?;
        if !self.plan.steps.contains_key(parent) {
            self.refuse_unsupported_parent(parent)?;
        }
        let Surrounding { mode, user, group, .. } = *recorded;
        self.plan.steps.insert(path.to_owned(), Step { mode, user, group });
        Ok(())
    }

    /// Does the same for a directory that was empty.
    pub(crate) fn provide_empty(&mut self, path: &Path) -> Result<(), String> {
        match self.recorded.get(path) {
            Some(recorded) if recorded.empty => self.provide(path, abi::S_IFDIR),
            _ => Err(format!("{} is gone", path.display())),
        }
    }

    /// Checks whether a name in a directory that exists, or will exist, may be removed and made again.
    pub(crate) fn may_replace(&self, path: &Path) -> Result<(), String> {
        let Some(parent) = path.parent().filter(|parent| !self.plan.steps.contains_key(*parent)) else { return Ok(()) };
        tree::may_access(parent, abi::W_OK | abi::X_OK).map_err(|error| format!("{}: {error}", parent.display()))?;
        let owner = |path: &Path| std::fs::symlink_metadata(path).map(|it| (it.uid(), it.mode())).ok();
        let is_sticky = owner(parent).is_some_and(|(user, mode)| mode & abi::S_ISVTX != 0 && user != self.user);
        match owner(path) {
            Some((user, _)) if is_sticky && self.user != 0 && user != self.user => {
                Err(format!("what is there belongs to user {user}"))
            }
            _ => Ok(()),
        }
    }

    /// Notes a file that will be made later, in a directory that will exist.
    pub(crate) fn expect(&mut self, path: &Path) {
        if std::fs::symlink_metadata(path).is_err() {
            self.plan.expected.insert(path.to_owned());
        }
    }

    /// Refuses a path if another user has replaced a directory of ours.
    fn refuse_usurped(&self, path: &Path) -> Result<(), String> {
        for part in path.ancestors() {
            let Some(recorded) = self.recorded.get(part) else { continue };
            let there = std::fs::symlink_metadata(part).map_err(|error| error.to_string())?;
            let is_ours = recorded.user == self.user && there.uid() != self.user;
            let is_link = there.is_symlink() && recorded.mode & abi::S_IFMT != abi::S_IFLNK;
            if is_ours || is_link && there.uid() != 0 {
                return Err(format!("somebody else has taken the place of {}", part.display()));
            }
        }
        Ok(())
    }

    /// Checks that something can be made in the existing directory `parent`.
    fn refuse_unsupported_parent(&self, parent: &Path) -> Result<(), String> {
        tree::open_directory(parent).map_err(|error| match error.raw_os_error() {
            Some(abi::ELOOP) => format!("a symbolic link leads to {}", parent.display()),
            _ => format!("{}: {error}", parent.display()),
        })?;
        tree::may_access(parent, abi::W_OK | abi::X_OK).map_err(|error| format!("{}: {error}", parent.display()))?;
        // A mount point on which nothing is mounted is no longer the earlier directory.
        let device = |path: &Path| std::fs::symlink_metadata(path).map(|there| there.dev()).ok();
        let above = parent.parent();
        let was_mounted = self.recorded.get(parent).map(|it| it.device)
            != above.and_then(|above| self.recorded.get(above)).map(|it| it.device);
        if above.is_some() && was_mounted && device(parent) == above.and_then(device) {
            return Err(format!("nothing is mounted on {} any more", parent.display()));
        }
        Ok(())
    }
}

/// What has been made, to be removed if the restart fails.
#[derive(Debug, Default)]
pub(crate) struct Remade {
    made: Vec<Made>,
    expected: Vec<PathBuf>,
}

/// One name that has been made.
#[derive(Debug)]
struct Made {
    directory: OwnedFd,
    name: PathBuf,
    /// The file that it refers to.
    own: OwnedFd,
    is_directory: bool,
}

impl RemakePlan {
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Makes everything; `remade` records it step by step.
    pub(crate) fn carry_out(&self, remade: &mut Remade) -> Result<(), EngineError> {
        remade.expected.extend(self.expected.iter().cloned());
        for (path, step) in &self.steps {
            let making = |source| kernel(&format!("making {} again", path.display()), source);
            remade.made.push(step.make(path).map_err(making)?);
        }
        Ok(())
    }
}

impl Step {
    fn make(self, path: &Path) -> io::Result<Made> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = tree::open_directory(parent)?;
        let is_directory = self.mode & abi::S_IFMT == abi::S_IFDIR;
        if is_directory {
            tree::make_directory(directory.as_fd(), name, OWNER_ONLY)?;
        } else {
            tree::make_node(directory.as_fd(), name, self.mode & abi::S_IFMT | OWNER_ONLY)?;
        }
        let own = tree::open_name(directory.as_fd(), name)?;
        let made = Made { directory, name: name.into(), own, is_directory };
        // The path through /proc leads to exactly this file, whatever has its name by now.
        let itself = PathBuf::from(format!("/proc/self/fd/{}", made.own.as_raw_fd()));
        let there = std::fs::metadata(&itself)?;
        if there.uid() != effective_user() || there.mode() & abi::S_IFMT != self.mode & abi::S_IFMT {
            return Err(io::Error::other("somebody else has taken its place"));
        }
        if (there.uid(), there.gid()) != (self.user, self.group) {
            std::os::unix::fs::chown(&itself, Some(self.user), Some(self.group)).inspect_err(|_| made.remove())?;
        }
        std::fs::set_permissions(&itself, Permissions::from_mode(self.mode & PERMISSIONS))
            .inspect_err(|_| made.remove())?;
        Ok(made)
    }
}

impl Made {
    /// Removes it, if its name still refers to it.
    fn remove(&self) {
        let identity = |of: &OwnedFd| {
            std::fs::metadata(format!("/proc/self/fd/{}", of.as_raw_fd())).ok().map(|it| FileId::of(&it))
        };
        let name = self.name.as_os_str();
        let now = tree::open_name(self.directory.as_fd(), name);
        if now.is_ok_and(|now| identity(&now).is_some() && identity(&now) == identity(&self.own)) {
            // A directory that is no longer empty stays.
            let _ = tree::remove(self.directory.as_fd(), name, self.is_directory);
        }
    }
}

impl Remade {
    /// Removes what has been made, the last first.
    pub(crate) fn undo(self) {
        for path in self.expected.iter().rev() {
            remove_expected(path);
        }
        self.made.iter().rev().for_each(Made::remove);
    }
}

/// Removes the file of a socket, or a file yet to be filled, that did not exist before the restart.
fn remove_expected(path: &Path) {
    let is_ours =
        |there: &Metadata| there.uid() == effective_user() && (there.is_file() || there.file_type().is_socket());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    if std::fs::symlink_metadata(path).is_ok_and(|there| is_ours(&there))
        && let Ok(directory) = tree::open_directory(parent)
    {
        // If it cannot be removed, it stays.
        let _ = tree::remove(directory.as_fd(), name, false);
    }
}

/// Reports whether a path is absolute and has no `.` or `..` components.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
