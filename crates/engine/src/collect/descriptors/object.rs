//! Files that no path leads to: memfds, deleted files. Their contents go with the image, as a memory object.

use super::{Known, Unsupported, Walk};
use crate::RefusalCode;
use crate::object_key::ObjectKey;
use standfast_format::records::{Bytes, ObjectKind, OpenFileKind};
use std::fs::File;
use std::os::unix::fs::MetadataExt;

const PERMISSIONS: u32 = 0o7777;
/// How much of a deleted file goes with an image: it is read while the program stands still.
const DELETED_BYTES_MAX: u64 = 1 << 30;
/// `st_blocks` counts these.
const BLOCK_BYTES: u64 = 512;

impl Walk<'_> {
    pub(super) fn object(&mut self, place: usize) -> Known {
        let shown = &self.shown[place];
        if self.inheritance.others.iter().any(|(_, identity)| *identity == shown.identity()) {
            return Err(Unsupported::with_hint(
                RefusalCode::NamelessFile,
                "no path leads to it, and the program was started with it: others may share it",
                "start it with files that have a name",
            ));
        }
        let own = shown.own(&self.holders)?;
        let offset = shown.information.position;
        if shown.target.starts_with(b"/memfd:") {
            return Ok(OpenFileKind::Object { object: self.objects.of_file(&own)?, offset });
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
