//! Flushing: a generation in memory goes on to the disk, in the background and with whatever the disk has to spare.
//!
//! ```text
//! memory   11 full <- 12 <- 13 <- 14 <- 15 <- 16 <- ...
//! disk     11 full <-------------- 14 <-------- ...        14 on the disk holds what 12 to 14 do in memory
//! ```
//!
//! A number stands for the same contents on both levels, so what goes to the disk is what has changed since the disk's own
//! newest, where that one is still a link of the chain in memory; else all. Every page is verified as it is copied.

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

/// So much is written and made durable before others have the disk to themselves for a while.
const TURN_BYTES: u64 = 8 << 20;

/// How many times as long as it took that is: a third party keeps seven eighths of the disk, however fast it is (D16).
const REST: u32 = 7;

/// A rest is not longer than this, so that a disk that hung for a while is not left alone for hours.
const REST_MAX: Duration = Duration::from_secs(20);

/// Says how a flush goes on; called on the thread that flushes.
pub trait Pacer {
    /// Whether it goes on at all. Asked before each portion.
    fn goes_on(&self) -> bool;

    /// So many bytes are on the disk since the last time, which took so long: rests, if that is due. Whether it goes on.
    fn turn(&self, bytes: u64, took: Duration) -> bool;
}

/// How hard a flush works; changed from outside while it does.
#[derive(Debug, Default)]
pub struct Pacing {
    pace: Mutex<Pace>,
    changed: Condvar,
    /// Without rests from then on.
    gentle_until: Option<Instant>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pace {
    /// A turn, then a rest [`REST`] times as long.
    #[default]
    Gentle,
    /// Without rests.
    Hurried,
    /// Given up.
    Cancelled,
}

impl Pacing {
    /// Gentle up to that moment, so that it does not last for ever on a slow disk.
    pub fn gentle_until(moment: Instant) -> Self {
        Self { gentle_until: Some(moment), ..Self::default() }
    }

    /// How much has been copied.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Without rests from now on: somebody waits for it.
    pub fn hurry(&self) {
        self.set(Pace::Hurried);
    }

    /// Asks it to end soon; what was there stays.
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

    /// Whether there are rests.
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

/// How long to rest after a turn that took so long, where there is so much time left for rests.
fn rest_after(took: Duration, left: Option<Duration>) -> Duration {
    (took * REST).min(REST_MAX).min(left.unwrap_or(REST_MAX))
}

/// Work in turns and rests.
struct Turns<'a> {
    pacer: &'a dyn Pacer,
    began: Cell<Instant>,
    from: Cell<u64>,
}

impl<'a> Turns<'a> {
    fn new(pacer: &'a dyn Pacer) -> Self {
        Self { pacer, began: Cell::new(Instant::now()), from: Cell::new(0) }
    }

    /// Whether to go on, with so much of the file written.
    fn go_on(&self, file: &dyn StorageFile, written: u64) -> io::Result<bool> {
        if written < self.from.get() + TURN_BYTES {
            return Ok(self.pacer.goes_on());
        }
        // What the page cache takes is no measure of the disk.
        file.sync()?;
        let goes_on = self.pacer.turn(written - self.from.get(), self.began.get().elapsed());
        self.began.set(Instant::now());
        self.from.set(written);
        Ok(goes_on)
    }
}

impl JobDirectory {
    /// Copies a generation of the job from another level to here, unless it is here already or was cancelled: `None` then.
    ///
    /// # Errors
    /// A link that is not good, [`StoreError::Busy`], or a disk that refuses; both levels stay as they were.
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

    /// The newest generation here upon which one of the other level can build: a link of its chain there, and good here.
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
    fn rests_leave_others_most_of_the_disk_and_end_when_the_flush_is_late() {
        let seconds = Duration::from_secs;
        assert_eq!(rest_after(seconds(1), None), seconds(7));
        assert_eq!(rest_after(seconds(60), None), REST_MAX, "a disk that hung is not left alone for minutes");
        assert_eq!(rest_after(seconds(1), Some(seconds(2))), seconds(2));
        assert_eq!(rest_after(seconds(1), Some(Duration::ZERO)), Duration::ZERO);
    }
}
