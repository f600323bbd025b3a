//! A job from the outside: launched or restarted, frozen now and then, ended at last.

use crate::ProcessIdentity;
use crate::capture_options::{ExternalSockets, Tracking};
use crate::directions::{CHECK_VARIABLE, DIRECTORY_VARIABLE, FREE_VARIABLE};
use crate::endpoint::TerminalHolder;
use crate::error::kernel;
use crate::files::FileId;
use crate::folders::Folders;
use crate::freeze::{Frozen, await_sleepers};
use crate::inheritance::Inheritance;
use crate::listing::ListingNews;
use crate::outputs::Output;
use crate::shared::Shared;
use crate::tree::{Member, Roots};
use crate::wait_ends;
use crate::waits::Waits;
use crate::{Blocker, EngineError};
use standfast_core::PAGE_BYTES;
use standfast_format::records::FileReference;
use standfast_linux::proc;
use standfast_linux::sys::process;
use standfast_linux::{HelperNews, InheritedSignals, LaunchTerminal, NamespaceInit, WaitStatus};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What to launch. Environment, working directory and descriptors are the caller's own.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
    /// The signals that the caller was started with, captured before it installed handlers.
    pub signals: InheritedSignals,
    /// Its terminal.
    pub terminal: LaunchTerminal,
    /// Where the program's libstandfast reaches the supervisor: the job's directory, absolute.
    pub directory: Option<PathBuf>,
    /// What that library is to do besides.
    pub assistance: Assistance,
}

/// What a program's libstandfast does besides what the program calls it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Assistance {
    /// It reports writes to read-only memory; what is dead is filled with a pattern at each restart.
    pub check_exclusions: bool,
    /// A thread of its gives back the memory that the allocator holds as free before each checkpoint.
    pub free_memory: bool,
}

/// What has become of a job's main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Job control has stopped it.
    Stopped,
    /// It ended, and how, where that is known.
    Ended(Option<ExitStatus>),
}

/// A job under this process's care.
#[derive(Debug)]
pub struct Job {
    roots: Roots,
    end: End,
    /// The init of the job's namespaces, once the process that it tells about has ended.
    init: Option<NamespaceInit>,
    shared: Arc<Shared>,
}

/// How the end of the job is learnt.
#[derive(Debug)]
pub(crate) enum End {
    /// The main process is our child.
    Child(OwnedFd),
    /// It lives in namespaces of its own; their init tells.
    Namespace(NamespaceInit),
    /// It is somebody else's child: we see that it ends, not how.
    Stranger(OwnedFd),
}

impl Job {
    /// Starts a program as a child of this process.
    ///
    /// # Errors
    /// When it cannot be executed.
    pub fn launch(launch: &Launch) -> Result<Self, EngineError> {
        let mut inheritance = Inheritance::of_children();
        if let LaunchTerminal::New { streams, .. } = &launch.terminal {
            let others = inheritance.streams.iter_mut().zip(streams).filter(|(_, leads_there)| **leads_there);
            others.for_each(|(stream, _)| *stream = None);
        }
        stay_in_sight()?;
        let Assistance { check_exclusions, free_memory } = launch.assistance;
        let wishes = [(CHECK_VARIABLE, check_exclusions), (FREE_VARIABLE, free_memory)];
        let wishes = wishes.into_iter().filter(|(_, is_wished)| *is_wished).map(|(name, _)| (name, OsStr::new("1")));
        let directory = launch.directory.as_ref().map(|path| (DIRECTORY_VARIABLE, path.as_os_str()));
        let variables: Vec<_> = directory.into_iter().chain(wishes).collect();
        let pid =
            standfast_linux::launch(&launch.program, &launch.arguments, &variables, launch.signals, &launch.terminal)
                .map_err(|source| kernel(&format!("executing {}", launch.program.display()), source))?;
        // Our child stays a zombie until we reap it: its number cannot have been given to another.
        let end = End::Child(process::pidfd_open(pid).map_err(|source| kernel("watching the program", source))?);
        Ok(Self::new(ProcessIdentity::of(pid)?, end, inheritance))
    }

    /// Takes up a running program whose supervisor died. Its standard streams, and pipes
    /// to the outside, are taken to be what it was started with.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    pub fn adopt(process: ProcessIdentity) -> Result<Self, EngineError> {
        let end = End::Stranger(process::pidfd_open(process.pid).map_err(|_| EngineError::Ended)?);
        let same = ProcessIdentity::of(process.pid)? == process;
        if same { Ok(Self::new(process, end, Inheritance::of_orphan(process.pid))) } else { Err(EngineError::Ended) }
    }

    pub(crate) fn new(main: ProcessIdentity, end: End, inheritance: Inheritance) -> Self {
        let reaper = match &end {
            End::Namespace(init) => Some(init.pid()),
            End::Child(_) | End::Stranger(_) => None,
        };
        Self { roots: Roots { main, reaper }, end, init: None, shared: Shared::new(main.pid, inheritance) }
    }

    /// Says who holds the master of the job's terminal, or that nobody does any more.
    pub fn set_terminal(&self, holder: Option<Arc<dyn TerminalHolder>>) {
        self.shared.set_terminal(holder);
    }

    /// Has later checkpoints save these directories, with all that is in them but `except`, the job's own directory. All are
    /// absolute paths.
    pub fn save_folders(&self, paths: Vec<PathBuf>, except: Option<PathBuf>) {
        *self.shared.folders() = Folders { paths, except, saves_written: false };
    }

    /// Has later checkpoints save the files that the job is seen to write, in the directories that are listed.
    pub fn save_written_files(&self) {
        self.shared.folders().saves_written = true;
    }

    /// Takes over which files the life before was seen to write through shared mappings.
    pub(crate) fn has_written(&self, files: impl IntoIterator<Item = FileId>) {
        self.shared.written().extend(files);
    }

    /// Has later checkpoints list the directories in which the job works; it began then, in nanoseconds since 1970. Looks at
    /// them now, so that the first checkpoint can tell what has grown.
    pub fn list_directories(&self, started_nanoseconds: i64) {
        self.shared.listing.begin(started_nanoseconds);
        crate::collect::list_ahead(&self.roots, &self.shared);
    }

    /// Takes over the waits of threads that have been made again.
    pub(crate) fn go_on_with(&self, waits: &Waits) {
        self.shared.waits().append(waits);
    }

    /// Takes over sockets that have been made again, by their cookies, and share their ports by our doing.
    pub(crate) fn share_ports_of(&self, sockets: impl IntoIterator<Item = u64>) {
        self.shared.reused_ports.extend(sockets);
    }

    /// Counts descendants that lose their parent, and so come to this process, as part of the job. Only for a process that
    /// supervises one job and starts no others.
    pub fn keep_strays(&mut self) {
        self.roots.reaper.get_or_insert(std::process::id() as i32);
    }

    /// Takes note of strays that have ended. Now and then, or they pile up as zombies.
    pub fn reap_strays(&self) {
        self.roots.reap_strays();
        self.init.iter().for_each(NamespaceInit::reap);
    }

    /// The job's main process.
    pub fn main_process(&self) -> ProcessIdentity {
        self.roots.main
    }

    /// A descriptor that polls as readable when there is [`Job::news`].
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Child(process) | End::Stranger(process) => process.as_fd(),
            End::Namespace(init) => init.channel(),
        }
    }

    /// What has become of the main process; waits for that. Call it when [`Job::end_descriptor`] is readable and no other
    /// thread holds the job frozen.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn news(&mut self) -> Result<News, EngineError> {
        let passed = self.shared.take_status();
        let status = match (&self.end, passed) {
            (End::Namespace(init), _) => match init.wait_for_news() {
                Ok(HelperNews::Stopped) => return Ok(News::Stopped),
                Ok(HelperNews::Ended(status)) => Some(status),
                // An init that says nothing was killed, and took the job with it.
                Err(_) => Some(WaitStatus(libc::SIGKILL)),
            },
            (End::Stranger(_), _) => {
                // One that has lost its parent may be our child by now; of others only their parent learns how they ended.
                process::wait(self.roots.main.pid, libc::WNOHANG).ok().flatten().map(WaitStatus)
            }
            (End::Child(_), Some(status)) => Some(status),
            (End::Child(_), None) => {
                let waited = process::wait(self.roots.main.pid, 0);
                waited.map_err(|source| kernel("reaping the program", source))?.map(WaitStatus)
            }
        };
        Ok(News::Ended(status.map(|status| ExitStatus::from_raw(status.0))))
    }

    /// How the main process ended; waits for its end. `None` for an adopted job: only its parent learns how it ended.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn reap(&mut self) -> Result<Option<ExitStatus>, EngineError> {
        loop {
            if let News::Ended(status) = self.news()? {
                return Ok(status);
            }
        }
    }

    /// Whether job control has stopped the main process since this was asked last. Where [`Job::news`] tells it, never. Not
    /// while another thread holds the job frozen, from which this would take the news.
    pub fn has_stopped(&self) -> bool {
        matches!(self.end, End::Child(_)) && process::has_stopped(self.roots.main.pid)
    }

    /// The processes of the job, but for the main process and zombies, as this process sees them.
    pub fn descendants(&self) -> Vec<i32> {
        self.reap_strays();
        let living = |member: &Member| member.wait_status.is_none() && member.pid != self.roots.main.pid;
        self.roots.members().into_iter().filter(living).map(|member| member.pid).collect()
    }

    /// Goes on with one of the descendants as main process; `false` if it has ended by now.
    pub fn follow(&mut self, pid: i32) -> bool {
        let (Ok(handle), Ok(main)) = (process::pidfd_open(pid), ProcessIdentity::of(pid)) else { return false };
        self.roots.main = main;
        if let End::Namespace(init) = std::mem::replace(&mut self.end, End::Stranger(handle)) {
            self.init = Some(init);
        }
        true
    }

    /// Sends a signal to the main process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: i32) -> Result<(), EngineError> {
        process::kill(self.roots.main.pid, signal).map_err(|source| kernel("signalling the program", source))
    }

    /// A handle with which another thread can freeze this job.
    pub fn freezer(&self) -> Freezer {
        Freezer { roots: self.roots, shared: Arc::clone(&self.shared) }
    }
}

/// Descendants of this process that lose their parent come to it from now on.
pub(crate) fn stay_in_sight() -> Result<(), EngineError> {
    // Older kernels than any supported would refuse.
    process::become_subreaper().map_err(|source| kernel("becoming the reaper of strays", source))
}

/// Freezes a job, from whichever thread; that thread then is its tracer, and if it ends the job runs on unharmed.
#[derive(Debug, Clone)]
pub struct Freezer {
    roots: Roots,
    shared: Arc<Shared>,
}

impl Freezer {
    /// Waits until each task of the job has been seen outside an uninterruptible sleep, or in another one. The job runs
    /// meanwhile.
    ///
    /// # Errors
    /// [`EngineError::Unstoppable`] when one sleeps on for longer than `limit`.
    pub fn await_stoppable(&self, limit: Duration) -> Result<(), EngineError> {
        await_sleepers(&self.members(), limit, |are_there| self.note_sleepers(are_there))
    }

    /// The job's main process.
    pub fn main_process(&self) -> ProcessIdentity {
        self.roots.main
    }

    /// How many processes the job has, and what they hold in memory beside files, in bytes.
    pub fn size(&self) -> (usize, u64) {
        let resident = |member: &Member| {
            let text = proc::read(member.pid, "statm").ok()?;
            let mut pages = std::str::from_utf8(&text).ok()?.split(' ').skip(1).map(|word| word.parse::<u64>().ok());
            let (all, of_files) = (pages.next()??, pages.next()??);
            Some(all.saturating_sub(of_files) * PAGE_BYTES as u64)
        };
        let members = self.roots.members();
        (members.len(), members.iter().filter_map(resident).sum())
    }

    /// The living processes of the job, as this process sees them.
    pub(crate) fn members(&self) -> Vec<i32> {
        let living = |member: &Member| member.wait_status.is_none();
        self.roots.members().into_iter().filter(living).map(|member| member.pid).collect()
    }

    /// Reads what would hold up the stop: the files of the job, who else writes to them, and what its programs direct. They
    /// run meanwhile.
    pub fn prefetch(&self) {
        crate::collect::prefetch(&self.roots, &self.shared);
        crate::table_prefetch::prefetch(&self.members(), &self.shared);
    }

    /// What has come to light about files that the job does not hold open, since this was asked last.
    pub fn listing_news(&self) -> Vec<ListingNews> {
        self.shared.listing.take_news()
    }

    /// Looks what the last checkpoint did not save that a restart will miss; see [`Freezer::listing_news`].
    pub fn judge_unsaved(&self) {
        self.shared.listing.judge_unsaved();
    }

    /// Files that the job does not hold open and that had changed at the last checkpoint.
    pub fn changed_files(&self) -> Vec<Output> {
        self.shared.listing.changed()
    }

    /// The files with code that the job runs from, as far as they were read whole.
    pub fn code_files(&self) -> Vec<FileReference> {
        crate::collect::code_files(&self.roots, &self.shared)
    }

    /// Says that there is a copy of a file with code, which a restart will find: should the file be replaced while the job
    /// runs, that is no blocker any more.
    pub fn has_copy_of(&self, file: &FileReference) {
        self.shared.kept().insert(FileId::of_reference(file), file.clone());
    }

    /// What in the job could not be carried over: the part of the collection that needs no freeze.
    ///
    /// # Errors
    /// When it is gone or may not be looked at.
    pub fn examine(&self, external_sockets: ExternalSockets) -> Result<Vec<Blocker>, EngineError> {
        let kept = self.shared.kept().clone();
        let terminal = self.shared.terminal();
        let found = crate::collect::examine_with(self.roots.main.pid, external_sockets, &kept, terminal.as_deref());
        found.and_then(|mut blockers| {
            blockers.append(&mut crate::collect::examine_folders(&self.shared.folders())?);
            Ok(blockers)
        })
    }

    /// The last generation for which [`crate::Captured::committed`] was called, if the next one can build upon it.
    pub fn last_committed(&self) -> Option<u64> {
        self.shared.tracks().generation()
    }

    /// How many bytes the next checkpoint will have to read from the program, roughly, if it builds upon the last one.
    /// `None` where it would build upon nothing.
    pub fn expected_bytes(&self) -> Option<u64> {
        self.shared.tracks().expected_pages().map(|pages| pages * PAGE_BYTES as u64)
    }

    /// Whether the kernel notes what the job writes, as far as is known, and there is a generation since which it has done so.
    pub fn is_tracked(&self, tracking: Tracking) -> bool {
        let tracks = self.shared.tracks();
        tracks.generation().is_some() && tracks.resolve(tracking) == Tracking::Pagemap
    }

    /// Whether a checkpoint that builds upon the last one need not save what a program has promised not to write to.
    pub fn has_promises(&self) -> bool {
        self.shared.tracks().promises.are_needed()
    }

    /// When the next wait has to be ended by [`Freezer::end_waits`].
    pub fn next_wait_end(&self) -> Option<Instant> {
        self.shared.waits().next_end()
    }

    /// Ends the waits of the program's threads whose time limits are reached, where the kernel would let them last longer
    /// since a checkpoint or a restart has interrupted them. On a thread of its own, which must end then; while the job is
    /// frozen, it waits.
    pub fn end_waits(&self) {
        wait_ends::end_those_due(&self.shared);
    }

    /// Leaves those that [`Freezer::end_waits`] would end to last longer.
    pub fn pass_over_waits(&self) {
        self.shared.waits().take_due();
    }

    /// Notes whether a thread hung in the kernel just now: the next freeze begins with such threads.
    pub(crate) fn note_sleepers(&self, are_there: bool) {
        self.shared.has_sleepers.store(are_there, Ordering::Relaxed);
    }

    /// Stops every task of the job.
    ///
    /// # Errors
    /// When that fails or takes longer than `limit`; the caller's thread must then end, which lets go of the job.
    pub fn freeze(&self, limit: Duration) -> Result<Frozen, EngineError> {
        Frozen::new(self.roots, Arc::clone(&self.shared), limit)
    }
}
