//! All tracked address spaces of a job, and what else is remembered about its memory.

use super::Track;
use super::adaptive::Adaptive;
use super::bits::Merging;
use super::dirty_estimate::DirtyEstimate;
use crate::ProcessIdentity;
use crate::capture_options::Tracking;
use crate::hashes::{Hashes, Key};
use crate::promises::Promises;
use standfast_core::PageSet;
use standfast_linux::WriteProtection;
use std::io;
use std::os::fd::OwnedFd;

/// What is remembered about the memory of a job.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    spaces: Vec<Track>,
    pub(crate) hashes: Hashes,
    /// What programs have promised not to write.
    pub(crate) promises: Promises,
    /// The last committed generation, which the next one can build upon.
    generation: Option<u64>,
    /// Why the most recent attempt to track an address space failed.
    problem: Option<String>,
    dirty_estimate: DirtyEstimate,
}

impl Tracks {
    /// Resolves the requested way of tracking to the one that is used for the job.
    pub(crate) fn resolve(&self, tracking: Tracking) -> Tracking {
        match (tracking, &self.problem) {
            (Tracking::Auto, None) => Tracking::Pagemap,
            (Tracking::Auto, Some(_)) => Tracking::Hash,
            (other, _) => other,
        }
    }

    /// Begins to read for a checkpoint, and resolves the requested way of tracking to the one that is used.
    pub(crate) fn begin_reading(&mut self, tracking: Tracking) -> Tracking {
        self.hashes.begin();
        self.promises.begin();
        self.resolve(tracking)
    }

    /// Returns why the kernel cannot track writes, if it cannot.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the last committed generation, if the next one can build upon it.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Estimates how many pages the next capture must read if it builds upon the last one. Returns `None` if it would
    /// build upon nothing.
    pub(crate) fn expected_pages(&self) -> Option<u64> {
        self.generation?;
        let news = self.spaces.iter().map(Track::faults_since_scan).sum();
        Some(self.dirty_estimate.pages(news) + self.spaces.iter().map(|track| track.carried.pages()).sum::<u64>())
    }

    /// Notes how many pages a capture has read.
    pub(crate) fn note_read(&mut self, pages: u64) {
        if self.generation.is_some() {
            self.dirty_estimate.learn(pages, self.spaces.iter().map(|track| track.news).sum());
        }
    }

    /// Returns the track of a process.
    pub(crate) fn of(&mut self, process: ProcessIdentity) -> Option<&mut Track> {
        self.spaces.iter_mut().find(|track| track.process == process)
    }

    /// Returns the number of a process in the last committed generation, if it was there.
    pub(crate) fn was(&mut self, process: ProcessIdentity) -> Option<u32> {
        let tracked = self.of(process).filter(|track| !track.saved.is_empty()).map(|track| track.was);
        tracked.or_else(|| self.hashes.was(Key::Process(process)))
    }

    /// Returns the tracks of `processes`, in their order.
    pub(crate) fn of_each(&mut self, processes: &[ProcessIdentity]) -> Vec<Option<&mut Track>> {
        let mut tracks: Vec<_> = processes.iter().map(|_| None).collect();
        for track in &mut self.spaces {
            if let Some(place) = processes.iter().position(|process| *process == track.process) {
                tracks[place] = Some(track);
            }
        }
        tracks
    }

    /// Returns the total number of huge pages that tracking has split.
    pub(crate) fn huge_pages_split(&self) -> u64 {
        self.spaces.iter().map(|track| track.adaptive.split()).sum()
    }

    /// Returns the first writes to tracked pages that the last scan found, or the last two scans if both served one
    /// checkpoint.
    pub(crate) fn first_writes(&self) -> u64 {
        self.spaces.iter().map(|track| track.first_writes).sum()
    }

    /// Starts to track a process with the userfaultfd that it has made, and forgets processes that have ended.
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
                    adaptive: Adaptive::default(),
                    faults: 0,
                    news: 0,
                    first_writes: 0,
                    compared: 0,
                    looked: None,
                    lost: false,
                    merging: Merging::default(),
                    protected: PageSet::default(),
                });
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// Records that the last checkpoint has been committed as `generation`. The next one builds upon what it saw.
    pub(crate) fn committed(&mut self, generation: u64) {
        for track in &mut self.spaces {
            track.saved = std::mem::take(&mut track.seen);
            track.carried = PageSet::default();
            track.was = track.is;
        }
        self.hashes.committed();
        self.promises.committed();
        self.generation = Some(generation);
    }

    /// Records that no generation is left to build upon, so that the next checkpoint saves everything.
    pub(crate) fn forget(&mut self) {
        self.generation = None;
        self.spaces.iter_mut().for_each(|track| track.saved = PageSet::default());
        self.hashes.forget();
        self.promises.forget();
    }
}
