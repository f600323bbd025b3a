//! The coordinator: reaches the agents of all nodes, and steers what all parts do together. It keeps nothing that a later
//! one could not find out.

use super::agent_protocol::{AgentReport, AgentRequest, PartPlace, from_hex, to_hex};
use super::description::DistributedJob;
use crate::{Ending, Error};
use standfast_parts::{
    CoordinatorEffect, CoordinatorEvent, Cut, CutOutcome, FromPart, PartIndex, PartsEpoch, PartsRestart,
    RestartOutcome, SealedEpoch, newest_complete,
};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the nodes may take to begin their parts.
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// How long the parts may be frozen for a cut.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long they may take to write their images.
const SEAL_MAX: Duration = Duration::from_secs(600);
/// How long a restart may take.
const RESTART_MAX: Duration = Duration::from_secs(240);
/// How long the parts may take to end.
const END_MAX: Duration = Duration::from_secs(30);
/// The pause after a cut that was given up.
const AGAIN: Duration = Duration::from_secs(1);

/// A distributed job to run.
#[derive(Debug, Clone)]
pub struct DistributedRequest {
    /// The directory of the job, on every node.
    pub directory: PathBuf,
    /// The nodes; the command runs on the first one.
    pub nodes: Vec<String>,
    /// The command that reaches a node: the node and a command follow it.
    pub agent: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Time between two checkpoints; `None` for none.
    pub interval: Option<Duration>,
}

/// What a coordinator has to tell.
type Teller<'a> = dyn FnMut(&str) + 'a;

/// Runs a distributed job to its end.
///
/// # Errors
/// If it could not begin, or a part was lost.
pub fn run_distributed(request: &DistributedRequest, tell: &mut Teller<'_>) -> Result<Ending, Error> {
    let job = DistributedJob {
        nodes: request.nodes.clone(),
        command: request.command.clone(),
        agent: request.agent.clone(),
        interval_milliseconds: request.interval.map(|interval| interval.as_millis() as u64),
    };
    let making = |error| Error::system("make the directory of the job")(error);
    std::fs::create_dir_all(&request.directory).map_err(making)?;
    let directory = request.directory.canonicalize().map_err(making)?;
    if DistributedJob::is_at(&directory) {
        return Err(Error::Unfinished(directory));
    }
    job.save(&directory)?;
    let mut coordinator = Coordinator::reach(&job, &directory, tell)?;
    coordinator.begin(&job)?;
    coordinator.steer()
}

/// Continues a distributed job from its newest complete epoch, and runs it to its end.
///
/// # Errors
/// If it could not be continued, or a part was lost.
pub fn restart_distributed(directory: &Path, tell: &mut Teller<'_>) -> Result<Ending, Error> {
    let directory = directory.canonicalize().map_err(Error::system("find the directory of the job"))?;
    let job = DistributedJob::load(&directory)?;
    let mut coordinator = Coordinator::reach(&job, &directory, tell)?;
    coordinator.restart()?;
    coordinator.steer()
}

/// Reports whether a directory is that of a distributed job.
pub fn is_distributed(directory: &Path) -> bool {
    DistributedJob::is_at(directory)
}

struct Coordinator<'a, 't> {
    nodes: Vec<String>,
    agents: Vec<ReachedAgent>,
    reports: Receiver<(PartIndex, Option<AgentReport>)>,
    interval: Option<Duration>,
    /// The last epoch that all parts have sealed.
    complete: Option<PartsEpoch>,
    tell: &'a mut Teller<'t>,
}

/// The command that reaches a node.
struct ReachedAgent {
    process: Child,
    input: ChildStdin,
}

impl Drop for ReachedAgent {
    fn drop(&mut self) {
        // Without its input, an agent ends.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl<'a, 't> Coordinator<'a, 't> {
    /// Starts an agent on each node.
    fn reach(job: &DistributedJob, directory: &Path, tell: &'a mut Teller<'t>) -> Result<Self, Error> {
        let (sender, reports) = channel();
        let mut agents = Vec::new();
        for (index, node) in job.nodes.iter().enumerate() {
            let mut agent = reached(&job.agent, node, index, &sender)?;
            let place = PartPlace { directory: directory.to_owned(), index, node: node.clone() };
            send(&mut agent.input, &AgentRequest::Part(place)).map_err(|error| unreachable_node(node, &error))?;
            agents.push(agent);
        }
        let interval = job.interval_milliseconds.map(Duration::from_millis);
        Ok(Self { nodes: job.nodes.clone(), agents, reports, interval, complete: None, tell })
    }

    fn begin(&mut self, job: &DistributedJob) -> Result<(), Error> {
        let here = std::env::current_dir().map_err(Error::system("find the working directory"))?;
        let secret = random::<32>()?;
        for index in 0..self.nodes.len() {
            let command = (index == 0).then(|| job.command.clone());
            let (secret, working_directory) = (to_hex(&secret), here.clone());
            self.ask(index, &AgentRequest::Begin { secret, command, working_directory })?;
        }
        let mut servers: Vec<Option<SocketAddr>> = vec![None; self.nodes.len()];
        let deadline = Instant::now() + BEGIN_MAX;
        while servers.contains(&None) {
            match self.hear(deadline)? {
                (part, AgentReport::Ready { server }) => servers[part] = Some(server),
                (part, AgentReport::Failed { reason }) => return Err(self.failed(part, &reason)),
                (part, AgentReport::Ended { .. }) => return Err(self.failed(part, "its part has ended")),
                (_, report) => self.show(report),
            }
        }
        let servers: Vec<_> = self.nodes.iter().cloned().zip(servers.into_iter().flatten()).collect();
        // The first part begins the command when it has the list: the others must have it by then.
        (0..self.nodes.len()).rev().try_for_each(|part| self.ask(part, &AgentRequest::Nodes(servers.clone())))
    }

    fn restart(&mut self) -> Result<(), Error> {
        let count = self.nodes.len();
        (0..count).try_for_each(|part| self.ask(part, &AgentRequest::Epochs))?;
        let mut sealed: Vec<Option<Vec<SealedEpoch>>> = vec![None; count];
        let deadline = Instant::now() + BEGIN_MAX;
        while sealed.contains(&None) {
            match self.hear(deadline)? {
                (part, AgentReport::Epochs(epochs)) => {
                    sealed[part] = Some(epochs.into_iter().map(Into::into).collect());
                }
                (part, AgentReport::Failed { reason }) => return Err(self.failed(part, &reason)),
                (_, report) => self.show(report),
            }
        }
        let sealed: Vec<_> = sealed.into_iter().flatten().collect();
        let Some((epoch, generations)) = newest_complete(&sealed) else {
            return Err(Error::Declined(
                "no checkpoint of the job is complete\nhint: remove its directory, and start it again".to_owned(),
            ));
        };
        self.complete = Some(epoch);
        let token = random::<16>()?;
        for (part, generation) in generations.into_iter().enumerate() {
            self.ask(part, &AgentRequest::Restart { generation, token })?;
        }
        let mut restart = PartsRestart::begin(count);
        let deadline = Instant::now() + RESTART_MAX;
        loop {
            let event = self.next_event(deadline)?;
            let effects = restart.take(event);
            self.carry_out(effects);
            match restart.outcome() {
                None => {}
                Some(RestartOutcome::Running) => {
                    (self.tell)(&format!("continued {count} parts from epoch {}", epoch.number));
                    return Ok(());
                }
                Some(RestartOutcome::GivenUp { part, reason }) => {
                    let error = self.given_up(*part, reason);
                    self.end_parts();
                    return Err(error);
                }
            }
        }
    }

    /// Takes checkpoints until the command has ended.
    fn steer(&mut self) -> Result<Ending, Error> {
        let mut due = self.interval.map(|interval| Instant::now() + interval);
        loop {
            if due.is_some_and(|due| due <= Instant::now()) {
                let is_taken = match self.cut()? {
                    Progress::Ended(ending) => return Ok(ending),
                    Progress::Taken => true,
                    Progress::GivenUp => false,
                };
                let pause = if is_taken { self.interval } else { Some(AGAIN) };
                due = pause.map(|pause| Instant::now() + pause);
            }
            match self.next_report(due) {
                Next::TimeUp => {}
                Next::Lost(part) => return Err(self.failed(part, "the connection to it was lost")),
                Next::Report(part, report) => {
                    if let Some(ending) = self.note(part, report)? {
                        return Ok(ending);
                    }
                }
            }
        }
    }

    /// Takes a checkpoint of all parts.
    fn cut(&mut self) -> Result<Progress, Error> {
        let begun = Instant::now();
        let number = self.complete.map_or(1, |complete| complete.number + 1);
        let epoch = PartsEpoch { number, cut: u64::from_le_bytes(random::<8>()?) };
        for part in 0..self.nodes.len() {
            self.ask(part, &AgentRequest::Cut { epoch, complete: self.complete })?;
        }
        let mut cut = Cut::begin(self.nodes.len());
        let mut deadline = begun + PAUSE_MAX;
        loop {
            let event = match self.next_report(Some(deadline)) {
                Next::TimeUp => CoordinatorEvent::TimeUp,
                Next::Lost(part) => CoordinatorEvent::Lost(part),
                Next::Report(part, AgentReport::Part(said)) => CoordinatorEvent::Said(part, said),
                Next::Report(part, report) => {
                    if let Some(ending) = self.note(part, report)? {
                        return Ok(Progress::Ended(ending));
                    }
                    continue;
                }
            };
            let effects = cut.take(event);
            if effects.iter().any(|effect| effect.message == standfast_parts::ToPart::Thaw) {
                deadline = Instant::now() + SEAL_MAX;
                (self.tell)(&format!("epoch {number}: all parts captured after {:?}", begun.elapsed()));
            }
            self.carry_out(effects);
            match cut.outcome() {
                None => {}
                Some(CutOutcome::Sealed { .. }) => {
                    self.complete = Some(epoch);
                    (self.tell)(&format!("epoch {number}: durable after {:?}", begun.elapsed()));
                    return Ok(Progress::Taken);
                }
                Some(CutOutcome::GivenUp { part, reason }) => {
                    let error = self.given_up(*part, reason);
                    (self.tell)(&format!("epoch {number} was given up: {error}"));
                    return Ok(Progress::GivenUp);
                }
            }
        }
    }

    /// Handles what is no part of a cut. Returns how the job has ended, if it has.
    fn note(&mut self, part: PartIndex, report: AgentReport) -> Result<Option<Ending>, Error> {
        match report {
            AgentReport::Ended { status } if part == 0 => {
                self.end_parts();
                let status = status.ok_or_else(|| self.failed(0, "its supervisor was killed"))?;
                Ok(Some(Ending::Exited { status }))
            }
            AgentReport::Ended { .. } => {
                self.end_parts();
                Err(self.failed(part, "its part has ended before the command"))
            }
            AgentReport::Failed { reason } => Err(self.failed(part, &reason)),
            report => {
                self.show(report);
                Ok(None)
            }
        }
    }

    fn show(&mut self, report: AgentReport) {
        if let AgentReport::Output { is_error, bytes } = report {
            let bytes = from_hex(&bytes).unwrap_or_default();
            // Whoever does not read what the command prints does not get it.
            let _ = if is_error {
                std::io::stderr().write_all(&bytes)
            } else {
                let mut output = std::io::stdout().lock();
                output.write_all(&bytes).and_then(|()| output.flush())
            };
        }
    }

    /// Ends all parts, and waits until they have ended. Shows what has been printed until then.
    fn end_parts(&mut self) {
        let mut running: Vec<bool> =
            (0..self.nodes.len()).map(|part| self.ask(part, &AgentRequest::End).is_ok()).collect();
        running[0] = false;
        let deadline = Instant::now() + END_MAX;
        while running.contains(&true) {
            match self.next_report(Some(deadline)) {
                Next::TimeUp => return,
                Next::Lost(part) | Next::Report(part, AgentReport::Ended { .. }) => running[part] = false,
                Next::Report(_, report) => self.show(report),
            }
        }
        while let Next::Report(_, report) = self.next_report(Some(Instant::now() + Duration::from_millis(50))) {
            self.show(report);
        }
    }

    fn carry_out(&mut self, effects: Vec<CoordinatorEffect>) {
        for CoordinatorEffect { to, message } in effects {
            // If the part cannot be reached, its connection is reported as lost.
            let _ = self.ask(to, &AgentRequest::Say(message));
        }
    }

    fn ask(&mut self, part: PartIndex, request: &AgentRequest) -> Result<(), Error> {
        send(&mut self.agents[part].input, request).map_err(|error| unreachable_node(&self.nodes[part], &error))
    }

    /// Waits for an event of a restart.
    fn next_event(&mut self, deadline: Instant) -> Result<CoordinatorEvent, Error> {
        loop {
            match self.next_report(Some(deadline)) {
                Next::TimeUp => return Ok(CoordinatorEvent::TimeUp),
                Next::Lost(part) => return Ok(CoordinatorEvent::Lost(part)),
                Next::Report(part, AgentReport::Part(said)) => return Ok(CoordinatorEvent::Said(part, said)),
                Next::Report(part, AgentReport::Failed { reason }) => {
                    return Ok(CoordinatorEvent::Said(part, FromPart::Failed { reason }));
                }
                Next::Report(part, AgentReport::Ended { .. }) => return Ok(CoordinatorEvent::Lost(part)),
                Next::Report(_, report) => self.show(report),
            }
        }
    }

    /// Waits for a report.
    fn hear(&mut self, deadline: Instant) -> Result<(PartIndex, AgentReport), Error> {
        match self.next_report(Some(deadline)) {
            Next::Report(part, report) => Ok((part, report)),
            Next::Lost(part) => Err(self.failed(part, "the connection to it was lost")),
            Next::TimeUp => Err(Error::Declined("the nodes take too long to begin".to_owned())),
        }
    }

    fn next_report(&self, deadline: Option<Instant>) -> Next {
        const FOR_EVER: Duration = Duration::from_secs(3600);
        let wait = deadline.map_or(FOR_EVER, |deadline| deadline.saturating_duration_since(Instant::now()));
        match self.reports.recv_timeout(wait) {
            Ok((part, Some(report))) => Next::Report(part, report),
            Ok((part, None)) => Next::Lost(part),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Next::TimeUp,
        }
    }

    fn given_up(&self, part: Option<PartIndex>, reason: &str) -> Error {
        match part {
            Some(part) => self.failed(part, reason),
            None => Error::Declined(reason.to_owned()),
        }
    }

    fn failed(&self, part: PartIndex, reason: &str) -> Error {
        Error::Declined(format!("node {}: {reason}", self.nodes[part]))
    }
}

/// What a coordinator waits for.
enum Next {
    Report(PartIndex, AgentReport),
    Lost(PartIndex),
    TimeUp,
}

/// How a cut went on.
enum Progress {
    Taken,
    GivenUp,
    Ended(Ending),
}

/// Starts the agent of a node.
fn reached(
    agent: &str,
    node: &str,
    index: PartIndex,
    reports: &Sender<(PartIndex, Option<AgentReport>)>,
) -> Result<ReachedAgent, Error> {
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    let mut words = agent.split_whitespace();
    let mut command = Command::new(words.next().ok_or_else(|| Error::Declined("--agent names no command".to_owned()))?);
    command.args(words).arg(node).arg(&program).arg("part-agent");
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut process = spawned.map_err(|error| unreachable_node(node, &error))?;
    let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
        unreachable!("both are pipes")
    };
    let reports = reports.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            let report = serde_json::from_str(&line)
                .unwrap_or_else(|_| AgentReport::Failed { reason: format!("its agent said: {line}") });
            if reports.send((index, Some(report))).is_err() {
                return;
            }
        }
        let _ = reports.send((index, None));
    });
    Ok(ReachedAgent { process, input })
}

fn send(input: &mut ChildStdin, request: &AgentRequest) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    input.write_all(&line)
}

fn unreachable_node(node: &str, error: &std::io::Error) -> Error {
    Error::Declined(format!("node {node} cannot be reached: {}", crate::InWords(error)))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(Error::system("get random bytes"))?;
    Ok(bytes)
}
