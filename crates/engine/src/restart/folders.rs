//! Folders of the job: what is missing is made before anybody opens it, and when all of the job has been rebuilt, what has
//! come since is removed, and everything gets the attributes that it had. What files hold is put back with other mapped
//! files. Sockets, named pipes and devices stay as they are.

use super::files::{FileNote, FilePolicy, Objection, Reckoning, as_path};
use super::mapped_files::make_anew;
use super::plan::JobPlan;
use crate::EngineError;
use crate::files::FileKey;
use crate::folders::{below, look_into};
use crate::freeze::kernel;
use standfast_format::records::{FileReference, FolderEntry, FolderItem, JobState, SavedFolder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Until everything in it is there, others are kept out of a directory.
const OWNER_ONLY: u32 = 0o700;
const PERMISSIONS: u32 = 0o7777;

/// What becomes of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderPlan {
    /// Its place among the job's folders.
    place: usize,
    /// What is in it that was not, directories behind what is in them.
    extra: Vec<PathBuf>,
}

impl Reckoning<'_> {
    /// What becomes of the folder at `place`; `None` where it stays as it is.
    pub(super) fn judge_folder(&self, place: usize) -> Result<Option<FolderPlan>, Objection> {
        let folder = &self.job.folders[place];
        let path = as_path(&folder.path);
        if self.options.policy == FilePolicy::Keep {
            return Ok(None);
        }
        let unreadable = |error| Objection::new(format!("it cannot be read ({error})"), "");
        let mut now = match look_into(path, self.options.own_directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            found => found.map_err(unreadable)?,
        };
        let mut missing = 0;
        for entry in &folder.entries {
            match now.remove(as_path(&entry.name)) {
                None => missing += 1,
                Some(found) if is_kind(&entry.item, &found) => {}
                Some(_) => {
                    let why =
                        format!("something of another kind has taken the place of {}", full(folder, entry).display());
                    return Err(Objection::new(why, "move it away"));
                }
            }
        }
        let ordinary = |status: &Metadata| status.is_dir() || status.is_file() || status.is_symlink();
        let extra: Vec<_> =
            now.into_iter().rev().filter(|(_, status)| ordinary(status)).map(|(name, _)| below(path, &name)).collect();
        if self.options.policy == FilePolicy::Refuse && missing + extra.len() > 0 {
            let why =
                format!("{missing} things in it are gone and {} new, and --files refuse was asked for", extra.len());
            return Err(Objection::new(why, "to put back what it held: standfast restart --files auto"));
        }
        Ok(Some(FolderPlan { place, extra }))
    }

    /// Whether a file is in a folder that is put back as a whole.
    pub(super) fn is_in_folder(&self, file: &FileReference) -> bool {
        let key = (file.identity.device, file.identity.inode);
        self.options.policy != FilePolicy::Keep && self.in_folders.contains(&key)
    }
}

fn is_kind(item: &FolderItem, found: &Metadata) -> bool {
    match item {
        FolderItem::Directory => found.is_dir(),
        FolderItem::File { .. } => found.is_file(),
        FolderItem::Link { .. } => found.is_symlink(),
    }
}

fn full(folder: &SavedFolder, entry: &FolderEntry) -> PathBuf {
    below(as_path(&folder.path), as_path(&entry.name))
}

impl JobPlan<'_> {
    fn entries(&self) -> impl Iterator<Item = (&SavedFolder, &FolderEntry)> {
        let folders = self.folders.iter().map(|plan| &self.job.folders[plan.place]);
        folders.flat_map(|folder| folder.entries.iter().map(move |entry| (folder, entry)))
    }

    /// The file that an entry is, and how long it was.
    fn file_of(&self, entry: &FolderEntry) -> Option<(&FileReference, u64)> {
        let FolderItem::File { object } = entry.item else { return None };
        let object = self.job.objects.get(object as usize)?;
        object.kind.file().map(|file| (file, object.length))
    }

    /// Makes what is missing, files without contents.
    pub(super) fn make_missing_in_folders(&self) -> Result<(), EngineError> {
        for (folder, entry) in self.entries() {
            let path = full(folder, entry);
            if path.symlink_metadata().is_ok() {
                continue;
            }
            let made = match &entry.item {
                FolderItem::Directory => std::fs::create_dir(&path)
                    .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(entry.mode | OWNER_ONLY))),
                FolderItem::File { .. } => {
                    self.file_of(entry).map_or(Ok(()), |(file, length)| make_anew(file, length, entry.mode))
                }
                FolderItem::Link { target } => std::os::unix::fs::symlink(as_path(target), &path),
            };
            made.map_err(|source| kernel(&format!("making {} anew", path.display()), source))?;
        }
        Ok(())
    }

    /// Removes what was not there, and gives everything the attributes that it had. `put_back` are the files that were
    /// changed for that already; what is said of them is said of the folder.
    pub(super) fn put_folders_right(&self, put_back: &mut Vec<FileNote>) -> Result<(), EngineError> {
        for plan in &self.folders {
            let folder = &self.job.folders[plan.place];
            for path in &plan.extra {
                remove(path).map_err(|source| kernel(&format!("removing {}", path.display()), source))?;
            }
            for entry in folder.entries.iter().rev() {
                let path = full(folder, entry);
                self.give_attributes(entry, &path)
                    .map_err(|source| kernel(&format!("putting {} right", path.display()), source))?;
            }
            let path = as_path(&folder.path).to_owned();
            let before = put_back.len();
            put_back.retain(|note| !matches!(note, FileNote::PutBack { path: of } if of.starts_with(&path)));
            let (changed, removed) = (before - put_back.len(), plan.extra.len());
            if changed + removed > 0 {
                put_back.push(FileNote::FolderPutBack { path, changed, removed });
            }
        }
        Ok(())
    }

    fn give_attributes(&self, entry: &FolderEntry, path: &Path) -> io::Result<()> {
        let found = path.symlink_metadata()?;
        if let FolderItem::Link { target } = &entry.item {
            if std::fs::read_link(path)? != as_path(target) {
                std::fs::remove_file(path)?;
                std::os::unix::fs::symlink(as_path(target), path)?;
            }
            return Ok(());
        }
        if (found.uid(), found.gid()) != (entry.user, entry.group) {
            std::os::unix::fs::chown(path, Some(entry.user), Some(entry.group))?;
        }
        if found.mode() & PERMISSIONS != entry.mode {
            std::fs::set_permissions(path, Permissions::from_mode(entry.mode))?;
        }
        if let Some((file, _)) = self.file_of(entry) {
            let modified = time(file.identity.modified_nanoseconds);
            // Where it is another user's, it keeps its own.
            if found.modified().is_ok_and(|now| now != modified) {
                let _ = File::open(path).and_then(|open| open.set_modified(modified));
            }
        }
        Ok(())
    }
}

/// What may have become of it meanwhile is as good as removed; a directory with something in it that is not saved stays.
fn remove(path: &Path) -> io::Result<()> {
    let removed = path
        .symlink_metadata()
        .and_then(|status| if status.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) });
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
        other => other,
    }
}

fn time(nanoseconds: i64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// The files in folders of a job, by device and inode at the checkpoint.
pub(super) fn in_folders(job: &JobState) -> BTreeSet<FileKey> {
    let entries = job.folders.iter().flat_map(|folder| &folder.entries);
    let objects = entries.filter_map(|entry| match entry.item {
        FolderItem::File { object } => job.objects.get(object as usize),
        FolderItem::Directory | FolderItem::Link { .. } => None,
    });
    objects.filter_map(|object| object.kind.file()).map(|file| (file.identity.device, file.identity.inode)).collect()
}
