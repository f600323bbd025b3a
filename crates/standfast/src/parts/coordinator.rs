//! The coordinator: reaches the agents of all nodes, and steers what all parts do together. A later one finds
//! out what it needs from the parts; only which epochs are in doubt is recorded in the job's directory.

use super::agent_protocol::{AgentReport, AgentRequest, PartCommand, to_hex};
use super::description::DistributedJob;
use super::flushes::EpochFlushes;
use super::intervals::{EpochIntervals, EpochTimes};
use super::lead::{self, Lead};
use super::questions::ANSWER_MAX;
use super::reach::{Next, ReachedNodes, show};
use super::recent::RecentEpochs;
use crate::placeholder::text_with_nodes;
use crate::{Ending, Error, Interval, Memory, OptionChoices};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use standfast_parts::{
    CoordinatorEffect, CoordinatorEvent, Cut, CutOrder, CutOutcome, FromPart, PartIndex, PartsEpoch, ToPart,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the parts may take until all are ready to be frozen, and afterwards to write their images.
const RUNNING_MAX: Duration = Duration::from_secs(600);
/// How much longer a cut takes each time that it cannot be given up yet.
const OVERDUE: Duration = Duration::from_secs(1);
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
    /// The command and its arguments; `{nodes}` becomes the names of the nodes.
    pub command: Vec<String>,
    /// How long the parts may be frozen for a checkpoint. One that takes longer is given up.
    pub pause_limit: Duration,
    /// When checkpoints are taken, and how each part is protected.
    pub options: OptionChoices,
}

/// A distributed job to continue.
#[derive(Debug, Clone, Default)]
pub struct DistributedRestart {
    /// The directory of the job.
    pub directory: PathBuf,
    /// The number of the epoch; nothing for the newest complete one.
    pub at: Option<u64>,
    /// Options that differ from those of its life before.
    pub options: OptionChoices,
    /// Fields in which the rebuilt parts may differ from the checkpoint all the same.
    pub despite: Vec<String>,
}

/// What a coordinator has to tell.
pub(super) type Teller<'a> = dyn FnMut(&str) + 'a;

/// Runs a distributed job to its end.
///
/// # Errors
/// If it could not begin, or a part was lost.
pub fn run_distributed(request: &DistributedRequest, tell: &mut Teller<'_>) -> Result<Ending, Error> {
    let job = DistributedJob {
        command: request.command.iter().map(|word| text_with_nodes(word, &request.nodes)).collect(),
        interval: Interval::default().to_string(),
        pause_limit_milliseconds: request.pause_limit.as_millis() as u64,
        ..DistributedJob::of_nodes(request.nodes.clone(), &request.agent)
    }
    .with(&request.options);
    let making = |error| Error::system("make the directory of the job")(error);
    std::fs::create_dir_all(&request.directory).map_err(making)?;
    let directory = request.directory.canonicalize().map_err(making)?;
    if DistributedJob::is_at(&directory) {
        return Err(Error::Unfinished(directory));
    }
    let lead = Lead::take(&directory)?;
    let mut coordinator = Coordinator::reach(job, lead, &directory, tell).inspect_err(|_| forget(&directory))?;
    match coordinator.begin(&request.options) {
        Ok(()) => coordinator.steer(),
        Err(error) => {
            coordinator.abandon();
            forget(&directory);
            Err(error)
        }
    }
}

/// Removes what there is of a job that could not begin, as far as that is possible.
fn forget(directory: &Path) {
    let _ = DistributedJob::forget(directory);
    let _ = lead::forget(directory);
    let _ = std::fs::remove_dir(directory);
}

/// Continues a distributed job, and runs it to its end.
///
/// # Errors
/// If it could not be continued, or a part was lost.
pub fn restart_distributed(request: &DistributedRestart, tell: &mut Teller<'_>) -> Result<Ending, Error> {
    let directory = request.directory.canonicalize().map_err(Error::system("find the directory of the job"))?;
    let recorded = DistributedJob::load(&directory)?;
    let job = recorded.clone().with(&request.options);
    let lead = Lead::take(&directory)?;
    if job != recorded {
        job.save(&directory)?;
    }
    let mut coordinator = Coordinator::reach(job, lead, &directory, tell)?;
    match coordinator.restart(request)? {
        Some(ending) => Ok(ending),
        None => coordinator.steer(),
    }
}

/// Reports whether a directory is that of a distributed job.
pub fn is_distributed(directory: &Path) -> bool {
    DistributedJob::is_at(directory)
}

pub(super) struct Coordinator<'a, 't> {
    pub(super) nodes: ReachedNodes,
    lead: Lead,
    /// How often the agent of each part was reached again, since it had last said something.
    reached_again: Vec<u32>,
    /// Which parts have not said yet how their last attempt has ended.
    attempts: Vec<bool>,
    signals: Signals,
    /// Whether a part has no supervisor any more.
    is_unprotected: bool,
    /// Which parts have ended.
    pub(super) has_ended: Vec<bool>,
    intervals: EpochIntervals,
    pub(super) flushes: EpochFlushes,
    /// The last epoch that all parts have sealed.
    pub(super) complete: Option<PartsEpoch>,
    pub(super) recent: RecentEpochs,
    /// What was told of the last cut that was given up.
    last_given_up: Option<String>,
    /// The epoch before the one that the job was continued from, until there is a newer one.
    pub(super) older: Option<u64>,
    pub(super) tell: &'a mut Teller<'t>,
}

/// What signals have asked for.
struct Signals {
    /// To stop the job after a checkpoint.
    stop: Arc<AtomicBool>,
    /// To take a checkpoint now.
    checkpoint: Arc<AtomicBool>,
}

impl Signals {
    fn take_over() -> Result<Self, Error> {
        let signals = Self { stop: Arc::default(), checkpoint: Arc::default() };
        let stopping = [SIGINT, SIGTERM, SIGHUP].map(|signal| (signal, &signals.stop));
        for (signal, flag) in stopping.into_iter().chain([(SIGUSR1, &signals.checkpoint)]) {
            let registered = signal_hook::flag::register(signal, Arc::clone(flag));
            registered.map_err(Error::system("take over the signals"))?;
        }
        Ok(signals)
    }
}

impl<'a, 't> Coordinator<'a, 't> {
    /// Starts an agent on each node.
    fn reach(job: DistributedJob, lead: Lead, directory: &Path, tell: &'a mut Teller<'t>) -> Result<Self, Error> {
        let signals = Signals::take_over()?;
        let parts = job.nodes.len();
        Ok(Self {
            lead,
            reached_again: vec![0; parts],
            attempts: vec![false; parts],
            signals,
            is_unprotected: false,
            has_ended: vec![false; parts],
            intervals: EpochIntervals::of(&job, Instant::now())?,
            flushes: EpochFlushes::new(job.flushes, parts, Instant::now()),
            complete: None,
            recent: RecentEpochs::default(),
            last_given_up: None,
            older: None,
            tell,
            nodes: ReachedNodes::reach(job, directory)?,
        })
    }

    /// Reaches a node again to which the connection was lost, and follows its part.
    fn reach_again(&mut self, part: PartIndex) -> Result<(), Error> {
        self.reached_again[part] += 1;
        if self.reached_again[part] > REACH_AGAIN_MAX {
            return Err(self.nodes.failed(part, "the connection to it was lost; the job runs on without checkpoints"));
        }
        let node = &self.nodes.job.nodes[part];
        (self.tell)(&format!("node {node}: the connection to it was lost; reaching it again"));
        self.nodes.reach_again(part)?;
        self.nodes.ask(part, &AgentRequest::Follow)
    }

    fn begin(&mut self, options: &OptionChoices) -> Result<(), Error> {
        self.nodes.job.save(&self.nodes.directory)?;
        let here = std::env::current_dir().map_err(Error::system("find the working directory"))?;
        let (secret, words) = (to_hex(&random::<32>()?), self.nodes.job.command.clone());
        let memory = options.memory.as_ref().and_then(Memory::named);
        for part in 0..self.nodes.count() {
            let environment = || std::env::vars_os().collect();
            let command = (part == 0).then(|| PartCommand { words: words.clone(), environment: environment() });
            let begin = AgentRequest::Begin {
                secret: secret.clone(),
                options: options.to_words(),
                working_directory: here.clone(),
                memory: memory.map(Path::to_owned),
                command,
            };
            self.nodes.ask(part, &begin)?;
        }
        let servers = self.nodes.answers(ANSWER_MAX, |report| match report {
            AgentReport::Ready { server } => Ok(server),
            other => Err(other),
        })?;
        self.nodes.ask_all(&AgentRequest::Reach(servers.clone()), ANSWER_MAX, |report| match report {
            AgentReport::Reached => Ok(()),
            other => Err(other),
        })?;
        let servers: Vec<(String, SocketAddr)> = self.nodes.job.nodes.iter().cloned().zip(servers).collect();
        // The first part begins the command when it has the list: the others must have it by then.
        let mut others_first = (0..self.nodes.count()).rev();
        others_first.try_for_each(|part| self.nodes.ask(part, &AgentRequest::Nodes(servers.clone())))
    }

    /// Takes checkpoints until the command has ended.
    fn steer(&mut self) -> Result<Ending, Error> {
        let mut due = self.intervals.next().map(|interval| Instant::now() + interval);
        let (mut given_up, mut is_asked) = (0, false);
        loop {
            let stops = self.signals.stop.load(Ordering::Relaxed);
            if stops && self.is_unprotected {
                return Err(Error::Declined("it cannot be stopped after a checkpoint; it runs on".to_owned()));
            }
            if self.signals.checkpoint.swap(false, Ordering::Relaxed) || stops && !is_asked {
                (is_asked, due) = (true, Some(Instant::now()));
            }
            due = due.filter(|_| self.intervals.next().is_some() || is_asked);
            // Parts may still be busy with a cut that was given up.
            let may_cut = !self.attempts.contains(&true);
            if may_cut && due.is_some_and(|due| due <= Instant::now()) {
                // Whoever has asked hears of a failure when it has come back several times.
                let answers = is_asked && given_up >= PAUSES.len();
                given_up = match self.cut(is_asked, answers)? {
                    Progress::Ended(ending) => return Ok(ending),
                    Progress::Taken(number) if stops => return Ok(self.stop(number)),
                    Progress::Taken(_) => 0,
                    Progress::GivenUp => given_up + 1,
                };
                is_asked &= given_up > 0 && !answers;
                let pause = match given_up {
                    0 => self.intervals.next(),
                    times => Some(PAUSES[(times - 1).min(PAUSES.len() - 1)]),
                };
                due = pause.map(|pause| Instant::now() + pause);
            }
            let wake = Instant::now() + SIGNAL_PAUSE;
            match self.next_report(due.filter(|_| may_cut).map_or(wake, |due| due.min(wake))) {
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

    /// Waits for a report. Notes which parts have ended their attempts.
    fn next_report(&mut self, deadline: Instant) -> Next {
        let next = self.nodes.next_report(deadline);
        match &next {
            Next::Lost(part)
            | Next::Report(part, AgentReport::Part { said: FromPart::Failed { .. } | FromPart::Sealed { .. }, .. }) => {
                self.attempts[*part] = false;
            }
            _ => {}
        }
        next
    }

    /// Takes a checkpoint of all parts. `is_asked` says whether somebody waits for it, and `gives_answer` whether a
    /// failure is an answer, too.
    fn cut(&mut self, is_asked: bool, gives_answer: bool) -> Result<Progress, Error> {
        let begun = Instant::now();
        let number = self.complete.map_or(1, |complete| complete.number + 1);
        let epoch = PartsEpoch { number, cut: u64::from_le_bytes(random::<8>()?) };
        // The parts keep what a restart may have to use.
        let complete = self.recent.trusted(begun);
        let order = CutOrder {
            epoch,
            complete,
            on_disk: self.flushes.newest_on_disk(complete),
            is_to_flush: self.signals.stop.load(Ordering::Relaxed) || self.flushes.is_due(begun),
        };
        let limit = Duration::from_millis(self.nodes.job.pause_limit_milliseconds);
        for part in 0..self.nodes.count() {
            self.nodes.ask(part, &AgentRequest::Cut(order))?;
            self.attempts[part] = true;
        }
        let mut cut = Cut::begin(self.nodes.count());
        let (mut deadline, mut freezing, mut lost) = (begun + RUNNING_MAX, begun, None);
        let outcome = loop {
            if let Some(outcome) = cut.outcome() {
                break outcome.clone();
            }
            let event = match self.next_report(deadline) {
                Next::TimeUp => CoordinatorEvent::TimeUp,
                Next::Lost(part) => {
                    lost = Some(part);
                    CoordinatorEvent::Lost(part)
                }
                // What comes late of an earlier cut means nothing any more.
                Next::Report(_, AgentReport::Part { cut, .. }) if cut != Some(epoch.cut) => continue,
                Next::Report(part, AgentReport::Part { said, .. }) => CoordinatorEvent::Said(part, said),
                Next::Report(part, report) => match self.note(part, report)? {
                    Some(ending) => return Ok(Progress::Ended(ending)),
                    None => continue,
                },
            };
            let is_time_up = event == CoordinatorEvent::TimeUp;
            let effects = cut.take(event);
            if is_time_up && cut.outcome().is_none() {
                deadline = Instant::now() + OVERDUE;
            }
            match effects.first().map(|effect| &effect.message) {
                Some(ToPart::Freeze) => {
                    freezing = Instant::now();
                    deadline = freezing + limit;
                }
                Some(ToPart::Thaw) => {
                    deadline = Instant::now() + RUNNING_MAX;
                    (self.tell)(&format!("epoch {number}: all parts frozen for {:?}", freezing.elapsed()));
                }
                _ => {}
            }
            self.carry_out(effects);
        };
        if matches!(outcome, CutOutcome::Sealed { .. }) {
            self.flushes.note_sealed(epoch, order.is_to_flush, begun);
        }
        let answers = gives_answer || is_asked && matches!(outcome, CutOutcome::Sealed { .. });
        let progress = self.conclude(epoch, begun, outcome, answers);
        lost.map_or(Ok(()), |part| self.reach_again(part))?;
        Ok(progress)
    }

    /// Notes how a cut has ended. `answers` says whether somebody waits for that.
    fn conclude(&mut self, epoch: PartsEpoch, begun: Instant, outcome: CutOutcome, answers: bool) -> Progress {
        let number = epoch.number;
        match outcome {
            CutOutcome::Sealed { overhead_nanoseconds, .. } => {
                let now = Instant::now();
                self.intervals.note(EpochTimes { begun, durable: now, overhead_nanoseconds });
                (self.complete, self.older) = (Some(epoch), None);
                self.recent.note(epoch, begun);
                self.lead.note(Ok(number), answers);
                let where_it_is = if self.flushes.is_on_disk(epoch) { "durable" } else { "in memory" };
                (self.tell)(&format!("epoch {number}: {where_it_is} after {:?}{}", now - begun, self.intervals));
                Progress::Taken(number)
            }
            CutOutcome::GivenUp { part, reason } => {
                let why = format!("epoch {number} was given up: {}", self.given_up(part, &reason));
                self.lead.note(Err(why.clone()), answers);
                // A reason is reported once as long as it stays the same.
                if self.last_given_up.as_ref() != Some(&why) {
                    (self.tell)(&why);
                    self.last_given_up = Some(why);
                }
                Progress::GivenUp
            }
        }
    }

    /// Handles what is no part of a cut. Returns how the job has ended, if it has.
    fn note(&mut self, part: PartIndex, report: AgentReport) -> Result<Option<Ending>, Error> {
        match report {
            AgentReport::Ended { status } if part == 0 => {
                self.has_ended[part] = true;
                self.end_parts(status == Some(0));
                let status = status.ok_or_else(|| self.nodes.failed(0, "its supervisor was killed"))?;
                if status != 0 {
                    self.note_failure()?;
                }
                Ok(Some(Ending::Exited { status }))
            }
            AgentReport::OnDisk(epochs) => {
                self.flushes.note_on_disk(part, epochs);
                Ok(None)
            }
            AgentReport::Ended { .. } => {
                self.has_ended[part] = true;
                self.end_parts(false);
                Err(self.nodes.failed(part, "its part has ended before the command"))
            }
            AgentReport::Unprotected => {
                let node = &self.nodes.job.nodes[part];
                (self.tell)(&format!(
                    "node {node}: the supervisor of its part was killed; the job runs on without checkpoints"
                ));
                self.intervals.end();
                self.is_unprotected = true;
                Ok(None)
            }
            AgentReport::Failed { reason } => Err(self.nodes.failed(part, &reason)),
            // It does not run again, and all others do.
            AgentReport::Part { cut: None, said: FromPart::Failed { reason } } => {
                self.end_parts(false);
                Err(self.nodes.failed(part, &reason))
            }
            report => {
                show(report);
                Ok(None)
            }
        }
    }

    pub(super) fn carry_out(&mut self, effects: Vec<CoordinatorEffect>) {
        for CoordinatorEffect { to, message } in effects {
            // If the part cannot be reached, its connection is reported as lost.
            let _ = self.nodes.ask(to, &AgentRequest::Say(message));
        }
    }

    pub(super) fn given_up(&self, part: Option<PartIndex>, reason: &str) -> Error {
        match part {
            Some(part) => self.nodes.failed(part, reason),
            None => Error::Declined(reason.to_owned()),
        }
    }
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
