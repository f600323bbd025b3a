//! Files that no path leads to: memfds, deleted files. Their contents are saved in the image, as a memory object.

use super::memory::MemoryObjects;
use super::{Check, Kind, Known, O_ACCMODE, O_NOFOLLOW, O_RDWR, Opening, Recorded, Unsupported, Walk};
use crate::object_key::ObjectKey;
use crate::{EngineError, RefusalCode};
use standfast_format::records::{Bytes, ObjectKind, OpenFile, OpenFileKind};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

const PERMISSIONS: u32 = 0o7777;
/// The largest deleted file that is saved in an image: it is read while the program is frozen.
const DELETED_BYTES_MAX: u64 = 1 << 30;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    if !shown.is_file_of_a_tree() || !shown.is_nameless() {
        return None;
    }
    // What the program writes there is for the giver of the file.
    let stream = if shown.information.flags & O_ACCMODE != 0 { walk.external(shown) } else { None };
    Some(match stream {
        Some(stream @ OpenFileKind::Stream { .. }) => Ok(stream),
        _ => walk.object(place),
    })
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    if let OpenFileKind::Object { object, .. } = file.kind
        && object as usize >= check.job.objects.len()
    {
        check.add_missing_part("names memory");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Object { object, offset } = recorded.kind else { return None };
    Some(opening.open_object(recorded.place, *object as usize, *offset, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::Object { object, offset } = kind else { return None };
    Some(format!("memory object {object} at {offset}"))
}

impl Walk<'_> {
    fn object(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        if self.inheritance.others.iter().any(|(_, identity)| *identity == shown.identity()) {
            return Err(Unsupported::with_hint(
                RefusalCode::NamelessFile,
                "no path leads to it, and the program was started with it: others may share it",
                "start it with files that have a name",
            ));
        }
        let own = shown.own(&self.holders)?;
        if let Some(reason) = MemoryObjects::refusal_of(&own)? {
            return Err(Unsupported::Refused(reason));
        }
        let offset = shown.information.position;
        if shown.target.starts_with(b"/memfd:") {
            let object = self.objects.of_file(&own).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => Unsupported::with_hint(
                    RefusalCode::NamelessFile,
                    "its permissions forbid its owner to read it",
                    "make it readable (fchmod)",
                ),
                _ => error.into(),
            });
            return Ok(OpenFileKind::Object { object: object?, offset });
        }
        if shown.file.blocks() * BLOCK_BYTES > DELETED_BYTES_MAX {
            return Err(Unsupported::with_hint(
                RefusalCode::NamelessFile,
                "it has been deleted since it was opened, and is too large to go with the image (more than 1 GiB)",
                "keep large files in place while the program has them open",
            ));
        }
        let contents = File::open(shown.link(&self.holders)).map_err(|error| {
            Unsupported::because(
                RefusalCode::NamelessFile,
                format!("it has been deleted since it was opened, and cannot be read ({error})"),
            )
        })?;
        let path = shown.target.strip_suffix(b" (deleted)").unwrap_or(&shown.target);
        let kind = ObjectKind::DeletedFile { path: Bytes::from(path), mode: shown.file.mode() & PERMISSIONS };
        Ok(OpenFileKind::Object { object: self.objects.add(ObjectKey::of_file(&shown.file), kind, contents)?, offset })
    }
}

impl Opening<'_> {
    /// Opens a memory object. A file made by memfd_create(2) does not count as open for writing, which would prevent
    /// executing it; a file opened through /proc always does. So one open file is the original one, as one was before.
    fn open_object(&self, place: usize, object: usize, offset: u64, flags: u32) -> Result<u64, EngineError> {
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
        // This path is a link, and the program may have asked not to follow links.
        let opened = self.open_path(format!("/proc/self/fd/{held}").as_bytes(), flags & !O_NOFOLLOW)?;
        self.position(opened, offset)
    }
}
