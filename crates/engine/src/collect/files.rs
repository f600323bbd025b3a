//! The files of a job: found by path, read ahead while the program runs, and noted with what they hold.

use crate::files::{FileKey, Haste, Scan, identity};
use crate::listing::Outline;
use crate::shared::{Kept, Shared};
use crate::tree::Roots;
use standfast_format::records::{Coverage, FileReference, JobState, ObjectKind, OpenFileKind, SavedPart};
use standfast_linux::proc::{self, DescriptorInformation, Map, ShownLockKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// A regular file as a restart must find it again, or why it could not. `path` is as the kernel shows it.
pub(super) fn reference(path: &[u8]) -> Result<FileReference, String> {
    let file = std::fs::metadata(Path::new(std::ffi::OsStr::from_bytes(path))).map_err(|_| {
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

/// The files of a collection, each looked at once: the processes of a job mostly run from the same ones.
#[derive(Debug, Default)]
pub(super) struct References {
    known: HashMap<Vec<u8>, Result<FileReference, String>>,
    /// Names in directories, by inode.
    names: HashMap<PathBuf, HashMap<u64, Vec<OsString>>>,
}

/// How many names of a directory are looked at for a file that has another one.
const NAMES_MAX: usize = 1000;

/// The names in a directory, by inode.
pub(super) fn names_in(directory: &Path) -> HashMap<u64, Vec<OsString>> {
    let mut names: HashMap<u64, Vec<OsString>> = HashMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES_MAX) {
        names.entry(entry.ino()).or_default().push(entry.file_name());
    }
    names
}

/// A file with this key that `path` does not lead to any more, as the kernel shows it, and that has another name in the same
/// directory. `names` are those of directories that have been looked at.
fn linked_elsewhere(
    path: &[u8],
    key: FileKey,
    names: &mut HashMap<PathBuf, HashMap<u64, Vec<OsString>>>,
) -> Option<FileReference> {
    let gone = Path::new(OsStr::from_bytes(path.strip_suffix(b" (deleted)")?));
    let directory = gone.parent().filter(|directory| directory.is_absolute())?;
    let names = names.entry(directory.to_owned()).or_insert_with(|| names_in(directory)).get(&key.1)?;
    let found = names.iter().filter_map(|name| reference(directory.join(name).as_os_str().as_bytes()).ok());
    found.into_iter().find(|file| key_of(file) == key)
}

impl References {
    /// As [`reference`].
    pub(super) fn reference(&mut self, path: &[u8]) -> Result<FileReference, String> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let found = reference(path);
        self.known.insert(path.to_vec(), found.clone());
        found
    }

    /// The file that a mapping shows, where it has a name.
    pub(super) fn of_mapping(&mut self, map: &Map) -> Result<FileReference, String> {
        let found = self.reference(&map.path).and_then(|file| match file.identity.inode == map.inode {
            true => Ok(file),
            false => Err("another file has taken its place".to_owned()),
        });
        found.or_else(|why| self.linked_elsewhere(map).ok_or(why))
    }

    /// A file that is mapped under a name which it has no more, and has another one in the same directory: sem_open(3) maps
    /// a semaphore under one for the time being. Others find it by the other.
    fn linked_elsewhere(&mut self, map: &Map) -> Option<FileReference> {
        let path = Some(&map.path).filter(|_| map.shared)?;
        linked_elsewhere(path, (map.device, map.inode), &mut self.names)
    }
}

/// A regular file that a process has open, under the name by which a restart must find it again. `path` is as the kernel shows it.
pub(super) fn opened(path: &[u8], key: FileKey) -> Result<FileReference, String> {
    reference(path).or_else(|why| linked_elsewhere(path, key, &mut HashMap::new()).ok_or(why))
}

/// Reads the files of a running job, and looks who else writes to them, what was said about memory and who sleeps, so that
/// the stop need not.
pub(crate) fn prefetch(roots: &Roots, shared: &Shared) {
    let pids: Vec<i32> = roots.members().iter().map(|member| member.pid).collect();
    let mut paths = BTreeSet::new();
    let (mut mapped, mut written, mut leased) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut outputs = BTreeMap::new();
    for pid in &pids {
        let maps = Map::of(*pid).unwrap_or_default();
        let may_write = |map: &&Map| map.protection.write || map.is_of_writable_file(*pid).unwrap_or(false);
        for map in maps.iter().filter(|map| map.inode != 0 && map.shared).filter(may_write) {
            let key = reference(&map.path).ok().as_ref().map(key_of);
            mapped.extend(key.filter(|_| map.protection.write));
            written.extend(key);
        }
        paths.extend(maps.into_iter().filter(|map| map.inode != 0).map(|map| map.path));
        for number in proc::numbers(*pid, "fd").unwrap_or_default() {
            let (Ok(path), Ok(information)) =
                (proc::link(*pid, &format!("fd/{number}")), DescriptorInformation::of(*pid, number))
            else {
                continue;
            };
            if information.flags & libc::O_ACCMODE as u32 != 0 {
                outputs.extend(reference(&path).ok().map(|file| (key_of(&file), path.clone())));
            }
            // To open such a file would tell its holder to give the lease up, by a signal that ends programs.
            if information.locks.iter().any(|lock| lock.kind == ShownLockKind::Other) {
                leased.insert(path.clone());
            }
            paths.insert(path);
        }
    }
    written.extend(outputs.keys());
    paths.retain(|path| !leased.contains(path));
    shared.digests.begin();
    for mut file in paths.iter().filter_map(|path| reference(path).ok()) {
        let key = key_of(&file);
        let (is_mapped, is_written) = (mapped.contains(&key), written.contains(&key));
        shared.digests.fill(&mut file, Scan { haste: Haste::Running, is_mapped, is_written });
    }
    // To the reaper come those of the job that lose their parents, also such as are younger than the list.
    let job: Vec<i32> = pids.iter().copied().chain(roots.reaper).collect();
    shared.writers.scan(&written, &job);
    shared.scans.prefetch(&pids);
    shared.waits().prefetch(&pids);
    // Last, since the less time passes until the stop the less has changed by then.
    let folders = &shared.folders();
    shared.listing.prefetch(&Outline { pids: &pids, job: &job, outputs: &outputs, folders });
}

/// Looks at the directories in which a job works that has just begun.
pub(crate) fn list_ahead(roots: &Roots, shared: &Shared) {
    let pids: Vec<i32> = roots.members().iter().map(|member| member.pid).collect();
    let job: Vec<i32> = pids.iter().copied().chain(roots.reaper).collect();
    let (outputs, folders) = (BTreeMap::new(), &shared.folders());
    shared.listing.prefetch(&Outline { pids: &pids, job: &job, outputs: &outputs, folders });
}

/// A file with code that has been replaced, as it was when a copy of it was made. `path` is as the kernel shows it.
pub(super) fn copied(path: &[u8], inode: u64, kept: &Kept) -> Option<FileReference> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    kept.values().find(|file| file.identity.inode == inode && file.path.0 == path).cloned()
}

/// The files with code that the job runs from, as far as they are in place and were read whole.
pub(crate) fn code_files(roots: &Roots, shared: &Shared) -> Vec<FileReference> {
    let mut found: BTreeMap<FileKey, FileReference> = BTreeMap::new();
    for member in roots.members() {
        let maps = Map::of(member.pid).unwrap_or_default();
        for map in maps.iter().filter(|map| map.inode != 0 && map.protection.execute && !map.shared) {
            let file = reference(&map.path).ok().filter(|file| file.identity.inode == map.inode);
            let Some(mut file) = file.filter(|file| !found.contains_key(&key_of(file))) else { continue };
            shared.digests.fill(&mut file, Scan::reading(Haste::Running));
            if file.digest.is_some_and(|digest| digest.coverage == Coverage::Whole) {
                found.insert(key_of(&file), file);
            }
        }
    }
    found.into_values().collect()
}

/// Notes what the files hold, and who else writes to those that the job writes.
pub(super) fn note_contents(state: &mut JobState, shared: &Shared) {
    let mapped = mapped_files(state);
    // Each is looked at once, however often the job has it.
    let mut seen: HashMap<FileKey, FileReference> = HashMap::new();
    for file in state.files_mut() {
        let key = key_of(file);
        if let Some(same) = seen.get(&key).filter(|same| (same.identity, same.length) == (file.identity, file.length)) {
            (file.digest, file.build_id) = (same.digest, same.build_id.clone());
            continue;
        }
        let is_mapped = mapped.contains(&key);
        shared.digests.fill(file, Scan { haste: Haste::Stopped, is_mapped, is_written: is_mapped });
        seen.insert(key, file.clone());
    }
    for open in &mut state.open_files {
        if let OpenFileKind::Regular { file, other_writer, .. } = &mut open.kind {
            let known = shared.writers.known(key_of(file));
            *other_writer =
                known.filter(|_| open.flags & libc::O_ACCMODE as u32 != 0).map(|who| who.into_bytes().into());
        }
    }
    for object in &mut state.objects {
        if let ObjectKind::MappedFile { file, other_writer, .. } = &mut object.kind {
            *other_writer = shared.writers.known(key_of(file)).map(|who| who.into_bytes().into());
        }
    }
}

/// The files that the job has mapped and may write through the mappings, of which not all is in the image.
fn mapped_files(state: &JobState) -> BTreeSet<FileKey> {
    let mapped = state.objects.iter().filter_map(|object| match &object.kind {
        ObjectKind::MappedFile { file, saved: SavedPart::Mapped, .. } => Some(key_of(file)),
        _ => None,
    });
    mapped.collect()
}

pub(super) fn key_of(file: &FileReference) -> FileKey {
    (file.identity.device, file.identity.inode)
}
