//! `standfast group run`: launches a job of many processes, and relaunches it when it has lost some of them.
//!
//! This module knows nothing of what the job keeps. Only the name connects one launch with the next: with it the
//! library in the processes finds in memory what their predecessors left there. The name is in a file as long as the
//! job is not done. So the same command continues the same job later, or after the launcher itself was killed.

use super::connections::Connections;
use super::job_name::{JobName, NAMING};
use super::left::end_left;
use super::level::save;
use super::nodes::{ANSWER_MAX, Nodes, check_names};
use super::progress::{LaunchLimits, Progress, Trouble};
use super::watcher::{EndedLaunch, Watcher};
use crate::error::Error;
use crate::placeholder::{has_place, with_nodes};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use standfast_linux::proc;
use standfast_linux::sys::process::become_subreaper;
use standfast_member::variables::{
    CHECK_QUIESCENT, CHECKS, DIRECTORY, DIRECTORY_EVERY, ENCODE_EVERY, HANG, INTERVAL, JOB, LAUNCH_PROGRESS,
};
use standfast_member::{EncodeEvery, LaunchProgress, job_named};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Variable in which Open MPI's launcher expects the names of variables for processes on other nodes.
const OPEN_MPI_VARIABLES: &str = "OMPI_MCA_mca_base_env_list";

/// Exit status of a job that hangs when it is done: EX_SOFTWARE of sysexits.h, as for its processes that hang.
const HUNG: i32 = 70;

const WATCHING: &str = "watch over the job's processes";

/// What to launch.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    /// Directory of the job's name, and of epochs that are copied to disk. All nodes see it.
    pub directory: PathBuf,
    /// Most launches of the job.
    pub tries: u32,
    /// Most time for the whole job. When it is over, what the job holds in memory is saved.
    pub time_limit: Option<Duration>,
    /// Limits for a launcher whose job has not begun, cannot continue, or is done.
    pub limits: LaunchLimits,
    /// Time after which a process that hangs ends itself.
    pub hang: Option<Duration>,
    /// Time between checkpoints, if the program leaves that open.
    pub interval: Option<Duration>,
    /// Every this many epochs one is copied to the directory in the background; 0 for never.
    pub flush_every: u32,
    /// Every this many epochs one is encoded, if the program leaves that open; the others are local.
    pub encode_every: EncodeEvery,
    /// Number of checks of each group, if the program leaves that open.
    pub checks: u32,
    /// Whether checkpoints are abandoned if messages of the program are under way.
    pub check_quiescent: bool,
    /// The nodes.
    pub nodes: Nodes,
    /// Memory file system of this node.
    pub memory: PathBuf,
    /// Command that launches all processes: `mpirun` and its arguments.
    pub command: Vec<OsString>,
}

/// Message: in a job that ends well all processes have left the group.
const STAYED: &str = "not all of its processes have left the group (standfast_group_finish)";

/// Events of the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// An earlier command began the job, and this one continues it.
    Continues(PathBuf),
    /// The job has lost processes and is launched again.
    Again {
        /// How the last launch ended.
        ended: String,
        /// Number of the launch that follows.
        launch: u32,
        /// Most launches of the job.
        tries: u32,
    },
    /// Processes of an earlier launch, whose launcher is gone, were killed.
    Left(usize),
    /// The launch is being ended because of this.
    Trouble(Trouble),
    /// These nodes do not answer and are left out.
    Dead(Vec<String>),
    /// What the job held in memory has been saved.
    Saved {
        /// Number of shards.
        shards: usize,
        /// What could not be saved.
        lost: Vec<String>,
        /// Directory that holds them.
        directory: PathBuf,
    },
    /// The launcher has ended well, but none of its processes has joined a group.
    NeverJoined,
    /// The job is done, but these of its nodes do not answer.
    Gone(Vec<String>),
    /// The job is abandoned for now.
    Abandoned {
        /// How the last launch ended.
        ended: String,
        /// Number of launches.
        tries: u32,
    },
}

impl fmt::Display for GroupEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continues(directory) => {
                write!(
                    f,
                    "continuing the job of {}; remove that directory to start from the beginning",
                    directory.display()
                )
            }
            Self::Again { ended, launch, tries } => {
                write!(f, "the job {ended}; launching it again, {launch} of {tries}")
            }
            Self::Left(count) => write!(f, "ended {count} remaining processes of an earlier launch"),
            Self::Trouble(trouble) => write!(f, "ending this launch, because {trouble}"),
            Self::Dead(nodes) => write!(f, "left out, because they do not answer: {}", nodes.join(", ")),
            Self::Saved { shards, lost, directory } => {
                write!(f, "{shards} shards of the job's state in memory are saved in {}", directory.display())?;
                if lost.is_empty() { Ok(()) } else { write!(f, "; not saved: {}", lost.join(", ")) }
            }
            Self::NeverJoined => {
                write!(f, "none of the job's processes has joined a group, so nothing was saved (docs/group.md)")
            }
            Self::Gone(nodes) => write!(
                f,
                "the job has finished, and {} no longer answers: check whether its results are complete",
                nodes.join(", ")
            ),
            Self::Abandoned { ended, tries } => write!(
                f,
                "the job {ended}, after {tries} launches; its state is kept, and the same command continues it"
            ),
        }
    }
}

/// How the job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEnding {
    /// The job is done.
    Done,
    /// Its last launch ended with this status.
    Failed(i32),
    /// This signal ended its last launch.
    Killed(i32),
}

/// Launches the job until it is done, has used up its launches, or this process is asked to end.
///
/// # Errors
/// [`Error`]: nothing has been started, or what was started has ended.
pub fn run_group(request: &GroupRequest, listener: &mut dyn FnMut(&GroupEvent)) -> Result<GroupEnding, Error> {
    check_names(&request.nodes.names).map_err(Error::Declined)?;
    let name = JobName::take(&request.directory)?;
    if name.was_there {
        listener(&GroupEvent::Continues(request.directory.clone()));
        // An earlier command that was killed could not kill its processes.
        let left = end_left(&name.text).map_err(Error::system(WATCHING))?;
        if left > 0 {
            listener(&GroupEvent::Left(left));
        }
    }
    // Processes that lose their launcher become our children, and are killed with the rest.
    become_subreaper().map_err(Error::system(WATCHING))?;
    let mut watcher = Watcher::new(request.time_limit).map_err(Error::system(WATCHING))?;
    let mut taken = Vec::new();
    for launch in 1.. {
        if !request.nodes.names.is_empty() {
            let chosen = take_nodes(request, &taken, listener);
            if chosen.is_err() && launch > 1 {
                listener(&saved(request, &name.text)?);
            }
            taken = chosen?;
        }
        let launched = launched(request, &name.text, &taken, &mut watcher, listener)?;
        let mut ended = launched.in_words(watcher.asked()).filter(|_| !launched.has_left());
        if ended.is_none() && launched.reached.is_none() {
            let lost = unanswered(request, &taken, "end")?;
            ended = (!lost.is_empty()).then(|| lost_in_words(&lost));
        }
        let Some(ended) = ended else {
            if launched.reached.is_none() {
                listener(&GroupEvent::NeverJoined);
            }
            // Nodes that were left out may be back by now, with what they held.
            let gone = unanswered(request, &taken, "purge")?;
            if !gone.is_empty() {
                listener(&GroupEvent::Gone(gone));
            }
            name.give_up().map_err(Error::system(NAMING))?;
            return Ok(if launched.has_left() { GroupEnding::Failed(HUNG) } else { GroupEnding::Done });
        };
        if watcher.asked() || launch >= request.tries {
            listener(&saved(request, &name.text)?);
            listener(&GroupEvent::Abandoned { ended, tries: launch });
            return Ok(launched.ending());
        }
        listener(&GroupEvent::Again { ended, launch: launch + 1, tries: request.tries });
    }
    unreachable!("the loop ends by itself")
}

/// Runs one launch, from the start of its launcher until nothing of it is left here.
fn launched(
    request: &GroupRequest,
    job: &str,
    nodes: &[String],
    watcher: &mut Watcher,
    listener: &mut dyn FnMut(&GroupEvent),
) -> Result<EndedLaunch, Error> {
    let launch_progress = fs::canonicalize(&request.directory).map_err(Error::system(NAMING))?.join("milestones");
    // A command that was killed may have left this file.
    let _ = fs::remove_file(&launch_progress);
    let not_started = |source| Error::NotStarted { program: request.command[0].clone(), source };
    let mut command = command(request, job, nodes).map_err(not_started)?;
    let child = command.env(LAUNCH_PROGRESS, &launch_progress).spawn().map_err(not_started)?;
    let connections = Connections::new(&request.nodes, nodes, on_nodes(request, "watch")?);
    let progress = Progress::new(request.limits, connections, job, launch_progress.clone());
    let launched = watcher.watch(child, progress, listener).map_err(Error::system(WATCHING))?;
    end_what_is_left();
    let _ = fs::remove_file(launch_progress);
    Ok(launched)
}

/// Returns the nodes of a launch that do not answer when all nodes are asked to carry out `action`.
fn unanswered(request: &GroupRequest, taken: &[String], action: &str) -> Result<Vec<String>, Error> {
    let answers = request.nodes.ask_all(&on_nodes(request, action)?, ANSWER_MAX);
    let silent = answers.into_iter().filter(|(name, answer)| taken.contains(name) && answer.is_err());
    Ok(silent.map(|(name, _)| name).collect())
}

/// Returns the nodes of the next launch, after removing what is left of earlier ones. If too few nodes are left, the
/// caller saves what the others hold.
fn take_nodes(
    request: &GroupRequest,
    before: &[String],
    listener: &mut dyn FnMut(&GroupEvent),
) -> Result<Vec<String>, Error> {
    if !has_place(&request.command) {
        return Err(Error::Declined("with --nodes the command needs {nodes} in the place of the nodes' names".into()));
    }
    // The command shows that a node is up, sees the directory, and can take part in saving the job.
    let command = on_nodes(request, "end")?;
    let (taken, dead) = request.nodes.take(before, &command).map_err(Error::Declined)?;
    if !dead.is_empty() {
        listener(&GroupEvent::Dead(dead));
    }
    Ok(taken)
}

/// Copies what the job holds in the memory of all reachable nodes to its directory. Its launcher has ended.
fn saved(request: &GroupRequest, name: &str) -> Result<GroupEvent, Error> {
    let directory = request.directory.clone();
    if request.nodes.names.is_empty() {
        let saved = save(&directory, &request.memory, job_named(name.as_bytes()))?;
        return Ok(GroupEvent::Saved { shards: saved.shards.len(), lost: saved.lost, directory });
    }
    request.nodes.ask_all(&on_nodes(request, "end")?, ANSWER_MAX);
    let lost = request.nodes.save_all(&on_nodes(request, "salvage")?);
    let held = standfast_member::LevelDirectory::new(&directory).epochs()?;
    let shards = held.iter().map(|held| held.logical_ranks.len()).sum();
    Ok(GroupEvent::Saved { shards, lost, directory })
}

/// Returns the command that carries out an action of `standfast group` for this job on its nodes.
fn on_nodes(request: &GroupRequest, action: &str) -> Result<Vec<OsString>, Error> {
    let program = std::env::current_exe().map_err(Error::system(WATCHING))?;
    let place = fs::canonicalize(&request.directory).map_err(Error::system(NAMING))?;
    Ok(vec![program.into(), "group".into(), action.into(), place.into()])
}

fn command(request: &GroupRequest, job: &str, nodes: &[String]) -> io::Result<Command> {
    let words = request.command.iter().map(|word| with_nodes(word, nodes));
    let mut command = Command::new(&request.command[0]);
    command.args(words.skip(1)).env(JOB, job);
    // The processes may start in another working directory.
    command.env(DIRECTORY, fs::canonicalize(&request.directory)?);
    command.env(DIRECTORY_EVERY, request.flush_every.to_string()).env(CHECKS, request.checks.to_string());
    command.env(ENCODE_EVERY, request.encode_every.to_string());
    command.env(HANG, request.hang.map_or(0.0, |hang| hang.as_secs_f64()).to_string());
    if let Some(interval) = request.interval {
        command.env(INTERVAL, interval.as_secs_f64().to_string());
    }
    if request.check_quiescent {
        command.env(CHECK_QUIESCENT, "1");
    }
    let asked_for = std::env::var(OPEN_MPI_VARIABLES).ok();
    let ours = [JOB, DIRECTORY, DIRECTORY_EVERY, ENCODE_EVERY, CHECKS, HANG, LAUNCH_PROGRESS].into_iter();
    let asked =
        request.interval.map(|_| INTERVAL).into_iter().chain(request.check_quiescent.then_some(CHECK_QUIESCENT));
    let ours = ours.chain(asked).map(str::to_owned);
    command.env(OPEN_MPI_VARIABLES, asked_for.into_iter().chain(ours).collect::<Vec<_>>().join(";"));
    Ok(command)
}

/// Kills processes of the job that its launcher has left behind, so that they hold nothing that the next launch needs.
fn end_what_is_left() {
    let me = standfast_linux::Pid::own();
    while let Ok(left) = proc::children(me)
        && !left.is_empty()
    {
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid.get())) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

fn lost_in_words(nodes: &[String]) -> String {
    format!("lost {}", nodes.join(", "))
}

impl EndedLaunch {
    /// Returns how the launch ended; `None` if the job is done. A launcher that was told to end may return 0 whatever
    /// happened to the job.
    fn in_words(&self, asked: bool) -> Option<String> {
        match &self.trouble {
            Some(Trouble::Nodes(nodes)) => return Some(lost_in_words(nodes)),
            Some(_) => return Some("came no further".into()),
            None => {}
        }
        let ended = match (self.status.code(), self.status.signal()) {
            (Some(0), _) if asked => return Some("was asked to end".into()),
            // mpirun of Open MPI 5 returns 0 for a job that has lost a node.
            (Some(0), _) if self.reached == Some(LaunchProgress::Joined) => {
                format!("ended with status 0, and {STAYED}")
            }
            (Some(0), _) => return None,
            (Some(code), _) => format!("ended with status {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
        };
        let error = self.error.as_ref().map(|error| format!(" (the last error of a process: {error})"));
        Some(ended + &error.unwrap_or_default())
    }

    /// Reports whether all processes had left the group when the launch was ended. Then there is nothing to continue
    /// from.
    fn has_left(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Finish(_)))
    }

    /// Returns the ending of a launch that did not end well, for the caller.
    fn ending(&self) -> GroupEnding {
        let failed = self.status.code().filter(|code| *code != 0).unwrap_or(1);
        self.status.signal().map_or(GroupEnding::Failed(failed), GroupEnding::Killed)
    }
}
