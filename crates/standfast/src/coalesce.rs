//! Coalescing, by the supervisor in the background or on request. It does not touch the program.

use crate::Error;
use crate::background::Background;
use crate::checkpoint::Destination;
use crate::control::{ControlError, Reply, Request, ask};
use crate::event::{Listener, LongWork};
use crate::interrupts::Interrupts;
use crate::progress::reported;
use crate::report::CoalescingReport;
use crate::settings::JobOptions;
use crate::takeover::take_lease;
use rustix::process::setpriority_process;
use standfast_store::{
    CoalesceRule, Coalesced, JobDirectory, LeaseRequest, Level, Levels, Progress, Purpose, StoreError,
};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lowest priority, since nobody waits for it. The kernel derives the I/O priority of the thread from this.
const NICENESS: i32 = 19;

/// Coalescing under way.
pub(crate) struct Coalescing {
    work: Background<Result<Option<Coalesced>, StoreError>>,
    cancelled: Arc<AtomicBool>,
}

impl Coalescing {
    /// Starts a thread that coalesces the newest chain of a level, as the job's options say.
    pub(crate) fn begin(destination: &Destination, level: Level) -> io::Result<Self> {
        let rule = destination.max_files.rule(destination.keep);
        let kept = destination.kept(level).map_err(io::Error::other)?;
        let keep = if level == Level::Memory { kept.max(kept_in_memory(&destination.levels)) } else { kept };
        let rule = CoalesceRule { keep, ..rule };
        Self::with(destination, level, rule)
    }

    /// Starts a thread that coalesces the directory's newest chain as much as possible.
    pub(crate) fn at_once(destination: &Destination) -> io::Result<Self> {
        let kept = destination.kept(Level::Directory).map_err(io::Error::other)?;
        Self::with(destination, Level::Directory, CoalesceRule::at_once(kept))
    }

    fn with(destination: &Destination, level: Level, rule: CoalesceRule) -> io::Result<Self> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (flag, destination) = (Arc::clone(&cancelled), destination.clone());
        let work = move || {
            // If this is not allowed, the thread works all the same.
            let _ = setpriority_process(None, NICENESS);
            let Some((_, level_directory)) = destination.levels.each().find(|(it, _)| *it == level) else {
                return Ok(None);
            };
            let coalesced = level_directory.coalesce(&destination.lease, rule, &flag, &Progress::default())?;
            if coalesced.is_some() {
                destination.retain(level)?;
            }
            Ok(coalesced)
        };
        Ok(Self { work: Background::begin("coalescing", work)?, cancelled })
    }

    /// Asks the work to end soon. What was there before stays.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits for the work to end. Returns what was coalesced, or why nothing was.
    pub(crate) fn join(self) -> Result<Option<Coalesced>, String> {
        match self.work.join() {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err("an internal error, described above; please report it".to_owned()),
        }
    }
}

impl AsFd for Coalescing {
    /// Returns a descriptor that polls as hung up when the thread has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }
}

/// Returns how many of the newest generations in memory stay unchanged. The last of them is the newest one that is also
/// on the disk, upon which the next flush builds. This holds as long as the differences since the full image are
/// smaller than that image; otherwise only one stays.
fn kept_in_memory(levels: &Levels) -> NonZeroU32 {
    let manifests = levels.memory.as_ref().map(JobDirectory::manifest).transpose().ok().flatten();
    let (Some(memory), Ok(disk)) = (manifests, levels.directory.manifest()) else { return NonZeroU32::MIN };
    let newest = memory.generations.iter().rev().find(|it| !it.superseded);
    let links: Vec<_> = newest.map(|newest| memory.chain(newest.number).collect()).unwrap_or_default();
    let Some((base, differences)) = links.split_last() else { return NonZeroU32::MIN };
    let is_large = differences.iter().map(|link| link.file_bytes).sum::<u64>() >= base.file_bytes;
    let flushed = links.iter().position(|link| disk.generation(link.number).is_some()).filter(|_| !is_large);
    let kept = flushed.and_then(|place| u32::try_from(place + 1).ok()).and_then(NonZeroU32::new);
    kept.unwrap_or(NonZeroU32::MIN)
}

/// Merges checkpoints that build upon each other into one, unless they must be kept. If the job has a
/// supervisor, the supervisor does it.
///
/// # Errors
/// If one of the checkpoints is damaged, or the disk refuses. Everything then stays as it was.
pub fn coalesce(directory: &Path, listener: &mut Listener<'_>) -> Result<CoalescingReport, Error> {
    match ask(directory, Request::Coalesce) {
        Ok(Reply::Coalesced(report)) => Ok(report),
        Ok(Reply::Failed { message }) => Err(Error::Declined(format!("nothing was coalesced: {message}"))),
        Ok(_) => Err(Error::Declined(
            "the supervisor is of another version\nhint: use the same standfast on both sides".into(),
        )),
        Err(ControlError::Nobody) => without_supervisor(directory, listener),
        Err(source) => Err(Error::Unanswered { directory: directory.to_owned(), source: source.into() }),
    }
}

fn without_supervisor(path: &Path, listener: &mut Listener<'_>) -> Result<CoalescingReport, Error> {
    let of_store = |error| Error::of_store(path, error);
    let directory = JobDirectory::open(path).map_err(of_store)?;
    // Check before the lease is taken, since taking it would leave a trace in a directory without a job.
    let manifest = directory.manifest().map_err(of_store)?;
    if manifest.generations.iter().any(|it| it.epoch.is_some()) {
        return Err(Error::LonePart(path.to_owned()));
    }
    let options = JobOptions::from_record(manifest.options);
    let lease = take_lease(
        &directory,
        path,
        LeaseRequest { purpose: Purpose::Live, force: false },
        Interrupts::default(),
        listener,
    )?;
    let rule = CoalesceRule::at_once(options.keep.get());
    let (progress, cancelled) = (Progress::default(), AtomicBool::new(false));
    let work = || directory.coalesce(&lease, rule, &cancelled, &progress);
    let outcome = reported(&progress, LongWork::Coalescing, listener, work);
    let outcome = outcome.and_then(|coalesced| {
        directory.retain(&lease, options.keep.get())?;
        lease.release()?;
        Ok(coalesced)
    });
    outcome.map(CoalescingReport::of).map_err(of_store)
}

impl CoalescingReport {
    /// Makes a report. Without a coalesced generation it says that there was nothing to do.
    pub(crate) fn of(coalesced: Option<Coalesced>) -> Self {
        Self {
            generation: coalesced.map(|it| it.number.get()),
            file_bytes: coalesced.map_or(0, |it| it.file_bytes),
            removed: coalesced.map_or(0, |it| it.removed),
        }
    }
}
