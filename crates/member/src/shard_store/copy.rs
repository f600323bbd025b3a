//! A sealed shard on its way to another place: what to copy, and the copying, which may run in another thread while the
//! shard store continues. The copy is a shard store as well, with only this shard.

use super::{Entries, Entry, FileShardStore, Frame, SealedShard, State, make_directory, table, write_checked};
use crate::error::MemberError;
use standfast_core::delta::Page;
use standfast_core::{Checksum, PAGE_BYTES};
use standfast_group::{Damaged, Description, Life, Place, ShardId};
use standfast_linux::FrameFile;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TABLE: u64 = 1;
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// A shard as it was when the copy was begun. Its frames are not reused while this value exists.
#[derive(Debug)]
pub(crate) struct ShardCopy {
    state: State,
    id: ShardId,
    entries: Vec<(Place, u32, Checksum)>,
    descriptions: Vec<Description>,
    pages: PathBuf,
    _withholds: Arc<()>,
}

impl FileShardStore {
    /// Returns a sealed shard to be copied.
    ///
    /// # Panics
    /// If there is none of that name.
    pub(crate) fn copy(&self, id: ShardId) -> ShardCopy {
        let shard = &self.shards[&id];
        let mut entries = shard.base.map(|base| self.shards[&base].entries.clone()).unwrap_or_default();
        entries.extend(shard.entries.iter());
        if shard.is_local {
            // The checks are those of its base.
            entries.retain(|place, _| matches!(place, Place::Slot(_)));
        }
        let held = |(place, entry): (Place, Entry)| Some((place, entry.frame.number()?, entry.checksum));
        let (acknowledged, is_local) = (shard.acknowledged, shard.is_local);
        let sealed = SealedShard { id, acknowledged, tables: vec![TABLE], base: None, is_local };
        ShardCopy {
            state: State { promised: true, shards: vec![sealed], ..self.state.clone() },
            id,
            entries: entries.iter().filter_map(held).collect(),
            descriptions: shard.descriptions.clone(),
            pages: self.directory.join("pages"),
            _withholds: self.frames.withhold(),
        }
    }
}

impl ShardCopy {
    /// Returns the name of the shard.
    pub(crate) fn id(&self) -> ShardId {
        self.id
    }

    /// Returns the copy with a later life.
    pub(crate) fn in_life(self, life: Life) -> Self {
        let state = State { life: self.state.life.max(life), ..self.state };
        Self { state, ..self }
    }

    /// Writes the copy into a directory of its own, which appears complete and durable, or not at all.
    ///
    /// # Errors
    /// File system errors; a page that is not what was written.
    pub(crate) fn write(&self, to: &Path) -> Result<(), MemberError> {
        let open = to.with_extension("open");
        clear(&open)?;
        make_directory(&open)?;
        let entries = self.write_pages(&open.join("pages"))?;
        table::write(&open, TABLE, &entries, &self.descriptions)?;
        let state = minicbor::to_vec(&self.state).expect("a vector takes everything");
        write_checked(&open, "state", &state)?;
        make_durable(&open)?;
        clear(to)?;
        fs::rename(&open, to).map_err(MemberError::file(to))?;
        to.parent().map_or(Ok(()), sync)
    }

    fn write_pages(&self, path: &Path) -> Result<Entries, MemberError> {
        let from = File::open(&self.pages).map_err(MemberError::file(&self.pages))?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let mut into = BufWriter::with_capacity(WRITTEN_AT_ONCE, file.map_err(MemberError::file(path))?);
        let mut page: Page = [0; PAGE_BYTES];
        let mut entries = Entries::default();
        for (number, (place, frame, checksum)) in (0..).zip(&self.entries) {
            let offset = u64::from(*frame) * PAGE_BYTES as u64;
            from.read_exact_at(&mut page, offset).map_err(MemberError::file(&self.pages))?;
            if Checksum::of(&page) != *checksum {
                return Err(MemberError::Damaged(Damaged { shard: self.id, place: *place }));
            }
            into.write_all(&page).map_err(MemberError::file(path))?;
            entries.insert(*place, Entry { frame: Frame::At(number), checksum: *checksum });
        }
        let file = into.into_inner().map_err(|error| MemberError::file(path)(error.into_error()))?;
        let length = (self.entries.len() * PAGE_BYTES) as u64;
        file.set_len(length.next_multiple_of(FrameFile::STEP_BYTES)).map_err(MemberError::file(path))?;
        Ok(entries)
    }
}

/// Removes a directory, if it exists.
pub(crate) fn clear(path: &Path) -> Result<(), MemberError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(MemberError::file(path)(error)),
        _ => Ok(()),
    }
}

/// Makes the files of a directory durable, and their names in it.
pub(crate) fn make_durable(directory: &Path) -> Result<(), MemberError> {
    for entry in fs::read_dir(directory).map_err(MemberError::file(directory))? {
        sync(&entry.map_err(MemberError::file(directory))?.path())?;
    }
    sync(directory)
}

/// Makes one file or directory durable.
pub(crate) fn sync(path: &Path) -> Result<(), MemberError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(MemberError::file(path))
}
