//! Regular files, found under the names by which a restart must find them again.

use super::{FileId, identity};
use standfast_format::records::FileReference;
use standfast_linux::proc::Map;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Returns a regular file as a restart must find it again, or why it could not. `path` is as the kernel shows it.
pub(crate) fn reference(path: &[u8]) -> Result<FileReference, String> {
    let file = std::fs::metadata(Path::new(OsStr::from_bytes(path))).map_err(|_| {
        if path.ends_with(b" (deleted)") {
            "the file has been deleted or replaced since it was opened".to_owned()
        } else {
            "the file cannot be found under its path".to_owned()
        }
    })?;
    if !file.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    Ok(FileReference { path: path.into(), length: file.len(), identity: identity(&file), ..FileReference::default() })
}

/// The files of a collection, each inspected once, since the processes of a job mostly run from the same ones.
#[derive(Debug, Default)]
pub(crate) struct References {
    known: HashMap<Vec<u8>, Result<FileReference, String>>,
    /// Names in directories, by inode.
    names: HashMap<PathBuf, HashMap<u64, Vec<OsString>>>,
}

/// How many names in a directory we check for a file that has another name.
const NAMES_MAX: usize = 1000;

/// Returns the names in a directory, by inode.
pub(crate) fn names_in(directory: &Path) -> HashMap<u64, Vec<OsString>> {
    let mut names: HashMap<u64, Vec<OsString>> = HashMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES_MAX) {
        names.entry(entry.ino()).or_default().push(entry.file_name());
    }
    names
}

/// Returns the file with this key if `path`, as the kernel shows it, no longer leads to it, but another name in the same
/// directory does. `names` caches the directories that have been read.
fn linked_elsewhere(
    path: &[u8],
    key: FileId,
    names: &mut HashMap<PathBuf, HashMap<u64, Vec<OsString>>>,
) -> Option<FileReference> {
    let gone = Path::new(OsStr::from_bytes(path.strip_suffix(b" (deleted)")?));
    let directory = gone.parent().filter(|directory| directory.is_absolute())?;
    let names = names.entry(directory.to_owned()).or_insert_with(|| names_in(directory)).get(&key.inode)?;
    let found = names.iter().filter_map(|name| reference(directory.join(name).as_os_str().as_bytes()).ok());
    found.into_iter().find(|file| FileId::of_reference(file) == key)
}

impl References {
    /// Like [`reference`].
    pub(crate) fn reference(&mut self, path: &[u8]) -> Result<FileReference, String> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let found = reference(path);
        self.known.insert(path.to_vec(), found.clone());
        found
    }

    /// Returns the file that a mapping shows, if it has a name.
    pub(crate) fn of_mapping(&mut self, map: &Map) -> Result<FileReference, String> {
        let found = self.reference(&map.path).and_then(|file| match file.identity.inode == map.inode {
            true => Ok(file),
            false => Err("another file has taken its place".to_owned()),
        });
        found.or_else(|why| self.linked_elsewhere(map).ok_or(why))
    }

    /// Returns a file whose mapped name is gone, but that has another name in the same directory. sem_open(3) maps a
    /// semaphore under a temporary name; other processes find it by the other name.
    fn linked_elsewhere(&mut self, map: &Map) -> Option<FileReference> {
        let path = Some(&map.path).filter(|_| map.shared)?;
        linked_elsewhere(path, FileId { device: map.device, inode: map.inode }, &mut self.names)
    }
}

/// Returns a regular file that a process has open, under the name by which a restart must find it again. `path` is as
/// the kernel shows it.
pub(crate) fn opened(path: &[u8], key: FileId) -> Result<FileReference, String> {
    reference(path).or_else(|why| linked_elsewhere(path, key, &mut HashMap::new()).ok_or(why))
}
