//! What a program directs about its own checkpoints (L11 to L14, M6, M7): found in its memory while it stands still, honoured,
//! and answered there.
//!
//! Directions only ever take pages out of what the collection has found, and what cannot be read takes out nothing. Read-only
//! memory is inherited from the last committed checkpoint without being looked at: the programmer has promised. For that it
//! is kept here which pages that checkpoint holds.

use crate::freeze::{Frozen, FrozenProcess};

use crate::error::kernel;
use crate::program::ProgramIdentity;
use crate::tables::{Directions, Tables, decoded};
use crate::track::Pages;
use crate::watch::Watch;
use crate::{EngineError, ProcessIdentity};
use standfast_core::directions::{
    self, CheckpointOutcome, DirectionsError, DirectivesHeader, HEADER_BYTES, HeaderWrite, MaskedPages, Outline,
    PLACES, Regions, Times, Usage,
};
use standfast_core::{Address, PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_linux::proc::Map;
use standfast_linux::{ProcessMemory, monotonic_clocks_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The environment variable by which a program's libstandfast learns that it runs under a supervisor, and where that one is
/// to be reached: the job's directory, absolute.
pub const DIRECTORY_VARIABLE: &str = "STANDFAST_DIRECTORY";

/// The environment variables by which it learns what else is wanted of it.
pub(crate) const CHECK_VARIABLE: &str = "STANDFAST_CHECK_EXCLUSIONS";
pub(crate) const FREE_VARIABLE: &str = "STANDFAST_FREE_MEMORY";

/// What dead memory holds after a restart where exclusions are checked: as an address, as an index and as a number of whichever
/// kind something that stands out.
const POISON: u8 = 0xa5;
/// So much of it is written at a time.
const POISON_BYTES: u64 = 1 << 20;

/// Whether a job that stands still is ready for a checkpoint, as far as its programs have a say in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// One of its threads talks with the supervisor at this moment.
    Asking,
    /// A program has disabled checkpoints for the time being. It has been told that one waits.
    Disabled,
}

/// What programs that direct their own checkpoints are told before they go on.
#[derive(Debug, Clone, Copy)]
pub struct RestartNews<'a> {
    /// The generation from which they go on.
    pub generation: u64,
    /// Where they reach their supervisor: the job's directory, absolute.
    pub directory: &'a Path,
    /// When checkpoints are taken.
    pub advised: Advised,
}

/// What programs are told together with an outcome: for how long no request is honoured, and when the next checkpoint comes
/// anyhow; `None` for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advised {
    /// From now on.
    pub due_in: Option<Duration>,
    /// From now on.
    pub next_in: Option<Duration>,
}

impl Frozen {
    /// Asks all programs of the job whether they are ready.
    ///
    /// # Errors
    /// When one of them has ended meanwhile.
    pub fn readiness(&self) -> Result<Readiness, EngineError> {
        let mut readiness = Readiness::Ready;
        for process in &self.processes {
            let Some(Heading { place, header: Ok(header) }) = process.heading()? else { continue };
            if header.is_asking {
                readiness = Readiness::Asking;
            } else if header.is_disabled {
                write(&process.memory, place, &directions::pending())?;
                return Ok(Readiness::Disabled);
            }
        }
        Ok(readiness)
    }

    /// Tells all programs of the job that a checkpoint has been taken as this generation; without one, that there is none.
    ///
    /// # Errors
    /// When one of them has ended meanwhile.
    pub fn tell(&self, taken: Option<u64>, advised: Advised) -> Result<(), EngineError> {
        let outcome = taken.map_or(CheckpointOutcome::Failed, CheckpointOutcome::Taken);
        self.processes.iter().try_for_each(|process| {
            let Some(Heading { place, header: Ok(header) }) = process.heading()? else { return Ok(()) };
            write(&process.memory, place, &header.outcome(outcome, advised.times(process.pid)))
        })
    }
}

/// Tells a rebuilt process, before it runs, that it has been restarted, and where its supervisor is.
pub(crate) fn tell_restarted(
    (pid, memory): (i32, &ProcessMemory),
    [mapped, private]: [&[PageRange]; 2],
    news: RestartNews<'_>,
) -> Result<(), EngineError> {
    let Some(Heading { place, header: Ok(header) }) =
        find(memory, |place| mapped.iter().any(|map| map.contains(place)))?
    else {
        return Ok(());
    };
    // One whose path is too long cannot be reached, which is better than to reach another.
    let path = news.directory.as_os_str().as_bytes();
    let directory = directions::directory(path).or_else(|| directions::directory(b"")).expect("nothing is short");
    write(memory, place, &directory)?;
    if header.is_checking {
        let is_mapped =
            |start: u64, end: u64| mapped.iter().any(|map| map.start().get() <= start && end <= map.end().get());
        // Where the table makes no sense everything was saved.
        decoded(memory, &header, None, &is_mapped).map_or(Ok(()), |(table, changes)| {
            poison(memory, &table.regions().clone().changed_by(&changes), private)
        })?;
    }
    write(memory, place, &header.outcome(CheckpointOutcome::Restarted(news.generation), news.advised.times(pid)))
}

/// Fills dead memory with a pattern, so that whoever reads it before it is written again does not find what looks right.
fn poison(memory: &ProcessMemory, regions: &Regions, private: &[PageRange]) -> Result<(), EngineError> {
    let pattern = vec![POISON; POISON_BYTES as usize];
    for region in regions.all().iter().filter(|region| region.usage == Usage::Dead) {
        for map in private {
            let (mut at, end) = (region.start.max(map.start().get()), region.end.min(map.end().get()));
            while at < end {
                let bytes = (end - at).min(POISON_BYTES);
                memory
                    .write(Address::new(at), &pattern[..bytes as usize])
                    .map_err(|source| kernel("filling dead memory", source))?;
                at += bytes;
            }
        }
    }
    Ok(())
}

impl Advised {
    /// On the clock that the process sees.
    fn times(self, pid: i32) -> Times {
        let (now, _) = monotonic_clocks_of(pid);
        let at = |wait: Option<Duration>| match wait {
            None => u64::MAX,
            // At once, whatever the clock that the program looks at: it may be some milliseconds behind.
            Some(Duration::ZERO) => 0,
            Some(wait) => now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)),
        };
        Times { due_at: at(self.due_in), next_at: at(self.next_in) }
    }
}

/// A header in a process's memory.
struct Heading {
    place: Address,
    header: Result<DirectivesHeader, DirectionsError>,
}

impl FrozenProcess {
    fn heading(&self) -> Result<Option<Heading>, EngineError> {
        find(&self.memory, |place| self.maps.iter().any(|map| is_ours(map) && map.contains(place.get())))
    }

    /// Its program, where that may have something to say about its memory.
    pub(crate) fn program(&self, process: ProcessIdentity) -> ProgramIdentity {
        let may_direct = |map: &Map| is_ours(map) && PLACES.iter().any(|place| map.contains(place.get()));
        match self.maps.iter().any(may_direct) {
            true => ProgramIdentity::of(process, &self.memory),
            false => ProgramIdentity::unknown(process),
        }
    }

    /// What its program directs, where it does; the table as far as that is known.
    pub(crate) fn directions(
        &self,
        program: ProgramIdentity,
        tables: &mut Tables,
    ) -> Result<Option<Directions>, EngineError> {
        let known = tables.take(program);
        let Some(Heading { header, .. }) = self.heading()? else { return Ok(None) };
        let is_mapped = |start, end| self.maps.iter().any(|map| map.contains(start) && end <= map.end);
        let decoded = header.map_err(|error| error.to_string()).and_then(|header| {
            let (table, changes) = decoded(&self.memory, &header, known, &is_mapped)?;
            Ok(Directions {
                epoch: header.epoch,
                table,
                changes,
                problem: None,
                records: header.is_checking.then_some(header.records),
            })
        });
        Ok(Some(decoded.unwrap_or_else(|problem| Directions { problem: Some(problem), ..Directions::default() })))
    }
}

/// What libstandfast maps is of this kind.
fn is_ours(map: &Map) -> bool {
    !map.shared && map.inode == 0 && map.protection.read && map.protection.write
}

fn find(memory: &ProcessMemory, is_there: impl Fn(Address) -> bool) -> Result<Option<Heading>, EngineError> {
    for place in PLACES.into_iter().filter(|place| is_there(*place)) {
        let mut bytes = [0; HEADER_BYTES];
        memory.read(place, &mut bytes).map_err(|source| kernel("reading what the program directs", source))?;
        match DirectivesHeader::parse(&bytes) {
            Ok(None) => {}
            Ok(Some(header)) => return Ok(Some(Heading { place, header: Ok(header) })),
            Err(error) => return Ok(Some(Heading { place, header: Err(error) })),
        }
    }
    Ok(None)
}

/// The header of a process that may run, where it has one that makes sense.
pub(crate) fn heading_at_rest(memory: &ProcessMemory) -> Option<(Address, DirectivesHeader)> {
    PLACES.into_iter().find_map(|place| {
        let mut bytes = [0; HEADER_BYTES];
        memory.read(place, &mut bytes).ok()?;
        Some((place, DirectivesHeader::parse(&bytes).ok()??))
    })
}

pub(crate) fn write(memory: &ProcessMemory, place: Address, message: &HeaderWrite) -> Result<(), EngineError> {
    let to = place.plus(message.offset);
    memory.write(to, &message.bytes).map_err(|source| kernel("telling the program of its checkpoint", source))
}

/// What the last committed checkpoint holds of programs that direct theirs, so that read-only memory can be inherited.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    saved: Vec<Promise>,
    seen: Vec<Promise>,
    /// The tables in which they stand.
    pub(crate) tables: Tables,
    /// What is read-only, where that is checked.
    pub(crate) watch: Watch,
}

#[derive(Debug)]
struct Promise {
    program: ProgramIdentity,
    /// The number that it has in the image.
    owner: u32,
    /// How many checkpoints of it there had been.
    epoch: u64,
    /// Whether some of its memory is read-only.
    is_needed: bool,
    /// The pages that the image holds or inherits.
    pages: PageSet,
    /// Pages of which it holds nothing, or what an earlier one holds, whatever they were.
    whole: PageSet,
    /// What of the others it may lack.
    masked_pages: Arc<MaskedPages>,
}

/// What has become of what a program directs.
#[derive(Debug, Default)]
pub(crate) struct Honoured {
    /// Pages of which the image will not hold what they hold now, whatever the next checkpoint finds about them.
    pub(crate) stale: PageSet,
    /// What of the pages that are to be saved does not count.
    pub(crate) masked_pages: Option<Arc<MaskedPages>>,
    /// The number that the process has in the checkpoint that is built upon.
    pub(crate) was: Option<u32>,
}

impl Promises {
    /// A new checkpoint begins.
    pub(crate) fn begin(&mut self) {
        self.seen.clear();
    }

    pub(crate) fn committed(&mut self) {
        self.saved = std::mem::take(&mut self.seen);
        let is_there = |program: ProgramIdentity| self.saved.iter().any(|promise| promise.program.is(&program));
        self.tables.retain(is_there);
        self.watch.retain(is_there);
    }

    /// How many checkpoints of a program there had been at the last committed one, where that one knows of it.
    pub(crate) fn held(&self, program: ProgramIdentity) -> Option<u64> {
        self.saved.iter().find(|promise| promise.program.is(&program)).map(|promise| promise.epoch)
    }

    pub(crate) fn forget(&mut self) {
        self.saved.clear();
    }

    /// Whether a checkpoint that builds upon the last one would save less for it.
    pub(crate) fn are_needed(&self) -> bool {
        self.saved.iter().any(|promise| promise.is_needed)
    }

    /// Takes out of the pages of a process what need not be saved, and says what of others need not.
    pub(crate) fn keep(
        &mut self,
        (program, owner): (ProgramIdentity, u32),
        directions: Option<&mut Directions>,
        pages: &mut Pages,
    ) -> Honoured {
        let before = self.saved.iter().find(|promise| promise.program.process() == program.process());
        // The promises of a program end with it: execve has replaced the memory of which they spoke.
        let saved = before.filter(|promise| promise.program.is(&program));
        let mut nothing = Directions::default();
        let directions = match (directions, before) {
            (Some(directions), _) => directions,
            // It had something to say at the last checkpoint, which lacks what counts now.
            (None, Some(_)) => &mut nothing,
            (None, None) => return Honoured::default(),
        };
        let present = |pages: &Pages| {
            let fresh = pages.changed.iter().chain(&pages.compared).map(|(range, _)| *range);
            PageSet::of(fresh.chain(pages.unchanged.ranges().iter().copied()))
        };
        let outline = directions.table.outline_with(saved.map(|promise| promise.epoch), &directions.changes);
        let Outline { excluded, masked_pages } = &*outline;
        let masked_pages =
            saved.map_or_else(|| Arc::clone(masked_pages), |promise| masked_pages.where_held(&promise.pages));
        let mut stale = excluded.dead.intersection(&present(pages));
        let mut whole = excluded.dead.clone();
        let mut held = PageSet::default();
        if let Some(saved) = saved {
            held = excluded.held.intersection(&saved.pages).intersection(&present(pages));
            // Bytes of these that are dead may have changed: once they are alive again, they count as written.
            stale = stale.union(&held.difference(&pages.unchanged));
            whole = whole.union(&held);
        }
        take_out(pages, &whole);
        if let Some(before) = before {
            revive(pages, &before.whole.union(&masked_pages.revived_since(&before.masked_pages)));
        }
        if let Some(saved) = saved.filter(|_| !held.is_empty()) {
            pages.unchanged = pages.unchanged.union(&held);
            pages.was = saved.owner;
        }
        let was = before.map(|before| before.owner);
        let honoured =
            Honoured { stale, masked_pages: (!masked_pages.is_empty()).then(|| Arc::clone(&masked_pages)), was };
        let is_needed = directions.table.has_read_only() || directions.changes.has_read_only();
        let pages = if is_needed { present(pages) } else { PageSet::default() };
        self.seen.push(Promise { program, owner, epoch: directions.epoch, is_needed, pages, whole, masked_pages });
        honoured
    }
}

/// Pages that the last checkpoint lacks some of count as changed.
fn revive(pages: &mut Pages, lacking: &PageSet) {
    let revived = pages.unchanged.intersection(lacking);
    if !revived.is_empty() {
        pages.unchanged = pages.unchanged.difference(&revived);
        pages.changed.extend(revived.ranges().iter().map(|range| (*range, BackingPage::Zeros)));
        pages.changed.sort_unstable_by_key(|(range, _)| range.start());
    }
}

fn take_out(pages: &mut Pages, out: &PageSet) {
    let without = |ranges: &mut Vec<(PageRange, BackingPage)>| {
        let kinds = [BackingPage::Zeros, BackingPage::File].map(|kind| {
            let of_kind =
                PageSet::of(ranges.iter().filter(|(_, backing_page)| *backing_page == kind).map(|(range, _)| *range));
            (of_kind.difference(out), kind)
        });
        *ranges = kinds.iter().flat_map(|(set, kind)| set.ranges().iter().map(|range| (*range, *kind))).collect();
        ranges.sort_unstable_by_key(|(range, _)| range.start());
    };
    if !out.is_empty() {
        without(&mut pages.changed);
        without(&mut pages.compared);
        pages.unchanged = pages.unchanged.difference(out);
    }
}

#[cfg(test)]
mod tests;
