//! Collects memory objects: shared anonymous memory and files in memory. The kernel's name identifies each
//! ([`ObjectKey`]), never the process, mapping or descriptor through which it was met first.
//!
//! Contents are read from the file itself, by way of a descriptor of the program's (pidfd_getfd) or of its link in
//! `/proc/PID/map_files`, which only CAP_CHECKPOINT_RESTORE opens. Without either, they are read through the address
//! space of those who map the object, see [`Windows`].
//!
//! Nothing can prove that nobody outside the job holds the same object: the kernel has no list of holders. Others
//! cannot reach shared anonymous memory (exec drops what a parent had mapped). The collection of descriptors refuses a
//! memfd that the run was started with, like everything else that was inherited. A memfd that came or went through a
//! socket which is closed by now counts as the job's own.

mod folders;
mod mapped;
mod restore;
mod segment;
mod windows;

use crate::error::Reason;
use crate::error::kernel;
use crate::files::{self, FileId, Proof, open};
use crate::freeze::FrozenProcess;
use crate::object_key::ObjectKey;
use crate::objects::system_v::SystemV;
use crate::{Blocker, EngineError, RefusalCode};
pub(crate) use folders::written_at_ends;
pub(crate) use restore::is_inside;
pub(crate) use segment::Unattached;
use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use standfast_format::records::{Bytes, FileIdentity, FileReference, MemoryObject, ObjectKind};
use standfast_linux::proc::Map;
use standfast_linux::sys::file;
use standfast_linux::{Pid, ProcessMemory};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
pub(crate) use windows::Windows;

/// Permissions of a file in memory, if it has not been changed or sealed against execution.
const USUAL_MODE: u32 = 0o777;
const PERMISSIONS: u32 = 0o7777;
/// Permissions of a deleted file that no descriptor leads to, since nobody can ask for the real ones.
const OWNER_ONLY: u32 = 0o600;
/// The suffix that the kernel adds to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";
/// The path that it shows for shared anonymous memory.
const SHARED_ANONYMOUS: &[u8] = b"/dev/zero";
/// The name by which shared anonymous memory is made again, as a file in memory.
pub(crate) const SHARED_MEMORY_NAME: &[u8] = b"shared memory";

/// The memory objects of a job.
#[derive(Debug, Default)]
pub(crate) struct MemoryObjects {
    found: Vec<Found>,
    /// Files that a process has mapped shared and now only reads: by its next call it may be allowed to write there.
    mapped_read_only: HashSet<ObjectKey>,
    /// The System V objects that the job can reach: segments are memory objects.
    pub(crate) system_v: SystemV,
    /// Files that the job has been seen to write through shared mappings, now or earlier.
    pub(crate) written: BTreeSet<FileId>,
    /// Files that a shared mapping may write, but that no mapping was seen to write.
    writable: BTreeMap<FileId, FileReference>,
}

#[derive(Debug)]
struct Found {
    key: ObjectKey,
    record: MemoryObject,
    access: Access,
    /// Of a file on a disk: the parts that are mapped, which alone count.
    shown: Option<Vec<PageRange>>,
}

/// How the contents of an object are read.
#[derive(Debug)]
enum Access {
    File(File),
    /// A file in a folder. There may be more of these than a process may have open.
    Path(PathBuf),
    Windows(Windows),
    Segment(Unattached),
}

impl MemoryObjects {
    /// Returns an empty table of a job that can reach these System V objects, and has written these files through
    /// shared mappings.
    pub(crate) fn with(system_v: SystemV, written: BTreeSet<FileId>) -> Self {
        Self { system_v, written, ..Self::default() }
    }

    /// Returns why an open file in memory cannot be saved, if its pages are huge ones from the system's pool.
    pub(crate) fn refusal_of(descriptor: &OwnedFd) -> io::Result<Option<Reason>> {
        Ok((file::huge_page_bytes(descriptor.as_fd())? > 0).then(on_huge_pages))
    }

    /// Returns the object that an open file leads to, by its position in `JobState::objects`. `descriptor` is a copy of
    /// the program's, and its position stays as it is. This is only for files in memory; a collection of descriptors
    /// that knows other files to be unreachable adds them with [`MemoryObjects::add`].
    pub(crate) fn of_file(&mut self, descriptor: &OwnedFd) -> io::Result<u32> {
        let path = link_of(descriptor)?;
        let own = reopened(descriptor)?;
        let status = own.metadata()?;
        let mode = status.mode() & PERMISSIONS;
        let kind = match name_of_memory_file(&path) {
            Some(name) => {
                ObjectKind::MemoryFile { name: Bytes::from(name), seals: file::seals(descriptor.as_fd())?, mode }
            }
            None => deleted_or_shared(&path, mode),
        };
        self.add(ObjectKey::of_file(&status), kind, own)
    }

    /// Adds an object whose contents are those of `contents`, an open file description of our own.
    pub(crate) fn add(&mut self, key: ObjectKey, kind: ObjectKind, contents: File) -> io::Result<u32> {
        if let Some(known) = self.position(key) {
            return Ok(known);
        }
        let status = contents.metadata()?;
        let length = status.len();
        let record = MemoryObject {
            kind,
            length,
            huge_page_bytes: file::huge_page_bytes(contents.as_fd())?,
            modified_nanoseconds: Some(files::identity(&status).modified_nanoseconds),
        };
        self.found.push(Found { key, record, access: Access::File(contents), shown: None });
        Ok(self.found.len() as u32 - 1)
    }

    /// Returns the object that a mapping shows. Descriptors come first: an object that has one is known already.
    /// `process` is the place of the process in the job.
    pub(crate) fn of_mapping(&mut self, pid: Pid, process: usize, map: &Map) -> io::Result<u32> {
        let key = ObjectKey::of_map(map);
        if let Some(known) = self.position(key) {
            if let Access::Windows(windows) = &mut self.found[known as usize].access {
                windows.add(process, map);
                // Until it is measured.
                let length = &mut self.found[known as usize].record.length;
                *length = (*length).max(map.offset + map.range().bytes());
            }
            return Ok(known);
        }
        if let Ok(open) = File::open(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end)) {
            return self.of_file(&open.into());
        }
        let kind = match name_of_memory_file(&map.path) {
            // It has no descriptor left, so its seals restrict nobody any more.
            Some(name) => ObjectKind::MemoryFile { name: Bytes::from(name), seals: 0, mode: USUAL_MODE },
            None => deleted_or_shared(&map.path, OWNER_ONLY),
        };
        let mut windows = Windows::default();
        windows.add(process, map);
        let length = map.offset + map.range().bytes();
        let record = MemoryObject { kind, length, huge_page_bytes: 0, modified_nanoseconds: None };
        self.found.push(Found { key, record, access: Access::Windows(windows), shown: None });
        Ok(self.found.len() as u32 - 1)
    }

    /// Reports whether a mapping shows a deleted file that can be saved. Either a descriptor leads to the file, or it
    /// is in memory, and the mappings show all of it.
    pub(crate) fn hold_deleted_file(&self, map: &Map) -> bool {
        let Some(path) = map.path.strip_suffix(DELETED) else { return false };
        let is_in_memory = || {
            let folder = File::open(Path::new(OsStr::from_bytes(path)).parent()?).ok()?;
            Some(folder.metadata().ok()?.dev() == map.device && file::is_in_memory(folder.as_fd()).ok()?)
        };
        self.have_descriptor_of(map) || is_in_memory() == Some(true)
    }

    /// Reports whether a descriptor leads to what a mapping shows.
    pub(crate) fn have_descriptor_of(&self, map: &Map) -> bool {
        self.position(ObjectKey::of_map(map)).is_some()
    }

    /// Returns pages of the process at place `process` that only the kernel knows about: mapped, not in its page
    /// tables, and yet perhaps in memory. Ask the process with mincore(2), and pass those in memory to
    /// [`MemoryObjects::keep_resident`].
    pub(crate) fn doubtful(&mut self, process: usize, frozen: &FrozenProcess) -> Result<Vec<PageRange>, EngineError> {
        let scanning = |source| kernel("scanning shared memory", source);
        let mut doubtful = Vec::new();
        for windows in self.windows() {
            doubtful.extend(windows.scan(process, frozen.pid).map_err(scanning)?);
        }
        Ok(doubtful)
    }

    /// Returns what cannot be read, once every process has been asked for its doubtful pages.
    pub(crate) fn blockers(&self) -> Vec<Blocker> {
        let hidden = |found: &Found| match &found.access {
            Access::Windows(windows) => windows.hidden(),
            Access::File(_) | Access::Path(_) | Access::Segment(_) => None,
        };
        let blocker = |address| {
            Blocker::new(
                RefusalCode::HiddenPages,
                format!("mapping at {address}"),
                "the contents below guarded pages, or below changed pages of a private mapping of a memfd that is \
                 closed, can be read only with privileges",
            )
            .with_hint("keep the memfd open, or run standfast as root")
        };
        self.found.iter().filter_map(hidden).map(blocker).collect()
    }

    /// Records which of the doubtful pages are in memory.
    pub(crate) fn keep_resident(&mut self, process: usize, resident: &[PageRange]) {
        self.windows().for_each(|windows| windows.keep_resident(process, resident));
    }

    /// Determines how long objects are that no descriptor leads to, once every process has been asked for its doubtful
    /// pages.
    pub(crate) fn measure(&mut self, processes: &[FrozenProcess]) {
        let is_there = |process: usize, page: Address| processes[process].memory.read(page, &mut [0]).is_ok();
        for Found { record, access, .. } in &mut self.found {
            // The kernel reports how long a segment is.
            if let (Access::Windows(windows), false) = (access, matches!(record.kind, ObjectKind::Segment { .. })) {
                record.length = windows.end(is_there).get();
            }
        }
    }

    /// Records a file that a process has mapped shared and only reads.
    pub(crate) fn note_mapped_read_only(&mut self, file: &FileReference) {
        self.mapped_read_only.insert(ObjectKey::of_reference(file));
    }

    fn windows(&mut self) -> impl Iterator<Item = &mut Windows> {
        self.found.iter_mut().filter_map(|found| match &mut found.access {
            Access::Windows(windows) => Some(windows),
            Access::File(_) | Access::Path(_) | Access::Segment(_) => None,
        })
    }

    fn position(&self, key: ObjectKey) -> Option<u32> {
        self.found.iter().position(|found| found.key == key).map(|position| position as u32)
    }

    /// Returns the records, in the order of the table.
    pub(crate) fn into_records(self) -> Vec<MemoryObject> {
        self.found.into_iter().map(|found| found.record).collect()
    }

    /// Returns records and contents, in the order of the table.
    pub(crate) fn into_parts(self) -> Result<(Vec<MemoryObject>, Vec<ObjectContents>), EngineError> {
        let reading = |source| kernel("looking for data in shared memory", source);
        let may_change_unseen = |key: ObjectKey| self.mapped_read_only.contains(&key);
        let parts = self.found.into_iter().map(|Found { key, record, access, shown, .. }| {
            let contents = match access {
                Access::File(file) => {
                    let data = data_of(&file, record.length).map_err(reading)?;
                    let ranges = shown.map_or_else(|| data.clone(), |shown| mapped::shown_of(&data, &shown));
                    ObjectContents { key, ranges, stamp: None, access: Access::File(file) }
                }
                Access::Path(path) => {
                    let file = open_again(&path, key).map_err(reading)?;
                    let ranges = data_of(&file, record.length).map_err(reading)?;
                    let stamp = stamp_of(&record, &file).filter(|_| !may_change_unseen(key));
                    ObjectContents { key, ranges, stamp, access: Access::Path(path) }
                }
                Access::Windows(windows) => {
                    let end = Address::new(record.length.next_multiple_of(PAGE_BYTES as u64));
                    let ranges = windows.contents(end);
                    ObjectContents { key, ranges, stamp: None, access: Access::Windows(windows) }
                }
                Access::Segment(segment) => ObjectContents {
                    key,
                    ranges: segment.ranges.clone(),
                    stamp: None,
                    access: Access::Segment(segment),
                },
            };
            Ok((record, contents))
        });
        parts.collect::<Result<Vec<_>, _>>().map(|parts| parts.into_iter().unzip())
    }
}

/// The contents of one object, to be read while the job is frozen.
#[derive(Debug)]
pub(crate) struct ObjectContents {
    pub(crate) key: ObjectKey,
    /// Offsets that hold something, ascending.
    pub(crate) ranges: Vec<PageRange>,
    /// When it was last modified, if every later change is recorded. The file must be in a folder, on a file system
    /// that records writes through mappings. No process of the job may have it mapped, and it was not written in the
    /// last moment.
    pub(crate) stamp: Option<FileIdentity>,
    access: Access,
}

impl ObjectContents {
    /// Fills `into` with the pages of `ranges`, one after the other. Bytes beyond the end of the object are zeros.
    pub(crate) fn read(&self, memories: &[&ProcessMemory], ranges: &[PageRange], into: &mut [u8]) -> io::Result<()> {
        let mut rest = into;
        for range in ranges {
            let (piece, after) = rest.split_at_mut(range.bytes() as usize);
            match &self.access {
                Access::File(file) => read_file(file, range.start().get(), piece)?,
                Access::Path(path) => read_file(&open_again(path, self.key)?, range.start().get(), piece)?,
                Access::Windows(windows) => windows.read(memories, *range, piece)?,
                Access::Segment(segment) => segment.read(range.start().get(), piece),
            }
            rest = after;
        }
        Ok(())
    }
}

/// Reports whether this is the device of memfds and segments on huge pages from the system's pool.
pub(crate) fn is_on_huge_pages(device: u64) -> bool {
    static DEVICES: OnceLock<Vec<u64>> = OnceLock::new();
    DEVICES.get_or_init(file::huge_page_devices).contains(&device)
}

/// Why shared huge pages are refused: a file on them cannot be written by write(2), and a restart would need a pool that
/// is as full as it was.
pub(crate) fn on_huge_pages() -> Reason {
    let why = "huge pages from the system's pool that are shared cannot be saved yet";
    let hint = "run the program without them (PostgreSQL: huge_pages = off)";
    Reason::new(RefusalCode::SharedHugePages, why).with_hint(hint)
}

/// Returns [`ObjectContents::stamp`]; `record` is a file in a folder.
fn stamp_of(record: &MemoryObject, file: &File) -> Option<FileIdentity> {
    let identity = record.kind.file()?.identity;
    (Proof::by(&identity, file.as_fd()) == Proof::Whole).then_some(identity)
}

/// Opens a file in a folder, which must be the one that was found there.
fn open_again(path: &Path, key: ObjectKey) -> io::Result<File> {
    let file = open(path.as_os_str().as_bytes())?;
    let status = file.metadata()?;
    let changed = || io::Error::other(format!("somebody else has put another file in the place of {}", path.display()));
    // The inode number of a removed file goes to the next file that is made, whatever that is.
    let is_it = status.is_file() && ObjectKey::of_file(&status) == key;
    if is_it { Ok(file) } else { Err(changed()) }
}

fn read_file(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into[filled..].fill(0);
    Ok(())
}

/// Returns the pages of a file that are not a hole.
///
/// A file on a disk is asked twice. The kernel looks first at the disk. If it finds space without contents there, it
/// looks whether the page is in memory. Between the two it may have written the page and dropped it from memory (seen
/// on ext4, in one look of a million). Then the page is on the disk, and the second look finds it.
pub(crate) fn data_of(file: &File, length: u64) -> io::Result<Vec<PageRange>> {
    let seek = |at| {
        let Some(start) = file::seek_data(file.as_fd(), at)? else { return Ok(None) };
        Ok(Some((start, file::seek_hole(file.as_fd(), start)?)))
    };
    let looks = if file::is_in_memory(file.as_fd())? { 1 } else { 2 };
    data_by(seek, length, looks)
}

/// Returns the pages that at least one of `looks` passes finds. `seek` returns where the next data begins and ends.
fn data_by(
    mut seek: impl FnMut(u64) -> io::Result<Option<(u64, u64)>>,
    length: u64,
    looks: usize,
) -> io::Result<Vec<PageRange>> {
    let page = PAGE_BYTES as u64;
    let mut found = PageSet::default();
    for _ in 0..looks {
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < length {
            let Some((start, end)) = seek(at)? else { break };
            let end = end.min(length);
            if end <= start {
                break;
            }
            let (first, after) = (start - start % page, end.next_multiple_of(page));
            ranges.push(PageRange::between(Address::new(first), Address::new(after)));
            at = after;
        }
        found = found.union(&PageSet::of(ranges));
        if found.pages() == length.div_ceil(page) {
            break;
        }
    }
    Ok(found.ranges().to_vec())
}

/// Returns an open file description of our own, whose position may be moved.
fn reopened(descriptor: &OwnedFd) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

fn link_of(descriptor: &OwnedFd) -> io::Result<Vec<u8>> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))?;
    Ok(path.as_os_str().as_bytes().to_vec())
}

/// Returns the name in `/memfd:NAME (deleted)`.
fn name_of_memory_file(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(b"/memfd:").map(|name| name.strip_suffix(DELETED).unwrap_or(name))
}

/// Returns the meaning of a path that ends in [`DELETED`] and is not that of a memfd.
fn deleted_or_shared(path: &[u8], mode: u32) -> ObjectKind {
    match path.strip_suffix(DELETED).unwrap_or(path) {
        SHARED_ANONYMOUS => ObjectKind::SharedMemory,
        path => ObjectKind::DeletedFile { path: path.into(), mode },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    /// Returns the data at or after an offset of a file that has data in these pages.
    fn next_of(pages: &[u64], at: u64) -> Option<(u64, u64)> {
        let page = pages.iter().find(|page| (**page + 1) * PAGE > at)?;
        Some(((page * PAGE).max(at), (page + 1) * PAGE))
    }

    #[test]
    fn the_second_scan_finds_a_page_that_the_first_missed() {
        let mut looks = 0;
        let mut seek = |at| {
            looks += usize::from(at == 0);
            Ok(if looks == 1 { next_of(&[1, 5], at) } else { next_of(&[1, 3, 5], at) })
        };
        let pages = |numbers: &[u64]| -> Vec<_> {
            numbers.iter().map(|number| PageRange::new(Address::new(number * PAGE), 1)).collect()
        };
        assert_eq!(data_by(&mut seek, 8 * PAGE, 2).unwrap(), pages(&[1, 3, 5]));
    }

    #[test]
    fn a_file_without_holes_needs_one_seek_and_is_cut_at_its_end() {
        let mut asked = 0;
        let seek = |at| {
            asked += 1;
            Ok(Some((at, 10 * PAGE)))
        };
        let all = data_by(seek, 2 * PAGE + 1, 2).unwrap();
        assert_eq!((all, asked), (vec![PageRange::new(Address::new(0), 3)], 1));
    }

    /// In a directory where others may make files, somebody may make a pipe, and the program is frozen meanwhile.
    #[test]
    fn opening_a_pipe_in_place_of_a_file_fails_without_blocking() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, "contents").unwrap();
        let found = std::fs::metadata(&path).unwrap();
        let key = ObjectKey::of_file(&found);
        assert!(open_again(&path, key).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(open_again(&path, key).is_err());
    }
}
