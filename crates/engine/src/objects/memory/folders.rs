//! Collects folders: every regular file in them becomes a memory object that is saved whole, like one that the program
//! has mapped. Sockets, named pipes and devices are left out.

use super::{Access, Found, MemoryObjects, open_again};
use crate::files::{FileId, reference};
use crate::folders::{Folders, below, list, open};
use crate::listing::{FILE_BYTES_MAX, WrittenFolder};
use crate::object_key::ObjectKey;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{
    FolderEntry, FolderItem, MemoryObject, ObjectKind, OpenFile, OpenFileKind, SavedFolder, SavedPart,
};
use standfast_linux::abi;
use standfast_linux::proc::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

impl MemoryObjects {
    /// Adds the contents of the job's folders.
    pub(crate) fn save_folders(&mut self, folders: &Folders, own: &Status) -> Result<Vec<SavedFolder>, EngineError> {
        folders.paths.iter().map(|path| self.save_folder(path, folders.except.as_deref(), own)).collect()
    }

    fn save_folder(&mut self, path: &Path, except: Option<&Path>, own: &Status) -> Result<SavedFolder, EngineError> {
        let mut entries = Vec::new();
        let found = match open(path).and_then(|folder| list(&folder, except)) {
            // It does not exist yet, and a restart from here removes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            found => found.map_err(|error| unsupported(path, format!("it cannot be read ({error})")))?,
        };
        for (name, status) in &found {
            let full = below(path, name);
            let parent = name.parent().and_then(|parent| found.get(parent));
            if let Some(why) = parent.and_then(|parent| not_to_be_given_back(status, parent, own)) {
                return Err(unsupported(&full, why));
            }
            let item = if status.is_dir() {
                FolderItem::Directory
            } else if status.is_symlink() {
                let target = std::fs::read_link(&full).map_err(|error| unsupported(&full, error.to_string()))?;
                FolderItem::Link { target: target.as_os_str().as_bytes().into() }
            } else if status.is_file() {
                FolderItem::File { object: self.save_file_in_folder(&full, status)? }
            } else {
                continue;
            };
            entries.push(entry(name, status, item));
        }
        Ok(SavedFolder { path: path.as_os_str().as_bytes().into(), entries, is_part: None })
    }

    /// Adds what the job was seen to write in directories that are not saved as a whole. Also returns the paths that
    /// cannot be read.
    pub(crate) fn save_written(&mut self, written: &[WrittenFolder<'_>]) -> (Vec<SavedFolder>, Vec<PathBuf>) {
        let mut folders = Vec::new();
        let mut unread = Vec::new();
        for WrittenFolder { path, own, names } in written {
            let of_itself = own.map(|status| entry(Path::new(""), status, FolderItem::Directory));
            let mut entries: Vec<_> = of_itself.into_iter().collect();
            for name in names {
                let full = path.join(name);
                // If others write here as well, it may be gone by now.
                let Ok(status) = full.symlink_metadata() else { continue };
                match self.save_written_file(&full, &status, own.is_none()) {
                    Ok(item) => entries.push(entry(Path::new(name), &status, item)),
                    Err(_) => unread.push(full),
                }
            }
            if !entries.is_empty() {
                let path = path.as_os_str().as_bytes().into();
                folders.push(SavedFolder { path, entries, is_part: Some(true) });
            }
        }
        (folders, unread)
    }

    /// Saves one file. If `holds`, others may remove it at any time, so it is held open.
    fn save_written_file(&mut self, path: &Path, status: &Metadata, holds: bool) -> io::Result<FolderItem> {
        if status.is_symlink() {
            return Ok(FolderItem::Link { target: std::fs::read_link(path)?.as_os_str().as_bytes().into() });
        }
        let key = ObjectKey::of_file(status);
        let opened = open_again(path, key)?;
        let object = self.save_file_in_folder(path, status).map_err(io::Error::other)?;
        let access = &mut self.found[object as usize].access;
        if holds && matches!(access, Access::Path(_)) {
            *access = Access::File(opened);
        }
        Ok(FolderItem::File { object })
    }

    /// Adds files that the program has open and writes at their ends, unless it only appends to them. The growth of
    /// these files is judged where they are open. `written` lists all files that are written at their ends.
    pub(crate) fn save_written_at_ends(&mut self, open_files: &[OpenFile], written: &BTreeSet<FileId>) {
        for open in open_files.iter().filter(|open| open.flags & abi::O_APPEND as u32 == 0) {
            if let OpenFileKind::Regular { file, .. } = &open.kind
                && written.contains(&FileId::of_reference(file))
                && file.length <= FILE_BYTES_MAX
            {
                // The restart judges what cannot be read.
                let _ = self.save_file(file, SavedPart::WholeIfNeeded);
            }
        }
    }

    /// Returns the place of a file's object.
    fn save_file_in_folder(&mut self, path: &Path, status: &Metadata) -> Result<u32, EngineError> {
        let key = ObjectKey::of_file(status);
        if status.nlink() > 1 {
            return Err(unsupported(
                path,
                "it has several names (hard links), and would come back as several files".to_owned(),
            ));
        }
        if let Some(known) = self.position(key) {
            let found = &mut self.found[known as usize];
            if let ObjectKind::MappedFile { saved, .. } = &mut found.record.kind {
                (*saved, found.shown) = (SavedPart::Whole, None);
            }
            return Ok(known);
        }
        let file = reference(path.as_os_str().as_bytes()).map_err(|why| unsupported(path, why))?;
        let (length, mode) = (file.length, status.mode() & super::PERMISSIONS);
        let kind = ObjectKind::MappedFile { file, mode, lock: None, other_writer: None, saved: SavedPart::Whole };
        let record = MemoryObject { kind, length, huge_page_bytes: 0, modified_nanoseconds: None };
        self.found.push(Found { key, record, access: Access::Path(path.to_owned()), shown: None });
        Ok(self.found.len() as u32 - 1)
    }
}

fn entry(name: &Path, status: &Metadata, item: FolderItem) -> FolderEntry {
    let (mode, user, group) = (status.mode() & super::PERMISSIONS, status.uid(), status.gid());
    FolderEntry { name: name.as_os_str().as_bytes().into(), mode, user, group, item }
}

/// Returns the files that open files of the job write at their ends and nowhere else.
pub(crate) fn written_at_ends(open_files: &[OpenFile]) -> BTreeSet<FileId> {
    const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
    let writing = open_files.iter().filter(|open| open.flags & O_ACCMODE != 0);
    let mut at_ends: BTreeMap<FileId, bool> = BTreeMap::new();
    for open in writing {
        if let OpenFileKind::Regular { file, offset, .. } = &open.kind {
            let is_at_end = open.flags & O_ACCMODE == abi::O_WRONLY as u32 && *offset == file.length;
            let key = FileId::of_reference(file);
            *at_ends.entry(key).or_insert(true) &= is_at_end || open.flags & abi::O_APPEND as u32 != 0;
        }
    }
    at_ends.into_iter().filter_map(|(key, is_at_end)| is_at_end.then_some(key)).collect()
}

/// Returns why a restart by this user could not put back something in a folder, so that the user knows it beforehand.
/// What belongs to others can be changed or removed, but not given to them again. The folder itself has no parent
/// there, and stays where it is.
fn not_to_be_given_back(status: &Metadata, parent: &Metadata, own: &Status) -> Option<String> {
    const CAP_CHOWN: u64 = 1 << 0;
    let is_ours = |ids: &[u32], id: u32| ids.get(1) == Some(&id);
    if own.capabilities.effective & CAP_CHOWN != 0 {
        return None;
    }
    if !is_ours(&own.users, status.uid()) {
        return Some(format!("it belongs to another user ({}), and only root could put it back", status.uid()));
    }
    let group = status.gid();
    let is_inherited = parent.mode() & abi::S_ISGID != 0 && parent.gid() == group;
    let is_member = is_ours(&own.groups, group) || own.more_groups.contains(&group);
    (!is_member && !is_inherited)
        .then(|| format!("it belongs to a group ({group}) that this user is not in, and only root could put it back"))
}

fn unsupported(path: &Path, why: String) -> EngineError {
    EngineError::Refused(vec![
        Blocker::new(RefusalCode::FolderUnsaved, format!("{}, in a saved folder", path.display()), why)
            .with_hint("start the job again with --save-folder for a smaller folder, or without it"),
    ])
}
