//! Device nodes that mean the same to every process (null, zero, random, the controlling terminal): opened again by
//! path.

use super::shown::Shown;
use super::{Check, Kind, Known, Opening, Recorded, Unsupported, Walk, as_path};
use crate::{EngineError, RefusalCode};
use standfast_format::records::{Bytes, OpenFile, OpenFileKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    shown.is_common_device().then(|| walk.device(shown))
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let OpenFileKind::Device { path, number } = &file.kind else { return };
    let node = std::fs::metadata(as_path(path));
    if !node.is_ok_and(|node| node.file_type().is_char_device() && node.rdev() == *number) {
        let why = "it is not there, or is another device than before";
        check.blockers.add_missing(format!("device {path}"), why);
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Device { path, .. } = recorded.kind else { return None };
    Some(opening.open_path(&path.0, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Device { path, .. } = kind else { return None };
    Some(format!("device {path}"))
}

impl Walk<'_> {
    fn device(&self, shown: &Shown) -> Known {
        let there = std::fs::metadata(self.as_the_job_sees(&shown.target));
        if !there.is_ok_and(|there| there.rdev() == shown.file.rdev()) {
            return Err(Unsupported::because(
                RefusalCode::PathChanged,
                "no device of this kind is found under its path any more",
            ));
        }
        self.refuse_unopenable(shown)?;
        Ok(OpenFileKind::Device { path: Bytes::from(shown.target.as_slice()), number: shown.file.rdev() })
    }
}
