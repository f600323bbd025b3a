//! Regular files: found again by path, and positioned. `restart/files.rs` judges whether a restart may continue with
//! what is there now. Files are cut back when all else has been done.

use super::opening::FilePlan;
use super::{Kind, Known, O_ACCMODE, Opening, Recorded, Unsupported, Walk, nothing};
use crate::files::{FileId, opened};
use crate::outputs::Output;
use crate::{EngineError, RefusalCode};
use standfast_format::records::{FileReference, OpenFileKind};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const IN_PLACE: &str = "keep files in place while the program has them open";

/// How an open regular file continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegularPlan {
    /// Its place among the job's open files.
    pub(crate) place: usize,
    /// The program's offset in it.
    pub(crate) offset: u64,
    /// The length to which it is cut back, if it is.
    pub(crate) cut: Option<u64>,
    /// The file that was judged, which alone may be cut back; `None` if it was gone.
    pub(crate) judged: Option<FileId>,
    /// Its present path, if it has been renamed since and is copied back.
    pub(crate) renamed: Option<PathBuf>,
}

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.is_file_of_a_tree() && !shown.is_nameless()).then(|| walk.regular(place))
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Regular { file, offset, .. } = recorded.kind else { return None };
    let planned = opening.plan.regular.iter().find(|planned| planned.place == recorded.place);
    let offset = planned.map_or(*offset, |planned| planned.offset);
    Some(opening.open_regular(file, offset, recorded))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Regular { file, offset, .. } = kind else { return None };
    Some(format!("file {} at {offset} of {} bytes", file.path, file.length))
}

impl Walk<'_> {
    fn regular(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        let file = opened(&shown.target, shown.identity())
            .map_err(|why| Unsupported::with_hint(RefusalCode::PathChanged, why, IN_PLACE))?;
        if FileId::of_reference(&file) != shown.identity() {
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

    /// Returns a descriptor by which its written data can be made durable.
    fn to_sync(&self, place: usize) -> io::Result<File> {
        let shown = &self.shown[place];
        let reopened = File::open(shown.link(&self.holders));
        reopened.or_else(|_| shown.own(&self.holders).map(File::from))
    }
}

impl Opening<'_> {
    fn open_regular(&self, file: &FileReference, offset: u64, recorded: &Recorded<'_>) -> Result<u64, EngineError> {
        let opened = match recorded.how {
            FilePlan::OwnFile(stream) => stream as u64,
            _ => self.open_path(&file.path.0, recorded.flags)?,
        };
        self.position(opened, offset)
    }
}
