//! Folders: directories that are saved with everything in them, open or not. This file finds what is in one. The
//! collection decides what is saved of it, and a restart how it is restored.

use crate::files::FileId;
use standfast_format::manifest::{MANIFEST_MAGIC, MANIFEST_NAME};
use standfast_format::records::{FolderItem, JobState};
use standfast_linux::abi;
use standfast_linux::{Access, Folder};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Maximum number of names in a folder, since a restart looks for each file among all others.
pub(crate) const NAMES_MAX: usize = 20_000;

/// The folders of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    /// Where they are.
    pub(crate) paths: Vec<PathBuf>,
    /// The job's own directory, which belongs to none of them.
    pub(crate) except: Option<PathBuf>,
    /// Whether files elsewhere that the job is seen to write are saved as well.
    pub(crate) saves_written: bool,
}

/// Returns the contents of a folder, by paths below it, directories before their contents; the folder itself has the
/// empty path. Links are not followed. The directory `except` is left out, and the contents of directories with
/// checkpoints.
pub(crate) fn list(folder: &Folder, except: Option<&Path>) -> io::Result<BTreeMap<PathBuf, Metadata>> {
    let key = |status: &Metadata| FileId::of(status);
    let except = except.and_then(|path| std::fs::metadata(path).ok()).map(|status| key(&status));
    let mut found = BTreeMap::from([(PathBuf::new(), folder.metadata()?)]);
    let mut unread = vec![PathBuf::new()];
    while let Some(directory) = unread.pop() {
        for entry in folder.beneath(&directory)?.entries()? {
            let entry = entry?;
            let (name, status) = (directory.join(entry.file_name()), entry.metadata()?);
            if Some(key(&status)) == except {
                continue;
            }
            if status.is_dir() && !has_manifest(&folder.beneath(&name)?) {
                unread.push(name.clone());
            }
            found.insert(name, status);
            if found.len() > NAMES_MAX {
                return Err(io::Error::other(format!("it holds more than {NAMES_MAX} files and directories")));
            }
        }
    }
    Ok(found)
}

/// Opens a folder by its path, which had no symbolic link in it when it was configured.
pub(crate) fn open(folder: &Path) -> io::Result<Folder> {
    Folder::open(folder).map_err(|error| match error.raw_os_error() {
        Some(abi::ELOOP) => io::Error::other("a symbolic link has taken the place of a directory in its path"),
        _ => error,
    })
}

/// Opens the directory of a path, and returns the last name of the path beside it.
pub(crate) fn open_parent(path: &Path) -> io::Result<(Folder, &Path)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((open(path.parent().unwrap_or(Path::new("/")))?, Path::new(name)))
}

/// Reports whether a directory holds the checkpoints of a job: of this one, of another one, or a copy of either. To
/// take such a directory back to an earlier state would destroy checkpoints.
pub(crate) fn holds_checkpoints(directory: &Path) -> bool {
    Folder::open(directory).is_ok_and(|folder| has_manifest(&folder))
}

fn has_manifest(directory: &Folder) -> bool {
    let name = Path::new(MANIFEST_NAME);
    let is_file = directory.find(name).and_then(|it| it.metadata()).is_ok_and(|status| status.is_file());
    let mut beginning = [0; MANIFEST_MAGIC.len()];
    let mut read = || directory.open_file(name, Access::Read)?.read_exact(&mut beginning);
    is_file && read().is_ok() && beginning == MANIFEST_MAGIC
}

/// Reports whether a directory of this name may belong to the job. The directories of jobs belong to the supervisors.
pub(crate) fn is_of_programs(name: &OsStr) -> bool {
    !name.as_encoded_bytes().ends_with(b".standfast")
}

/// Reports whether a name is neither hidden nor a job's directory. Hidden directories hold what programs keep for
/// themselves.
pub(crate) fn is_plain(name: &OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b".") && is_of_programs(name)
}

/// Returns the path of the entry with this name in a folder.
pub(crate) fn below(folder: &Path, name: &Path) -> PathBuf {
    if name.as_os_str().is_empty() { folder.to_owned() } else { folder.join(name) }
}

/// Returns the files in folders of a job, by device and inode at the checkpoint.
pub(crate) fn in_folders(job: &JobState) -> BTreeSet<FileId> {
    let entries = job.folders.iter().flat_map(|folder| &folder.entries);
    let objects = entries.filter_map(|entry| match entry.item {
        FolderItem::File { object } => job.objects.get(object as usize),
        FolderItem::Directory | FolderItem::Link { .. } => None,
    });
    objects.filter_map(|object| object.kind.file()).map(FileId::of_reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_skips_the_job_directory_and_does_not_follow_links() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        std::fs::create_dir_all(folder.join("base/deep")).unwrap();
        std::fs::create_dir_all(folder.join("job.standfast")).unwrap();
        for name in ["base/one", "base/deep/two", "job.standfast/manifest"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink(place.path(), folder.join("out")).unwrap();
        let except = folder.join("job.standfast");
        let found = list(&open(&folder.canonicalize().unwrap()).unwrap(), Some(&except)).unwrap();
        let names: Vec<_> = found.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, ["", "base", "base/deep", "base/deep/two", "base/one", "out"]);
        assert!(found[Path::new("out")].is_symlink());
    }
}
