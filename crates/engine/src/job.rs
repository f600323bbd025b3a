//! A job from the outside: launched or restarted, frozen now and then, ended at last.

use crate::{EngineError, Obstacle};
use standfast_format::{BoxError, ImageSink, ImageSource};
use std::ffi::OsString;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::Duration;

/// What to launch. Environment, working directory, descriptors and terminal are the caller's own.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
}

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id as this process sees it.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

/// Which files the standard streams of the job's life are, so that a census can tell them from the program's own.
/// `None` where the stream was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamIdentities(pub [Option<(u64, u64)>; 3]);

/// A job under this process's care.
#[derive(Debug)]
pub struct Job {}

impl Job {
    /// Starts a program as a child of this process.
    ///
    /// # Errors
    /// When it cannot be executed.
    pub fn launch(_launch: &Launch) -> Result<Self, EngineError> {
        Err(EngineError::Ended)
    }

    /// Takes up a running program whose supervisor died.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    pub fn adopt(_process: ProcessIdentity, _streams: StreamIdentities) -> Result<Self, EngineError> {
        Err(EngineError::Ended)
    }

    /// The job's main process.
    pub fn main_process(&self) -> ProcessIdentity {
        ProcessIdentity { pid: 0, start_time: 0 }
    }

    /// The streams it was launched or restarted with.
    pub fn streams(&self) -> StreamIdentities {
        StreamIdentities::default()
    }

    /// A descriptor that polls as readable once the job has ended.
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        todo_stub()
    }

    /// The main process's status if the job has ended (for an adopted job: `None` for ever).
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn reap(&mut self) -> Result<Option<ExitStatus>, EngineError> {
        Ok(None)
    }

    /// Sends a signal to the main process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, _signal: i32) -> Result<(), EngineError> {
        Ok(())
    }

    /// A handle with which another thread can freeze this job.
    pub fn freezer(&self) -> Freezer {
        Freezer {}
    }
}

/// Freezes a job, from whichever thread; that thread then is its tracer, and if it ends the job runs on unharmed.
#[derive(Debug, Clone)]
pub struct Freezer {}

impl Freezer {
    /// Stops every task of the job.
    ///
    /// # Errors
    /// When that fails or takes longer than `limit`; the caller's thread must then end, which lets go of the job.
    pub fn freeze(&self, _limit: Duration) -> Result<Frozen, EngineError> {
        Err(EngineError::Ended)
    }
}

/// A job that stands still. Dropping it lets the job run on.
#[derive(Debug)]
pub struct Frozen {
    /// A tracer is a thread: this may not move to another.
    _thread: PhantomData<*const ()>,
}

/// What a capture did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Captured {
    /// Tasks (threads) that stood still.
    pub tasks: usize,
    /// Pages handed to the sink.
    pub pages: u64,
}

impl Frozen {
    /// Takes the census, refuses by name what could not be brought back, reads all memory into `sink` and finishes it.
    ///
    /// # Errors
    /// [`EngineError::Refused`] before anything went into the sink; others at any time. The job stays frozen and whole.
    pub fn capture(&mut self, _sink: &mut dyn ImageSink) -> Result<Captured, EngineError> {
        Err(EngineError::Ended)
    }

    /// Lets the job run on.
    ///
    /// # Errors
    /// When it ended while it stood still.
    pub fn thaw(self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Ends the job where it stands, with SIGKILL: not one more instruction is executed.
    ///
    /// # Errors
    /// When it had ended already.
    pub fn kill(self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// How a restarted job gets its process and thread ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdPolicy {
    /// The old ids, in namespaces of its own where that is allowed; new ids otherwise, unless the program needs the old.
    #[default]
    Auto,
    /// New ids, no namespaces; the C library's cached ids are put right.
    New,
}

/// How to restart.
pub struct RestartOptions<'a> {
    /// Process and thread ids.
    pub ids: IdPolicy,
    /// Called when the job is rebuilt and about to run, with its identity: the last moment to say no.
    pub before_thaw: &'a mut dyn FnMut(ProcessIdentity) -> Result<(), BoxError>,
}

/// Rebuilds the job that `source` holds and lets it run. Call it while this process has a single thread.
///
/// # Errors
/// When anything stands in the way; nothing of the half-built job remains, and no file was cut back unless all pages
/// had verified.
pub fn restart(_source: &dyn ImageSource, _options: RestartOptions<'_>) -> Result<Job, EngineError> {
    Err(EngineError::Ended)
}

/// What in this process could not be carried over: the census of a checkpoint without the freeze.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn examine(_pid: i32) -> Result<Vec<Obstacle>, EngineError> {
    Ok(Vec::new())
}

fn todo_stub() -> ! {
    panic!("not built yet")
}
