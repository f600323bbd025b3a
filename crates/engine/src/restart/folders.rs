//! Folders of the job. Missing entries are made before anybody opens them. When the whole job has been rebuilt, entries
//! that are new since the checkpoint are removed, and everything gets its former attributes. Contents of files are put
//! back with other mapped files. Sockets, named pipes and devices stay as they are.

use super::files::{FileNote, Reckoning, as_path};
use super::plan::JobPlan;
use crate::EngineError;
use crate::error::kernel;
use crate::file_policy::{FilePolicy, Objection};
use crate::files::FileId;
use crate::folders::{below, list, open};
use standfast_format::records::{
    Bytes, FileReference, FolderEntry, FolderItem, JobState, ListedDirectory, SavedFolder,
};
use standfast_linux::Folder;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Others are kept out of a directory until it is complete.
const OWNER_ONLY: u32 = 0o700;
const PERMISSIONS: u32 = 0o7777;

/// What to do about a folder.
#[derive(Debug)]
pub(super) struct FolderPlan {
    /// Its place among the job's folders.
    place: usize,
    /// New entries, by names below it; directories come after their contents.
    extra: Vec<PathBuf>,
    /// The folder that was examined, or that has been made since. All operations go through this handle.
    root: OnceLock<Folder>,
}

impl Reckoning<'_> {
    /// Returns what to do about the folder at `place`; `None` if it stays as it is.
    pub(super) fn judge_folder(&self, place: usize) -> Result<Option<FolderPlan>, Objection> {
        let folder = &self.job.folders[place];
        let path = as_path(&folder.path);
        if self.options.policy == FilePolicy::Keep {
            return Ok(None);
        }
        let unreadable = |error| Objection::new(format!("it cannot be read ({error})"), "");
        let root = match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => OnceLock::new(),
            opened => OnceLock::from(opened.map_err(unreadable)?),
        };
        let is_part = folder.is_part == Some(true);
        let scan = |root: &Folder| match is_part {
            true => find(root, &folder.entries),
            false => list(root, self.options.own_directory),
        };
        let mut now = root.get().map_or(Ok(BTreeMap::new()), scan).map_err(unreadable)?;
        let mut missing = 0;
        for entry in &folder.entries {
            match now.remove(as_path(&entry.name)) {
                None => missing += 1,
                Some(found) if is_kind(&entry.item, &found) || self.is_doubtful(&entry.item) => {}
                Some(_) => {
                    let why =
                        format!("something of another kind has taken the place of {}", full(folder, entry).display());
                    return Err(Objection::new(why, "move it away"));
                }
            }
        }
        let ordinary = |status: &Metadata| status.is_dir() || status.is_file() || status.is_symlink();
        let extra: Vec<_> = now.into_iter().rev().filter(|(_, it)| ordinary(it)).map(|(name, _)| name).collect();
        if self.options.policy == FilePolicy::Refuse && !is_part && missing + extra.len() > 0 {
            let why = format!(
                "{missing} of its entries are gone and {} are new, and --files refuse was requested",
                extra.len()
            );
            return Err(Objection::new(why, "to put back what it held: standfast restart --files auto"));
        }
        Ok(Some(FolderPlan { place, extra, root }))
    }

    fn is_doubtful(&self, item: &FolderItem) -> bool {
        let FolderItem::File { object } = item else { return false };
        self.parts.get(&(*object as usize)).is_some_and(|part| part.is_doubtful)
    }

    /// Reports whether a file is in a folder that is put back as a whole.
    pub(super) fn is_in_folder(&self, file: &FileReference) -> bool {
        let key = FileId::of_reference(file);
        self.options.policy != FilePolicy::Keep && self.in_folders.contains(&key)
    }
}

/// Returns the metadata of those entries that exist.
fn find(root: &Folder, entries: &[FolderEntry]) -> io::Result<BTreeMap<PathBuf, Metadata>> {
    let mut found = BTreeMap::new();
    for name in entries.iter().map(|entry| as_path(&entry.name)) {
        match root.find(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            held => drop(found.insert(name.to_owned(), held?.metadata()?)),
        }
    }
    Ok(found)
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

impl FolderPlan {
    /// Returns the folder, and makes it if it does not exist.
    fn root(&self, folder: &SavedFolder) -> io::Result<&Folder> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let path = as_path(&folder.path);
        // It may have been made meanwhile, with a file that is open in it.
        if let Ok(made) = open(path) {
            return Ok(self.root.get_or_init(|| made));
        }
        let name = Path::new(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        let parent = open(path.parent().unwrap_or(Path::new("/")))?;
        let mode = folder.entries.iter().find(|entry| entry.name.0.is_empty()).map_or(OWNER_ONLY, |entry| entry.mode);
        make_directory(&parent, name, mode)?;
        let made = parent.beneath(name)?;
        Ok(self.root.get_or_init(|| made))
    }

    /// Removes the entry of this name. An entry that is already gone counts as removed; a directory with unsaved
    /// entries stays.
    fn remove(&self, folder: &SavedFolder, name: &Path) -> io::Result<()> {
        let path = as_path(&folder.path);
        let removed = match (self.root.get(), name.as_os_str().is_empty()) {
            (Some(root), false) => root.remove(name),
            // The folder itself, which did not exist yet.
            (_, true) => open(path.parent().unwrap_or(Path::new("/")))
                .and_then(|parent| parent.remove(Path::new(path.file_name().unwrap_or_default()))),
            (None, false) => Ok(()),
        };
        match removed {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
            other => other,
        }
    }
}

/// Makes a directory that can be filled.
fn make_directory(folder: &Folder, name: &Path, mode: u32) -> io::Result<()> {
    folder.make_directory(name, OWNER_ONLY)?;
    folder.find(name)?.allow(mode | OWNER_ONLY)
}

impl JobPlan<'_> {
    fn folders(&self) -> impl Iterator<Item = (&FolderPlan, &SavedFolder)> {
        self.folders.iter().map(|plan| (plan, &self.job.folders[plan.place]))
    }

    /// Returns the file of an entry, and its former length.
    fn file_of(&self, entry: &FolderEntry) -> Option<(&FileReference, u64)> {
        let FolderItem::File { object } = entry.item else { return None };
        let object = self.job.objects.get(object as usize)?;
        object.kind.file().map(|file| (file, object.length))
    }

    /// Returns the files in folders, by their places among the memory objects, each with its folder and its name there.
    pub(super) fn files_in_folders(&self) -> HashMap<usize, (&Folder, &Path)> {
        let mut found = HashMap::new();
        for (plan, folder) in self.folders() {
            let Some(root) = plan.root.get() else { continue };
            let files = folder.entries.iter().filter_map(|entry| match entry.item {
                FolderItem::File { object } => Some((object as usize, (root, as_path(&entry.name)))),
                FolderItem::Directory | FolderItem::Link { .. } => None,
            });
            found.extend(files);
        }
        found
    }

    /// Makes missing entries, and files without contents.
    pub(super) fn make_missing_in_folders(&self) -> Result<(), EngineError> {
        for (plan, folder) in self.folders() {
            let making = |path: &Path, source| kernel(&format!("making {} again", path.display()), source);
            let mut entries = folder.entries.iter().filter(|entry| !self.is_doubtful_entry(entry)).peekable();
            // A folder that did not exist yet stays so.
            if entries.peek().is_none() {
                continue;
            }
            let root = plan.root(folder).map_err(|source| making(as_path(&folder.path), source))?;
            for entry in entries {
                self.make_missing(root, entry).map_err(|source| making(&full(folder, entry), source))?;
            }
        }
        Ok(())
    }

    /// Makes the file of a memory object, if it is missing in its folder.
    pub(super) fn make_missing_object(&self, object: usize) -> io::Result<()> {
        for (plan, folder) in self.folders() {
            let is_it =
                |entry: &&FolderEntry| matches!(entry.item, FolderItem::File { object: it } if it as usize == object);
            if let (Some(root), Some(entry)) = (plan.root.get(), folder.entries.iter().find(is_it)) {
                return self.make_missing(root, entry);
            }
        }
        Ok(())
    }

    fn is_doubtful_entry(&self, entry: &FolderEntry) -> bool {
        matches!(entry.item, FolderItem::File { object } if self.is_doubtful(object as usize))
    }

    fn make_missing(&self, root: &Folder, entry: &FolderEntry) -> io::Result<()> {
        let name = as_path(&entry.name);
        match root.find(name) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match &entry.item {
            FolderItem::Directory => make_directory(root, name, entry.mode),
            FolderItem::Link { target } => root.make_link(name, as_path(target)),
            FolderItem::File { .. } => {
                let Some((_, length)) = self.file_of(entry) else { return Ok(()) };
                let made = root.make_file(name, OWNER_ONLY)?;
                made.set_permissions(Permissions::from_mode(entry.mode))?;
                made.set_len(length)
            }
        }
    }

    /// Removes new entries, and gives everything its former attributes. `put_back` are notes of files that were changed
    /// for that already; notes about files in a folder are replaced by one about the folder.
    pub(super) fn put_folders_right(&self, put_back: &mut Vec<FileNote>) -> Result<(), EngineError> {
        for (plan, folder) in self.folders() {
            let path = as_path(&folder.path).to_owned();
            for name in &plan.extra {
                let removing = |source| kernel(&format!("removing {}", below(&path, name).display()), source);
                plan.remove(folder, name).map_err(removing)?;
            }
            if let Some(root) = plan.root.get() {
                for entry in folder.entries.iter().rev().filter(|entry| !self.is_doubtful_entry(entry)) {
                    let putting = |source| kernel(&format!("putting {} right", full(folder, entry).display()), source);
                    let file = self.file_of(entry).map(|(file, _)| file);
                    give_attributes(root, entry, file).map_err(putting)?;
                }
            }
            let before = put_back.len();
            put_back.retain(|note| !matches!(note, FileNote::PutBack { path: of } if of.starts_with(&path)));
            let (changed, removed) = (before - put_back.len(), plan.extra.len());
            if folder.is_part == Some(true) && changed > 0 {
                put_back.push(FileNote::FilesPutBack { path, changed });
            } else if changed + removed > 0 {
                put_back.push(FileNote::FolderPutBack { path, changed, removed });
            }
        }
        Ok(())
    }
}

fn give_attributes(root: &Folder, entry: &FolderEntry, file: Option<&FileReference>) -> io::Result<()> {
    let name = as_path(&entry.name);
    let held = root.find(name)?;
    let found = held.metadata()?;
    if !is_kind(&entry.item, &found) {
        return Err(io::Error::other("something of another kind has taken its place"));
    }
    if let FolderItem::Link { target } = &entry.item {
        if held.target()? != as_path(target) {
            root.remove(name)?;
            root.make_link(name, as_path(target))?;
        }
        return Ok(());
    }
    if (found.uid(), found.gid()) != (entry.user, entry.group) {
        held.give_to(entry.user, entry.group)?;
    }
    if found.mode() & PERMISSIONS != entry.mode {
        held.allow(entry.mode)?;
    }
    if let Some(file) = file {
        let modified = time(file.identity.modified_nanoseconds);
        // A file of another user keeps its own time.
        if found.modified().is_ok_and(|now| now != modified) {
            let _ = held.set_modified(modified);
        }
    }
    Ok(())
}

fn time(nanoseconds: i64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// How a file belongs to the job that the job was seen to write, in a directory that is not saved as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Whether it is the job's only if the job knows its name.
    pub(super) is_doubtful: bool,
    /// Whether its present contents are kept before it is put back, since the job was not seen to have it open.
    pub(super) keeps: bool,
}

/// Returns the files that the job was seen to write, by their places among the memory objects.
pub(super) fn parts(job: &JobState) -> HashMap<usize, Part> {
    let listed: HashMap<&Bytes, &ListedDirectory> =
        job.listed.iter().flatten().map(|listed| (&listed.path, listed)).collect();
    let held: BTreeSet<FileId> = job.files().map(FileId::of_reference).collect();
    let is_held = |object: u32| {
        let file = job.objects.get(object as usize).and_then(|object| object.kind.file());
        file.is_some_and(|file| held.contains(&FileId::of_reference(file)))
    };
    let mut found = HashMap::new();
    for folder in job.folders.iter().filter(|folder| folder.is_part == Some(true)) {
        let listed = listed.get(&folder.path);
        let files = listed.into_iter().flat_map(|listed| &listed.files);
        let written: BTreeSet<&Bytes> = files.filter(|file| file.is_written).map(|file| &file.name).collect();
        let is_shared = listed.is_none_or(|listed| listed.is_shared);
        for entry in &folder.entries {
            if let FolderItem::File { object } = entry.item {
                let keeps = !written.contains(&entry.name);
                found.insert(object as usize, Part { is_doubtful: is_shared && keeps && !is_held(object), keeps });
            }
        }
    }
    found
}

/// Reports whether checkpoints of the job save the files that it was seen to write.
pub(super) fn saves_written(job: &JobState) -> bool {
    job.folders.iter().any(|folder| folder.is_part == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restart::files::FileOptions;
    use standfast_format::records::{FileIdentity, ListedFile, MemoryObject, ObjectKind, ProcessState, SavedPart};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    /// Returns a job with a folder at `path` that contains a directory of this name.
    fn job(path: &Path, directory: &str) -> JobState {
        let entry = |name: &str| FolderEntry {
            name: name.as_bytes().into(),
            mode: 0o755,
            user: path.metadata().unwrap().uid(),
            group: path.metadata().unwrap().gid(),
            item: FolderItem::Directory,
        };
        let entries = vec![entry(""), entry(directory)];
        JobState {
            folders: vec![SavedFolder { path: path.as_os_str().as_bytes().into(), entries, is_part: None }],
            ..JobState::default()
        }
    }

    #[test]
    fn a_directory_replaced_by_a_link_does_not_lead_outside() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (folder, outside) = (place.join("folder"), place.join("outside"));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        for file in [folder.join("inner/new"), outside.join("new")] {
            std::fs::write(file, "").unwrap();
        }
        std::fs::set_permissions(&outside, Permissions::from_mode(0o711)).unwrap();
        let job = job(&folder, "inner");
        let plan = Reckoning::new(&job, FileOptions::default()).judge_folder(0).unwrap().unwrap();
        assert_eq!(plan.extra, [Path::new("inner/new")]);
        std::fs::rename(folder.join("inner"), place.join("away")).unwrap();
        symlink(&outside, folder.join("inner")).unwrap();
        assert!(plan.remove(&job.folders[0], Path::new("inner/new")).is_err());
        let root = plan.root(&job.folders[0]).unwrap();
        assert!(give_attributes(root, &job.folders[0].entries[1], None).is_err());
        assert!(outside.join("new").exists());
        assert_eq!(outside.metadata().unwrap().mode() & PERMISSIONS, 0o711);
    }

    #[test]
    fn files_in_shared_directories_need_evidence_to_belong_to_the_job() {
        let file = |name: &str, inode| FileReference {
            path: format!("/tmp/{name}").into_bytes().into(),
            identity: FileIdentity { device: 1, inode, ..FileIdentity::default() },
            ..FileReference::default()
        };
        let names = ["unsure", "written", "held"];
        let object = |(inode, name): (u64, &&str)| MemoryObject {
            kind: ObjectKind::MappedFile {
                file: file(name, inode),
                mode: 0o600,
                lock: None,
                other_writer: None,
                saved: SavedPart::Whole,
            },
            length: 0,
            huge_page_bytes: 0,
            modified_nanoseconds: None,
        };
        let entry = |(object, name): (u32, &&str)| FolderEntry {
            name: name.as_bytes().into(),
            mode: 0o600,
            user: 0,
            group: 0,
            item: FolderItem::File { object },
        };
        let listed = |name: &&str| ListedFile {
            name: name.as_bytes().into(),
            is_written: *name == "written",
            ..ListedFile::default()
        };
        let path: Bytes = b"/tmp"[..].into();
        let folder =
            SavedFolder { path: path.clone(), entries: (0..).zip(&names).map(entry).collect(), is_part: Some(true) };
        let mut job = JobState {
            objects: (0..).zip(&names).map(object).collect(),
            folders: vec![folder],
            listed: Some(vec![ListedDirectory {
                path,
                is_shared: true,
                files: names.iter().map(listed).collect(),
                ..ListedDirectory::default()
            }]),
            processes: vec![ProcessState { executable: file("held", 2), ..ProcessState::default() }],
            ..JobState::default()
        };
        let doubtful = |job: &JobState| {
            let parts = parts(job);
            [0, 1, 2].map(|object| (parts[&object].is_doubtful, parts[&object].keeps))
        };
        assert_eq!(doubtful(&job), [(true, true), (false, false), (false, true)]);
        job.listed.iter_mut().flatten().for_each(|listed| listed.is_shared = false);
        assert_eq!(doubtful(&job), [(false, true), (false, false), (false, true)]);
    }

    #[test]
    fn a_folder_whose_path_contains_a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("elsewhere/folder/inner")).unwrap();
        symlink("elsewhere", place.join("above")).unwrap();
        let mut state = job(&place.join("elsewhere/folder"), "inner");
        assert!(Reckoning::new(&state, FileOptions::default()).judge_folder(0).is_ok());
        state.folders[0].path = place.join("above/folder").as_os_str().as_bytes().into();
        let refused = Reckoning::new(&state, FileOptions::default()).judge_folder(0).unwrap_err();
        assert!(refused.why.contains("symbolic link"), "{}", refused.why);
    }
}
