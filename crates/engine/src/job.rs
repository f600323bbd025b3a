//! A job from the outside: launched or restarted, frozen from time to time, and ended.

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
use crate::partners::CutPartners;
use crate::shared::Shared;
use crate::tree::{Member, Roots};
use crate::wait_ends;
use crate::waits::Waits;
use crate::{Blocker, EngineError};
use standfast_core::PAGE_BYTES;
use standfast_format::records::FileReference;
use standfast_linux::abi;
use standfast_linux::proc::ProcessPages;
use standfast_linux::sys::process;
use standfast_linux::{HelperNews, InheritedSignals, LaunchTerminal, NamespaceInit, Pid, WaitStatus};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What to launch. The caller has already set up the environment, the working directory and the descriptors.
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
    /// The job's directory as an absolute path, where the program's libstandfast reaches the supervisor.
    pub directory: Option<PathBuf>,
    /// What else that library must do.
    pub assistance: Assistance,
}

/// What a program's libstandfast does beyond what the program calls it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Assistance {
    /// It reports writes to read-only memory, and each restart fills dead memory with a pattern.
    pub check_exclusions: bool,
    /// One of its threads returns the memory that the allocator holds as free before each checkpoint.
    pub free_memory: bool,
}

/// What happened to a job's main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Job control has stopped it.
    Stopped,
    /// It ended, with its exit status if that is known.
    Ended(Option<ExitStatus>),
}

/// A job that this process supervises.
#[derive(Debug)]
pub struct Job {
    roots: Roots,
    end: End,
    /// The init of the job's namespaces, once the process that it reports on has ended.
    init: Option<NamespaceInit>,
    shared: Arc<Shared>,
}

/// How this process learns that the job has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The main process is our child.
    Child(OwnedFd),
    /// It lives in namespaces of its own; their init reports its end.
    Namespace(NamespaceInit),
    /// It is the child of another process: we see that it ends, not how.
    Stranger(OwnedFd),
}

impl Job {
    /// Starts a program as a child of this process.
    ///
    /// # Errors
    /// If the program cannot be executed.
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
        // Our child stays a zombie until we reap it, so its pid cannot have been reused.
        let end = End::Child(process::pidfd_open(pid).map_err(|source| kernel("watching the program", source))?);
        Ok(Self::new(ProcessIdentity::of(pid)?, end, inheritance))
    }

    /// Takes over a running program whose supervisor died. Assumes that the program was started with the standard
    /// streams, and the pipes to the outside, that it has now.
    ///
    /// # Errors
    /// If the process is gone or may not be inspected.
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

    /// Sets who holds the master of the job's terminal; `None` if there is no holder any more.
    pub fn set_terminal(&self, holder: Option<Arc<dyn TerminalHolder>>) {
        self.shared.contact.set_terminal(holder);
    }

    /// Makes the job a part of a distributed one: its checkpoints also contain connections to the other parts.
    pub fn set_partners(&self, partners: Arc<dyn CutPartners>) {
        self.shared.contact.set_partners(partners);
    }

    /// Makes later checkpoints save these directories with everything in them except `except`, the job's own directory.
    /// All paths are absolute.
    pub fn save_folders(&self, paths: Vec<PathBuf>, except: Option<PathBuf>) {
        *self.shared.files.folders() = Folders { paths, except, saves_written: false };
    }

    /// Makes later checkpoints save the files that the job is seen to write in the listed directories.
    pub fn save_written_files(&self) {
        self.shared.files.folders().saves_written = true;
    }

    /// Takes over which files the job was seen to write through shared mappings in its previous life.
    pub(crate) fn has_written(&self, files: impl IntoIterator<Item = FileId>) {
        self.shared.files.written().extend(files);
    }

    /// Makes later checkpoints list the directories in which the job works. The job began at `started_nanoseconds`, in
    /// nanoseconds since 1970. Scans the directories now, so that the first checkpoint can tell which files have grown.
    pub fn list_directories(&self, started_nanoseconds: i64) {
        self.shared.files.listing.begin(started_nanoseconds);
        crate::collect::list_ahead(&self.roots, &self.shared.files);
    }

    /// Takes over the waits of recreated threads.
    pub(crate) fn go_on_with(&self, waits: &Waits) {
        self.shared.tracing.waits().append(waits);
    }

    /// Takes over recreated sockets, by their cookies, that share their ports because we made them do so.
    pub(crate) fn share_ports_of(&self, sockets: impl IntoIterator<Item = u64>) {
        self.shared.contact.reused_ports.extend(sockets);
    }

    /// Counts descendants as part of the job if they lose their parent and so become children of this process. Call this
    /// only in a process that supervises one job and starts no others.
    pub fn keep_strays(&mut self) {
        self.roots.reaper.get_or_insert(Pid::own());
    }

    /// Reaps strays that have ended. Call it from time to time, or they pile up as zombies.
    pub fn reap_strays(&self) {
        self.roots.reap_strays();
        self.init.iter().for_each(NamespaceInit::reap);
    }

    /// Returns the job's main process.
    pub fn main_process(&self) -> ProcessIdentity {
        self.roots.main
    }

    /// Returns a descriptor that polls as readable when there is [`Job::news`].
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Child(process) | End::Stranger(process) => process.as_fd(),
            End::Namespace(init) => init.channel(),
        }
    }

    /// Waits until something happens to the main process, and returns what it was. Call it when [`Job::end_descriptor`]
    /// is readable and no other thread holds the job frozen.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn news(&mut self) -> Result<News, EngineError> {
        let passed = self.shared.tracing.main.take_status();
        let status = match (&self.end, passed) {
            (End::Namespace(init), _) => match init.wait_for_news() {
                Ok(HelperNews::Stopped) => return Ok(News::Stopped),
                Ok(HelperNews::Ended(status)) => Some(status),
                // If init says nothing, it was killed, and the job was killed with it.
                Err(_) => Some(WaitStatus(abi::SIGKILL)),
            },
            (End::Stranger(_), _) => {
                // A process that has lost its parent may be our child by now. Otherwise only its parent learns how it
                // ended.
                process::wait(self.roots.main.pid.main_thread(), abi::WNOHANG).ok().flatten().map(WaitStatus)
            }
            (End::Child(_), Some(status)) => Some(status),
            (End::Child(_), None) => {
                let waited = process::wait(self.roots.main.pid.main_thread(), 0);
                waited.map_err(|source| kernel("reaping the program", source))?.map(WaitStatus)
            }
        };
        Ok(News::Ended(status.map(|status| ExitStatus::from_raw(status.0))))
    }

    /// Waits for the end of the main process and returns how it ended. Returns `None` for an adopted job, since only its
    /// parent learns how it ended.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn reap(&mut self) -> Result<Option<ExitStatus>, EngineError> {
        loop {
            if let News::Ended(status) = self.news()? {
                return Ok(status);
            }
        }
    }

    /// Reports whether job control has stopped the main process since the last call. Always returns `false` if
    /// [`Job::news`] reports stops. Do not call it while another thread holds the job frozen, since it would take that
    /// thread's news.
    pub fn has_stopped(&self) -> bool {
        matches!(self.end, End::Child(_)) && process::has_stopped(self.roots.main.pid)
    }

    /// Returns the processes of the job, except the main process and zombies, with the pids that this process sees.
    pub fn descendants(&self) -> Vec<Pid> {
        self.reap_strays();
        let living = |member: &Member| member.wait_status.is_none() && member.pid != self.roots.main.pid;
        self.roots.members().into_iter().filter(living).map(|member| member.pid).collect()
    }

    /// Makes one of the descendants the main process; returns `false` if it has already ended.
    pub fn follow(&mut self, pid: Pid) -> bool {
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
    /// If it has ended.
    pub fn signal(&self, signal: i32) -> Result<(), EngineError> {
        process::kill(self.roots.main.pid, signal).map_err(|source| kernel("signalling the program", source))
    }

    /// Returns a handle with which another thread can freeze this job.
    pub fn freezer(&self) -> Freezer {
        Freezer { roots: self.roots, shared: Arc::clone(&self.shared) }
    }
}

/// Makes descendants of this process that lose their parent its children from now on.
pub(crate) fn stay_in_sight() -> Result<(), EngineError> {
    // Only kernels older than any supported one would refuse.
    process::become_subreaper().map_err(|source| kernel("becoming the reaper of strays", source))
}

/// Freezes a job from any thread. That thread is then its tracer; if it ends, the job continues unharmed.
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
    /// [`EngineError::Unstoppable`] if a task stays asleep for longer than `limit`.
    pub fn await_stoppable(&self, limit: Duration) -> Result<(), EngineError> {
        await_sleepers(&self.members(), limit, |are_there| self.note_sleepers(are_there))
    }

    /// Returns the job's main process.
    pub fn main_process(&self) -> ProcessIdentity {
        self.roots.main
    }

    /// Returns how many processes the job has, and how many bytes of memory they hold, without file pages.
    pub fn size(&self) -> (usize, u64) {
        let resident = |member: &Member| {
            let pages = ProcessPages::of(member.pid).ok()?;
            Some(pages.resident.saturating_sub(pages.of_files) * PAGE_BYTES as u64)
        };
        let members = self.roots.members();
        (members.len(), members.iter().filter_map(resident).sum())
    }

    /// Returns the living processes of the job, with the pids that this process sees.
    pub(crate) fn members(&self) -> Vec<Pid> {
        let living = |member: &Member| member.wait_status.is_none();
        self.roots.members().into_iter().filter(living).map(|member| member.pid).collect()
    }

    /// Reads what would otherwise delay the stop: the files of the job, who else writes to them, and the directives of
    /// its programs. The programs run meanwhile.
    pub fn prefetch(&self) {
        crate::collect::prefetch(&self.roots, &self.shared);
        crate::table_prefetch::prefetch(&self.members(), &self.shared.memory);
    }

    /// Returns the findings since the last call about files that the job does not hold open.
    pub fn listing_news(&self) -> Vec<ListingNews> {
        self.shared.files.listing.take_news()
    }

    /// Determines what the last checkpoint did not save and a restart will miss; see [`Freezer::listing_news`].
    pub fn judge_unsaved(&self) {
        self.shared.files.listing.judge_unsaved();
    }

    /// Returns files that the job does not hold open and that had changed at the last checkpoint.
    pub fn changed_files(&self) -> Vec<Output> {
        self.shared.files.listing.changed()
    }

    /// Returns the files with code that the job executes, if they could be read completely.
    pub fn code_files(&self) -> Vec<FileReference> {
        crate::collect::code_files(&self.roots, &self.shared.files)
    }

    /// Notes that a restart will find a copy of a file with code. If the file is replaced while the job runs, that is
    /// then no longer a blocker.
    pub fn has_copy_of(&self, file: &FileReference) {
        self.shared.files.kept().insert(FileId::of_reference(file), file.clone());
    }

    /// Returns what in the job could not be carried over. This is the part of the collection that needs no freeze.
    ///
    /// # Errors
    /// If the job is gone or may not be inspected.
    pub fn examine(&self, external_sockets: ExternalSockets) -> Result<Vec<Blocker>, EngineError> {
        let kept = self.shared.files.kept().clone();
        let (partners, terminal) = (self.shared.contact.partners(), self.shared.contact.terminal());
        let outsiders = crate::collect::Outsiders {
            external_sockets,
            partners: partners.as_deref(),
            terminal: terminal.as_deref(),
        };
        let found = crate::collect::examine_with(self.roots.main.pid, outsiders, &kept);
        found.and_then(|mut blockers| {
            blockers.append(&mut crate::collect::examine_folders(&self.shared.files.folders())?);
            Ok(blockers)
        })
    }

    /// Returns the last generation for which [`crate::Captured::committed`] was called, if the next one can build upon
    /// it.
    pub fn last_committed(&self) -> Option<u64> {
        self.shared.memory.tracks().generation()
    }

    /// Estimates how many bytes the next checkpoint must read from the program if it builds upon the last one. Returns
    /// `None` if it would build upon nothing.
    pub fn expected_bytes(&self) -> Option<u64> {
        self.shared.memory.tracks().expected_pages().map(|pages| pages * PAGE_BYTES as u64)
    }

    /// Reports whether, as far as is known, the kernel tracks the job's writes, and has done so since a committed
    /// generation.
    pub fn is_tracked(&self, tracking: Tracking) -> bool {
        let tracks = self.shared.memory.tracks();
        tracks.generation().is_some() && tracks.resolve(tracking) == Tracking::Pagemap
    }

    /// Reports whether a checkpoint that builds upon the last one can leave out what a program has promised not to write
    /// to.
    pub fn has_promises(&self) -> bool {
        self.shared.memory.tracks().promises.are_needed()
    }

    /// Returns when [`Freezer::end_waits`] must end the next wait.
    pub fn next_wait_end(&self) -> Option<Instant> {
        self.shared.tracing.waits().next_end()
    }

    /// Ends the waits of the program's threads whose time limits have been reached. The kernel would let these waits
    /// last longer, since a checkpoint or a restart has interrupted them. Call it on a thread of its own, which must end
    /// afterwards. It waits while the job is frozen.
    pub fn end_waits(&self) {
        wait_ends::end_those_due(&self.shared.tracing);
    }

    /// Lets the waits that [`Freezer::end_waits`] would end last longer.
    pub fn pass_over_waits(&self) {
        self.shared.tracing.waits().take_due();
    }

    /// Notes whether a thread was hanging in the kernel just now. If so, the next freeze begins with such threads.
    pub(crate) fn note_sleepers(&self, are_there: bool) {
        self.shared.tracing.has_sleepers.store(are_there, Ordering::Relaxed);
    }

    /// Stops every task of the job.
    ///
    /// # Errors
    /// If that fails or takes longer than `limit`. The caller's thread must then end, which releases the job.
    pub fn freeze(&self, limit: Duration) -> Result<Frozen, EngineError> {
        Frozen::new(self.roots, Arc::clone(&self.shared), limit)
    }
}
