//! Regular files: opened by path and positioned. They are cut back later, when all else has been done.

use super::Opening;
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
        self.call("positioning a file", libc::SYS_lseek, [opened, offset, 0, 0, 0, 0])?;
        Ok(opened)
    }
}
