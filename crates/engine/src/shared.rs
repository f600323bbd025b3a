//! What a job's owner and the thread that freezes it share.

use crate::attributes::Scans;
use crate::endpoint::TerminalHolder;
use crate::files::{Digests, FileId, Writers};
use crate::folders::Folders;
use crate::inheritance::Inheritance;
use crate::listing::Listing;
use crate::reused_ports::ReusedPorts;
use crate::tracer_lock::TracerLock;
use crate::track::Tracks;
use crate::waits::Waits;
use standfast_format::records::FileReference;
use standfast_linux::{Pid, WaitStatus};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Copied files with code, by device and inode, as they were when they were copied.
pub(crate) type Kept = HashMap<FileId, FileReference>;

/// What a job's owner and the thread that freezes it share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The main process's pid as this process sees it.
    pub(crate) main: Pid,
    pub(crate) inheritance: Inheritance,
    /// The known contents of the job's files.
    pub(crate) digests: Digests,
    /// Other processes that write to these files.
    pub(crate) writers: Writers,
    /// What programs have told the kernel about their memory.
    pub(crate) scans: Scans,
    /// The exit status, if a tracer has reaped it along the way.
    status: Mutex<Option<WaitStatus>>,
    /// Copied files with code, in case they are replaced.
    kept: Mutex<Kept>,
    /// The waits in which its threads have been found.
    waits: Mutex<Waits>,
    /// The lock on stopping its threads.
    pub(crate) tracer_lock: Arc<TracerLock>,
    /// Tracked address spaces.
    tracks: Mutex<Tracks>,
    /// The holder of the master of its terminal, if that is outside.
    terminal: Mutex<Option<Arc<dyn TerminalHolder>>>,
    /// Directories that are saved with everything in them.
    folders: Mutex<Folders>,
    /// Its sockets that share their ports because we made them do so.
    pub(crate) reused_ports: ReusedPorts,
    /// Files that it has been seen to write through shared mappings.
    written: Mutex<BTreeSet<FileId>>,
    /// The contents of the directories in which it works.
    pub(crate) listing: Listing,
    /// Whether a thread hung in the kernel at the look before a freeze.
    pub(crate) has_sleepers: AtomicBool,
}

impl Shared {
    pub(crate) fn new(main: Pid, inheritance: Inheritance) -> Arc<Self> {
        Arc::new(Self {
            main,
            inheritance,
            digests: Digests::default(),
            writers: Writers::default(),
            scans: Scans::default(),
            status: Mutex::default(),
            kept: Mutex::default(),
            waits: Mutex::default(),
            tracer_lock: Arc::default(),
            tracks: Mutex::default(),
            terminal: Mutex::default(),
            folders: Mutex::default(),
            reused_ports: ReusedPorts::default(),
            written: Mutex::default(),
            listing: Listing::default(),
            has_sleepers: AtomicBool::default(),
        })
    }

    pub(crate) fn tracks(&self) -> MutexGuard<'_, Tracks> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep_status(&self, status: WaitStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn terminal(&self) -> Option<Arc<dyn TerminalHolder>> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn folders(&self) -> MutexGuard<'_, Folders> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn written(&self) -> MutexGuard<'_, BTreeSet<FileId>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_terminal(&self, holder: Option<Arc<dyn TerminalHolder>>) {
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner) = holder;
    }

    /// Returns the exit status, if a tracer has reaped it along the way.
    pub(crate) fn take_status(&self) -> Option<WaitStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
