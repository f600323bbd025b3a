//! Flushing: copies a generation from memory to the disk, in the background and with spare disk bandwidth.
//!
//! ```text
//! memory   11 full <- 12 <- 13 <- 14 <- 15 <- 16 <- ...
//! disk     11 full <-------------- 14 <-------- ...        14 on the disk holds what 12 to 14 do in memory
//! ```
//!
//! A number stands for the same contents on both levels. A flush therefore copies the changes since the newest
//! generation on the disk, if that one is still a link of the chain in memory. Otherwise it copies everything. Every
//! page is verified as it is copied.

use crate::chain::{Chain, LINKS_MAX};
use crate::level_directory::Slot;
use crate::names::image_name_of;
use crate::pack::Packer;
use crate::prepare::{Draft, write_frame};
use crate::progress::Progress;
use crate::{JobDirectory, Lease, StorageFile, StoreError};
use standfast_format::ImageSource;
use standfast_format::image::{ImageIdentity, Parent, assemble};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use std::cell::Cell;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a flush writes and syncs before it rests and leaves the disk to others.
const TURN_BYTES: u64 = 8 << 20;

/// Ratio of a rest to the turn before it: others keep seven eighths of the disk, however fast it is (D16).
const REST: u32 = 7;

/// Longest rest: after a hang of the disk, the flush must not rest for hours.
const REST_MAX: Duration = Duration::from_secs(20);

/// Controls the pace of a flush. Its methods run on the flushing thread.
pub trait Pacer {
    /// Reports whether the flush should continue. Called before each portion.
    fn goes_on(&self) -> bool;

    /// Records that `bytes` reached the disk since the last call, which took `took`, and rests if a rest is due.
    /// Returns whether the flush should continue.
    fn turn(&self, bytes: u64, took: Duration) -> bool;
}

/// The effort of a flush, which other threads can change while it runs.
#[derive(Debug, Default)]
pub struct Pacing {
    pace: Mutex<Pace>,
    changed: Condvar,
    /// The moment from which the flush no longer rests.
    gentle_until: Option<Instant>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pace {
    /// Turns, each followed by a rest [`REST`] times as long.
    #[default]
    Gentle,
    /// No rests.
    Hurried,
    /// Abandoned.
    Cancelled,
}

impl Pacing {
    /// Creates a pacing that is gentle until `moment`, so that a flush to a slow disk does not last forever.
    pub fn gentle_until(moment: Instant) -> Self {
        Self { gentle_until: Some(moment), ..Self::default() }
    }

    /// Returns how much has been copied.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Stops resting from now on, because somebody waits for the flush.
    pub fn hurry(&self) {
        self.set(Pace::Hurried);
    }

    /// Asks the flush to end soon. Existing generations stay.
    pub fn cancel(&self) {
        self.set(Pace::Cancelled);
    }

    fn set(&self, pace: Pace) {
        let mut now = self.lock();
        if *now != Pace::Cancelled {
            *now = pace;
        }
        drop(now);
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether the flush rests between turns.
    pub fn is_gentle(&self) -> bool {
        *self.lock() == Pace::Gentle
    }
}

impl Pacer for Pacing {
    fn goes_on(&self) -> bool {
        *self.lock() != Pace::Cancelled
    }

    fn turn(&self, bytes: u64, took: Duration) -> bool {
        self.progress.add(bytes);
        let left = self.gentle_until.map(|moment| moment.saturating_duration_since(Instant::now()));
        let rest = rest_after(took, left);
        let waited = self.changed.wait_timeout_while(self.lock(), rest, |pace| *pace == Pace::Gentle);
        let (pace, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *pace != Pace::Cancelled
    }
}

/// Returns how long to rest after a turn that took `took`, if `left` is the time left for rests.
fn rest_after(took: Duration, left: Option<Duration>) -> Duration {
    (took * REST).min(REST_MAX).min(left.unwrap_or(REST_MAX))
}

/// State of a flush that alternates between turns and rests.
struct Turns<'a> {
    pacer: &'a dyn Pacer,
    began: Cell<Instant>,
    from: Cell<u64>,
}

impl<'a> Turns<'a> {
    fn new(pacer: &'a dyn Pacer) -> Self {
        Self { pacer, began: Cell::new(Instant::now()), from: Cell::new(0) }
    }

    /// Returns whether to continue after `written` bytes of the file.
    fn go_on(&self, file: &dyn StorageFile, written: u64) -> io::Result<bool> {
        if written < self.from.get() + TURN_BYTES {
            return Ok(self.pacer.goes_on());
        }
        // The page cache accepts bytes faster than the disk, so only a sync measures the disk.
        file.sync()?;
        let goes_on = self.pacer.turn(written - self.from.get(), self.began.get().elapsed());
        self.began.set(Instant::now());
        self.from.set(written);
        Ok(goes_on)
    }
}

impl JobDirectory {
    /// Copies a generation of the job from another level to this one. Returns `None` if it is already here or the copy
    /// was cancelled.
    ///
    /// # Errors
    /// If a link is not good, the disk refuses, or [`StoreError::Busy`]. Both levels stay as they were.
    pub fn take_from(
        &self,
        lease: &Lease,
        level: &Self,
        number: GenerationNumber,
        pacer: &dyn Pacer,
    ) -> Result<Option<Generation>, StoreError> {
        let (here, there) = (self.manifest()?, level.manifest()?);
        let Some(generation) = there.generation(number) else {
            return Err(StoreError::NoSuchGeneration { directory: level.path().to_owned(), number });
        };
        if here.generation(number).is_some() {
            return Ok(None);
        }
        let mut draft = Draft::begin(&self.level_directory, lease, Slot::Flushing, image_name_of(number, 0))?;
        let base = self.base(&here, &there, generation);
        self.level_directory.set_parent(Slot::Flushing, base.map(|base| base.generation));
        let chain = Chain::open_above(&level.level_directory, &there, generation, base.map(|base| base.generation))?;
        let file = draft.create()?;
        let turns = Turns::new(pacer);
        let go_on = |file: &dyn StorageFile, written| turns.go_on(file, written);
        let Some(contained) = Packer::copy(&chain, &*file, &go_on, &draft)? else { return Ok(None) };
        let inherited_pages = contained.inherited.iter().map(|run| run.range.pages()).sum();
        let parent = base.filter(|_| !contained.inherited.is_empty());
        let identity = ImageIdentity { job: here.job, generation: number, parent };
        let image = assemble(identity, contained, chain.state())
            .map_err(|source| StoreError::Image { path: draft.path(), source })?;
        write_frame(&*file, &image).and_then(|()| file.sync()).map_err(|error| draft.writing(error))?;
        draft.publish()?;
        let flushed = Generation {
            parent: parent.map(|parent| parent.generation),
            root: image.root,
            origin: image.root,
            revision: 0,
            file_bytes: image.header.file_bytes(),
            stored_pages: image.header.stored_pages(),
            inherited_pages,
            ..generation.clone()
        };
        let named = self.level_directory.update_manifest(&draft.lease, |manifest| manifest.add(flushed.clone()));
        draft.kept = self.level_directory.may_name(number);
        named.map(|_| Some(flushed))
    }

    /// Returns the newest generation here that can be the parent of `generation`: a link of its chain on the other
    /// level whose own chain is good here.
    fn base(&self, here: &Manifest, there: &Manifest, generation: &Generation) -> Option<Parent> {
        let bad = self.level_directory.bad_generations().clone();
        let is_good = |base: &&Generation| {
            let links: Vec<_> = here.chain(base.number).collect();
            let is_there = |link: &&Generation| !bad.contains_key(&link.number) && self.level_directory.has_image(link);
            !base.superseded && links.len() < LINKS_MAX && links.iter().all(is_there)
        };
        let below = there.chain(generation.number).skip(1);
        let base = below.filter_map(|link| here.generation(link.number)).find(is_good)?;
        Some(Parent { generation: base.number, origin: base.origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_seven_times_the_work_and_shrink_when_late() {
        let seconds = Duration::from_secs;
        assert_eq!(rest_after(seconds(1), None), seconds(7));
        assert_eq!(rest_after(seconds(60), None), REST_MAX, "a disk that hung is not left alone for minutes");
        assert_eq!(rest_after(seconds(1), Some(seconds(2))), seconds(2));
        assert_eq!(rest_after(seconds(1), Some(Duration::ZERO)), Duration::ZERO);
    }
}
