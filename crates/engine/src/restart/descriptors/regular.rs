//! Files, directories and places in the file system: opened by path and positioned; files that no path leads to, by way of
//! the memory object that holds them. Regular files are cut back later, when all else has been done.

use super::{O_ACCMODE, Opening};
use crate::EngineError;
use crate::restart::plan::FilePlan;
use standfast_format::records::{Bytes, FileReference, ObjectKind, OpenFile, OpenFileKind};

const O_RDWR: u32 = libc::O_RDWR as u32;
const O_NOFOLLOW: u32 = libc::O_NOFOLLOW as u32;

impl Opening<'_> {
    pub(super) fn open_regular(
        &self,
        file: &FileReference,
        offset: u64,
        flags: u32,
        how: FilePlan,
    ) -> Result<u64, EngineError> {
        let opened = match how {
            FilePlan::OwnFile(stream) => stream as u64,
            _ => self.open_path(&file.path.0, flags)?,
        };
        self.position(opened, offset)
    }

    pub(super) fn open_directory(&self, path: &Bytes, position: u64, flags: u32) -> Result<u64, EngineError> {
        let opened = self.open_path(&path.0, flags)?;
        self.position(opened, position)
    }

    /// A symbolic link is meant itself.
    pub(super) fn open_place(&self, path: &Bytes, mode: u32, flags: u32) -> Result<u64, EngineError> {
        let follow = if mode & libc::S_IFMT == libc::S_IFLNK { O_NOFOLLOW } else { 0 };
        self.open_path(&path.0, flags | follow)
    }

    /// What memfd_create(2) has made does not count as open for writing, which would keep the file from being executed;
    /// whatever is opened through /proc does. So one open file is the former, as one was before.
    pub(super) fn open_object(&self, place: usize, object: usize, offset: u64, flags: u32) -> Result<u64, EngineError> {
        let held = self.process.objects[object].descriptor;
        let is_like_it = |open: &OpenFile| {
            let is_object = matches!(open.kind, OpenFileKind::Object { object: other, .. } if other as usize == object);
            is_object && open.flags & O_ACCMODE == O_RDWR
        };
        let is_first = self.plan.job.open_files.iter().position(is_like_it) == Some(place);
        if is_first && matches!(self.plan.job.objects[object].kind, ObjectKind::MemoryFile { .. }) {
            let own = self.process.copy_to_parking(held, self.parking)?;
            self.set_flags(own, flags)?;
            return self.position(own, offset);
        }
        // That is a link, and the program may have wanted none.
        let opened = self.open_path(format!("/proc/self/fd/{held}").as_bytes(), flags & !O_NOFOLLOW)?;
        self.position(opened, offset)
    }

    pub(super) fn position(&self, opened: u64, offset: u64) -> Result<u64, EngineError> {
        self.call("positioning a file", libc::SYS_lseek, [opened, offset, 0, 0, 0, 0])?;
        Ok(opened)
    }
}
