//! The coordinator: reaches the agents of all nodes, and steers what all parts do together. A later one finds
//! out what it needs from the parts; only which epochs are in doubt is recorded in the job's directory.

use super::agent_protocol::{AgentReport, AgentRequest, PartPlace, from_hex, to_hex};
use super::description::DistributedJob;
use super::reach::{Heard, ReachedAgent};
use super::recent::RecentEpochs;
use crate::ending::STOPPED_EXIT_STATUS;
use crate::{Ending, Error};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use standfast_parts::{CoordinatorEffect, CoordinatorEvent, Cut, CutOutcome, PartIndex, PartsEpoch};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the nodes may take to begin their parts.
pub(super) const BEGIN_MAX: Duration = Duration::from_secs(60);
/// How long the parts may be frozen for a cut.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long they may take to write their images.
const SEAL_MAX: Duration = Duration::from_secs(600);
/// How long the last of what the command has printed may take.
const LAST_WORDS_MAX: Duration = Duration::from_millis(50);
/// How long the parts may take to end.
const END_MAX: Duration = Duration::from_secs(30);
/// The pauses after cuts that were given up, one after the other: a connection that nobody has accepted yet is accepted soon.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];
/// How often a node is reached again at once.
const REACH_AGAIN_MAX: u32 = 3;
/// The pause between two looks whether a signal has come.
const SIGNAL_PAUSE: Duration = Duration::from_millis(100);

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
pub(super) type Teller<'a> = dyn FnMut(&str) + 'a;

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
        in_doubt: Vec::new(),
    };
    let making = |error| Error::system("make the directory of the job")(error);
    std::fs::create_dir_all(&request.directory).map_err(making)?;
    let directory = request.directory.canonicalize().map_err(making)?;
    if DistributedJob::is_at(&directory) {
        return Err(Error::Unfinished(directory));
    }
    job.save(&directory)?;
    let mut coordinator = Coordinator::reach(job, &directory, tell)?;
    coordinator.begin()?;
    coordinator.steer()
}

/// Continues a distributed job from its newest complete epoch, or from that of this number, and runs it to its end.
///
/// # Errors
/// If it could not be continued, or a part was lost.
pub fn restart_distributed(directory: &Path, at: Option<u64>, tell: &mut Teller<'_>) -> Result<Ending, Error> {
    let directory = directory.canonicalize().map_err(Error::system("find the directory of the job"))?;
    let job = DistributedJob::load(&directory)?;
    let mut coordinator = Coordinator::reach(job, &directory, tell)?;
    match coordinator.restart(at)? {
        Some(ending) => Ok(ending),
        None => coordinator.steer(),
    }
}

/// Reports whether a directory is that of a distributed job.
pub fn is_distributed(directory: &Path) -> bool {
    DistributedJob::is_at(directory)
}

pub(super) struct Coordinator<'a, 't> {
    pub(super) job: DistributedJob,
    pub(super) directory: PathBuf,
    pub(super) agents: Vec<ReachedAgent>,
    pub(super) heard: Sender<Heard>,
    pub(super) reports: Receiver<Heard>,
    /// How often the agent of each part was reached again, since it had last said something.
    pub(super) reached_again: Vec<u32>,
    /// Whether a signal has asked to stop the job after a checkpoint.
    pub(super) is_asked_to_stop: Arc<AtomicBool>,
    /// Whether a part has no supervisor any more.
    pub(super) is_unprotected: bool,
    /// Which parts have ended.
    pub(super) has_ended: Vec<bool>,
    pub(super) interval: Option<Duration>,
    /// The last epoch that all parts have sealed.
    pub(super) complete: Option<PartsEpoch>,
    pub(super) recent: RecentEpochs,
    /// What was told of the last cut that was given up.
    pub(super) last_given_up: Option<String>,
    /// The epoch before the one that the job was continued from, until there is a newer one.
    pub(super) older: Option<u64>,
    pub(super) tell: &'a mut Teller<'t>,
}

impl<'a, 't> Coordinator<'a, 't> {
    /// Starts an agent on each node.
    fn reach(job: DistributedJob, directory: &Path, tell: &'a mut Teller<'t>) -> Result<Self, Error> {
        let is_asked_to_stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_asked_to_stop))
                .map_err(Error::system("take over the signals"))?;
        }
        let (heard, reports) = channel();
        let mut coordinator = Self {
            directory: directory.to_owned(),
            agents: Vec::new(),
            heard,
            reports,
            reached_again: vec![0; job.nodes.len()],
            is_asked_to_stop,
            is_unprotected: false,
            has_ended: vec![false; job.nodes.len()],
            interval: job.interval_milliseconds.map(Duration::from_millis),
            complete: None,
            recent: RecentEpochs::default(),
            last_given_up: None,
            older: None,
            tell,
            job,
        };
        for index in 0..coordinator.job.nodes.len() {
            let agent = coordinator.reach_part(index)?;
            coordinator.agents.push(agent);
        }
        Ok(coordinator)
    }

    fn reach_part(&self, index: PartIndex) -> Result<ReachedAgent, Error> {
        let node = &self.job.nodes[index];
        let mut agent = ReachedAgent::start(&self.job.agent, node, index, &self.heard)?;
        let place = PartPlace { directory: self.directory.clone(), index, node: node.clone() };
        agent.ask(&AgentRequest::Part(place))?;
        Ok(agent)
    }

    /// Reaches a node again to which the connection was lost, and follows its part.
    fn reach_again(&mut self, part: PartIndex) -> Result<(), Error> {
        self.reached_again[part] += 1;
        if self.reached_again[part] > REACH_AGAIN_MAX {
            return Err(self.failed(part, "the connection to it was lost; the job runs on without checkpoints"));
        }
        (self.tell)(&format!("node {}: the connection to it was lost; reaching it again", self.job.nodes[part]));
        self.agents[part] = self.reach_part(part)?;
        self.ask(part, &AgentRequest::Follow)
    }

    fn begin(&mut self) -> Result<(), Error> {
        let here = std::env::current_dir().map_err(Error::system("find the working directory"))?;
        let secret = random::<32>()?;
        for index in 0..self.job.nodes.len() {
            let command = (index == 0).then(|| self.job.command.clone());
            let (secret, working_directory) = (to_hex(&secret), here.clone());
            self.ask(index, &AgentRequest::Begin { secret, command, working_directory })?;
        }
        let mut servers: Vec<Option<SocketAddr>> = vec![None; self.job.nodes.len()];
        let deadline = Instant::now() + BEGIN_MAX;
        while servers.contains(&None) {
            match self.hear(deadline)? {
                (part, AgentReport::Ready { server }) => servers[part] = Some(server),
                (part, AgentReport::Failed { reason }) => return Err(self.failed(part, &reason)),
                (part, AgentReport::Ended { .. }) => return Err(self.failed(part, "its part has ended")),
                (_, report) => self.show(report),
            }
        }
        let servers: Vec<_> = self.job.nodes.iter().cloned().zip(servers.into_iter().flatten()).collect();
        // The first part begins the command when it has the list: the others must have it by then.
        (0..self.job.nodes.len()).rev().try_for_each(|part| self.ask(part, &AgentRequest::Nodes(servers.clone())))
    }

    /// Takes checkpoints until the command has ended.
    fn steer(&mut self) -> Result<Ending, Error> {
        let mut due = self.interval.map(|interval| Instant::now() + interval);
        let mut given_up = 0;
        loop {
            let stops = self.is_asked_to_stop.load(Ordering::Relaxed);
            due = due.filter(|_| self.interval.is_some());
            if stops && self.is_unprotected {
                return Err(Error::Declined("it cannot be stopped after a checkpoint; it runs on".to_owned()));
            }
            if stops || due.is_some_and(|due| due <= Instant::now()) {
                given_up = match self.cut()? {
                    Progress::Ended(ending) => return Ok(ending),
                    Progress::Taken(number) if stops => return Ok(self.stop(number)),
                    Progress::Taken(_) => 0,
                    Progress::GivenUp => given_up + 1,
                };
                let pause = match given_up {
                    0 => self.interval,
                    times => Some(PAUSES[(times - 1).min(PAUSES.len() - 1)]),
                };
                due = pause.map(|pause| Instant::now() + pause);
            }
            let wake = Instant::now() + SIGNAL_PAUSE;
            match self.next_report(Some(due.map_or(wake, |due| due.min(wake)))) {
                Next::TimeUp => {}
                Next::Lost(part) => self.reach_again(part)?,
                Next::Report(part, report) => {
                    self.reached_again[part] = 0;
                    if let Some(ending) = self.note(part, report)? {
                        return Ok(ending);
                    }
                }
            }
        }
    }

    /// Ends the job after a checkpoint, as asked.
    fn stop(&mut self, number: u64) -> Ending {
        self.end_parts();
        (self.tell)(&format!("stopped after epoch {number}; standfast restart continues it"));
        Ending::Stopped { generation: number, exit_status: STOPPED_EXIT_STATUS }
    }

    /// Takes a checkpoint of all parts.
    fn cut(&mut self) -> Result<Progress, Error> {
        let begun = Instant::now();
        let number = self.complete.map_or(1, |complete| complete.number + 1);
        let epoch = PartsEpoch { number, cut: u64::from_le_bytes(random::<8>()?) };
        // The parts keep what a restart may have to use.
        let complete = self.recent.trusted(begun);
        for part in 0..self.job.nodes.len() {
            self.ask(part, &AgentRequest::Cut { epoch, complete })?;
        }
        let mut cut = Cut::begin(self.job.nodes.len());
        let (mut deadline, mut lost) = (begun + PAUSE_MAX, None);
        loop {
            let event = match self.next_report(Some(deadline)) {
                Next::TimeUp => CoordinatorEvent::TimeUp,
                Next::Lost(part) => {
                    lost = Some(part);
                    CoordinatorEvent::Lost(part)
                }
                // What comes late of an earlier cut means nothing any more.
                Next::Report(_, AgentReport::Part { cut, .. }) if cut != Some(epoch.cut) => continue,
                Next::Report(part, AgentReport::Part { said, .. }) => CoordinatorEvent::Said(part, said),
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
                    (self.complete, self.older) = (Some(epoch), None);
                    self.recent.note(epoch, begun);
                    (self.tell)(&format!("epoch {number}: durable after {:?}", begun.elapsed()));
                    return Ok(Progress::Taken(number));
                }
                Some(CutOutcome::GivenUp { part, reason }) => {
                    let error = self.given_up(*part, reason);
                    let why = format!("epoch {number} was given up: {error}");
                    // A reason is reported once as long as it stays the same.
                    if self.last_given_up.as_ref() != Some(&why) {
                        (self.tell)(&why);
                        self.last_given_up = Some(why);
                    }
                    lost.map_or(Ok(()), |part| self.reach_again(part))?;
                    return Ok(Progress::GivenUp);
                }
            }
        }
    }

    /// Handles what is no part of a cut. Returns how the job has ended, if it has.
    fn note(&mut self, part: PartIndex, report: AgentReport) -> Result<Option<Ending>, Error> {
        match report {
            AgentReport::Ended { status } if part == 0 => {
                self.has_ended[part] = true;
                self.end_parts();
                let status = status.ok_or_else(|| self.failed(0, "its supervisor was killed"))?;
                if status != 0 {
                    self.note_failure()?;
                }
                Ok(Some(Ending::Exited { status }))
            }
            AgentReport::Ended { .. } => {
                self.has_ended[part] = true;
                self.end_parts();
                Err(self.failed(part, "its part has ended before the command"))
            }
            AgentReport::Unprotected => {
                let node = &self.job.nodes[part];
                (self.tell)(&format!(
                    "node {node}: the supervisor of its part was killed; the job runs on without checkpoints"
                ));
                (self.interval, self.is_unprotected) = (None, true);
                Ok(None)
            }
            AgentReport::Failed { reason } => Err(self.failed(part, &reason)),
            report => {
                self.show(report);
                Ok(None)
            }
        }
    }

    /// Records which epochs are in doubt, since the command has failed.
    fn note_failure(&mut self) -> Result<(), Error> {
        self.job.in_doubt = self.recent.in_doubt(Instant::now());
        if let Some(older) = self.older {
            (self.tell)(&format!(
                "the command failed again\nhint: continue it from an earlier checkpoint: standfast restart --at {older}"
            ));
        }
        self.job.save(&self.directory)
    }

    pub(super) fn show(&mut self, report: AgentReport) {
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
    pub(super) fn end_parts(&mut self) {
        for part in 0..self.job.nodes.len() {
            if !self.has_ended[part] && self.ask(part, &AgentRequest::End).is_err() {
                self.has_ended[part] = true;
            }
        }
        let deadline = Instant::now() + END_MAX;
        while self.has_ended.contains(&false) {
            match self.next_report(Some(deadline)) {
                Next::TimeUp => return,
                Next::Lost(part) | Next::Report(part, AgentReport::Ended { .. }) => self.has_ended[part] = true,
                Next::Report(_, report) => self.show(report),
            }
        }
        while let Next::Report(_, report) = self.next_report(Some(Instant::now() + LAST_WORDS_MAX)) {
            self.show(report);
        }
    }

    pub(super) fn carry_out(&mut self, effects: Vec<CoordinatorEffect>) {
        for CoordinatorEffect { to, message } in effects {
            // If the part cannot be reached, its connection is reported as lost.
            let _ = self.ask(to, &AgentRequest::Say(message));
        }
    }

    pub(super) fn ask(&mut self, part: PartIndex, request: &AgentRequest) -> Result<(), Error> {
        self.agents[part].ask(request)
    }

    /// Waits for a report.
    pub(super) fn hear(&mut self, deadline: Instant) -> Result<(PartIndex, AgentReport), Error> {
        match self.next_report(Some(deadline)) {
            Next::Report(part, report) => Ok((part, report)),
            Next::Lost(part) => Err(self.failed(part, "the connection to it was lost")),
            Next::TimeUp => Err(Error::Declined("the nodes take too long to begin".to_owned())),
        }
    }

    pub(super) fn next_report(&self, deadline: Option<Instant>) -> Next {
        const FOR_EVER: Duration = Duration::from_secs(3600);
        let wait = deadline.map_or(FOR_EVER, |deadline| deadline.saturating_duration_since(Instant::now()));
        match self.reports.recv_timeout(wait) {
            Ok((part, Some(report))) => Next::Report(part, report),
            Ok((part, None)) => Next::Lost(part),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Next::TimeUp,
        }
    }

    pub(super) fn given_up(&self, part: Option<PartIndex>, reason: &str) -> Error {
        match part {
            Some(part) => self.failed(part, reason),
            None => Error::Declined(reason.to_owned()),
        }
    }

    pub(super) fn failed(&self, part: PartIndex, reason: &str) -> Error {
        Error::Declined(format!("node {}: {reason}", self.job.nodes[part]))
    }
}

/// What a coordinator waits for.
pub(super) enum Next {
    Report(PartIndex, AgentReport),
    Lost(PartIndex),
    TimeUp,
}

/// How a cut went on.
enum Progress {
    /// The epoch with this number counts.
    Taken(u64),
    GivenUp,
    Ended(Ending),
}

pub(super) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(Error::system("get random bytes"))?;
    Ok(bytes)
}
