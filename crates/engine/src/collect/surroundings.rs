//! Collects what a job relies on in the file system by name: directories on the way to its files, sockets and pipes, and
//! working directories. A restart recreates what is missing.

use crate::objects::is_removed_directory;
use crate::remake::is_plain;
use crate::socket_paths::socket_path;
use standfast_format::records::{Bytes, JobState, OpenFileKind, Surrounding};
use standfast_linux::Pid;
use standfast_linux::abi;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
/// A larger directory is not empty, and is not listed while the program is frozen.
const SMALL_DIRECTORY_BYTES: u64 = 4096;

/// Returns what `state` relies on. `pids` are its living processes, in their order, with the pids that this process
/// sees.
pub(super) fn of(state: &JobState, pids: &[Pid]) -> Vec<Surrounding> {
    let remade: BTreeSet<PathBuf> = remade_paths(state).collect();
    let entered: BTreeSet<PathBuf> = entered_paths(state).collect();
    let mut found: BTreeMap<PathBuf, Surrounding> = BTreeMap::new();
    for path in remade.iter().chain(&entered).filter(|path| is_plain(path)) {
        for part in path.ancestors() {
            if found.contains_key(part) {
                break;
            }
            let Ok(there) = std::fs::symlink_metadata(part) else { continue };
            let empty = entered.contains(part) && there.len() <= SMALL_DIRECTORY_BYTES && holds_only(part, &remade);
            found.insert(part.to_owned(), surrounding(part.as_os_str().as_bytes(), &there, empty, false));
        }
    }
    for (pid, process) in pids.iter().zip(&state.processes) {
        let shown = &process.working_directory.0;
        let Ok(own) = std::fs::metadata(format!("/proc/{pid}/cwd")) else { continue };
        if is_removed_directory(shown, &own) {
            found.insert(as_path(&process.working_directory).to_owned(), surrounding(shown, &own, true, true));
        }
    }
    found.into_values().collect()
}

fn surrounding(path: &[u8], there: &Metadata, empty: bool, removed: bool) -> Surrounding {
    let (mode, user, group, device) = (there.mode(), there.uid(), there.gid(), there.dev());
    Surrounding { path: path.into(), mode, user, group, device, empty, removed }
}

/// Returns what a restart recreates if it is missing.
fn remade_paths(state: &JobState) -> impl Iterator<Item = PathBuf> {
    let sockets = state.sockets.iter().filter_map(|socket| socket_path(state, socket));
    let pipes = state.pipes.iter().filter_map(|pipe| Some(as_path(pipe.path.as_ref()?).to_owned()));
    let written = state.open_files.iter().filter(|open| open.flags & O_ACCMODE != 0);
    let open = written.filter_map(|open| open.kind.file());
    let files = state.objects.iter().filter_map(|object| object.kind.file()).chain(open);
    sockets.chain(pipes).chain(files.map(|file| as_path(&file.path).to_owned()))
}

/// Returns directories in which the job is, or that it has open or watches.
fn entered_paths(state: &JobState) -> impl Iterator<Item = PathBuf> {
    let working = state.processes.iter().map(|process| &process.working_directory);
    let open = state.open_files.iter().filter_map(|open| match &open.kind {
        OpenFileKind::Directory { path, .. } | OpenFileKind::Place { path, .. } => Some(path),
        _ => None,
    });
    let watched = state.open_files.iter().flat_map(|open| match &open.kind {
        OpenFileKind::Watches { watches } => watches.as_slice(),
        _ => &[],
    });
    working.chain(open).chain(watched.map(|watch| &watch.path)).map(|path| as_path(path).to_owned())
}

fn holds_only(directory: &Path, these: &BTreeSet<PathBuf>) -> bool {
    std::fs::read_dir(directory)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| these.contains(&entry.path()))))
}

fn as_path(path: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(&path.0))
}
