//! The commands that reach the agents of the nodes, as `ssh` does.

use super::agent_protocol::{AgentReport, AgentRequest};
use crate::{Error, InWords};
use standfast_parts::PartIndex;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;

/// What an agent has said, or that it is gone.
pub(super) type Heard = (PartIndex, Option<AgentReport>);

/// The command that reaches a node. Without its input, the agent there ends, and the part runs on.
pub(super) struct ReachedAgent {
    node: String,
    process: Child,
    input: ChildStdin,
}

impl ReachedAgent {
    /// Starts the agent of a node. Everything that it says is passed to `heard`.
    pub(super) fn start(agent: &str, node: &str, index: PartIndex, heard: &Sender<Heard>) -> Result<Self, Error> {
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
    pub(super) fn ask(&mut self, request: &AgentRequest) -> Result<(), Error> {
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
