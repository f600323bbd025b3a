//! The agent of a node: a process that the coordinator starts there, and speaks with over its standard streams. It starts
//! the supervisor of the node's part, passes messages on between that and the coordinator, and follows what the command
//! prints. If the coordinator is lost, so is the agent; the part runs on.

use super::agent_protocol::{AgentReport, AgentRequest, FoundPart, PartCommand, PartPlace, VERSION, from_hex, to_hex};
use super::description::{PartDescription, PartDirectory, write};
use super::found::{await_end, epochs_on_disk};
use super::output::{CommandOutput, CommandStream};
use super::remote::PART_VARIABLE;
use crate::checkpoint::end_job;
use crate::clean::{CleanRequest, clean};
use crate::control::{Reply, Request, ask, converse, decode};
use crate::doctor::examine_machine;
use crate::identity::in_engine;
use crate::marked::end_marked;
use crate::queries::{phase, verify};
use crate::report::JobPhase;
use crate::{Error, InWords};
use standfast_engine::{EngineError, Job};
use standfast_format::manifest::Outcome;
use standfast_parts::{CutOrder, FromPart, ToPart};
use standfast_store::{JobDirectory, LeaseState};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a part may take to begin.
const BEGIN_MAX: Duration = Duration::from_secs(20);
/// How long the server of another node may take to answer.
const REACH_MAX: Duration = Duration::from_secs(5);
/// How long its processes may take to end, and its supervisor to flush what is in memory.
const END_MAX: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);
/// The pause between two looks at what a command prints that has printed nothing for a while.
const QUIET_PAUSE: Duration = Duration::from_millis(160);
/// The pause between two looks whether a part has ended.
const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// Speaks for a node until the coordinator ends the conversation.
///
/// # Errors
/// When standard input cannot be read.
pub fn part_agent() -> Result<(), Error> {
    let mut agent: Option<Agent> = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(Error::system("hear the coordinator"))?;
        let request = serde_json::from_str(&line);
        let done = match (request, &mut agent) {
            (Ok(AgentRequest::Part(place)), _) => {
                agent = Some(Agent::of(&place));
                place.check_version().map(|()| say(&AgentReport::Here))
            }
            (Ok(request), Some(agent)) => agent.carry_out(request),
            (Ok(_), None) => Err(Error::Declined("the coordinator has not said which part this is".into())),
            (Err(error), _) => Err(Error::Declined(format!("the coordinator is of another version: {error}"))),
        };
        if let Err(error) = done {
            say(&AgentReport::Failed { reason: error.to_string() });
        }
    }
    Ok(())
}

struct Agent {
    part: PartDirectory,
    node: String,
    /// Where the part hears the coordinator while a cut or a restart is under way.
    conversation: Arc<Mutex<Option<ToOwnPart>>>,
}

/// The way to the part of this node.
struct ToOwnPart {
    /// The random number of the cut that it is for; none for a restart.
    cut: Option<u64>,
    stream: UnixStream,
}

impl Agent {
    fn of(place: &PartPlace) -> Self {
        let part = PartDirectory::of(&place.directory, place.index);
        Self { part, node: place.node.clone(), conversation: Arc::default() }
    }

    fn carry_out(&mut self, request: AgentRequest) -> Result<(), Error> {
        match request {
            AgentRequest::Part(_) => Ok(()),
            AgentRequest::Begin { secret, options, working_directory, memory, command } => {
                must_be_there("the working directory", Some(&working_directory))?;
                must_be_there("--memory: the directory", memory.as_deref())?;
                self.begin(&secret, &options, &working_directory, command)
            }
            AgentRequest::Reach(servers) => reach(&servers),
            AgentRequest::Nodes(nodes) => self.note_nodes(&nodes),
            AgentRequest::Cut(order) => self.cut(order),
            AgentRequest::Say(message) => {
                self.pass_on(&message);
                Ok(())
            }
            AgentRequest::Look { awaits_end } => {
                let job = self.part.job();
                if awaits_end {
                    await_end(&job)?;
                }
                say(&AgentReport::Found(FoundPart::look(&job)?));
                Ok(())
            }
            AgentRequest::Follow => {
                watch(self.part.job(), None, self.follow());
                Ok(())
            }
            AgentRequest::Restart { generation, token, options } => self.restart(generation, token, &options),
            AgentRequest::End { is_finished } => self.end(is_finished),
            AgentRequest::Examine => {
                say(&AgentReport::Examined(examine_machine()));
                Ok(())
            }
            AgentRequest::Verify => self.verify(),
            AgentRequest::Remove { is_dry_run } => self.remove(is_dry_run),
        }
    }

    fn begin(
        &self,
        secret: &str,
        options: &[String],
        working_directory: &Path,
        command: Option<PartCommand>,
    ) -> Result<(), Error> {
        self.part.make()?;
        let secret = from_hex(secret).ok_or_else(|| Error::Declined("the secret has another form".into()))?;
        write(&self.part.secret(), 0o600, &secret)?;
        let description =
            PartDescription { node: self.node.clone(), working_directory: working_directory.to_owned(), command };
        self.part.describe(&description)?;
        let mut supervisor = this_program("part-run", &self.part)?;
        supervisor.args(options).current_dir(working_directory).stdin(Stdio::null());
        supervisor.stdout(appended(&self.part.output())?).stderr(appended(&self.part.errors())?);
        let output = self.follow();
        let child = supervisor.spawn().map_err(Error::system("start the supervisor of the part"))?;
        watch(self.part.job(), Some(child), output);
        let deadline = Instant::now() + BEGIN_MAX;
        let server = loop {
            if let Some(address) = self.server() {
                break address;
            }
            if Instant::now() > deadline {
                return Err(Error::Declined("the server of the part does not begin".into()));
            }
            std::thread::sleep(PAUSE);
        };
        say(&AgentReport::Ready { server });
        Ok(())
    }

    fn server(&self) -> Option<SocketAddr> {
        std::fs::read_to_string(self.part.address()).ok()?.parse().ok()
    }

    fn note_nodes(&self, nodes: &[(String, SocketAddr)]) -> Result<(), Error> {
        let hosts: String = nodes.iter().map(|(name, _)| format!("{name}\n")).collect();
        write(&self.part.hosts(), 0o600, hosts.as_bytes())?;
        let program = std::env::current_exe().map_err(Error::system("find this program"))?;
        let shell = format!("#!/bin/sh\nexec '{}' rsh \"$@\"\n", program.display());
        write(&self.part.shell(), 0o700, shell.as_bytes())?;
        let lines: String = nodes.iter().map(|(name, address)| format!("{name} {address}\n")).collect();
        write(&self.part.nodes(), 0o600, lines.as_bytes())
    }

    fn cut(&self, order: CutOrder) -> Result<(), Error> {
        let cut = Some(order.epoch.cut);
        match converse(&self.part.job(), Request::Cut(order)) {
            Ok(stream) => self.converse(stream, cut),
            Err(error) => {
                let said = FromPart::Failed { reason: error.to_string() };
                say(&AgentReport::Part { cut, said });
                Ok(())
            }
        }
    }

    /// Passes on what the part says in a conversation, and lets the coordinator speak there until it ends.
    fn converse(&self, stream: UnixStream, cut: Option<u64>) -> Result<(), Error> {
        let to_part = stream.try_clone().map_err(Error::system("speak to the part"))?;
        *locked(&self.conversation) = Some(ToOwnPart { cut, stream: to_part });
        let (conversation, job) = (Arc::clone(&self.conversation), self.part.job());
        std::thread::spawn(move || {
            listen(stream, cut, &job);
            // The next one may have begun by now.
            let mut conversation = locked(&conversation);
            if conversation.as_ref().is_some_and(|current| current.cut == cut) {
                *conversation = None;
            }
        });
        Ok(())
    }

    /// Passes something on to the part, unless it has ended the conversation.
    fn pass_on(&self, message: &ToPart) {
        if let Some(ToOwnPart { stream, .. }) = &mut *locked(&self.conversation) {
            let mut line = serde_json::to_vec(message).expect("messages are plain data");
            line.push(b'\n');
            let _ = stream.write_all(&line);
        }
    }

    fn verify(&self) -> Result<(), Error> {
        let verified = verify(&self.part.job(), None, &mut |_| {})?;
        let damage: Vec<String> = verified.iter().filter_map(|it| it.damage.clone()).collect();
        say(&AgentReport::Verified { good: verified.len() - damage.len(), damage });
        Ok(())
    }

    fn remove(&self, is_dry_run: bool) -> Result<(), Error> {
        let request = CleanRequest {
            directory: self.part.job(),
            unfinished: true,
            force: false,
            dry_run: is_dry_run,
            shared_binaries: None,
        };
        let (checkpoints, bytes) = match phase(&request.directory)? {
            // It has not begun.
            JobPhase::None => (0, 0),
            _ => {
                let report = clean(&request, &mut |_| {})?;
                (report.checkpoints, report.bytes)
            }
        };
        if !is_dry_run && self.part.path().exists() {
            std::fs::remove_dir_all(self.part.path()).map_err(Error::system("remove the directory of the part"))?;
        }
        say(&AgentReport::Removed { checkpoints, bytes });
        Ok(())
    }

    fn restart(&self, generation: u64, token: [u8; 16], options: &[String]) -> Result<(), Error> {
        self.end_leftovers()?;
        let starting = |error| Error::system("start the supervisor of the part")(error);
        let (mut own, other) = UnixStream::pair().map_err(starting)?;
        let mut supervisor = this_program("part-restart", &self.part)?;
        supervisor.arg(generation.to_string()).args(options).current_dir(self.part.description()?.working_directory);
        // It says on the conversation why it does not run again, and everything else in its messages.
        supervisor.stdin(Stdio::from(OwnedFd::from(other))).stdout(Stdio::null()).stderr(Stdio::null());
        let output = self.follow();
        let child = supervisor.spawn().map_err(starting)?;
        drop(supervisor);
        watch(self.part.job(), Some(child), output);
        let line = serde_json::to_string(&token).expect("bytes are plain data");
        own.write_all(format!("{line}\n").as_bytes()).map_err(starting)?;
        self.converse(own, None)
    }

    /// Ends all processes of the part, and waits until nobody holds it. `is_finished` says whether its level in memory is
    /// not needed any more.
    fn end(&self, is_finished: bool) -> Result<(), Error> {
        let path = self.part.job();
        let of_store = |error| Error::of_store(&path, error);
        let directory = JobDirectory::open(&path).map_err(of_store)?;
        let deadline = Instant::now() + END_MAX;
        loop {
            match directory.lease_state().map_err(of_store)? {
                LeaseState::Supervised(_) => drop(ask(&path, Request::End { is_finished })),
                LeaseState::Orphaned(_, program) => match Job::adopt(in_engine(program)) {
                    Ok(job) => end_job(&job.freezer())?,
                    Err(EngineError::Ended) => self.end_leftovers()?,
                    Err(error) => return Err(error.into()),
                },
                _ => return self.end_leftovers(),
            }
            if Instant::now() > deadline {
                return Err(Error::Declined("its processes do not end".to_owned()));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends processes that have outlived both the server of the part and its supervisor: two lives would write the same
    /// files. Some launchers pass on the whole environment of the first node, so that its part is named to their processes
    /// on all nodes.
    fn end_leftovers(&self) -> Result<(), Error> {
        let job = self.part.path().parent();
        let is_of_job = |entry: &[u8]| {
            let part = entry.strip_prefix(PART_VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            part.is_some_and(|part| Path::new(OsStr::from_bytes(part)).parent() == job)
        };
        end_marked(is_of_job).map(drop).map_err(Error::system("end the remaining processes of the part"))
    }

    /// Passes on what the command prints from now on.
    fn follow(&self) -> Arc<CommandOutput> {
        let output = Arc::new(CommandOutput::from_now(&self.part));
        let followed = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut pause = PAUSE;
            while let Ok(has_printed) = followed.pass_on(say_output) {
                pause = if has_printed { PAUSE } else { (pause * 2).min(QUIET_PAUSE) };
                std::thread::sleep(pause);
            }
        });
        output
    }
}

fn say_output(stream: CommandStream, bytes: &[u8]) {
    say(&AgentReport::Output { is_error: stream == CommandStream::Errors, bytes: to_hex(bytes) });
}

impl PartPlace {
    fn check_version(&self) -> Result<(), Error> {
        if self.version == VERSION {
            return Ok(());
        }
        let why = format!("it has Standfast {VERSION}, and the coordinator is {}", self.version);
        Err(Error::Declined(format!("{why}\nhint: install the same version on all nodes")))
    }
}

/// Checks that the node has a directory.
fn must_be_there(what: &str, directory: Option<&Path>) -> Result<(), Error> {
    match directory.filter(|it| !it.is_dir()) {
        Some(missing) => Err(Error::Declined(format!("{what} {} does not exist there", missing.display()))),
        None => Ok(()),
    }
}

/// Checks that the servers of all nodes can be reached.
fn reach(servers: &[SocketAddr]) -> Result<(), Error> {
    for server in servers {
        TcpStream::connect_timeout(server, REACH_MAX).map_err(|error| {
            let why = format!("it cannot reach {server}, where another node listens: {}", InWords(&error));
            Error::Declined(format!("{why}\nhint: let the nodes connect to each other at any port"))
        })?;
    }
    say(&AgentReport::Reached);
    Ok(())
}

/// Passes on what the part at `job` says, until it has said all.
fn listen(stream: UnixStream, cut: Option<u64>, job: &Path) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let said = serde_json::from_str(&line).or_else(|_| {
            // The supervisor answers the request itself in the end.
            decode::<Reply>(line.as_bytes()).map(|reply| match reply {
                Reply::Taken(report) => FromPart::Sealed {
                    generation: report.generation,
                    overhead_nanoseconds: report.overhead_nanoseconds(),
                },
                Reply::Failed { message } => FromPart::Failed { reason: message },
                other => FromPart::Failed { reason: format!("its supervisor answered {other:?}") },
            })
        });
        let said = said.unwrap_or_else(|error| FromPart::Failed { reason: error.to_string() });
        if matches!(said, FromPart::Sealed { .. })
            && let Ok(Some(epochs)) = epochs_on_disk(job)
        {
            say(&AgentReport::OnDisk(epochs));
        }
        say(&AgentReport::Part { cut, said });
    }
}

/// Reports the end of a part, and before that the end of its supervisor, if its processes run on.
fn watch(job: PathBuf, supervisor: Option<Child>, output: Arc<CommandOutput>) {
    std::thread::spawn(move || {
        let status = supervisor.and_then(|mut supervisor| supervisor.wait().ok()?.code());
        let mut is_unprotected = false;
        // A directory that cannot be read says nothing about the end.
        while let Ok(directory) = JobDirectory::open(&job) {
            match directory.lease_state() {
                Ok(LeaseState::Orphaned(..)) if !is_unprotected => {
                    is_unprotected = true;
                    say(&AgentReport::Unprotected);
                }
                Ok(LeaseState::Supervised(_) | LeaseState::Orphaned(..)) | Err(_) => {}
                Ok(_) => break,
            }
            std::thread::sleep(WATCH_PAUSE);
        }
        // What it has printed last comes before its end.
        let _ = output.pass_on(say_output);
        say(&AgentReport::Ended { status: status.or_else(|| recorded_status(&job)) });
    });
}

/// Returns the status with which a part is recorded to have exited.
fn recorded_status(job: &Path) -> Option<i32> {
    match JobDirectory::open(job).ok()?.manifest().ok()?.outcome {
        Outcome::Exited { status } => Some(status),
        _ => None,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(report: &AgentReport) {
    let line = serde_json::to_string(report).expect("reports are plain data");
    let mut output = io::stdout().lock();
    // If the coordinator is gone, standard input ends as well.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Returns this program with a hidden command for a part. It outlives the agent.
fn this_program(command: &str, part: &PartDirectory) -> Result<Command, Error> {
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    let mut this = Command::new(program);
    this.arg(command).arg(part.path()).process_group(0);
    Ok(this)
}

fn appended(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(Error::system("open a file of the part"))
}
