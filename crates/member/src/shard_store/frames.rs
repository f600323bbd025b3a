//! The frames of a shard store: which of them are free, and where more come from.
//!
//! ```text
//!   free ── take ──> of a shard ── give_back ──> free, or withheld while a copy is made
//!                        └── replace ──> of a shard still on disk, free with the next seal
//! ```

use super::room;
use super::verified::Verified;
use crate::error::MemberError;
use standfast_core::Checksum;
use standfast_core::delta::Page;
use standfast_linux::FrameFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All frames of one file.
#[derive(Debug)]
pub(super) struct Frames {
    directory: PathBuf,
    file: FrameFile,
    free: Free,
    /// Frames that would be free, but are being copied to the directory. The copying side has a clone of `copying`.
    withheld: Vec<u32>,
    copying: Arc<()>,
    /// Frames of sealed shards that a recovery makes again. While that recovery may fail, they are kept, if there is
    /// room.
    replaced: Vec<u32>,
    /// Steps by which the file may grow before the available room is checked again.
    steps: u64,
    /// Whether it has grown since the last seal.
    grows: bool,
    /// Frames verified in the current recovery.
    verified: Verified,
}

impl Frames {
    /// Opens the frames of the file in this directory, which is created if there is none. No frame is free before
    /// [`Self::set_used`].
    ///
    /// # Errors
    /// File system errors, or another process uses it.
    pub(super) fn open(directory: &Path) -> Result<Self, MemberError> {
        let path = directory.join("pages");
        let file = FrameFile::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => MemberError::unusable(
                directory,
                "another process of this job still uses it\nhint: wait until that process has ended, or end it",
            ),
            _ => MemberError::File { path, source: error },
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            free: Free::default(),
            withheld: Vec::new(),
            copying: Arc::new(()),
            replaced: Vec::new(),
            steps: 0,
            grows: false,
            verified: Verified::default(),
        })
    }

    /// Returns the number of frames.
    pub(super) fn count(&self) -> u32 {
        self.file.frames()
    }

    /// Marks all frames but these as free.
    pub(super) fn set_used(&mut self, used: impl Iterator<Item = u32>) {
        self.free = Free::default();
        (0..self.count()).for_each(|frame| self.free.give(frame));
        used.for_each(|frame| self.free.remove(frame));
    }

    /// Takes a free frame for writing.
    ///
    /// # Errors
    /// Why there is none, as text.
    pub(super) fn take(&mut self) -> Result<u32, String> {
        if !self.withheld.is_empty() && Arc::strong_count(&self.copying) == 1 {
            self.withheld.drain(..).for_each(|frame| self.free.give(frame));
        }
        if let Some(frame) = self.free.take() {
            return Ok(frame);
        }
        let grown = self.grow();
        if grown.is_err() {
            self.replaced.drain(..).for_each(|frame| self.free.give(frame));
        }
        match (self.free.take(), grown) {
            (Some(frame), _) => Ok(frame),
            (None, Err(reason)) => Err(reason),
            (None, Ok(())) => unreachable!("a file grows by some frames"),
        }
    }

    fn grow(&mut self) -> Result<(), String> {
        let first = self.count();
        if self.steps == 0 {
            self.steps = room::check(&self.directory)?;
        }
        self.steps -= 1;
        let has_grown = std::mem::replace(&mut self.grows, true);
        self.file.grow().map_err(|error| format!("{}: no space for a page: {error}", self.directory.display()))?;
        (first..self.count()).for_each(|frame| self.free.give(frame));
        // A process that needs much memory mostly needs more. The seal gives back what it does not need.
        if has_grown && self.steps > 0 {
            self.file.grow_ahead();
        }
        Ok(())
    }

    /// Frees frames whose content no longer counts.
    pub(super) fn give_back(&mut self, frames: impl IntoIterator<Item = u32>) {
        if Arc::strong_count(&self.copying) > 1 {
            self.withheld.extend(frames);
        } else {
            frames.into_iter().for_each(|frame| self.free.give(frame));
        }
    }

    /// Marks frames of a sealed shard that is made again. Their content may be found again as long as it is not
    /// overwritten.
    pub(super) fn replace(&mut self, frames: impl IntoIterator<Item = u32>) {
        self.replaced.extend(frames);
    }

    /// Frees the replaced frames, which are no longer needed.
    pub(super) fn give_back_replaced(&mut self) {
        let replaced = std::mem::take(&mut self.replaced);
        self.give_back(replaced);
    }

    /// Withholds frames that are given back, until the returned value is dropped.
    pub(super) fn withhold(&self) -> Arc<()> {
        self.copying.clone()
    }

    /// Publishes all written frames in the file, for other readers, and gives back memory that was allocated ahead.
    ///
    /// # Errors
    /// File system errors.
    pub(super) fn settle(&mut self) -> Result<(), MemberError> {
        self.file.publish();
        if std::mem::take(&mut self.grows) {
            self.file.settle().map_err(MemberError::file(&self.directory))?;
        }
        Ok(())
    }

    /// Gives back the memory after the last used frame.
    ///
    /// # Errors
    /// File system errors.
    pub(super) fn shrink(&mut self, used: impl Iterator<Item = u32>) -> Result<(), MemberError> {
        let last = used.chain(self.withheld.iter().copied()).max();
        self.file.shrink(last.map_or(0, |last| last + 1)).map_err(MemberError::file(&self.directory))?;
        self.free.forget_from(self.count());
        Ok(())
    }

    /// Returns the content of a frame, whatever it is.
    pub(super) fn content(&self, frame: u32) -> &Page {
        self.file.frame(frame)
    }

    /// Writes a frame.
    pub(super) fn write(&mut self, frame: u32, page: &Page) {
        self.file.write(frame, page);
        self.verified.forget(frame);
    }

    /// Prefetches a frame that is about to be read.
    pub(super) fn expect(&self, frame: u32) {
        self.file.expect(frame);
    }

    /// Reports whether a frame's content is what was written. Records the result, so that it need not be checked again.
    pub(super) fn is_intact(&self, frame: u32, content: &Page, checksum: Checksum) -> bool {
        let is_intact = Checksum::of(content) == checksum;
        if is_intact {
            self.verified.note(frame);
        }
        is_intact
    }

    /// Reports whether the frame has been found intact since the recovery began.
    pub(super) fn is_verified(&self, frame: u32) -> bool {
        self.verified.has(frame)
    }

    /// Begins to record intact frames.
    pub(super) fn begin_verifying(&mut self) {
        self.verified = Verified::none_of(self.count());
    }

    /// Stops recording.
    pub(super) fn end_verifying(&mut self) {
        self.verified = Verified::default();
    }
}

/// A set of frames, from which the lowest is taken. So neighbours are written one after the other, which takes half the
/// time of scattered frames, and the file stays short.
#[derive(Debug, Default)]
struct Free {
    bits: Vec<u64>,
    /// All words before this one are empty.
    from: usize,
}

impl Free {
    fn give(&mut self, frame: u32) {
        let (word, bit) = Self::place(frame);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= bit;
        self.from = self.from.min(word);
    }

    fn take(&mut self) -> Option<u32> {
        self.from += self.bits[self.from..].iter().position(|bits| *bits != 0)?;
        let bits = &mut self.bits[self.from];
        let frame = self.from as u32 * u64::BITS + bits.trailing_zeros();
        *bits &= *bits - 1;
        Some(frame)
    }

    fn remove(&mut self, frame: u32) {
        let (word, bit) = Self::place(frame);
        self.bits[word] &= !bit;
    }

    /// Removes all frames from this one on.
    fn forget_from(&mut self, end: u32) {
        let (word, bit) = Self::place(end);
        self.bits.truncate(word + 1);
        self.bits.get_mut(word).into_iter().for_each(|bits| *bits &= bit - 1);
        self.from = self.from.min(word);
    }

    fn place(frame: u32) -> (usize, u64) {
        ((frame / u64::BITS) as usize, 1 << (frame % u64::BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_lowest_free_frame_is_taken() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut free, mut set) = (Free::default(), BTreeSet::new());
        for _ in 0..5000 {
            let frame = random.u32(..400);
            match random.u32(..20) {
                0 => {
                    free.forget_from(frame);
                    set.retain(|it| *it < frame);
                }
                1 if set.remove(&frame) => free.remove(frame),
                2..=9 => assert_eq!(free.take(), set.pop_first(), "seed {seed}"),
                _ => {
                    free.give(frame);
                    set.insert(frame);
                }
            }
        }
        assert!(std::iter::from_fn(|| free.take()).eq(set), "seed {seed}");
    }
}
