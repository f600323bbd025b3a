//! Watches whether the nodes of a launch still answer, and whether all ranks on them are there.
//!
//! Each node has a *connection*: a command that the agent starts there, and that answers what it is sent. That takes
//! hardly any processor time on either side. A node whose connection has ended or is silent is asked again, and is lost
//! if it does not answer then. Other modules decide what to do about the launch.

use super::nodes::{ANSWER_MAX, Nodes, answer_by};
use super::ranks::{ENDED, WELL};
use rustix::io::ioctl_fionbio;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

/// Time after which a silent connection counts as broken, and a node that does not answer as lost.
const SILENCE_MAX: Duration = ANSWER_MAX;
/// Pause between two connections to a node, so that an agent which cannot hold one is not kept busy.
const REST: Duration = Duration::from_secs(30);
/// Time for connections to end after they are closed. Those to dead nodes do not end by themselves.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Connections to the nodes of one launch.
#[derive(Debug)]
pub(super) struct Connections<'n> {
    nodes: &'n Nodes,
    /// Command that runs at the other end of a connection.
    command: Vec<OsString>,
    watched: Vec<Watched>,
    silence_max: Duration,
}

#[derive(Debug)]
struct Watched {
    name: String,
    contact: Contact,
    /// When the last connection to the node began.
    opened: Option<Instant>,
}

#[derive(Debug)]
enum Contact {
    None,
    Connection(Connection),
    Asked { agent: Child, since: Instant },
    Lost,
}

impl<'n> Connections<'n> {
    /// Makes connections to these nodes, which have just answered. The command answers each question on its standard
    /// input with [`WELL`], or with [`ENDED`] if a rank on its node has ended.
    pub(super) fn new(nodes: &'n Nodes, taken: &[String], command: Vec<OsString>) -> Self {
        let watched = |name: &String| Watched { name: name.clone(), contact: Contact::None, opened: None };
        let watched = taken.iter().map(watched).collect();
        Self { nodes, command, watched, silence_max: SILENCE_MAX }
    }

    /// Reports whether there are no nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Reports whether a rank had ended on one of the nodes when it answered last.
    pub(super) fn has_ended(&self) -> bool {
        self.watched
            .iter()
            .any(|node| matches!(&node.contact, Contact::Connection(connection) if connection.answered == ENDED))
    }

    /// Asks all nodes, and returns those that are lost. Does not wait for answers.
    pub(super) fn lost(&mut self) -> Vec<String> {
        self.watched.iter_mut().for_each(|node| node.look(self.nodes, &self.command, self.silence_max));
        let lost = self.watched.iter().filter(|node| matches!(node.contact, Contact::Lost));
        lost.map(|node| node.name.clone()).collect()
    }
}

/// Leaves nothing of the connections, neither here nor on nodes that answer.
impl Drop for Connections<'_> {
    fn drop(&mut self) {
        // Close all connections before waiting for the first.
        let agents: Vec<Child> = self.watched.drain(..).filter_map(|node| node.contact.closed()).collect();
        let deadline = Instant::now() + CLOSING_MAX;
        agents.into_iter().for_each(|agent| drop(answer_by(agent, deadline)));
    }
}

impl Watched {
    fn look(&mut self, nodes: &Nodes, command: &[OsString], silence_max: Duration) {
        self.contact = match std::mem::replace(&mut self.contact, Contact::None) {
            Contact::Connection(mut connection) => match connection.answers(silence_max) {
                true => Contact::Connection(connection),
                false => {
                    drop(answer_by(connection.closed(), Instant::now()));
                    let asked = nodes.ask(&self.name, &["true".into()]);
                    asked.map_or(Contact::None, |agent| Contact::Asked { agent, since: Instant::now() })
                }
            },
            Contact::Asked { mut agent, since } => match agent.try_wait() {
                Ok(Some(status)) if status.success() => Contact::None,
                Ok(None) if since.elapsed() < silence_max => Contact::Asked { agent, since },
                _ => {
                    drop(answer_by(agent, Instant::now()));
                    Contact::Lost
                }
            },
            Contact::None if self.opened.is_none_or(|opened| opened.elapsed() >= REST) => {
                self.opened = Some(Instant::now());
                // A failure to start the agent here says nothing about the node.
                nodes
                    .begin_connection(&self.name, command)
                    .and_then(Connection::new)
                    .map_or(Contact::None, Contact::Connection)
            }
            other => other,
        };
    }
}

impl Contact {
    /// Closes the connection and returns the agent that may still run.
    fn closed(self) -> Option<Child> {
        match self {
            Self::Connection(connection) => Some(connection.closed()),
            Self::Asked { agent, .. } => Some(agent),
            Self::None | Self::Lost => None,
        }
    }
}

/// A connection to a node, which answers each question.
#[derive(Debug)]
struct Connection {
    agent: Child,
    input: ChildStdin,
    output: ChildStdout,
    heard: Instant,
    answered: u8,
}

impl Connection {
    fn new(mut agent: Child) -> io::Result<Self> {
        let (input, output) = agent.stdin.take().zip(agent.stdout.take()).expect("both are piped");
        ioctl_fionbio(&input, true)?;
        ioctl_fionbio(&output, true)?;
        Ok(Self { agent, input, output, heard: Instant::now(), answered: WELL })
    }

    /// Reads the answers so far, and asks again. Returns whether the connection works.
    fn answers(&mut self, silence_max: Duration) -> bool {
        let mut bytes = [0; 64];
        loop {
            match self.output.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => (self.heard, self.answered) = (Instant::now(), bytes[read - 1]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        let is_open = self.input.write(&[WELL]).map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |_| true);
        is_open && self.heard.elapsed() < silence_max
    }

    /// Closes the agent's input, so that the command on the node ends.
    fn closed(self) -> Child {
        self.agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    /// Records the processes of a node's commands, and does not answer for dead nodes.
    const AGENT: &str = r#"cd "$0" && test ! -e "$1.dead" && echo $$ >>"$1.begun" && shift && exec "$@""#;

    fn nodes(folder: &Path) -> Nodes {
        let agent = ["sh".into(), "-c".into(), AGENT.into(), OsString::from(folder)].to_vec();
        Nodes { names: ["a", "b"].map(str::to_owned).to_vec(), spares: 0, agent }
    }

    fn begun(folder: &Path, node: &str) -> Vec<Pid> {
        let text = fs::read_to_string(folder.join(format!("{node}.begun"))).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.filter_map(|line| line.trim().parse().ok().and_then(Pid::from_raw)).collect()
    }

    /// Checks until a condition is true, and returns the nodes that were lost by then.
    fn looked_until(
        connections: &mut Connections<'_>,
        is_so: impl Fn(&Connections<'_>, &[String]) -> bool,
    ) -> Vec<String> {
        let start = Instant::now();
        loop {
            let lost = connections.lost();
            if is_so(connections, &lost) {
                return lost;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain; lost: {lost:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs two nodes with their connections, and applies `strike` to the connection of the second.
    fn struck(
        silence_max: Duration,
        strike: impl Fn(&Path, Pid),
        until: impl Fn(&Connections<'_>, &[String]) -> bool,
    ) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = nodes(folder.path());
        let mut connections = Connections::new(&nodes, &nodes.names, ["cat".into()].to_vec());
        assert!(looked_until(&mut connections, |_, _| have_lines(folder.path())).is_empty());
        connections.silence_max = silence_max;
        strike(folder.path(), begun(folder.path(), "b")[0]);
        looked_until(&mut connections, until)
    }

    fn have_lines(folder: &Path) -> bool {
        ["a", "b"].iter().all(|node| !begun(folder, node).is_empty())
    }

    fn kill(connection: Pid, signal: Signal) {
        kill_process(connection, signal).expect("it runs");
    }

    fn die(folder: &Path) {
        fs::write(folder.join("b.dead"), "").expect("a node dies");
    }

    #[test]
    fn a_working_connection_is_opened_only_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = nodes(folder.path());
        let mut connections = Connections::new(&nodes, &nodes.names, ["cat".into()].to_vec());
        looked_until(&mut connections, |_, _| have_lines(folder.path()));
        for _ in 0..500 {
            assert!(connections.lost().is_empty());
        }
        assert_eq!(["a", "b"].map(|node| begun(folder.path(), node).len()), [1, 1]);
    }

    #[test]
    fn an_ended_rank_on_a_node_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = nodes(folder.path());
        let always_ended = ["stdbuf", "-o0", "tr", ".", "!"].map(OsString::from).to_vec();
        let mut connections = Connections::new(&nodes, &nodes.names, always_ended);
        assert!(!connections.has_ended());
        assert!(looked_until(&mut connections, |connections, _| connections.has_ended()).is_empty());
    }

    #[test]
    fn a_node_without_connection_and_answer_is_lost() {
        let gone = |folder: &Path, connection| {
            die(folder);
            kill(connection, Signal::KILL);
        };
        assert_eq!(struck(SILENCE_MAX, gone, |_, lost| !lost.is_empty()), ["b"]);
    }

    #[test]
    fn a_silent_node_that_does_not_answer_is_lost() {
        let silent = |folder: &Path, connection| {
            die(folder);
            kill(connection, Signal::STOP);
        };
        let is_lost = |_: &Connections<'_>, lost: &[String]| lost.contains(&"b".to_owned());
        struck(Duration::from_millis(500), silent, is_lost);
    }

    #[test]
    fn a_node_that_answers_again_is_not_lost() {
        let ended = |_: &Path, connection| kill(connection, Signal::KILL);
        let has_answered = |connections: &Connections<'_>, lost: &[String]| {
            !lost.is_empty() || matches!(connections.watched[1].contact, Contact::None)
        };
        assert!(struck(SILENCE_MAX, ended, has_answered).is_empty());
    }
}
