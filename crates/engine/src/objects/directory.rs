//! Open directories, and places in the file system (O_PATH): found again by path.

use super::shown::Shown;
use super::{Check, Kind, Known, O_NOFOLLOW, O_PATH, Opening, Recorded, Unsupported, Walk, as_path, nothing};
use crate::files::FileId;
use crate::{EngineError, RefusalCode};
use standfast_format::records::{Bytes, OpenFile, OpenFileKind};
use standfast_linux::abi;
use std::os::unix::fs::MetadataExt;

const IN_PLACE: &str = "keep directories in place while the program has them open";

pub(super) const PLACE: Kind = Kind { collect: collect_place, check, restore, describe };
pub(super) const KIND: Kind = Kind { collect, check: nothing, ..PLACE };

fn collect_place(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.information.flags & O_PATH != 0).then(|| walk.place_in_tree(shown))
}

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    shown.file.is_dir().then(|| walk.directory(shown))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    match &file.kind {
        OpenFileKind::Directory { path, position, device, inode } => {
            check.directory(path, (*position > 0).then_some(FileId { device: *device, inode: *inode }));
        }
        OpenFileKind::Place { path, mode, .. } => check.place(path, mode & abi::S_IFMT, None),
        _ => {}
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    match recorded.kind {
        OpenFileKind::Directory { path, position, .. } => Some(opening.open_directory(path, *position, recorded.flags)),
        OpenFileKind::Place { path, mode, .. } => Some(opening.open_place(path, *mode, recorded.flags)),
        _ => None,
    }
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    match kind {
        OpenFileKind::Directory { path, .. } => Some(format!("directory {path}")),
        OpenFileKind::Place { path, .. } => Some(format!("place {path} (O_PATH)")),
        _ => None,
    }
}

impl Walk<'_> {
    fn directory(&self, shown: &Shown) -> Known {
        let FileId { device, inode } = self.lies_there(shown)?;
        self.refuse_unopenable(shown)?;
        let path = Bytes::from(shown.target.as_slice());
        Ok(OpenFileKind::Directory { path, position: shown.information.position, device, inode })
    }

    fn place_in_tree(&self, shown: &Shown) -> Known {
        let FileId { device, inode } = self.lies_there(shown)?;
        let path = Bytes::from(shown.target.as_slice());
        Ok(OpenFileKind::Place { path, mode: shown.file.mode(), device, inode })
    }

    /// Returns device and inode of what a path leads to, which must be what is open.
    fn lies_there(&self, shown: &Shown) -> Result<FileId, Unsupported> {
        let found = std::fs::symlink_metadata(self.as_the_job_sees(&shown.target));
        if found.is_ok_and(|found| FileId::of(&found) == shown.identity()) {
            return Ok(shown.identity());
        }
        let why = if shown.target.ends_with(b" (deleted)") {
            "it has been deleted since it was opened"
        } else {
            "it cannot be found under its path any more"
        };
        Err(Unsupported::with_hint(RefusalCode::PathChanged, why, IN_PLACE))
    }
}

impl Check<'_, '_> {
    /// Checks that a directory that the program has open exists. One that was empty is made again.
    fn directory(&mut self, path: &Bytes, identity: Option<FileId>) {
        let is_gone = std::fs::symlink_metadata(as_path(path)).is_err();
        if is_gone && identity.is_none() && self.remaking.provide_empty(as_path(path)).is_ok() {
            return;
        }
        self.place(path, abi::S_IFDIR, identity);
    }

    /// Checks that what the program had open by its path exists and has the same type. If the program had listed part
    /// of it, it must be the same file.
    pub(super) fn place(&mut self, path: &Bytes, kind: u32, identity: Option<FileId>) {
        let now = std::fs::symlink_metadata(as_path(path));
        let now = now.ok().filter(|now| now.mode() & abi::S_IFMT == kind);
        let why = match now {
            None => "it is not there any more, or something else",
            Some(now) if identity.is_some_and(|identity| identity != FileId::of(&now)) => {
                "the program is in the middle of listing it, and another one has taken its place"
            }
            Some(_) => return,
        };
        self.blockers.add_missing(format!("{} {path}", if kind == abi::S_IFDIR { "directory" } else { "file" }), why);
    }
}

impl Opening<'_> {
    fn open_directory(&self, path: &Bytes, position: u64, flags: u32) -> Result<u64, EngineError> {
        let opened = self.open_path(&path.0, flags)?;
        self.position(opened, position)
    }

    /// Opens a place. A symbolic link itself is opened, not its target.
    fn open_place(&self, path: &Bytes, mode: u32, flags: u32) -> Result<u64, EngineError> {
        let follow = if mode & abi::S_IFMT == abi::S_IFLNK { O_NOFOLLOW } else { 0 };
        self.open_path(&path.0, flags | follow)
    }
}
