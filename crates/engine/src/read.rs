//! Reads the pages of a frozen job into an image, from its processes or, when the job runs again, from clones of them.

use crate::capture_options::{CaptureOptions, Reading, Tracking};
use crate::clones::{clone_of, copied, divide};
use crate::collect::{Collection, Look, Unconfirmed};
use crate::error::kernel;
use crate::freeze::{Frozen, FrozenProcess, if_another_ended, refine};
use crate::hashes::{Key, PageFilter};
use crate::objects::ObjectContents;
use crate::outputs::Output;
use crate::pages::Pages;
use crate::precopy::{Kept, Precopied};
use crate::promises::Honoured;
use crate::reading::{Gathering, Wanted};
use crate::shared::JobMemory;
use crate::tables::Directions;
use crate::track::Tracks;
use crate::watch::{BrokenPromise, Watched};
use crate::{EngineError, ProcessIdentity};
use standfast_core::directions::MaskedPages;
use standfast_core::{PageRange, PageSet};
use standfast_format::records::JobState;
use standfast_format::{BackingPage, ImageSink};
use standfast_linux::{MemoryClone, ProcessMemory};
use std::io;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a capture did.
#[derive(Debug)]
pub struct Captured {
    /// Everything except the pages; the sink must be finished with it.
    pub state: JobState,
    /// Tasks (threads) that were frozen.
    pub tasks: usize,
    /// Processes to which these tasks belong.
    pub processes: usize,
    /// Pages handed to the sink.
    pub pages: u64,
    /// Pages with contents that were noted as unchanged.
    pub unchanged: u64,
    /// Pages of the job that were huge and have become small ones since they were tracked.
    pub huge_pages_split: u64,
    /// First writes to tracked pages since the previous checkpoint. Each costs the program some time.
    pub first_writes: u64,
    /// How long it took to find out everything except the contents of the pages.
    pub scanning: Duration,
    /// Files that the program has open for writing. What it has written to them must be made durable (`sync_data`)
    /// before the checkpoint is committed, since a restart counts on finding it. That can wait until after the thaw.
    pub outputs: Vec<Output>,
    /// Why the kernel cannot track writes, if tracking was requested.
    pub untracked: Option<String>,
    /// Why a process was not cloned, if cloning was requested.
    pub uncloned: Option<String>,
    /// Why a program's directives about its memory were ignored, so that all of it was saved.
    pub ignored_directives: Option<String>,
    /// Promises that programs have broken since the previous checkpoint, if this is checked. The list is cut off if
    /// there are many.
    pub broken: Vec<BrokenPromise>,
    /// What must be confirmed before this capture may be committed.
    unconfirmed: Option<Unconfirmed>,
    /// Precopied pages that the sink has not received yet.
    kept: Vec<Kept>,
    /// Precopied pages that no process kept.
    precopied: Precopied,
    /// Processes whose memory is still to be read.
    clones: Vec<Cloned>,
    /// Clones that are ending.
    ended: Vec<MemoryClone>,
    memory: Arc<JobMemory>,
}

impl Captured {
    /// Records that the checkpoint is durable as `generation`, so that the next one may build upon it. Without this
    /// call, the next checkpoint proceeds as if this one had never been taken.
    pub fn committed(&self, generation: u64) {
        self.memory.tracks().committed(generation);
    }

    /// Returns what must be confirmed, once the job runs again, before [`Captured::committed`] may be called.
    pub fn take_unconfirmed(&mut self) -> Option<Unconfirmed> {
        self.unconfirmed.take()
    }

    /// Reports whether [`Captured::read_on`] has clones to read.
    pub fn has_clones(&self) -> bool {
        !self.clones.is_empty()
    }

    /// Hands the precopied pages to the sink, and reads the remaining ones from clones of the processes. The job may run
    /// meanwhile.
    ///
    /// # Errors
    /// If a clone is killed or the sink fails. Then there is no checkpoint.
    pub fn read_on(&mut self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        for kept in std::mem::take(&mut self.kept) {
            self.pages += kept.save(sink)?;
        }
        std::mem::take(&mut self.precopied).give_back(sink)?;
        let memory = Arc::clone(&self.memory);
        for Cloned { rest, clone } in std::mem::take(&mut self.clones) {
            let saved = rest.save(clone.memory(), &mut memory.tracks(), sink);
            if !clone.is_whole() {
                let why = io::Error::other("it was killed while it was read; the program runs on");
                return Err(kernel("reading a clone of the program's memory", why));
            }
            let saved = saved?;
            clone.end();
            self.ended.push(clone);
            self.pages += saved.changed;
            self.unchanged += saved.unchanged;
        }
        memory.tracks().note_read(self.pages);
        Ok(())
    }
}

/// Tells the sink which process of the earlier generation this one continues, and which of its pages are unchanged since
/// then.
fn inherit(sink: &mut dyn ImageSink, owner: u32, was: Option<u32>, held: &Pages) -> Result<(), EngineError> {
    if let Some(was) = was {
        sink.follow(owner, was);
    }
    if held.unchanged.is_empty() {
        return Ok(());
    }
    sink.inherit(owner, held.was, &held.unchanged).map_err(EngineError::Image)
}

/// A process whose memory will be read from a clone.
#[derive(Debug)]
struct Cloned {
    rest: ToRead,
    clone: MemoryClone,
}

/// Pages of a process that are still to be read.
#[derive(Debug)]
struct ToRead {
    owner: u32,
    identity: ProcessIdentity,
    /// Pages to save, ascending.
    changed: Vec<(PageRange, BackingPage)>,
    /// Pages to save only if they have changed, ascending.
    compared: Vec<(PageRange, BackingPage)>,
    /// The parts of these pages that do not count. Pages with such parts are not compared. A change in such a part does
    /// not matter, and when the part begins to count, a checksum would report the page as unchanged.
    masked_pages: Option<Arc<MaskedPages>>,
}

/// What happened to a set of pages.
#[derive(Debug, Clone, Copy, Default)]
struct Saved {
    /// Number of pages handed to the sink.
    changed: u64,
    /// Number of pages noted as unchanged.
    unchanged: u64,
}

impl AddAssign for Saved {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
    }
}

impl ToRead {
    fn of(
        owner: u32,
        identity: ProcessIdentity,
        pages: Pages,
        masked_pages: Option<Arc<MaskedPages>>,
        tracking: Tracking,
    ) -> Self {
        let Pages { mut changed, mut compared, .. } = pages;
        if tracking == Tracking::Hash {
            compared = std::mem::take(&mut changed);
        }
        if let Some(masked_pages) = &masked_pages {
            let (masked_page, others) = divide(&compared, &masked_pages.pages());
            changed.extend(masked_page);
            changed.sort_unstable_by_key(|(range, _)| range.start());
            compared = others;
        }
        Self { owner, identity, changed, compared, masked_pages }
    }

    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.compared.is_empty()
    }

    fn pages(&self) -> PageSet {
        PageSet::of(self.changed.iter().chain(&self.compared).map(|(range, _)| *range))
    }

    /// Leaves precopied pages to the precopy, which keeps no others.
    fn leave_to_precopy(&mut self, kept: &mut Kept) {
        let (read, unread) = divide(&self.changed, &kept.pages);
        kept.pages = PageSet::of(read.into_iter().map(|(range, _)| range));
        self.changed = unread;
    }

    /// Splits off the pages outside `held`, which therefore cannot be read from there. None of them is compared, since
    /// this is rare.
    fn split_off_those_outside(&mut self, held: &PageSet) -> Self {
        let (changed, mut lacking) = divide(&self.changed, held);
        let (compared, lacking_compared) = divide(&self.compared, held);
        (self.changed, self.compared) = (changed, compared);
        lacking.extend(lacking_compared);
        lacking.sort_unstable_by_key(|(range, _)| range.start());
        Self { changed: lacking, compared: Vec::new(), masked_pages: self.masked_pages.clone(), ..*self }
    }

    fn save(
        &self,
        memory: &ProcessMemory,
        tracks: &mut Tracks,
        sink: &mut dyn ImageSink,
    ) -> Result<Saved, EngineError> {
        let Self { owner, identity, .. } = *self;
        let read = |ranges: &[PageRange], into: &mut [u8]| memory.read_pages(ranges, into);
        let masked_pages = self.masked_pages.as_ref();
        let changed = Wanted { owner, ranges: &self.changed, masked_pages, read: &read }.save(sink)?;
        let mut saved = Saved { changed, unchanged: 0 };
        if self.compared.is_empty() {
            return Ok(saved);
        }
        let page_filter = tracks.hashes.page_filter(Key::Process(identity), owner);
        let wanted = Wanted { owner, ranges: &self.compared, masked_pages: None, read: &read };
        let compared = Compared::of(&wanted, page_filter, None, sink)?;
        tracks.of(identity).into_iter().for_each(|track| track.learn_compared(&compared.changed));
        saved += compared.saved;
        Ok(saved)
    }
}

impl Frozen {
    /// Takes the collection, refuses by name what could not be restored, and reads all memory into `sink`. The caller
    /// still has to finish the sink with [`Captured::state`]; the program need not be frozen for that.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything has reached the sink; other errors at any time. The job stays frozen and
    /// intact.
    pub fn capture(&mut self, sink: &mut dyn ImageSink, options: CaptureOptions) -> Result<Captured, EngineError> {
        self.capture_after_precopy(Precopied::default(), sink, options)
    }

    /// Does the same for a job with precopied pages. [`Captured::read_on`] hands those that are still valid to the sink.
    ///
    /// # Errors
    /// Like [`Frozen::capture`].
    pub fn capture_after_precopy(
        &mut self,
        mut precopied: Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Captured, EngineError> {
        let begin = Instant::now();
        if !options.builds_upon_last {
            self.shared.memory.tracks().forget();
        }
        let collection = Collection::take(self, options, if precopied.is_empty() { Look::Only } else { Look::Second })
            .map_err(|error| if_another_ended(error, self.main))?;
        let scanning = begin.elapsed();
        let Collection { state, identities, pages, objects, outputs, unconfirmed } = collection;
        let frozen = &*self;
        let mut tracks = frozen.shared.memory.tracks();
        let tracking = tracks.begin_reading(options.tracking);
        let mut reader = Reader {
            frozen,
            state: &state,
            reading: options.reading,
            tracking,
            tracks: &mut tracks,
            precopied: &mut precopied,
            sink,
            read: ReadProcesses::default(),
        };
        for (place, ((process, identity), held)) in frozen.processes.iter().zip(identities).zip(pages).enumerate() {
            reader.read_process(process, place as u32, identity, held)?;
        }
        let ReadProcesses { mut saved, kept, clones, uncloned, ignored_directives, broken } = reader.read;
        saved += frozen.save_objects(&state, &objects, &mut tracks, tracking, sink)?;
        frozen.check_alive()?;
        if clones.is_empty() {
            tracks.note_read(saved.changed);
        }
        Ok(Captured {
            state,
            processes: frozen.processes.len(),
            tasks: frozen.processes.iter().map(|process| process.tasks.len()).sum(),
            pages: saved.changed,
            unchanged: saved.unchanged,
            huge_pages_split: tracks.huge_pages_split(),
            first_writes: tracks.first_writes(),
            scanning,
            outputs,
            untracked: tracks.problem().map(str::to_owned),
            uncloned,
            ignored_directives,
            broken,
            unconfirmed: Some(unconfirmed),
            kept,
            precopied,
            clones,
            ended: Vec::new(),
            memory: Arc::clone(&frozen.shared.memory),
        })
    }
}

/// Reads the memory of the processes, one after the other.
struct Reader<'a> {
    frozen: &'a Frozen,
    state: &'a JobState,
    reading: Reading,
    tracking: Tracking,
    tracks: &'a mut Tracks,
    precopied: &'a mut Precopied,
    sink: &'a mut dyn ImageSink,
    read: ReadProcesses,
}

/// The processes that have been read so far. The fields are those of [`Captured`].
#[derive(Debug, Default)]
struct ReadProcesses {
    saved: Saved,
    kept: Vec<Kept>,
    clones: Vec<Cloned>,
    uncloned: Option<String>,
    ignored_directives: Option<String>,
    broken: Vec<BrokenPromise>,
}

impl Reader<'_> {
    /// Reads the pages of a process that no precopy and no clone holds; `owner` is its number in the image.
    fn read_process(
        &mut self,
        process: &FrozenProcess,
        owner: u32,
        identity: ProcessIdentity,
        mut held: Pages,
    ) -> Result<(), EngineError> {
        let Honoured { was, masked_pages, .. } = self.honour_directives(process, owner, identity, &mut held)?;
        inherit(self.sink, owner, was.or_else(|| self.tracks.was(identity)), &held)?;
        self.read.saved.unchanged += held.unchanged.pages();
        let mut kept = self.precopied.keep(identity, owner, &held.still, masked_pages.as_ref());
        let mut rest = ToRead::of(owner, identity, held, masked_pages, self.tracking);
        rest.leave_to_precopy(&mut kept);
        self.read.kept.push(kept);
        if self.reading == Reading::Cloned && !rest.is_empty() {
            self.leave_to_clone(process, &mut rest)?;
        }
        self.read.saved += rest.save(&process.memory, self.tracks, self.sink)?;
        Ok(())
    }

    /// Removes the pages that need not be saved according to the program's directives. Notes promises that the program
    /// has broken.
    fn honour_directives(
        &mut self,
        process: &FrozenProcess,
        owner: u32,
        identity: ProcessIdentity,
        held: &mut Pages,
    ) -> Result<Honoured, EngineError> {
        let program = process.program(identity);
        let promises = &mut self.tracks.promises;
        let mut directions = process.directions(program, &mut promises.tables)?;
        let honoured = promises.keep(program, owner, directions.as_mut(), held);
        let watched = Watched { program, pid: process.pid, memory: &process.memory, maps: &process.maps };
        self.read.broken.append(&mut promises.watch.scan(&watched, directions.as_ref()));
        if let Some(Directions { table, problem, .. }) = directions {
            promises.tables.put(program, table);
            self.read.ignored_directives = problem.or(self.read.ignored_directives.take());
        }
        self.tracks.of(identity).into_iter().for_each(|track| track.disown(&honoured.stale));
        Ok(honoured)
    }

    /// Leaves pages that a clone of the process holds to be read from the clone; pages that it lacks stay in `rest`, all
    /// of them if there is no clone.
    fn leave_to_clone(&mut self, process: &FrozenProcess, rest: &mut ToRead) -> Result<(), EngineError> {
        match clone_of(self.frozen, process, self.state)? {
            Ok(clone) => {
                let held = PageSet::of(copied(&clone, process, &rest.pages())?);
                let lacking = rest.split_off_those_outside(&held);
                self.read.clones.push(Cloned { rest: std::mem::replace(rest, lacking), clone });
            }
            Err(why) => self.read.uncloned = Some(why),
        }
        Ok(())
    }
}

impl Frozen {
    /// Reads the memory objects of the job, those with few pages first.
    fn save_objects(
        &self,
        state: &JobState,
        objects: &[ObjectContents],
        tracks: &mut Tracks,
        tracking: Tracking,
        sink: &mut dyn ImageSink,
    ) -> Result<Saved, EngineError> {
        let memories: Vec<_> = self.processes.iter().map(|process| &process.memory).collect();
        let mut saved = Saved::default();
        let mut gathering = Gathering::default();
        let mut large = Vec::new();
        for (place, object) in objects.iter().enumerate() {
            let owner = state.number_of_object(place);
            let key = Key::Object(object.key);
            if let Some(was) = tracks.hashes.was(key) {
                sink.follow(owner, was);
            }
            let read = |ranges: &[PageRange], into: &mut [u8]| object.read(&memories, ranges, into);
            let ranges: Vec<_> = object.ranges.iter().map(|range| (*range, BackingPage::Zeros)).collect();
            let wanted = Wanted { owner, ranges: &ranges, masked_pages: None, read: &read };
            if tracking == Tracking::Off {
                saved.changed += wanted.save(sink)?;
            } else if let Some((was, untouched)) = tracks.hashes.carry(key, owner, object.stamp) {
                if !untouched.is_empty() {
                    sink.inherit(owner, was, &untouched).map_err(EngineError::Image)?;
                }
                saved.unchanged += untouched.pages();
            } else if Gathering::takes(&wanted) {
                let page_filter = tracks.hashes.page_filter(key, owner);
                let compared = Compared::of(&wanted, page_filter, Some(&mut gathering), sink)?;
                saved += compared.saved;
                tracks.hashes.set_stamp(object.stamp);
            } else {
                large.push((owner, key, object, ranges));
            }
        }
        gathering.finish(sink)?;
        for (owner, key, object, ranges) in large {
            let read = |ranges: &[PageRange], into: &mut [u8]| object.read(&memories, ranges, into);
            let wanted = Wanted { owner, ranges: &ranges, masked_pages: None, read: &read };
            let page_filter = tracks.hashes.page_filter(key, owner);
            saved += Compared::of(&wanted, page_filter, None, sink)?.saved;
            tracks.hashes.set_stamp(object.stamp);
        }
        Ok(saved)
    }

    /// Checks that every task is still frozen. If a process is killed while it is frozen, its memory vanishes under our
    /// hands: its pages then look as if they had never existed, and nothing read since then can be trusted. As long as
    /// all tasks are stopped, the memory was there.
    fn check_alive(&self) -> Result<(), EngineError> {
        for process in &self.processes {
            for task in &process.tasks {
                task.task.registers().map_err(|error| match refine(error, process.pid, &self.shared.tracing.main) {
                    EngineError::Ended if process.pid != self.shared.tracing.main.pid => {
                        let message = format!("process {} was killed while it stood still", process.pid);
                        kernel("reading the program's memory", io::Error::other(message))
                    }
                    error => error,
                })?;
            }
        }
        Ok(())
    }
}

/// What became of compared pages.
struct Compared {
    saved: Saved,
    /// The changed pages, except pages of zeros.
    changed: PageSet,
}

impl Compared {
    /// Saves the pages that have changed, and notes the others as inherited.
    fn of(
        wanted: &Wanted<'_>,
        mut page_filter: PageFilter<'_>,
        gathering: Option<&mut Gathering>,
        sink: &mut dyn ImageSink,
    ) -> Result<Self, EngineError> {
        let handed_over = match gathering {
            Some(gathering) => gathering.save_changed(wanted, &mut page_filter, sink)?,
            None => wanted.save_changed(&mut page_filter, sink)?,
        };
        let was = page_filter.was;
        let (unchanged, changed) = page_filter.into_pages();
        if !unchanged.is_empty() {
            sink.inherit(wanted.owner, was, &unchanged).map_err(EngineError::Image)?;
        }
        Ok(Self { saved: Saved { changed: handed_over, unchanged: unchanged.pages() }, changed })
    }
}
