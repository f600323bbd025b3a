//! What the engine remembers of a job's memory between checkpoints, so that the next one costs what has changed.
//!
//! A page is *unchanged* only if all of this holds: it is anonymous memory, its mapping has been under observation since the
//! last look, it has not been written since, it is in memory, and the last committed generation holds it. Everything else is saved again. A
//! new program in the process, a moved or fresh mapping, a page that was discarded: none of them is under observation,
//! or not in that generation, so all of them are saved.

use crate::freeze::kernel;
use crate::hashes::Hashes;
use crate::{EngineError, ProcessIdentity};
use standfast_core::{PageRange, PageSet};
use standfast_format::Beneath;
use standfast_linux::{HeldPages, WriteProtection, WrittenScan};
use std::io;
use std::os::fd::OwnedFd;

/// How it is found out what has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracking {
    /// Not at all: every checkpoint saves everything.
    #[default]
    Off,
    /// As [`Tracking::Pagemap`] where the kernel can do that, as [`Tracking::Hash`] elsewhere.
    Auto,
    /// The memory of processes is put under observation; shared memory is read and compared. What cannot be observed
    /// has changed.
    Pagemap,
    /// Everything is read and compared with checksums of what it held.
    Hash,
}

/// A program with this share of the mappings that it may have is not observed, since observation keeps neighbours apart
/// that would else be one.
const MAPPINGS_SHARE: usize = 2;

/// What is remembered of the memory of a job.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    spaces: Vec<Track>,
    pub(crate) hashes: Hashes,
    /// The last committed generation, upon which the next one can build.
    generation: Option<u64>,
    /// Why the last address space that was to be observed is not.
    problem: Option<String>,
}

impl Tracks {
    /// How a job is tracked for which this was asked.
    pub(crate) fn resolve(&self, tracking: Tracking) -> Tracking {
        match (tracking, &self.problem) {
            (Tracking::Auto, None) => Tracking::Pagemap,
            (Tracking::Auto, Some(_)) => Tracking::Hash,
            (other, _) => other,
        }
    }

    /// Why the kernel does not let memory be observed, where it does not.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The last committed generation, if the next one can build upon it.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// The track of a process.
    pub(crate) fn of(&mut self, process: ProcessIdentity) -> Option<&mut Track> {
        self.spaces.iter_mut().find(|track| track.process == process)
    }

    /// Puts a process under observation with the userfaultfd that it has made, and forgets processes that are gone.
    pub(crate) fn begin(&mut self, process: ProcessIdentity, userfault: io::Result<OwnedFd>) {
        self.spaces.retain(|track| track.process != process && track.process.is_alive());
        match userfault.and_then(WriteProtection::new) {
            Ok(protection) => {
                self.problem = None;
                self.spaces.push(Track {
                    process,
                    protection,
                    saved: PageSet::default(),
                    seen: PageSet::default(),
                    was: 0,
                    is: 0,
                    carried: PageSet::default(),
                    lost: false,
                });
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// The last checkpoint has been committed as this generation: what it saw is what the next one builds upon.
    pub(crate) fn committed(&mut self, generation: u64) {
        for track in &mut self.spaces {
            track.saved = std::mem::take(&mut track.seen);
            track.carried = PageSet::default();
            track.was = track.is;
        }
        self.hashes.committed();
        self.generation = Some(generation);
    }

    /// No generation is left to build upon: the next checkpoint saves everything.
    pub(crate) fn forget(&mut self) {
        self.generation = None;
        self.spaces.iter_mut().for_each(|track| track.saved = PageSet::default());
        self.hashes.forget();
    }
}

/// One address space under observation.
#[derive(Debug)]
pub(crate) struct Track {
    process: ProcessIdentity,
    protection: WriteProtection,
    /// What the last committed generation holds.
    saved: PageSet,
    /// The number that the process has there.
    was: u32,
    /// The number that it had at the last look.
    is: u32,
    /// What the last look saw; saved when its checkpoint is committed.
    seen: PageSet,
    /// Written since the last committed generation, and told only to looks whose checkpoint was not committed.
    carried: PageSet,
    /// Whether the process has executed another program: nothing is under observation any more.
    lost: bool,
}

/// A mapping to look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// All of it, to be observed; of a stack also where it may grow to.
    pub(crate) mapping: PageRange,
    /// The part that counts.
    pub(crate) live: PageRange,
    /// What lies beneath its pages.
    pub(crate) beneath: Beneath,
}

/// The pages of a process that hold something, ascending.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// To be saved.
    pub(crate) changed: Vec<(PageRange, Beneath)>,
    /// As in the last committed generation.
    pub(crate) unchanged: PageSet,
    /// The number that the process has there.
    pub(crate) was: u32,
}

/// How a process is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// The number that it has in the image.
    pub(crate) owner: u32,
    /// Where less than this share of its pages has not changed, in percent, all count as changed.
    pub(crate) unchanged_percent_min: u8,
}

impl Track {
    /// Whether a new program needs a new observation.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Looks at the memory of a process that stands still, and from now on observes all of it. `otherwise` lists the
    /// populated pages where a mapping cannot be observed.
    pub(crate) fn look(
        &mut self,
        how: Look,
        places: &[Place],
        otherwise: impl Fn(&Place, &mut Vec<PageRange>) -> io::Result<()>,
    ) -> Result<Pages, EngineError> {
        let scanning = |source| kernel("scanning the program's pages", source);
        let scan = WrittenScan::open(self.process.pid).map_err(scanning)?;
        let is_crowded = places.len() * MAPPINGS_SHARE > mappings_max();
        let (mut held, mut plain) = (Vec::new(), Vec::new());
        let mut all: Vec<(PageRange, Beneath)> = Vec::new();
        let mut written = Vec::new();
        for place in places {
            // Of private mappings of files everything counts as written. A protected page of theirs that is discarded leaves
            // a marker behind, by which the page that takes its place is protected from birth: until it is written again it
            // looks like the old one, which it is not.
            let is_observed = place.beneath == Beneath::Zeros
                && self.look_at(&scan, place, is_crowded, &mut held).map_err(scanning)?;
            if !is_observed {
                otherwise(place, &mut plain).map_err(scanning)?;
                held.extend(plain.drain(..).map(|range| HeldPages { range, written: true }));
            }
            written.extend(held.iter().filter(|held| held.written).map(|held| held.range));
            all.extend(held.drain(..).map(|held| (held.range, place.beneath)));
        }
        Ok(self.sort(how, &all, written))
    }

    /// Appends the pages of one mapping that hold something. Whether it is under observation.
    fn look_at(
        &mut self,
        scan: &WrittenScan,
        place: &Place,
        is_crowded: bool,
        held: &mut Vec<HeldPages>,
    ) -> io::Result<bool> {
        if scan.look(place.live, held)?.is_some() {
            return Ok(true);
        }
        if is_crowded || self.lost {
            return Ok(false);
        }
        match self.protection.observe(place.mapping) {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ESRCH)) => {
                self.lost = true;
                return Ok(false);
            }
            Err(_) => return Ok(false),
        }
        let is_observed = scan.look(place.live, held)?.is_some();
        for held in held {
            if !held.written {
                self.protection.protect(held.range)?;
            }
            held.written = true;
        }
        Ok(is_observed)
    }

    fn sort(&mut self, how: Look, all: &[(PageRange, Beneath)], written: Vec<PageRange>) -> Pages {
        self.seen = PageSet::of(all.iter().map(|(range, _)| *range));
        let written = PageSet::of(written).union(&self.carried.intersection(&self.seen));
        let mut unchanged = self.seen.difference(&written).intersection(&self.saved);
        if unchanged.pages() * 100 < self.seen.pages() * u64::from(how.unchanged_percent_min) {
            unchanged = PageSet::default();
        }
        self.is = how.owner;
        self.carried = self.carried.union(&self.seen.difference(&unchanged));
        let mut changed = Vec::new();
        for beneath in [Beneath::Zeros, Beneath::File] {
            let of_kind = PageSet::of(all.iter().filter(|(_, kind)| *kind == beneath).map(|(range, _)| *range));
            changed.extend(of_kind.difference(&unchanged).ranges().iter().map(|range| (*range, beneath)));
        }
        changed.sort_unstable_by_key(|(range, _)| range.start());
        Pages { changed, unchanged, was: self.was }
    }
}

/// How many mappings a process may have.
fn mappings_max() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}
