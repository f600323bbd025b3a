//! Regular files: found again by path.

use super::{Known, O_ACCMODE, Unfit, Walk};
use crate::census::reference;
use standfast_format::records::OpenFileKind;
use std::fs::File;

const IN_PLACE: &str = "keep files in place while the program has them open";

impl Walk<'_> {
    pub(super) fn regular(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        let file = reference(&shown.target).map_err(|why| Unfit::with_remedy(why, IN_PLACE))?;
        if (file.identity.device, file.identity.inode) != shown.identity() {
            return Err(Unfit::with_remedy("another file has taken its place since it was opened", IN_PLACE));
        }
        let offset = shown.information.position;
        if shown.information.flags & O_ACCMODE != 0 {
            self.found.outputs.push(File::from(shown.own(&self.holders)?));
        }
        Ok(OpenFileKind::Regular { file, offset })
    }
}
