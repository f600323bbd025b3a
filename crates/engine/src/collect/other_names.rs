//! Files with several names (link(2)), which sem_open(3), lock files and mail have for a moment: such a file is made
//! under one name and linked to another, and then the first name is removed. A restart that recreates such a file gives
//! it all its names.

use crate::files::{FileId, names_in};
use crate::folders::in_folders;
use standfast_format::records::{FileReference, JobState, OpenFile, OtherNames};
use standfast_linux::abi;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;

/// Records the other names of files that the job may write, if they are in the same directories.
pub(super) fn note(state: &mut JobState) {
    // Files in saved folders have one name each.
    let saved: BTreeSet<FileId> = in_folders(state);
    let mut directories = HashMap::new();
    let is_written = |open: &&mut OpenFile| open.flags & O_ACCMODE != 0;
    let open = state.open_files.iter_mut().filter(is_written).filter_map(|open| open.kind.file_mut());
    let mapped = state.objects.iter_mut().filter_map(|object| object.kind.file_mut());
    for file in mapped.chain(open).filter(|file| !saved.contains(&FileId::of_reference(file))) {
        file.other_names = other_names(file, &mut directories);
    }
}

fn other_names(
    file: &FileReference,
    directories: &mut HashMap<PathBuf, HashMap<u64, Vec<OsString>>>,
) -> Option<OtherNames> {
    let own = Path::new(OsStr::from_bytes(&file.path.0));
    let is_it = |path: &Path| path.symlink_metadata().is_ok_and(|it| FileId::of(&it) == FileId::of_reference(file));
    let count =
        own.symlink_metadata().ok().filter(|_| is_it(own))?.nlink().checked_sub(1).filter(|count| *count > 0)?;
    let directory = own.parent()?;
    let names = directories.entry(directory.to_owned()).or_insert_with(|| names_in(directory));
    let paths = names.get(&file.identity.inode).into_iter().flatten().map(|name| directory.join(name));
    let others = paths.filter(|path| path != own && is_it(path));
    Some(OtherNames { count, found: others.map(|path| path.as_os_str().as_bytes().into()).collect() })
}
