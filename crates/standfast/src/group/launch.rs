//! `standfast group run`: launches a job of many processes, and again when it has lost some of them.
//!
//! Nothing is known here of what the job keeps. Its name is all that connects one launch with the next: by it the library
//! in the processes finds in memory what their predecessors left there. The name is in a file for as long as the job is
//! not done, so that the same command later, or after the launcher itself was killed, goes on with the same job.

use crate::error::Error;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use standfast_linux::proc;
use standfast_linux::sys::process::become_subreaper;
use standfast_store::random_token;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// The variable by which the library learns the job's name.
const JOB_VARIABLE: &str = "STANDFAST_GROUP_JOB";
/// By which Open MPI's launcher learns which variables the processes on other nodes are to have.
const OPEN_MPI_VARIABLES: &str = "OMPI_MCA_mca_base_env_list";

const NAMING: &str = "keep the job's name in its directory";
const WATCHING: &str = "watch over the job's processes";

/// What to launch.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    /// Where the job's name is kept.
    pub directory: PathBuf,
    /// How often it is launched at most.
    pub tries: u32,
    /// The command that launches all its processes: `mpirun` and its arguments.
    pub command: Vec<OsString>,
}

/// What the launcher has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupNotice {
    /// The job was begun by an earlier command and goes on.
    Continues(PathBuf),
    /// It has lost processes.
    Again {
        /// How it ended.
        ended: String,
        /// The number of the launch that follows.
        launch: u32,
        /// Of how many.
        tries: u32,
    },
    /// It is given up for now.
    GivenUp {
        /// How it ended.
        ended: String,
        /// So many launches.
        tries: u32,
    },
}

impl fmt::Display for GroupNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continues(directory) => {
                write!(f, "going on with the job of {}; remove that directory to begin afresh", directory.display())
            }
            Self::Again { ended, launch, tries } => {
                write!(f, "the job {ended}; launching it again, {launch} of {tries}")
            }
            Self::GivenUp { ended, tries } => write!(
                f,
                "the job {ended}, after {tries} launches; what it holds in memory stays, and the same command goes on with it"
            ),
        }
    }
}

/// How the job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEnding {
    /// It is done.
    Done,
    /// Its last launch ended with this status.
    Failed(i32),
    /// Its last launch was ended by this signal.
    Killed(i32),
}

/// Launches the job until it is done, or may not be launched again, or this process is asked to end.
///
/// # Errors
/// [`Error`]: nothing has been started, or what was started has ended.
pub fn run_group(request: &GroupRequest, listener: &mut dyn FnMut(&GroupNotice)) -> Result<GroupEnding, Error> {
    let name = JobName::take(&request.directory).map_err(Error::system(NAMING))?;
    if name.was_there {
        listener(&GroupNotice::Continues(request.directory.clone()));
    }
    // Whoever loses its launcher comes to us, and is ended with the rest.
    become_subreaper().map_err(Error::system(WATCHING))?;
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP]).map_err(Error::system(WATCHING))?;
    for launch in 1.. {
        let not_started = |source| Error::NotStarted { program: request.command[0].clone(), source };
        let child = command(request, &name.text).spawn().map_err(not_started)?;
        let (status, asked) = watch(child, &mut signals).map_err(Error::system(WATCHING))?;
        end_what_is_left();
        let Some(ended) = in_words(status) else {
            name.give_up().map_err(Error::system(NAMING))?;
            return Ok(GroupEnding::Done);
        };
        if asked || launch >= request.tries {
            listener(&GroupNotice::GivenUp { ended, tries: launch });
            return Ok(status.signal().map_or(GroupEnding::Failed(status.code().unwrap_or(1)), GroupEnding::Killed));
        }
        listener(&GroupNotice::Again { ended, launch: launch + 1, tries: request.tries });
    }
    unreachable!("the loop ends by itself")
}

fn command(request: &GroupRequest, job: &str) -> Command {
    let mut command = Command::new(&request.command[0]);
    command.args(&request.command[1..]).env(JOB_VARIABLE, job);
    if std::env::var_os(OPEN_MPI_VARIABLES).is_none() {
        command.env(OPEN_MPI_VARIABLES, JOB_VARIABLE);
    }
    command
}

/// Waits for the launcher's end, and hands on what this process is asked. Says whether it was asked to end.
fn watch(mut child: Child, signals: &mut Signals) -> io::Result<(ExitStatus, bool)> {
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, asked));
        }
        for signal in signals.wait() {
            asked |= signal != SIGCHLD;
            // The terminal's keys have reached it already; twice does no harm.
            if signal != SIGCHLD
                && let Some(signal) = Signal::from_named_raw(signal)
            {
                let pid = Pid::from_child(&child);
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Ends processes of the job that its launcher has left behind, so that they hold nothing that the next launch needs.
fn end_what_is_left() {
    let me = std::process::id() as i32;
    while let Ok(left) = proc::children(me)
        && !left.is_empty()
    {
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// `None` where it ended well.
fn in_words(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("ended with status {code}")),
        (None, signal) => Some(format!("was ended by signal {}", signal.unwrap_or_default())),
    }
}

/// The job's name in its file, which is locked.
struct JobName {
    directory: PathBuf,
    text: String,
    was_there: bool,
    _lock: File,
}

impl JobName {
    fn take(directory: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = directory.join("job");
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another `standfast group run` looks after this job"));
            }
            locked => locked?,
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let was_there = !text.is_empty();
        if !was_there {
            text = random_token();
            file.write_all(text.as_bytes())?;
        }
        Ok(Self { directory: directory.to_owned(), text, was_there, _lock: file })
    }

    /// Nothing needs the name any more.
    fn give_up(self) -> io::Result<()> {
        fs::remove_file(self.directory.join("job"))?;
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }
}
