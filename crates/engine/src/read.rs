//! Reads the pages of a frozen job into an image, from its processes or from clones of them when the job runs on.

use crate::capture_options::{CaptureOptions, Reading, Tracking};
use crate::clones::{clone_of, copied, divide};
use crate::collect::{Collection, Unconfirmed};
use crate::error::kernel;
use crate::freeze::{Frozen, FrozenProcess, if_another_ended, refine};
use crate::hashes::{Key, PageFilter};
use crate::objects::ObjectContents;
use crate::outputs::Output;
use crate::pages::Pages;
use crate::precopy::{Kept, Precopied};
use crate::program::ProgramIdentity;
use crate::reading::{Gathering, Wanted};
use crate::shared::Shared;
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
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a capture did.
#[derive(Debug)]
pub struct Captured {
    /// Everything but the pages: what the sink is to be finished with.
    pub state: JobState,
    /// Tasks (threads) that stood still.
    pub tasks: usize,
    /// Processes that they belong to.
    pub processes: usize,
    /// Pages handed to the sink.
    pub pages: u64,
    /// Pages that hold something and were noted as unchanged.
    pub unchanged: u64,
    /// Huge pages of the job as it is now that are small ones since they were tracked.
    pub huge_pages_split: u64,
    /// First writes to tracked pages since the checkpoint before: each costs the program some time.
    pub first_writes: u64,
    /// How long it took until all was known but what the pages hold.
    pub scanning: Duration,
    /// Files that the program has open for writing. What it has written there must be made durable (`sync_data`) before
    /// the checkpoint is committed, since a restart counts on finding it; that can wait until after the thaw.
    pub outputs: Vec<Output>,
    /// Why the kernel does not let writes be tracked, where that was asked for.
    pub untracked: Option<String>,
    /// Why a process was not cloned, where that was asked for.
    pub uncloned: Option<String>,
    /// Why what a program directs about its memory was not honoured, and all of it saved.
    pub ignored_directives: Option<String>,
    /// Promises of programs that have not been kept since the checkpoint before, where that is checked; not all, should there
    /// be many.
    pub broken: Vec<BrokenPromise>,
    /// What has to be confirmed before this may be committed.
    unconfirmed: Option<Unconfirmed>,
    /// Pages that were read ahead and are yet to be handed to the sink.
    kept: Vec<Kept>,
    /// What nobody kept.
    precopied: Precopied,
    /// Processes whose memory is yet to be read.
    clones: Vec<Cloned>,
    /// Clones that are on their way out.
    ended: Vec<MemoryClone>,
    shared: Arc<Shared>,
}

impl Captured {
    /// Says that the checkpoint is durable, as this generation: the next one may build upon it. A checkpoint of which
    /// this is never said is as if it had not been.
    pub fn committed(&self, generation: u64) {
        self.shared.tracks().committed(generation);
    }

    /// What has to be confirmed, when the job runs again, before [`Captured::committed`] may be called.
    pub fn take_unconfirmed(&mut self) -> Option<Unconfirmed> {
        self.unconfirmed.take()
    }

    /// Whether [`Captured::read_on`] has clones to read.
    pub fn has_clones(&self) -> bool {
        !self.clones.is_empty()
    }

    /// Hands on what was precopied, and reads what is yet to be read, from clones of the processes. The job may run
    /// meanwhile.
    ///
    /// # Errors
    /// When a clone is killed, or the sink fails: there is no checkpoint then.
    pub fn read_on(&mut self, sink: &mut dyn ImageSink) -> Result<(), EngineError> {
        for kept in std::mem::take(&mut self.kept) {
            self.pages += kept.save(sink)?;
        }
        std::mem::take(&mut self.precopied).give_back(sink)?;
        let shared = Arc::clone(&self.shared);
        for Cloned { rest, clone } in std::mem::take(&mut self.clones) {
            let saved = rest.save(clone.memory(), &mut shared.tracks(), sink);
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
        shared.tracks().note_read(self.pages);
        Ok(())
    }
}

/// Tells the sink what a process goes on with, and which of its pages are as they were there.
fn inherit(sink: &mut dyn ImageSink, owner: u32, was: Option<u32>, held: &Pages) -> Result<(), EngineError> {
    if let Some(was) = was {
        sink.follow(owner, was);
    }
    if held.unchanged.is_empty() {
        return Ok(());
    }
    sink.inherit(owner, held.was, &held.unchanged).map_err(EngineError::Image)
}

/// A process whose memory is to be read from a clone.
#[derive(Debug)]
struct Cloned {
    rest: ToRead,
    clone: MemoryClone,
}

/// Pages of a process that are to be read.
#[derive(Debug)]
struct ToRead {
    owner: u32,
    identity: ProcessIdentity,
    /// To be saved, ascending.
    changed: Vec<(PageRange, BackingPage)>,
    /// To be saved where they are not as they were, ascending.
    compared: Vec<(PageRange, BackingPage)>,
    /// What of them does not count. Such pages are not compared: what does not count is no matter, and a checksum would say of
    /// what has come to count that it is as it was.
    masked_pages: Option<Arc<MaskedPages>>,
}

/// What has become of pages.
#[derive(Debug, Clone, Copy, Default)]
struct Saved {
    /// How many were handed to the sink.
    changed: u64,
    /// How many were noted as unchanged.
    unchanged: u64,
}

impl Saved {
    fn add(&mut self, compared: &Compared) {
        self.changed += compared.saved;
        self.unchanged += compared.inherited;
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

    /// What of these pages others do not hold, which therefore cannot be read from there. Nothing of it is compared: it
    /// is rare.
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
        if self.compared.is_empty() {
            return Ok(Saved { changed, unchanged: 0 });
        }
        let page_filter = tracks.hashes.page_filter(Key::Process(identity), owner);
        let wanted = Wanted { owner, ranges: &self.compared, masked_pages: None, read: &read };
        let compared = Compared::of(&wanted, page_filter, None, sink)?;
        tracks.of(identity).into_iter().for_each(|track| track.learn_compared(&compared.changed));
        Ok(Saved { changed: changed + compared.saved, unchanged: compared.inherited })
    }
}

impl Frozen {
    /// Takes the collection, refuses by name what could not be brought back, and reads all memory into `sink`, which is yet
    /// to be finished with [`Captured::state`]: the program need not stand still for that.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything went into the sink; others at any time. The job stays frozen and whole.
    pub fn capture(&mut self, sink: &mut dyn ImageSink, options: CaptureOptions) -> Result<Captured, EngineError> {
        self.capture_behind(Precopied::default(), sink, options)
    }

    /// The same, of a job of which some was precopied. What of that counts is handed to the sink by [`Captured::read_on`].
    ///
    /// # Errors
    /// As above.
    pub fn capture_behind(
        &mut self,
        mut precopied: Precopied,
        sink: &mut dyn ImageSink,
        options: CaptureOptions,
    ) -> Result<Captured, EngineError> {
        let begin = Instant::now();
        if !options.builds_upon_last {
            self.shared.tracks().forget();
        }
        let collection = Collection::take(self, options, !precopied.is_empty())
            .map_err(|error| if_another_ended(error, self.main))?;
        let scanning = begin.elapsed();
        let mut tracks = self.shared.tracks();
        let tracking = tracks.begin_reading(options.tracking);
        let (mut changed, mut unchanged, mut ignored_directives) = (0, 0, None);
        let (mut clones, mut uncloned, mut kept, mut broken) = (Vec::new(), None, Vec::new(), Vec::new());
        let scanned = self.processes.iter().zip(collection.identities).zip(collection.pages);
        for (place, ((process, identity), mut held)) in scanned.enumerate() {
            let owner = place as u32;
            let promises = &mut tracks.promises;
            let program = process.program(identity);
            let mut directions = process.directions(program, &mut promises.tables)?;
            let honoured = promises.keep(program, owner, directions.as_mut(), &mut held);
            broken.append(&mut promises.watch.scan(&watched(program, process), directions.as_ref()));
            tracks.of(identity).into_iter().for_each(|track| track.disown(&honoured.stale));
            if let Some(Directions { table, problem, .. }) = directions {
                tracks.promises.tables.put(program, table);
                ignored_directives = problem.or(ignored_directives);
            }
            inherit(sink, owner, honoured.was.or_else(|| tracks.was(identity)), &held)?;
            unchanged += held.unchanged.pages();
            let mut ours = precopied.keep(identity, owner, &held.still, honoured.masked_pages.as_ref());
            let mut rest = ToRead::of(owner, identity, held, honoured.masked_pages, tracking);
            let (read, unread) = divide(&rest.changed, &ours.pages);
            ours.pages = PageSet::of(read.into_iter().map(|(range, _)| range));
            rest.changed = unread;
            kept.push(ours);
            if options.reading == Reading::Cloned && !rest.is_empty() {
                match self.leave_to_clone(process, &collection.state, &mut rest)? {
                    Ok(cloned) => clones.push(cloned),
                    Err(why) => uncloned = Some(why),
                }
            }
            let saved = rest.save(&process.memory, &mut tracks, sink)?;
            changed += saved.changed;
            unchanged += saved.unchanged;
        }
        let of_objects = self.save_objects(&collection.state, &collection.objects, &mut tracks, tracking, sink)?;
        changed += of_objects.changed;
        unchanged += of_objects.unchanged;
        self.check_alive()?;
        if clones.is_empty() {
            tracks.note_read(changed);
        }
        Ok(Captured {
            state: collection.state,
            processes: self.processes.len(),
            tasks: self.processes.iter().map(|process| process.tasks.len()).sum(),
            pages: changed,
            unchanged,
            huge_pages_split: tracks.huge_pages_split(),
            first_writes: tracks.first_writes(),
            scanning,
            outputs: collection.outputs,
            untracked: tracks.problem().map(str::to_owned),
            uncloned,
            ignored_directives,
            broken,
            unconfirmed: Some(collection.unconfirmed),
            kept,
            precopied,
            clones,
            ended: Vec::new(),
            shared: Arc::clone(&self.shared),
        })
    }

    /// Leaves what a clone of a process holds to be read from there; what it lacks stays in `rest`. Or says why there is no clone.
    fn leave_to_clone(
        &self,
        process: &FrozenProcess,
        state: &JobState,
        rest: &mut ToRead,
    ) -> Result<Result<Cloned, String>, EngineError> {
        let clone = match clone_of(self, process, state)? {
            Ok(clone) => clone,
            Err(why) => return Ok(Err(why)),
        };
        let held = PageSet::of(copied(&clone, process, &rest.pages())?);
        let lacking = rest.split_off_those_outside(&held);
        Ok(Ok(Cloned { rest: std::mem::replace(rest, lacking), clone }))
    }
}

impl Frozen {
    /// Reads the memory objects of the job, those of few pages first.
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
                saved.add(&compared);
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
            saved.add(&Compared::of(&wanted, page_filter, None, sink)?);
            tracks.hashes.set_stamp(object.stamp);
        }
        Ok(saved)
    }

    /// That everybody stands still yet. The memory of a process that is killed while it stands still vanishes under our
    /// hands: its pages then look as if they had never been, and nothing that was read since can be believed. As long as
    /// all tasks are stopped, it was there.
    fn check_alive(&self) -> Result<(), EngineError> {
        for process in &self.processes {
            for task in &process.tasks {
                task.task.registers().map_err(|error| match refine(error, process.pid, &self.shared) {
                    EngineError::Ended if process.pid != self.shared.main => {
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

/// What became of pages that were compared.
struct Compared {
    /// How many were handed to the sink.
    saved: u64,
    /// How many are as they were.
    inherited: u64,
    /// Those that are not, but for pages of zeros.
    changed: PageSet,
}

impl Compared {
    /// Saves what of some pages has changed, and notes the others as inherited.
    fn of(
        wanted: &Wanted<'_>,
        mut page_filter: PageFilter<'_>,
        gathering: Option<&mut Gathering>,
        sink: &mut dyn ImageSink,
    ) -> Result<Self, EngineError> {
        let saved = match gathering {
            Some(gathering) => gathering.save_changed(wanted, &mut page_filter, sink)?,
            None => wanted.save_changed(&mut page_filter, sink)?,
        };
        let was = page_filter.was;
        let (unchanged, changed) = page_filter.into_pages();
        if !unchanged.is_empty() {
            sink.inherit(wanted.owner, was, &unchanged).map_err(EngineError::Image)?;
        }
        Ok(Self { saved, inherited: unchanged.pages(), changed })
    }
}

fn watched(program: ProgramIdentity, process: &FrozenProcess) -> Watched<'_> {
    Watched { program, pid: process.pid, memory: &process.memory, maps: &process.maps }
}
