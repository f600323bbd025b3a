//! Regular files: opened by path, cut back and positioned.

use super::{O_ACCMODE, Opening};
use crate::EngineError;
use crate::restart::plan::FilePlan;
use standfast_format::records::FileReference;

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
        if flags & O_ACCMODE != 0 {
            let action = format!("cutting {} back to its length at the checkpoint", file.path);
            self.call(&action, libc::SYS_ftruncate, [opened, file.length, 0, 0, 0, 0])?;
        }
        self.call("positioning a file", libc::SYS_lseek, [opened, offset, 0, 0, 0, 0])?;
        Ok(opened)
    }
}
