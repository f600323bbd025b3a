//! The files of a job: found by path, read ahead while the program runs, and recorded with their contents.

use crate::files::{FileId, Haste, Scan, reference};
use crate::listing::Outline;
use crate::shared::{JobFiles, Kept, Shared};
use crate::tree::Roots;
use standfast_format::records::{Coverage, FileReference, JobState, ObjectKind, OpenFileKind, SavedPart};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, DescriptorInformation, Map, ShownLockKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Reads the files of a running job, so that the stop need not. Also determines who else writes to them, what the
/// programs told the kernel about their memory, and which threads sleep.
pub(crate) fn prefetch(roots: &Roots, shared: &Shared) {
    let pids: Vec<Pid> = roots.members().iter().map(|member| member.pid).collect();
    let mut paths = BTreeSet::new();
    let (mut mapped, mut written, mut leased) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut outputs = BTreeMap::new();
    for pid in &pids {
        let maps = Map::of(*pid).unwrap_or_default();
        let may_write = |map: &&Map| map.protection.write || map.is_of_writable_file(*pid).unwrap_or(false);
        for map in maps.iter().filter(|map| map.inode != 0 && map.shared).filter(may_write) {
            let key = reference(&map.path).ok().as_ref().map(FileId::of_reference);
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
            if information.flags & abi::O_ACCMODE as u32 != 0 {
                outputs.extend(reference(&path).ok().map(|file| (FileId::of_reference(&file), path.clone())));
            }
            // Opening such a file would make the kernel ask its holder to give up the lease, by a signal that ends
            // programs.
            if information.locks.iter().any(|lock| lock.kind == ShownLockKind::Other) {
                leased.insert(path.clone());
            }
            paths.insert(path);
        }
    }
    written.extend(outputs.keys());
    paths.retain(|path| !leased.contains(path));
    shared.files.digests.begin();
    for mut file in paths.iter().filter_map(|path| reference(path).ok()) {
        let key = FileId::of_reference(&file);
        let (is_mapped, is_written) = (mapped.contains(&key), written.contains(&key));
        shared.files.digests.fill(&mut file, Scan { haste: Haste::Running, is_mapped, is_written });
    }
    // Processes of the job that lose their parent become children of the reaper, even processes younger than the list.
    let job: Vec<Pid> = pids.iter().copied().chain(roots.reaper).collect();
    shared.files.writers.scan(&written, &job);
    shared.memory.scans.prefetch(&pids);
    shared.tracing.waits().prefetch(&pids);
    // This comes last: the less time passes until the stop, the less has changed by then.
    let folders = &shared.files.folders();
    shared.files.listing.prefetch(&Outline { pids: &pids, job: &job, outputs: &outputs, folders });
}

/// Scans the directories in which a job works that has just begun.
pub(crate) fn list_ahead(roots: &Roots, files: &JobFiles) {
    let pids: Vec<Pid> = roots.members().iter().map(|member| member.pid).collect();
    let job: Vec<Pid> = pids.iter().copied().chain(roots.reaper).collect();
    let (outputs, folders) = (BTreeMap::new(), &files.folders());
    files.listing.prefetch(&Outline { pids: &pids, job: &job, outputs: &outputs, folders });
}

/// Returns a replaced file with code as it was when its copy was made. `path` is as the kernel shows it.
pub(super) fn copied(path: &[u8], inode: u64, kept: &Kept) -> Option<FileReference> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    kept.values().find(|file| file.identity.inode == inode && file.path.0 == path).cloned()
}

/// Returns the files with code that the job executes, if they are in place and could be read completely.
pub(crate) fn code_files(roots: &Roots, files: &JobFiles) -> Vec<FileReference> {
    let mut found: BTreeMap<FileId, FileReference> = BTreeMap::new();
    for member in roots.members() {
        let maps = Map::of(member.pid).unwrap_or_default();
        for map in maps.iter().filter(|map| map.inode != 0 && map.protection.execute && !map.shared) {
            let file = reference(&map.path).ok().filter(|file| file.identity.inode == map.inode);
            let Some(mut file) = file.filter(|file| !found.contains_key(&FileId::of_reference(file))) else { continue };
            files.digests.fill(&mut file, Scan::reading(Haste::Running));
            if file.digest.is_some_and(|digest| digest.coverage == Coverage::Whole) {
                found.insert(FileId::of_reference(&file), file);
            }
        }
    }
    found.into_values().collect()
}

/// Records what the files hold, and who else writes to those that the job writes.
pub(super) fn note_contents(state: &mut JobState, files: &JobFiles) {
    let mapped = mapped_files(state);
    // Each file is inspected once, however often the job has it.
    let mut seen: HashMap<FileId, FileReference> = HashMap::new();
    for file in state.files_mut() {
        let key = FileId::of_reference(file);
        if let Some(same) = seen.get(&key).filter(|same| (same.identity, same.length) == (file.identity, file.length)) {
            (file.digest, file.build_id) = (same.digest, same.build_id.clone());
            continue;
        }
        let is_mapped = mapped.contains(&key);
        files.digests.fill(file, Scan { haste: Haste::Stopped, is_mapped, is_written: is_mapped });
        seen.insert(key, file.clone());
    }
    for open in &mut state.open_files {
        if let OpenFileKind::Regular { file, other_writer, .. } = &mut open.kind {
            let known = files.writers.known(FileId::of_reference(file));
            *other_writer =
                known.filter(|_| open.flags & abi::O_ACCMODE as u32 != 0).map(|who| who.into_bytes().into());
        }
    }
    for object in &mut state.objects {
        if let ObjectKind::MappedFile { file, other_writer, .. } = &mut object.kind {
            *other_writer = files.writers.known(FileId::of_reference(file)).map(|who| who.into_bytes().into());
        }
    }
}

/// Returns the mapped files that the job may write through the mappings and that are not completely in the image.
fn mapped_files(state: &JobState) -> BTreeSet<FileId> {
    let mapped = state.objects.iter().filter_map(|object| match &object.kind {
        ObjectKind::MappedFile { file, saved: SavedPart::Mapped, .. } => Some(FileId::of_reference(file)),
        _ => None,
    });
    mapped.collect()
}
