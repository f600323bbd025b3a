//! Memory in files: files that the program has mapped shared and written, and files that were saved because the program
//! may write them.
//!
//! The image holds the contents of such a file at the checkpoint. A restart puts them back if they differ, since the
//! job itself has continued to write there. Files are compared and written when everything else is rebuilt, and nothing
//! is written if somebody else may have changed it.

use super::address_space::ToMap;
use super::files::{FileNote, Reckoning, find, is_free, path_of};
use super::known_names::KnownNames;
use super::plan::JobPlan;
use super::tails::{KeepTail, Tail};
use crate::construction::Construction;
use crate::error::kernel;
use crate::file_policy::{FilePolicy, Objection};
use crate::files::{FileId, identity};
use crate::remake::Remaking;
use crate::{Blocker, EngineError, RefusalCode, folders};
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::records::{
    Backing, FileIdentity, FileReference, JobState, Mapping, MemoryObject, ObjectKind, OpenFileKind, SavedPart,
};
use standfast_linux::sys::file::set_modified;
use standfast_linux::{Access, Folder, HeldPath, abi};
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

const LOCK_SHARED: u64 = abi::LOCK_SH as u64;
const LOCK_EXCLUSIVE: u64 = abi::LOCK_EX as u64;
const LOCK_WITHOUT_WAITING: u64 = abi::LOCK_NB as u64;
const EITHER_WAY: &str =
    "to put back what it held: standfast restart --files rollback; to leave it as it is: --files keep";
const OWNER_WRITES: u32 = 0o600;
/// Mode of a directory that is made again, before the file mode creation mask.
const DIRECTORY_MODE: u32 = 0o777;
/// How many bytes are compared or copied at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What to do about a file that has been saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MappedPlan {
    /// Its place among the job's memory objects.
    object: usize,
    /// The parts of it that are in the image, ascending.
    shown: Vec<PageRange>,
    /// The objection to putting back its contents, should they differ.
    against: Option<Objection>,
    /// Whether it stays as it is, whatever it holds.
    stays: bool,
    /// The file that was judged, which alone may be written to; `None` if it was gone.
    judged: Option<FileId>,
    /// Whether it is the job's only if the job knows its name.
    pub(super) is_doubtful: bool,
    /// Whether its present contents are kept before it is written to.
    keeps: bool,
}

/// The location of files with contents to put back, by their places among the memory objects.
type InFolders<'a> = HashMap<usize, (&'a Folder, &'a Path)>;

/// Files that processes of the job have mapped already.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// Files, by their places among the memory objects.
    pub(super) files: BTreeSet<usize>,
}

impl Reckoning<'_> {
    /// Decides about a mapped file.
    pub(super) fn judge_mapped_file(&self, object: usize) -> Result<MappedPlan, Objection> {
        let record = &self.job.objects[object];
        let ObjectKind::MappedFile { file, other_writer, .. } = &record.kind else {
            unreachable!("only mapped files are judged");
        };
        let shown = shown(self.job, object);
        let stays = self.options.policy == FilePolicy::Keep;
        let part = self.parts.get(&object).copied();
        let is_doubtful = part.is_some_and(|part| part.is_doubtful);
        let keeps = part.is_some_and(|part| part.keeps);
        let plan = MappedPlan { object, against: None, stays, shown, judged: None, is_doubtful, keeps };
        let is_whole = covers(&plan.shown, record.length);
        let now = match find(self.path_now(file)) {
            Ok(now) => now,
            // Somebody else's file: the job does not know it, or finds it as any program would.
            Err(_) if is_doubtful && path_of(file).symlink_metadata().is_ok() => {
                return Ok(MappedPlan { stays: true, ..plan });
            }
            Err(_) if is_doubtful => return Ok(plan),
            Err(_) if is_whole && self.options.policy != FilePolicy::Refuse && is_free(path_of(file)) => {
                return Ok(MappedPlan { stays: false, ..plan });
            }
            Err(objection) => return Err(objection),
        };
        if now.len() != record.length && !is_whole {
            let why = format!(
                "it has {} bytes, but had {} at the checkpoint, and only the part that was mapped is in the image",
                now.len(),
                record.length
            );
            return Err(Objection::new(why, "put the old version back"));
        }
        let replaced = || {
            let same = FileId::of(&now) == FileId::of_reference(file);
            // Files in a folder may be replaced as the job likes.
            (!same && !self.is_in_folder(file)).then(|| "another file has taken its place".to_owned())
        };
        let late = || part.and_then(|_| self.late_writer(&identity(&now)));
        let against = match self.options.policy {
            FilePolicy::Auto => self.foreign_writer(other_writer.as_ref(), &now, false).or_else(replaced).or_else(late),
            FilePolicy::Refuse => Some("--files refuse was asked for".to_owned()),
            FilePolicy::Rollback | FilePolicy::Keep => None,
        };
        let objection = |who| Objection::new(format!("what it held has been changed, and {who}"), EITHER_WAY);
        let against = against.map(objection);
        Ok(MappedPlan { against, judged: Some(FileId::of(&now)), ..plan })
    }

    /// Ensures that a file that is gone, and is made again, finds its directory.
    pub(super) fn provide_for(&self, file: &FileReference, remaking: &mut Remaking<'_>) -> Result<(), Objection> {
        // Older images do not record which directories existed.
        if path_of(file).exists() || self.job.surroundings.is_none() {
            return Ok(());
        }
        remaking.provide_parent(path_of(file)).map_err(|why| Objection::new(why, "put it back"))?;
        remaking.expect(path_of(file));
        Ok(())
    }

    /// Reports whether all contents of a file are in the image.
    pub(super) fn is_in_image(&self, file: &FileReference) -> bool {
        let key = |file: &FileReference| FileId::of_reference(file);
        let mut objects = self.job.objects.iter().enumerate();
        objects.any(|(place, object)| match &object.kind {
            ObjectKind::MappedFile { file: mapped, .. } => {
                key(mapped) == key(file) && covers(&shown(self.job, place), object.length)
            }
            _ => false,
        })
    }
}

/// Returns the parts of an object that are mapped shared, or saved anyway, ascending.
fn shown(job: &JobState, wanted: usize) -> Vec<PageRange> {
    let object = &job.objects[wanted];
    if matches!(object.kind, ObjectKind::MappedFile { saved: SavedPart::Whole | SavedPart::WholeIfNeeded, .. }) {
        return vec![PageRange::new(Address::new(0), object.length.div_ceil(PAGE_BYTES as u64))];
    }
    let part = |mapping: &Mapping| match mapping.backing {
        Backing::SharedObject { object, offset } if object as usize == wanted => {
            Some(PageRange::new(Address::new(offset), (mapping.end - mapping.start) / PAGE_BYTES as u64))
        }
        _ => None,
    };
    let mut shown: Vec<_> = job.processes.iter().flat_map(|process| &process.mappings).filter_map(part).collect();
    shown.sort_unstable_by_key(|range| range.start());
    shown
}

/// Reports whether ascending parts cover all of `length` bytes.
fn covers(parts: &[PageRange], length: u64) -> bool {
    let end = parts.iter().fold(0, |end, part| if part.start().get() <= end { part.end().get().max(end) } else { end });
    end >= length
}

/// Makes missing saved files again, empty, before anybody opens them.
pub(super) fn make_missing(plan: &JobPlan<'_>) -> Result<(), EngineError> {
    for mapped in plan.mapped.iter().filter(|mapped| !mapped.stays && !mapped.is_doubtful) {
        let object = &plan.job.objects[mapped.object];
        let ObjectKind::MappedFile { file, mode, .. } = &object.kind else { continue };
        if !path_of(file).exists() {
            make_again(file, object.length, *mode)
                .map_err(|source| kernel(&format!("making {} again", file.path), source))?;
        }
    }
    Ok(())
}

impl JobPlan<'_> {
    /// Reports whether the growth of an object's file is cut off by way of an open file.
    fn cuts(&self, object: usize) -> bool {
        let ObjectKind::MappedFile { file, .. } = &self.job.objects[object].kind else { return false };
        self.regular.iter().filter(|regular| regular.cut.is_some()).any(|regular| {
            let open = &self.job.open_files[regular.place].kind;
            matches!(open, OpenFileKind::Regular { file: other, .. } if other.path == file.path)
        })
    }
}

impl Construction {
    /// Maps a file, which is made again if it is gone. The first of its mappings (`is_first`) takes the lock that the
    /// mapping had kept alive.
    pub(super) fn map_file(
        &mut self,
        mapping: &Mapping,
        object: &MemoryObject,
        offset: u64,
        is_first: bool,
    ) -> Result<(), EngineError> {
        let ObjectKind::MappedFile { file, mode, lock, .. } = &object.kind else {
            unreachable!("the object is a mapped file");
        };
        if !path_of(file).exists() {
            make_again(file, object.length, *mode)
                .map_err(|source| kernel(&format!("making {} again", file.path), source))?;
        }
        let descriptor = self.open_mapped(ToMap { path: &file.path.0, writable: mapping.may_write != Some(false) })?;
        if let Some(exclusive) = lock.filter(|_| is_first) {
            let kind = if exclusive { LOCK_EXCLUSIVE } else { LOCK_SHARED };
            let arguments = [descriptor, kind | LOCK_WITHOUT_WAITING, 0, 0, 0, 0];
            self.call(&format!("locking {}, which the program had locked", file.path), abi::SYS_flock, arguments)?;
        }
        self.map_one(mapping, descriptor, offset)?;
        self.call("closing a file", abi::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }

    /// Returns the mapped files whose contents differ; of the doubtful ones only those that the job knows. Refuses,
    /// before anything is written, if they may not be corrected.
    pub(super) fn differing<'a>(
        &self,
        plan: &'a JobPlan<'_>,
        known: &KnownNames<'_>,
    ) -> Result<Vec<&'a MappedPlan>, EngineError> {
        let folders = plan.files_in_folders();
        let mut differing = Vec::new();
        let mut blockers = Vec::new();
        for mapped in plan.mapped.iter().filter(|mapped| !mapped.stays) {
            let ObjectKind::MappedFile { file, .. } = &plan.job.objects[mapped.object].kind else { continue };
            if mapped.is_doubtful && (!known.contains(name_of(file)) || !folders.contains_key(&mapped.object)) {
                continue;
            }
            if mapped.is_doubtful && !path_of(file).exists() {
                differing.push(mapped);
                continue;
            }
            if !self
                .differs(plan, mapped, &folders)
                .map_err(|source| kernel(&format!("comparing {}", file.path), source))?
            {
                continue;
            }
            differing.push(mapped);
            if let Some(Objection { why, hint, .. }) = mapped.against.clone() {
                blockers.push(
                    Blocker::new(RefusalCode::FileChanged, format!("mapped file {}", file.path), why).with_hint(hint),
                );
            }
        }
        if blockers.is_empty() { Ok(differing) } else { Err(EngineError::Refused(blockers)) }
    }

    fn differs(&self, plan: &JobPlan<'_>, mapped: &MappedPlan, folders: &InFolders<'_>) -> io::Result<bool> {
        let object = &plan.job.objects[mapped.object];
        let file = find_mapped(object, mapped, folders)?.reopen(Access::Read)?;
        let length = file.metadata()?.len();
        if length < object.length || length > object.length && !may_grow(object) && !plan.cuts(mapped.object) {
            return Ok(true);
        }
        let mut differs = false;
        self.compare(mapped, object.length, &file, &mut |_, _| {
            differs = true;
            Ok(())
        })?;
        Ok(differs)
    }

    /// Calls `each` with every piece that is not in `file`, and its offset.
    fn compare(
        &self,
        mapped: &MappedPlan,
        length: u64,
        file: &File,
        each: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut wanted, mut found) = (vec![0u8; PIECE_BYTES], vec![0u8; PIECE_BYTES]);
        for part in &mapped.shown {
            let (mut at, end) = (part.start().get(), part.end().get().min(length));
            while at < end {
                let bytes = PIECE_BYTES.min((end - at) as usize);
                self.read_staged(mapped.object, at, &mut wanted[..bytes])?;
                let got = read_piece(file, at, &mut found[..bytes])?;
                if got < bytes || found[..bytes] != wanted[..bytes] {
                    each(at, &wanted[..bytes])?;
                }
                at += bytes as u64;
            }
        }
        Ok(())
    }

    /// Gives a file whose contents are restored its former time of modification.
    pub(super) fn put_time_back(&mut self, path: &Path, was: &FileIdentity, file: &File) {
        if let Err(error) = set_modified(file.as_fd(), was.modified_nanoseconds) {
            let path = path.display();
            self.notes.push(format!("{path} shows the time of this restart as its modification ({error})"));
        }
    }

    /// Does the same for all files that the job alone has written to since, even if it has written the same contents.
    fn put_times_back(&mut self, plan: &JobPlan<'_>, folders: &InFolders<'_>) {
        let are_ours = |mapped: &&MappedPlan| !mapped.stays && !mapped.is_doubtful && mapped.against.is_none();
        for mapped in plan.mapped.iter().filter(are_ours) {
            let object = &plan.job.objects[mapped.object];
            let ObjectKind::MappedFile { file: reference, .. } = &object.kind else { continue };
            let found = find_mapped(object, mapped, folders).and_then(|found| found.reopen(Access::Read));
            let Ok(file) = found else { continue };
            let was = reference.identity.modified_nanoseconds;
            let is_later = file.metadata().is_ok_and(|now| identity(&now).modified_nanoseconds != was);
            if is_later && covers(&mapped.shown, object.length) {
                self.put_time_back(path_of(reference), &reference.identity, &file);
            }
        }
    }

    /// Puts back the contents of mapped files. The new process has them mapped already and sees the result.
    pub(super) fn put_back(
        &mut self,
        plan: &JobPlan<'_>,
        differing: &[&MappedPlan],
    ) -> Result<Vec<FileNote>, EngineError> {
        let folders = plan.files_in_folders();
        let mut notes = Vec::new();
        self.put_times_back(plan, &folders);
        for mapped in differing {
            let object = &plan.job.objects[mapped.object];
            let ObjectKind::MappedFile { file: reference, .. } = &object.kind else { continue };
            let writing = |source| kernel(&format!("putting back what {} held", reference.path), source);
            if mapped.is_doubtful {
                plan.make_missing_object(mapped.object).map_err(writing)?;
            }
            let file = open_to_write(object, mapped, &folders).map_err(writing)?;
            if !may_grow(object) || file.metadata().map_err(writing)?.len() < object.length {
                file.set_len(object.length).map_err(writing)?;
            }
            let mut put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at);
            self.compare(mapped, object.length, &file, &mut put).map_err(writing)?;
            self.put_time_back(path_of(reference), &reference.identity, &file);
            notes.push(FileNote::PutBack { path: path_of(reference).to_owned() });
        }
        Ok(notes)
    }
}

/// Reports whether the growth of a file is judged where it is open, as for a file that has not been saved.
fn may_grow(object: &MemoryObject) -> bool {
    matches!(object.kind, ObjectKind::MappedFile { saved: SavedPart::WholeIfNeeded, .. })
}

/// Returns the file that was judged, if it is still in its place. If it was gone, returns the one that has been made
/// there.
fn find_mapped(object: &MemoryObject, mapped: &MappedPlan, folders: &InFolders<'_>) -> io::Result<HeldPath> {
    let ObjectKind::MappedFile { file, .. } = &object.kind else { return Err(io::ErrorKind::InvalidInput.into()) };
    let found = match folders.get(&mapped.object) {
        Some((folder, name)) => folder.find(name)?,
        None => HeldPath::find(path_of(file))?,
    };
    let status = found.metadata()?;
    // Inside a folder files may have been replaced at will, by names that lead nowhere else.
    let is_it = mapped.judged.is_none_or(|judged| judged == FileId::of(&status));
    if status.is_file() && is_it {
        return Ok(found);
    }
    Err(io::Error::other("somebody else has put another file in its place"))
}

/// Opens a file for writing, even if its owner, who we are, may only read it.
fn open_to_write(object: &MemoryObject, mapped: &MappedPlan, folders: &InFolders<'_>) -> io::Result<File> {
    let found = find_mapped(object, mapped, folders)?;
    match (found.reopen(Access::Write), &object.kind) {
        (Err(error), ObjectKind::MappedFile { mode, .. }) if error.kind() == io::ErrorKind::PermissionDenied => {
            found.allow(mode | OWNER_WRITES)?;
            let opened = found.reopen(Access::Write);
            found.allow(*mode)?;
            opened
        }
        (opened, _) => opened,
    }
}

/// Makes a missing file, empty, and its directory, which may have gone with it (the Java virtual machine's, from
/// `/tmp`). It follows no symbolic link: there was none in its path.
pub(super) fn make_again(file: &FileReference, length: u64, mode: u32) -> io::Result<()> {
    let path = path_of(file);
    let name = Path::new(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let parent = match folders::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let last = Path::new(directory.file_name().ok_or(io::ErrorKind::NotFound)?);
            let above = folders::open(directory.parent().unwrap_or(Path::new("/")))?;
            above.make_directory(last, DIRECTORY_MODE)?;
            above.beneath(last)?
        }
        opened => opened?,
    };
    let made = parent.make_file(name, OWNER_WRITES)?;
    made.set_permissions(Permissions::from_mode(mode))?;
    made.set_len(length)?;
    set_modified(made.as_fd(), file.identity.modified_nanoseconds)
}

/// Returns the last part of the path of a file.
fn name_of(file: &FileReference) -> &[u8] {
    path_of(file).file_name().unwrap_or_default().as_bytes()
}

impl JobPlan<'_> {
    /// Keeps the contents of files that only the job's directories show to be its own, before they are overwritten.
    /// Returns notes with the locations.
    pub(super) fn keep_replaced(
        &self,
        differing: &[&MappedPlan],
        keep: &mut KeepTail<'_>,
    ) -> Result<Vec<FileNote>, EngineError> {
        let folders = self.files_in_folders();
        let mut notes = Vec::new();
        for mapped in differing.iter().filter(|mapped| mapped.keeps && mapped.judged.is_some()) {
            let object = &self.job.objects[mapped.object];
            let ObjectKind::MappedFile { file: reference, .. } = &object.kind else { continue };
            let reading = |source| kernel(&format!("reading {}", reference.path), source);
            let file = find_mapped(object, mapped, &folders).and_then(|found| found.reopen(Access::Read));
            let file = file.map_err(reading)?;
            let bytes = file.metadata().map_err(reading)?.len();
            if bytes > 0 {
                let path = path_of(reference);
                let kept = keep(&Tail { path, file: &file, start: 0, bytes, is_whole: true, is_removed: false })
                    .map_err(|source| EngineError::Tail { path: path.display().to_string(), source })?;
                notes.push(FileNote::Replaced { path: path.to_owned(), kept });
            }
        }
        Ok(notes)
    }

    /// Returns the names of the files that are the job's only if it knows them.
    pub(super) fn doubtful_names(&self) -> impl Iterator<Item = &[u8]> {
        let objects = self.mapped.iter().filter(|mapped| mapped.is_doubtful && !mapped.stays);
        objects.filter_map(|mapped| self.job.objects[mapped.object].kind.file()).map(name_of)
    }

    /// Reports whether an object's file is the job's only if it knows its name.
    pub(super) fn is_doubtful(&self, object: usize) -> bool {
        self.mapped.iter().any(|mapped| mapped.object == object && mapped.is_doubtful)
    }
}

/// Reads as many bytes as there are.
fn read_piece(file: &File, start: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_file_only_without_gaps() {
        let pages = |first: u64, pages: u64| PageRange::new(Address::new(first * 4096), pages);
        assert!(covers(&[pages(0, 2), pages(1, 3)], 4 * 4096));
        assert!(covers(&[pages(0, 1)], 100) && covers(&[], 0));
        assert!(!covers(&[pages(0, 1), pages(2, 2)], 3 * 4096));
        assert!(!covers(&[pages(1, 3)], 4096));
    }
}
