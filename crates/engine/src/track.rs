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
    /// To be compared by checksum.
    pub(crate) compared: Vec<(PageRange, Beneath)>,
    /// As in the last committed generation.
    pub(crate) unchanged: PageSet,
    /// The number that the process has there.
    pub(crate) was: u32,
    /// Pages of observed mappings that must not be touched.
    pub(crate) guarded: Vec<PageRange>,
    /// Where it was seen which pages must not be touched.
    pub(crate) looked_at: Vec<PageRange>,
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
        let mut all: Vec<(PageRange, Beneath)> = Vec::new();
        let (mut written, mut plain) = (Vec::new(), Vec::new());
        let mut pages = Pages::default();
        for place in places {
            // Of private mappings of files everything counts as written. A protected page of theirs that is discarded leaves
            // a marker behind, by which the page that takes its place is protected from birth: until it is written again it
            // looks like the old one, which it is not.
            if place.beneath == Beneath::Zeros {
                let held = scan.held(place.live).map_err(scanning)?;
                if !self.written(&scan, place, &held, is_crowded, &mut written).map_err(scanning)? {
                    written.extend(&held.populated);
                }
                all.extend(held.populated.iter().map(|range| (*range, place.beneath)));
                pages.guarded.extend(held.guarded);
                pages.looked_at.push(place.live);
            } else {
                otherwise(place, &mut plain).map_err(scanning)?;
                written.extend(&plain);
                all.extend(plain.drain(..).map(|range| (range, place.beneath)));
            }
        }
        self.sort(how, &all, written, &mut pages);
        Ok(pages)
    }

    /// Appends the pages of one mapping that may have been written. Whether it was under observation: of one that was not,
    /// all may have been, and from now on it is if it can be.
    fn written(
        &mut self,
        scan: &WrittenScan,
        place: &Place,
        held: &HeldPages,
        is_crowded: bool,
        written: &mut Vec<PageRange>,
    ) -> io::Result<bool> {
        if scan.written(&held.populated, written)?.is_some() {
            written.extend(&held.swapped);
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
        let mut unprotected = Vec::new();
        if scan.written(&held.populated, &mut unprotected)?.is_some() {
            let [all, unprotected] = [&held.populated, &unprotected].map(|ranges| PageSet::of(ranges.iter().copied()));
            all.difference(&unprotected).ranges().iter().try_for_each(|range| self.protection.protect(*range))?;
        }
        Ok(false)
    }

    fn sort(&mut self, how: Look, all: &[(PageRange, Beneath)], written: Vec<PageRange>, pages: &mut Pages) {
        self.seen = PageSet::of(all.iter().map(|(range, _)| *range));
        let written = PageSet::of(written).union(&self.carried.intersection(&self.seen));
        let mut unchanged = self.seen.difference(&written).intersection(&self.saved);
        if unchanged.pages() * 100 < self.seen.pages() * u64::from(how.unchanged_percent_min) {
            unchanged = PageSet::default();
        }
        self.is = how.owner;
        self.carried = self.carried.union(&self.seen.difference(&unchanged));
        for beneath in [Beneath::Zeros, Beneath::File] {
            let of_kind = PageSet::of(all.iter().filter(|(_, kind)| *kind == beneath).map(|(range, _)| *range));
            pages.changed.extend(of_kind.difference(&unchanged).ranges().iter().map(|range| (*range, beneath)));
        }
        pages.changed.sort_unstable_by_key(|(range, _)| range.start());
        (pages.unchanged, pages.was) = (unchanged, self.was);
    }
}

/// How many mappings a process may have.
fn mappings_max() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}
