//! Files with several names (link(2)), which sem_open(3), lock files and mail have for a moment: such a file is made
//! under one name and linked to another, and then the first name is removed. A restart decides by names and inodes, and
//! gives the file all its names before any file is opened.
//!
//! ```text
//! its own name is gone    linked again from another one; if all are gone, made again and linked to them
//! others are gone         linked again
//! others are taken        refused: what was one file would be two
//! ```

use super::{O_ACCMODE, as_path};
use crate::EngineError;
use crate::error::kernel;
use crate::file_policy::{FilePolicy, Objection};
use crate::files::{FileId, names_in};
use crate::folders::{in_folders, open_parent};
use standfast_format::records::{FileReference, JobState, OpenFile, OtherNames};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Records the other names of files that the job may write, if they are in the same directories.
pub(crate) fn note_other_names(state: &mut JobState) {
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
    let own = as_path(&file.path);
    let is_it = |path: &Path| path.symlink_metadata().is_ok_and(|it| FileId::of(&it) == FileId::of_reference(file));
    let count =
        own.symlink_metadata().ok().filter(|_| is_it(own))?.nlink().checked_sub(1).filter(|count| *count > 0)?;
    let directory = own.parent()?;
    let names = directories.entry(directory.to_owned()).or_insert_with(|| names_in(directory));
    let paths = names.get(&file.identity.inode).into_iter().flatten().map(|name| directory.join(name));
    let others = paths.filter(|path| path != own && is_it(path));
    Some(OtherNames { count, found: others.map(|path| path.as_os_str().as_bytes().into()).collect() })
}

/// What to do about the names of a file that had several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamesPlan {
    pub(crate) own: PathBuf,
    /// Its present path, if its own name does not lead to it any more.
    found: Option<PathBuf>,
    /// Other names that lead nowhere any more.
    missing: Vec<PathBuf>,
    /// The objection to giving it its names.
    pub(crate) against: Option<Objection>,
}

/// Where a name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToIt,
    Elsewhere,
    Nowhere,
}

/// Decides about the names of all files that had several.
pub(crate) fn judge_names(job: &JobState, policy: FilePolicy) -> BTreeMap<FileId, NamesPlan> {
    if policy == FilePolicy::Refuse {
        return BTreeMap::new();
    }
    let mapped = job.objects.iter().filter_map(|object| object.kind.file());
    let files = mapped.chain(job.open_files.iter().filter_map(|open| open.kind.file()));
    files
        .filter_map(|file| Some((FileId::of_reference(file), judge(file, file.other_names.as_ref()?, policy)?)))
        .collect()
}

/// Returns `None` if another file has the file's own name: that is judged with its content.
fn judge(file: &FileReference, others: &OtherNames, policy: FilePolicy) -> Option<NamesPlan> {
    let leads = |path: &Path| match path.symlink_metadata() {
        Ok(now) if FileId::of(&now) == FileId::of_reference(file) => Leads::ToIt,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Leads::Nowhere,
        _ => Leads::Elsewhere,
    };
    let own = as_path(&file.path);
    let is_in_place = match leads(own) {
        Leads::ToIt => true,
        Leads::Nowhere => false,
        Leads::Elsewhere => return None,
    };
    let named = |wanted| others.found.iter().map(as_path).filter(move |path| leads(path) == wanted).map(Path::to_owned);
    let found = named(Leads::ToIt).next().filter(|_| !is_in_place);
    let is_gone = !is_in_place && found.is_none();
    let unknown = others.count.saturating_sub(others.found.len() as u64);
    let against = if policy == FilePolicy::Keep {
        None
    } else if let Some(taken) = named(Leads::Elsewhere).next() {
        let why = format!("it had the name {} as well, which another file has now", taken.display());
        let hint = "move that file away; continue without that name: standfast restart --files keep";
        Some(Objection::new(why, hint))
    } else if is_gone && unknown > 0 {
        let why = format!("it is gone, and {unknown} more of its names were not in its directory");
        Some(Objection::new(
            why,
            "put it back under all of its names; continue without them: standfast restart --files keep",
        ))
    } else {
        None
    };
    Some(NamesPlan { own: own.to_owned(), found, missing: named(Leads::Nowhere).collect(), against })
}

impl NamesPlan {
    /// Returns the present path of the file, if its own name does not lead to it any more.
    pub(crate) fn found(&self) -> Option<&Path> {
        self.found.as_deref()
    }

    /// Returns the names that do not exist.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &Path> {
        let own = self.found.is_some().then_some(&self.own);
        own.into_iter().chain(&self.missing).map(PathBuf::as_path)
    }

    /// Links the file to its own name if that is missing.
    pub(crate) fn return_own(&self) -> Result<(), EngineError> {
        let Some(found) = &self.found else { return Ok(()) };
        link(found, &self.own).map_err(|source| linking(&self.own, source))
    }

    /// Links the file, which exists by now, to its other names.
    pub(crate) fn return_others(&self) -> Result<(), EngineError> {
        let link = |missing: &PathBuf| link(&self.own, missing).map_err(|source| linking(missing, source));
        self.missing.iter().try_for_each(link)
    }
}

fn linking(name: &Path, source: io::Error) -> EngineError {
    kernel(&format!("making {} again", name.display()), source)
}

/// Links a file to another name in the same directory.
fn link(there: &Path, absent: &Path) -> io::Result<()> {
    let (directory, there) = open_parent(there)?;
    directory.link(there, Path::new(absent.file_name().ok_or(io::ErrorKind::InvalidInput)?))
}
