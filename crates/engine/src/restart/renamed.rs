//! Files that have been renamed since the checkpoint, and are not saved: each is copied back as it was, since the program
//! will write on, and rename it once more. It is found by its inode. Missing names are made before any file is opened.

use super::files::{Reckoning, path_of};
use super::plan::JobPlan;
use crate::EngineError;
use crate::error::kernel;
use crate::files::FileId;
use crate::folders::open_parent;
use crate::listing::{Contents, Entry};
use crate::objects::NamesPlan;
use standfast_format::records::FileReference;
use standfast_linux::Access;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The mode of a file until it gets its permissions.
const OWNER_WRITES: u32 = 0o600;

impl Reckoning<'_> {
    /// Returns the present path of a file, if it is known.
    pub(super) fn path_now<'a>(&'a self, file: &'a FileReference) -> &'a Path {
        let found = self.names.get(&FileId::of_reference(file)).and_then(NamesPlan::found);
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
        self.names.iter().try_for_each(NamesPlan::return_own)?;
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
        self.names.iter().try_for_each(NamesPlan::return_others)
    }
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
