//! The agents of the nodes, and the commands that reach them, as `ssh` does.

use super::agent_protocol::{AgentReport, AgentRequest, PartPlace, VERSION, from_hex};
use super::description::DistributedJob;
use crate::{Error, InWords};
use standfast_parts::PartIndex;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long it may take to reach the agent of a node.
const REACH_MAX: Duration = Duration::from_secs(60);

/// What an agent has said, or that it is gone.
type Heard = (PartIndex, Option<AgentReport>);

/// What comes next from the agents.
pub(super) enum Next {
    Report(PartIndex, AgentReport),
    Lost(PartIndex),
    TimeUp,
}

/// The agents of all nodes of a job.
pub(super) struct ReachedNodes {
    pub(super) job: DistributedJob,
    pub(super) directory: PathBuf,
    agents: Vec<ReachedAgent>,
    heard: Sender<Heard>,
    reports: Receiver<Heard>,
}

impl ReachedNodes {
    /// Starts an agent on each node.
    pub(super) fn reach(job: DistributedJob, directory: &Path) -> Result<Self, Error> {
        let (heard, reports) = channel();
        let mut nodes = Self { job, directory: directory.to_owned(), agents: Vec::new(), heard, reports };
        for index in 0..nodes.count() {
            let agent = nodes.start_agent(index)?;
            nodes.agents.push(agent);
        }
        nodes.answers(REACH_MAX, |report| match report {
            AgentReport::Here => Ok(()),
            other => Err(other),
        })?;
        Ok(nodes)
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.job.nodes.len()
    }

    /// Starts the agent of a node once more.
    pub(super) fn reach_again(&mut self, part: PartIndex) -> Result<(), Error> {
        self.agents[part] = self.start_agent(part)?;
        Ok(())
    }

    fn start_agent(&self, index: PartIndex) -> Result<ReachedAgent, Error> {
        let node = &self.job.nodes[index];
        let mut agent = ReachedAgent::start(&self.job.agent, node, index, &self.heard)?;
        let (directory, version) = (self.directory.clone(), VERSION.to_owned());
        agent.ask(&AgentRequest::Part(PartPlace { directory, index, node: node.clone(), version }))?;
        Ok(agent)
    }

    /// Asks a node for something.
    pub(super) fn ask(&mut self, part: PartIndex, request: &AgentRequest) -> Result<(), Error> {
        self.agents[part].ask(request)
    }

    /// Asks all nodes for something, and waits until `answer` has found the answer of each among their reports. What it
    /// returns is shown.
    pub(super) fn ask_all<T>(
        &mut self,
        request: &AgentRequest,
        limit: Duration,
        answer: impl Fn(AgentReport) -> Result<T, AgentReport>,
    ) -> Result<Vec<T>, Error> {
        (0..self.count()).try_for_each(|part| self.ask(part, request))?;
        self.answers(limit, answer)
    }

    /// Waits until `answer` has found an answer of each node among their reports.
    pub(super) fn answers<T>(
        &self,
        limit: Duration,
        answer: impl Fn(AgentReport) -> Result<T, AgentReport>,
    ) -> Result<Vec<T>, Error> {
        let deadline = Instant::now() + limit;
        let mut answers: Vec<Option<T>> = (0..self.count()).map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            match self.next_report(deadline) {
                Next::Report(part, report) => match answer(report) {
                    Ok(it) => answers[part] = Some(it),
                    Err(AgentReport::Failed { reason }) => return Err(self.failed(part, &reason)),
                    Err(AgentReport::Ended { .. }) => return Err(self.failed(part, "its part has ended")),
                    Err(report) => show(report),
                },
                Next::Lost(part) => return Err(self.failed(part, "it could not be reached, or its agent has ended")),
                Next::TimeUp => {
                    let late = answers.iter().position(Option::is_none).unwrap_or_default();
                    return Err(self.failed(late, "it does not answer"));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Waits for a report.
    pub(super) fn next_report(&self, deadline: Instant) -> Next {
        match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((part, Some(report))) => Next::Report(part, report),
            Ok((part, None)) => Next::Lost(part),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Next::TimeUp,
        }
    }

    /// Returns the error of a node.
    pub(super) fn failed(&self, part: PartIndex, reason: &str) -> Error {
        Error::Declined(format!("node {}: {reason}", self.job.nodes[part]))
    }
}

/// Shows what the command has printed.
pub(super) fn show(report: AgentReport) {
    if let AgentReport::Output { is_error, bytes } = report {
        let bytes = from_hex(&bytes).unwrap_or_default();
        // Whoever does not read what the command prints does not get it.
        let _ = if is_error {
            io::stderr().write_all(&bytes)
        } else {
            let mut output = io::stdout().lock();
            output.write_all(&bytes).and_then(|()| output.flush())
        };
    }
}

/// The command that reaches a node. Without its input, the agent there ends, and the part runs on.
struct ReachedAgent {
    node: String,
    process: Child,
    input: ChildStdin,
}

impl ReachedAgent {
    /// Starts the agent of a node. Everything that it says is passed to `heard`.
    fn start(agent: &str, node: &str, index: PartIndex, heard: &Sender<Heard>) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::system("find this program"))?;
        let mut words = agent.split_whitespace();
        let first = words.next().ok_or_else(|| Error::Declined("--agent names no command".to_owned()))?;
        let mut command = Command::new(first);
        command.args(words).arg(node).arg(&program).arg("part-agent");
        // The keys of the terminal are for the coordinator.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| unreachable(node, &error))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let heard = heard.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                let report = serde_json::from_str(&line)
                    .unwrap_or_else(|_| AgentReport::Failed { reason: format!("its agent said: {line}") });
                if heard.send((index, Some(report))).is_err() {
                    return;
                }
            }
            // If nobody listens any more, nobody needs to know.
            let _ = heard.send((index, None));
        });
        Ok(Self { node: node.to_owned(), process, input })
    }

    /// Asks the agent for something.
    fn ask(&mut self, request: &AgentRequest) -> Result<(), Error> {
        let mut line = serde_json::to_vec(request).expect("requests are plain data");
        line.push(b'\n');
        self.input.write_all(&line).map_err(|error| unreachable(&self.node, &error))
    }
}

impl Drop for ReachedAgent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn unreachable(node: &str, error: &io::Error) -> Error {
    Error::Declined(format!("node {node} cannot be reached: {}", InWords(error)))
}
