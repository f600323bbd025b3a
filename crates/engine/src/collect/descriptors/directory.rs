//! Open directories, and places in the file system (O_PATH): found again by path.

use super::shown::Shown;
use super::{Known, Unsupported, Walk};
use crate::RefusalCode;
use standfast_format::records::{Bytes, OpenFileKind};
use std::os::unix::fs::MetadataExt;

const IN_PLACE: &str = "keep directories in place while the program has them open";

impl Walk<'_> {
    pub(super) fn directory(&self, shown: &Shown) -> Known {
        let (device, inode) = self.lies_there(shown)?;
        self.refuse_unopenable(shown)?;
        let path = Bytes::from(shown.target.as_slice());
        Ok(OpenFileKind::Directory { path, position: shown.information.position, device, inode })
    }

    pub(super) fn place_in_tree(&self, shown: &Shown) -> Known {
        let (device, inode) = self.lies_there(shown)?;
        let path = Bytes::from(shown.target.as_slice());
        Ok(OpenFileKind::Place { path, mode: shown.file.mode(), device, inode })
    }

    /// Device and inode of what a path leads to, which must be what is open.
    fn lies_there(&self, shown: &Shown) -> Result<(u64, u64), Unsupported> {
        let found = std::fs::symlink_metadata(self.as_the_job_sees(&shown.target));
        if found.is_ok_and(|found| (found.dev(), found.ino()) == shown.identity()) {
            return Ok(shown.identity());
        }
        let why = if shown.target.ends_with(b" (deleted)") {
            "it has been deleted since it was opened"
        } else {
            "it cannot be found under its path any more"
        };
        Err(Unsupported::with_hint(RefusalCode::PathChanged, why, IN_PLACE))
    }
}
