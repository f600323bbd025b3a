//! Regular files: found again by path.

use super::{Known, O_ACCMODE, Unsupported, Walk};
use crate::RefusalCode;
use crate::collect::opened;
use crate::outputs::Output;
use standfast_format::records::OpenFileKind;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

const IN_PLACE: &str = "keep files in place while the program has them open";

impl Walk<'_> {
    pub(super) fn regular(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        let file = opened(&shown.target, shown.identity())
            .map_err(|why| Unsupported::with_hint(RefusalCode::PathChanged, why, IN_PLACE))?;
        if (file.identity.device, file.identity.inode) != shown.identity() {
            return Err(Unsupported::with_hint(
                RefusalCode::PathChanged,
                "another file has taken its place since it was opened",
                IN_PLACE,
            ));
        }
        self.refuse_unopenable(shown)?;
        let offset = shown.information.position;
        if shown.information.flags & O_ACCMODE != 0 {
            let path = OsStr::from_bytes(&file.path.0).into();
            self.found.outputs.push(Output { path, file: self.to_sync(place)? });
        }
        Ok(OpenFileKind::Regular { file, offset, other_writer: None })
    }

    /// A descriptor by which what has been written can be made durable.
    fn to_sync(&self, place: usize) -> io::Result<File> {
        let shown = &self.shown[place];
        let reopened = File::open(shown.link(&self.holders));
        reopened.or_else(|_| shown.own(&self.holders).map(File::from))
    }
}
