//! Files with other names than at the checkpoint, or with several. This file decides by names and inodes, and makes
//! missing names before any file is opened.
//!
//! ```text
//! had several names, its own gone    linked again from another one; if all are gone, made again and linked to them
//! had several names, others gone     linked again
//! had several names, others taken    refused: what was one file would be two
//! renamed since, and not saved       copied back as it was: the program will write on, and rename it once more
//! ```

use super::files::{FilePolicy, Objection, Reckoning, as_path, path_of};
use super::plan::JobPlan;
use crate::error::kernel;
use crate::files::FileId;
use crate::listing::{Contents, Entry};
use crate::{EngineError, folders};
use standfast_format::records::{FileReference, JobState, OtherNames};
use standfast_linux::{Access, Folder};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The mode of a file until it gets its permissions.
const OWNER_WRITES: u32 = 0o600;

/// What to do about the names of a file that had several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamesPlan {
    pub(super) own: PathBuf,
    /// Its present path, if its own name does not lead to it any more.
    found: Option<PathBuf>,
    /// Other names that lead nowhere any more.
    missing: Vec<PathBuf>,
    /// The objection to giving it its names.
    pub(super) against: Option<Objection>,
}

/// Where a name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToIt,
    Elsewhere,
    Nowhere,
}

/// Decides about the names of all files that had several.
pub(super) fn judge_names(job: &JobState, policy: FilePolicy) -> BTreeMap<FileId, NamesPlan> {
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
    let own = path_of(file);
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
        let why = format!("it had the name {} as well, which another file has by now", taken.display());
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
    /// Returns the names that do not exist.
    pub(super) fn absent(&self) -> impl Iterator<Item = &Path> {
        let own = self.found.is_some().then_some(&self.own);
        own.into_iter().chain(&self.missing).map(PathBuf::as_path)
    }
}

impl Reckoning<'_> {
    /// Returns the present path of a file, if it is known.
    pub(super) fn path_now<'a>(&'a self, file: &'a FileReference) -> &'a Path {
        let found = self.names.get(&FileId::of_reference(file)).and_then(|names| names.found.as_deref());
        found.unwrap_or(path_of(file))
    }

    /// Returns the path of a file that has been renamed since the checkpoint: in its directory, or in one that was
    /// listed.
    pub(super) fn renamed(&self, file: &FileReference) -> Option<PathBuf> {
        let is_it = |now: &Entry| now.key() == FileId::of_reference(file) && may_be(now.born_nanoseconds, file);
        let name_in = |contents: &Contents| Some(contents.files.iter().find(|(_, now)| is_it(now))?.0.clone());
        let directory = path_of(file).parent()?;
        let here = Contents::of(directory).ok().and_then(|contents| Some(directory.join(name_in(&contents)?)));
        here.or_else(|| self.listed.iter().find_map(|listed| listed.find(&name_in)))
    }
}

/// Reports whether a file of the same inode number, born then, may be this one. The kernel gives the number of a
/// removed file to the next that is made.
fn may_be(born_nanoseconds: Option<i64>, file: &FileReference) -> bool {
    born_nanoseconds.is_none_or(|born| born <= file.identity.changed_nanoseconds)
}

impl JobPlan<'_> {
    /// Links files to their own names if these are missing, and copies back those that were renamed.
    pub(super) fn return_names(&self) -> Result<(), EngineError> {
        for names in &self.names {
            let Some(found) = &names.found else { continue };
            link(found, &names.own).map_err(|source| linking(&names.own, source))?;
        }
        for regular in &self.regular {
            let file = self.job.open_files[regular.place].kind.file();
            // Several open files may lead to one file.
            if let (Some(from), Some(file)) = (&regular.renamed, file)
                && !path_of(file).exists()
            {
                copy_back(from, file).map_err(|source| kernel(&format!("copying {} back", file.path), source))?;
            }
        }
        Ok(())
    }

    /// Links files, which exist by now, to their other names.
    pub(super) fn return_other_names(&self) -> Result<(), EngineError> {
        for names in &self.names {
            for missing in &names.missing {
                link(&names.own, missing).map_err(|source| linking(missing, source))?;
            }
        }
        Ok(())
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

fn copy_back(from: &Path, file: &FileReference) -> io::Result<()> {
    let (directory, name) = open_parent(from)?;
    let source = directory.open_file(name, Access::Read)?;
    let status = source.metadata()?;
    if FileId::of(&status) != FileId::of_reference(file) {
        return Err(io::Error::other(format!("somebody else has put another file in the place of {}", from.display())));
    }
    let (directory, name) = open_parent(path_of(file))?;
    let mut copy = directory.make_file(name, OWNER_WRITES)?;
    let copied = io::copy(&mut source.take(file.length), &mut copy)?;
    if copied < file.length {
        return Err(io::Error::other(format!("{} has become shorter", from.display())));
    }
    copy.set_permissions(status.permissions())?;
    copy.sync_all()
}

fn open_parent(path: &Path) -> io::Result<(Folder, &Path)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((folders::open(path.parent().unwrap_or(Path::new("/")))?, Path::new(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::FileIdentity;

    #[test]
    fn a_file_created_later_is_not_the_one_with_the_same_inode() {
        let identity = FileIdentity { changed_nanoseconds: 5, ..FileIdentity::default() };
        let file = FileReference { identity, ..FileReference::default() };
        assert!(may_be(None, &file) && may_be(Some(5), &file) && !may_be(Some(6), &file));
    }
}
