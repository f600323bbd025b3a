//! What each life of a job is given, whether it begins or is continued.

use crate::settings::{Memory, OptionChoices};
use crate::terminal::ForegroundConnection;
use standfast_engine::Streams;
use std::path::{Path, PathBuf};

/// Where a life of a job has its checkpoints, how it is protected, and who waits for it.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// The job's directory, as the user names it.
    pub directory: PathBuf,
    /// How it is protected, as far as that is said for this life.
    pub options: OptionChoices,
    /// Whether checkpoints go to memory first; if nothing is said as in the life before, else not.
    pub memory: Option<Memory>,
    /// Whether to take the directory from a holder that cannot be seen from here.
    pub force: bool,
    /// Whether to stay until everybody in the job has ended, not only its main process.
    pub wait: bool,
    /// The process that is waited for in this one's place, if there is one: what outlives the program is then protected on
    /// when that has ended.
    pub front: Option<ForegroundConnection>,
    /// Whether the front is not to wait: a program that begins then runs on a terminal of its own in the background.
    pub detached: bool,
    /// Where standard output and error of a job that is continued go, if they were files.
    pub streams: Streams,
    /// Where jobs of this user share the binaries that they save, if they do.
    pub shared_binaries: Option<PathBuf>,
    /// What the caller does at some moments of the life.
    pub hooks: Hooks,
}

/// What a caller does in its own process at some moments of a life. Events are for people to read; nothing hangs on them.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// The program runs, and has standard streams of its own.
    pub running: fn(),
    /// Nobody waits for this process any more; with the job's directory.
    pub alone: fn(&Path),
}

impl Default for Hooks {
    fn default() -> Self {
        Self { running: || {}, alone: |_| {} }
    }
}

impl JobContext {
    /// A life of the job in a directory, with nothing said about it.
    pub fn of(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            options: OptionChoices::default(),
            memory: None,
            force: false,
            wait: false,
            front: None,
            detached: false,
            streams: Streams::default(),
            shared_binaries: None,
            hooks: Hooks::default(),
        }
    }
}
