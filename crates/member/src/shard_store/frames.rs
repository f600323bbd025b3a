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
    /// Would be free, were they not being copied to the directory; and whoever copies has the other half.
    withheld: Vec<u32>,
    copying: Arc<()>,
    /// Those of sealed shards that a recovery makes again: what it replaces stays as long as it may come to nothing, if there is
    /// room.
    replaced: Vec<u32>,
    /// Steps by which the file may grow before it is looked again how much room there is.
    steps: u64,
    /// Whether it has grown since the last seal.
    grows: bool,
    /// Those that have been looked at in the recovery that is under way.
    verified: Verified,
}

impl Frames {
    /// Those of the file in this directory, which is made if there is none. None is free before [`Self::set_used`].
    ///
    /// # Errors
    /// The file system's, or another process has it.
    pub(super) fn open(directory: &Path) -> Result<Self, MemberError> {
        let path = directory.join("pages");
        let file = FrameFile::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                MemberError::unusable(directory, "another process of this job still uses it")
            }
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

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.file.frames()
    }

    /// All but these are free.
    pub(super) fn set_used(&mut self, used: impl Iterator<Item = u32>) {
        self.free = Free::default();
        (0..self.count()).for_each(|frame| self.free.give(frame));
        used.for_each(|frame| self.free.remove(frame));
    }

    /// One to be written.
    ///
    /// # Errors
    /// Why there is none, in words.
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
        // Who needs much needs more, mostly. What it turns out not to need is given back with the seal.
        if has_grown && self.steps > 0 {
            self.file.grow_ahead();
        }
        Ok(())
    }

    /// These hold nothing that counts any more.
    pub(super) fn give_back(&mut self, frames: impl IntoIterator<Item = u32>) {
        if Arc::strong_count(&self.copying) > 1 {
            self.withheld.extend(frames);
        } else {
            frames.into_iter().for_each(|frame| self.free.give(frame));
        }
    }

    /// These hold a sealed shard that is made again: it may be found again as long as nothing else is.
    pub(super) fn replace(&mut self, frames: impl IntoIterator<Item = u32>) {
        self.replaced.extend(frames);
    }

    /// What was replaced will not be looked for any more.
    pub(super) fn give_back_replaced(&mut self) {
        let replaced = std::mem::take(&mut self.replaced);
        self.give_back(replaced);
    }

    /// What is given back is withheld until the answer is dropped.
    pub(super) fn withhold(&self) -> Arc<()> {
        self.copying.clone()
    }

    /// What has been written stands in the file, for whoever reads it; memory that was taken ahead is given back.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn settle(&mut self) -> Result<(), MemberError> {
        self.file.publish();
        if std::mem::take(&mut self.grows) {
            self.file.settle().map_err(MemberError::file(&self.directory))?;
        }
        Ok(())
    }

    /// Gives back the memory behind the last frame that is used.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn shrink(&mut self, used: impl Iterator<Item = u32>) -> Result<(), MemberError> {
        let last = used.chain(self.withheld.iter().copied()).max();
        self.file.shrink(last.map_or(0, |last| last + 1)).map_err(MemberError::file(&self.directory))?;
        self.free.forget_from(self.count());
        Ok(())
    }

    /// The content of a frame, whatever it is.
    pub(super) fn content(&self, frame: u32) -> &Page {
        self.file.frame(frame)
    }

    /// Writes a frame.
    pub(super) fn write(&mut self, frame: u32, page: &Page) {
        self.file.write(frame, page);
        self.verified.forget(frame);
    }

    /// Has a frame fetched, which is about to be read.
    pub(super) fn expect(&self, frame: u32) {
        self.file.expect(frame);
    }

    /// Whether a frame's content is what was written. Noted, so that nobody has to look again.
    pub(super) fn is_intact(&self, frame: u32, content: &Page, checksum: Checksum) -> bool {
        let is_intact = Checksum::of(content) == checksum;
        if is_intact {
            self.verified.note(frame);
        }
        is_intact
    }

    /// Whether it has been found intact since the recovery began.
    pub(super) fn is_verified(&self, frame: u32) -> bool {
        self.verified.has(frame)
    }

    /// From now on it is noted what is intact.
    pub(super) fn begin_verifying(&mut self) {
        self.verified = Verified::none_of(self.count());
    }

    /// No longer.
    pub(super) fn end_verifying(&mut self) {
        self.verified = Verified::default();
    }
}

/// A set of frames, of which the lowest is taken: neighbours are written one after the other then, which takes half the time
/// of frames here and there, and the file stays short.
#[derive(Debug, Default)]
struct Free {
    bits: Vec<u64>,
    /// There are none in the words before.
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

    /// Those from this one on are no more.
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
