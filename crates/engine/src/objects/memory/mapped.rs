//! Memory in files and segments that others could reach as well: files mapped shared and written through the mapping,
//! and System V shared memory. Only the mapped part of a file is saved; the rest is not part of the job's memory.

use super::{Access, Found, MemoryObjects, Windows, on_huge_pages};
use crate::files::{FileId, is_database, open};
use crate::inheritance::Inheritance;
use crate::object_key::ObjectKey;
use crate::objects::openable::may_map_again;
use crate::outputs::Output;
use crate::{Blocker, EngineError, RefusalCode, SavedFiles, error::Reason};
use standfast_core::{Address, PageRange};
use standfast_format::records::{
    FileReference, MemoryObject, ObjectKind, OpenFile, OpenFileKind, SavedPart, SystemVName,
};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{self, LockOnFile, Map, ShownLockKind};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

const O_ACCMODE: u32 = abi::O_ACCMODE as u32;
const O_APPEND: u32 = abi::O_APPEND as u32;
/// The largest file that is saved in case it is gone or overwritten by the restart: temporary files and compiler output
/// are small.
const SMALL_FILE_BYTES: u64 = 1 << 20;
/// The same limit for a file of an SQLite database. It is overwritten in place, so a restart would otherwise be
/// refused.
const DATABASE_BYTES: u64 = 64 << 20;

impl MemoryObjects {
    /// Records files that these mappings can write in their present state.
    pub(crate) fn note_written<'a>(&mut self, maps: impl Iterator<Item = &'a Map>) {
        let writing = maps.filter(|map| map.shared && map.protection.write && map.inode != 0);
        self.written.extend(writing.map(|map| FileId { device: map.device, inode: map.inode }));
    }

    /// Reports whether the job has been seen to write a file through a shared mapping. If so, all that its mappings
    /// show of the file is the job's memory.
    pub(crate) fn is_written(&self, file: &FileReference) -> bool {
        self.written.contains(&FileId::of_reference(file))
    }

    /// Records a file that the program may write through a mapping but has not been seen to write: it counts as open
    /// for writing.
    pub(crate) fn note_writable(&mut self, file: &FileReference) -> Result<(), Reason> {
        self.writable.insert(FileId::of_reference(file), file.clone());
        let user = std::fs::metadata(OsStr::from_bytes(&file.path.0)).map_or(u32::MAX, |file| file.uid());
        check_writable(file, user)
    }

    /// Adds a file that the job writes through mappings, of which this is one.
    pub(crate) fn of_mapped_file(&mut self, pid: Pid, map: &Map, file: FileReference) -> Result<u32, Reason> {
        let key = ObjectKey::of_reference(&file);
        let shown = PageRange::new(Address::new(map.offset), map.range().pages());
        if let Some(known) = self.position(key) {
            if let Some(ranges) = &mut self.found[known as usize].shown {
                ranges.push(shown);
            }
            return Ok(known);
        }
        let unreadable = |error: io::Error| {
            let why = format!("it is mapped shared and writable, and cannot be read ({error})");
            Reason::new(RefusalCode::MappedFile, why).with_hint("make it readable")
        };
        let contents = open(&file.path.0).map_err(unreadable)?;
        let status = contents.metadata().map_err(unreadable)?;
        if !status.is_file() {
            return Err(unreadable(io::Error::other("something else has taken its place")));
        }
        check_writable(&file, status.uid())?;
        let kind = ObjectKind::MappedFile {
            mode: status.mode() & super::PERMISSIONS,
            lock: lock_of_mapping(pid, map),
            other_writer: None,
            saved: SavedPart::Mapped,
            file,
        };
        let record = MemoryObject { kind, length: status.len(), huge_page_bytes: 0, modified_nanoseconds: None };
        self.found.push(Found { key, record, access: Access::File(contents), shown: Some(vec![shown]) });
        Ok(self.found.len() as u32 - 1)
    }

    /// Adds whole files that the program may write by way of these open files or of mappings. A file that is only
    /// appended to need not be saved, except in case it is gone by the restart: nothing in it is overwritten. The
    /// restart judges what cannot be read.
    pub(crate) fn save_files(&mut self, open_files: &[OpenFile], which: SavedFiles) {
        let (saved, bytes_max, database_bytes_max) = match which {
            SavedFiles::None => return,
            SavedFiles::IfNeeded => (SavedPart::WholeIfNeeded, SMALL_FILE_BYTES, DATABASE_BYTES),
            SavedFiles::UpTo(bytes_max) => (SavedPart::Whole, bytes_max, bytes_max),
        };
        let is_small = |file: &FileReference| {
            file.length <= bytes_max || file.length <= database_bytes_max && is_database(&file.path.0)
        };
        let is_wanted = |open: &&OpenFile| {
            open.flags & O_ACCMODE != 0 && (open.flags & O_APPEND == 0 || saved == SavedPart::WholeIfNeeded)
        };
        for open in open_files.iter().filter(is_wanted) {
            if let OpenFileKind::Regular { file, .. } = &open.kind
                && is_small(file)
            {
                // It may not be readable.
                let _ = self.save_file(file, saved);
            }
        }
        for file in std::mem::take(&mut self.writable).into_values() {
            if is_small(&file) {
                let _ = self.save_file(&file, saved);
            }
            self.writable.insert(FileId::of_reference(&file), file);
        }
        for found in self.found.iter_mut().filter(|_| saved == SavedPart::Whole) {
            if let ObjectKind::MappedFile { saved, .. } = &mut found.record.kind
                && found.record.length <= bytes_max
            {
                *saved = SavedPart::Whole;
                found.shown = None;
            }
        }
    }

    pub(super) fn save_file(&mut self, file: &FileReference, saved: SavedPart) -> io::Result<()> {
        let key = ObjectKey::of_reference(file);
        if self.position(key).is_some() {
            return Ok(());
        }
        let contents = open(&file.path.0)?;
        let status = contents.metadata()?;
        if status.is_file() && ObjectKey::of_file(&status) == key {
            let mode = status.mode() & super::PERMISSIONS;
            let file = file.clone();
            let kind = ObjectKind::MappedFile { file, mode, lock: None, other_writer: None, saved };
            self.add(key, kind, contents)?;
        }
        Ok(())
    }

    /// Returns the objects that are files.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        let output = |found: &Found| match (&found.record.kind, &found.access) {
            (ObjectKind::MappedFile { file, .. }, Access::File(open)) => {
                Some(Output { path: OsStr::from_bytes(&file.path.0).into(), file: open.try_clone().ok()? })
            }
            _ => None,
        };
        let writable = |file: &FileReference| {
            let path = OsStr::from_bytes(&file.path.0);
            Some(Output { path: path.into(), file: open(path.as_bytes()).ok()? })
        };
        self.found.iter().filter_map(output).chain(self.writable.values().filter_map(writable)).collect()
    }

    /// Adds a System V segment that the process at place `process` has attached.
    pub(crate) fn of_segment(&mut self, process: usize, map: &Map) -> Result<u32, Reason> {
        let key = ObjectKey::of_segment(map);
        let Some(segment) = self.system_v.attached(map.inode as i32) else {
            return Err(Reason::new(
                RefusalCode::SystemVMapping,
                "its segment of System V shared memory cannot be found",
            ));
        };
        let (removed, locked) = (segment.is_removed(), segment.is_locked());
        let length = segment.size;
        if map.offset != 0 || map.range().bytes() < length {
            return Err(Reason::new(
                RefusalCode::SystemVMapping,
                "only a part of a System V segment is still attached",
            )
            .with_hint("attach it whole"));
        }
        if let Some(known) = self.position(key) {
            if let Access::Windows(windows) = &mut self.found[known as usize].access {
                windows.add(process, map);
            }
            return Ok(known);
        }
        let mut windows = Windows::default();
        windows.add(process, map);
        // Its name is recorded when its owner is known.
        let kind = ObjectKind::Segment { name: SystemVName::default(), removed, locked };
        let record = MemoryObject { kind, length, huge_page_bytes: 0, modified_nanoseconds: None };
        self.found.push(Found { key, record, access: Access::Windows(windows), shown: None });
        Ok(self.found.len() as u32 - 1)
    }

    /// Determines which System V objects are the job's, once all processes have been examined.
    pub(crate) fn judge_system_v(&mut self, pids: &[Pid], inheritance: &Inheritance) -> Vec<Blocker> {
        let blockers = self.system_v.judge(pids, inheritance.system_v.as_ref());
        for found in &mut self.found {
            if let (ObjectKind::Segment { name, .. }, ObjectKey::Segment(id)) = (&mut found.record.kind, found.key) {
                *name = self.system_v.name_of_segment(id).unwrap_or_default();
            }
        }
        blockers
    }

    /// Adds the segments of the job that no process has attached.
    pub(crate) fn add_unattached_segments(&mut self) -> Result<(), EngineError> {
        for (segment, unattached) in self.system_v.unattached()? {
            if unattached.is_on_huge_pages() {
                let what = format!("System V segment {}", segment.id);
                return Err(EngineError::Refused(vec![Blocker::of(what, on_huge_pages())]));
            }
            let name = self.system_v.name_of_segment(segment.id).unwrap_or_default();
            let kind = ObjectKind::Segment { name, removed: false, locked: segment.is_locked() };
            let record = MemoryObject { kind, length: segment.size, huge_page_bytes: 0, modified_nanoseconds: None };
            let key = ObjectKey::Segment(segment.id);
            self.found.push(Found { key, record, access: Access::Segment(unattached), shown: None });
        }
        Ok(())
    }
}

/// Checks that a restart could open a file of this user for writing.
fn check_writable(file: &FileReference, user: u32) -> Result<(), Reason> {
    let why = "it is mapped shared and writable, and a restart could not open it for writing";
    if may_map_again(&file.path.0, user) {
        Ok(())
    } else {
        Err(Reason::new(RefusalCode::MappedFile, why).with_hint("make it writable"))
    }
}

/// Returns the lock of a whole file that no descriptor holds any more but the open file beneath a mapping does. The
/// Java virtual machine keeps others away from its performance data in this way.
fn lock_of_mapping(pid: Pid, map: &Map) -> Option<bool> {
    let file = FileId { device: map.device, inode: map.inode };
    let is_it = |it: &LockOnFile| {
        (it.lock.kind, it.lock.process) == (ShownLockKind::Whole, pid)
            && FileId { device: it.device, inode: it.inode } == file
    };
    let lock = LockOnFile::all().ok()?.into_iter().find(is_it)?.lock;
    let by_descriptor = |number: i32| {
        let file = std::fs::metadata(format!("/proc/{pid}/fd/{number}"));
        file.is_ok_and(|file| file.ino() == map.inode)
    };
    let held = proc::numbers(pid, "fd").unwrap_or_default().into_iter().any(by_descriptor);
    (!held).then_some(lock.exclusive)
}

/// Returns the part of `data` that the windows show.
pub(super) fn shown_of(data: &[PageRange], windows: &[PageRange]) -> Vec<PageRange> {
    let mut windows = windows.to_vec();
    windows.sort_unstable_by_key(|range| range.start());
    let mut shown = Vec::new();
    for range in data {
        let mut at = range.start();
        for window in &windows {
            if let Some(common) = window.common(PageRange::between(at, range.end())) {
                shown.push(common);
                at = common.end();
            }
            if at >= range.end() {
                break;
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * 4096), pages)
    }

    #[test]
    fn pages_in_overlapping_windows_are_saved_once() {
        let windows = [pages(4, 4), pages(0, 2), pages(6, 10)];
        assert_eq!(
            shown_of(&[pages(1, 4), pages(7, 3)], &windows),
            [pages(1, 1), pages(4, 1), pages(7, 1), pages(8, 2)]
        );
        assert_eq!(shown_of(&[pages(2, 2)], &windows), []);
    }
}
