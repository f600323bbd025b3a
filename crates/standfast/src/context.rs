//! The context of a job's life, given both when the job begins and when it is continued.

use crate::Error;
use crate::part_link::JobPart;
use crate::settings::{MachineSettings, OptionChoices};
use crate::terminal::ForegroundConnection;
use standfast_engine::Streams;
use std::path::{Path, PathBuf};

/// Where a life of a job keeps its checkpoints, how it is protected, and who waits for it.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// The job's directory, as the user names it.
    pub directory: PathBuf,
    /// Protection options that were given for this life. Those that were not given are the same as in the life before, or
    /// have their defaults if there was none.
    pub options: OptionChoices,
    /// Whether to take the directory from a holder that is not visible from here.
    pub force: bool,
    /// Whether to stay until all processes of the job have ended, not only its main process.
    pub wait: bool,
    /// The foreground proxy, for which the caller waits instead of this process, if there is one. After it has ended, the
    /// processes that outlive the program stay protected.
    pub foreground_proxy: Option<ForegroundConnection>,
    /// Whether the proxy ends at once instead of waiting. A program that begins then runs on a terminal of its own in the
    /// background.
    pub detached: bool,
    /// Targets of standard output and error of a job that is continued, if they were files.
    pub streams: Streams,
    /// What concerns this machine, and not the job.
    pub machine: MachineSettings,
    /// Directory in which the jobs of this user share the binaries that they save, if they share them.
    pub shared_binaries: Option<PathBuf>,
    /// The way to the other parts, if the job is a part of a distributed one.
    pub part: Option<JobPart>,
    /// Functions that the caller wants called at certain moments of the life.
    pub hooks: Hooks,
}

/// Functions that run in the caller's process at certain moments of a life. Events, in contrast, are for people to
/// read; nothing depends on them.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Called when the program runs and has standard streams of its own.
    pub running: fn(),
    /// Called with the job's directory when nobody waits for this process any more.
    pub alone: fn(&Path),
}

impl Default for Hooks {
    fn default() -> Self {
        Self { running: || {}, alone: |_| {} }
    }
}

impl JobContext {
    /// Reports whether the container ends with the program, since the foreground proxy is its process 1.
    pub(crate) fn ends_container(&self) -> bool {
        self.foreground_proxy.as_ref().is_some_and(ForegroundConnection::is_init)
    }

    /// Refuses to let go of the program where everything would end with the foreground proxy.
    pub(crate) fn refuse_detached_init(&self) -> Result<(), Error> {
        if self.detached && self.ends_container() { Err(Error::DetachedInit) } else { Ok(()) }
    }

    /// Returns a context for a life of the job in `directory`, with defaults for everything else.
    pub fn of(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            options: OptionChoices::default(),
            force: false,
            wait: false,
            foreground_proxy: None,
            detached: false,
            streams: Streams::default(),
            machine: MachineSettings::default(),
            shared_binaries: None,
            part: None,
            hooks: Hooks::default(),
        }
    }
}
