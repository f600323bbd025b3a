//! The nodes of a job: which of them answer, which take part in the next launch, and how commands reach them. An agent
//! carries commands to a node (`ssh`, or any command that takes a node's name and a command).

use crate::quoting::quoted_word;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Agents that pass the words to a shell on the node, separated by spaces, so that each word must be quoted. (Others,
/// such as `srun`, pass them on unchanged.)
const SHELL_AGENTS: [&str; 5] = ["ssh", "rsh", "remsh", "mrsh", "krsh"];
/// Characters of a node's name besides letters and digits: `user@host.domain`, `[fe80::1%eth0]:22`, `alias_1`.
const IN_NAMES: &str = "._-@:%[]+";

/// Time after which a node that has not answered is dead.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Time for saving a node's memory, which may be large.
const SAVING_MAX: Duration = Duration::from_secs(600);
const GLANCE: Duration = Duration::from_millis(20);

/// The nodes that a job may run on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Their names, as launcher and agent know them. Empty if the launcher chooses the nodes.
    pub names: Vec<String>,
    /// How many of them are kept as spares for nodes that die.
    pub spares: usize,
    /// Agent that carries out a command on a node: `AGENT NODE COMMAND`.
    pub agent: Vec<OsString>,
}

impl Nodes {
    /// Returns the number of nodes of a launch.
    fn needed(&self) -> usize {
        self.names.len().saturating_sub(self.spares)
    }

    /// Returns the nodes for the next launch, and those on which this command does not end well in time. Nodes of the
    /// last launch that answer keep their places, so that their processes find what they left there.
    ///
    /// # Errors
    /// If too few nodes answer.
    pub(crate) fn take(&self, before: &[String], command: &[OsString]) -> Result<(Vec<String>, Vec<String>), String> {
        let answers = self.ask_all(command, ANSWER_MAX);
        let (alive, dead): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| answer.is_ok());
        let names = |of: Vec<(String, io::Result<()>)>| of.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let (alive, dead) = (names(alive), names(dead));
        match chosen(before, &alive, self.needed()) {
            Some(taken) => Ok((taken, dead)),
            None => Err(format!(
                "{} nodes answer and {} are needed; these do not: {}",
                alive.len(),
                self.needed(),
                dead.join(", ")
            )),
        }
    }

    /// Carries out a command on all nodes at once.
    pub(crate) fn ask_all(&self, command: &[OsString], limit: Duration) -> Vec<(String, io::Result<()>)> {
        let asked: Vec<_> = self.names.iter().map(|name| (name.clone(), self.ask(name, command))).collect();
        let deadline = Instant::now() + limit;
        let answer = |child: io::Result<Child>| child.and_then(|child| answer_by(child, deadline));
        asked.into_iter().map(|(name, child)| (name, answer(child))).collect()
    }

    /// Saves what a job holds in the memory of all nodes. Returns the nodes for which that failed.
    pub(crate) fn save_all(&self, command: &[OsString]) -> Vec<String> {
        let answers = self.ask_all(command, SAVING_MAX);
        answers.into_iter().filter(|(_, answer)| answer.is_err()).map(|(name, _)| name).collect()
    }

    /// Begins to carry out a command on a node.
    pub(super) fn ask(&self, name: &str, command: &[OsString]) -> io::Result<Child> {
        self.command(name, command)?.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    }

    /// Begins a command on a node that answers what it is sent.
    pub(super) fn begin_connection(&self, name: &str, command: &[OsString]) -> io::Result<Child> {
        self.command(name, command)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    fn command(&self, name: &str, command: &[OsString]) -> io::Result<Command> {
        let (agent, arguments) = self.agent.split_first().ok_or_else(|| io::Error::other("there is no agent"))?;
        let mut asked = Command::new(agent);
        asked.args(arguments).arg(name);
        if self.agent_is_a_shell() {
            asked.args(command.iter().map(|word| quoted_word(word)));
        } else {
            asked.args(command);
        }
        Ok(asked)
    }

    /// Reports whether a shell on the node reads the command. Other words may precede the agent's name: `timeout 9 ssh
    /// -q`.
    fn agent_is_a_shell(&self) -> bool {
        let name = |word: &OsString| Path::new(word).file_name().map(OsStr::to_owned);
        self.agent.iter().filter_map(name).any(|name| SHELL_AGENTS.iter().any(|shell| name == *shell))
    }
}

/// Checks that each name can only be a name: neither an option of the agent or the launcher, nor several names.
///
/// # Errors
/// Returns the first name that could be something else.
pub(crate) fn check_names(names: &[String]) -> Result<(), String> {
    let is_name = |name: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || IN_NAMES.contains(letter);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("'{name}' is not the name of a node")),
        None => Ok(()),
    }
}

fn chosen(before: &[String], alive: &[String], needed: usize) -> Option<Vec<String>> {
    let mut free = alive.iter().filter(|name| !before.contains(name)).cloned();
    let kept = before.iter().map(|name| alive.contains(name).then(|| name.clone()));
    let places: Vec<Option<String>> = kept.chain(std::iter::repeat(None)).take(needed).collect();
    places.into_iter().map(|kept| kept.or_else(|| free.next())).collect()
}

/// Waits for a command to end well, and kills it if it does not end in time.
pub(super) fn answer_by(mut child: Child, deadline: Instant) -> io::Result<()> {
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => std::thread::sleep(GLANCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn chosen_nodes_keep_their_places_and_spares_replace_lost_ones() {
        assert_eq!(chosen(&[], &names("a b c d e"), 4), Some(names("a b c d")));
        assert_eq!(chosen(&names("a b c d"), &names("a c d e"), 4), Some(names("a e c d")));
        assert_eq!(chosen(&names("a e c d"), &names("a b c d e"), 4), Some(names("a e c d")));
        assert_eq!(chosen(&names("a b c d"), &names("a c d"), 4), None);
    }

    /// A stand-in for ssh: like ssh, it joins the words after the node's name, and passes them to a shell.
    const SSH: &str = "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";

    #[test]
    fn arguments_arrive_unchanged_on_a_node() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().expect("a folder");
        let ssh = place.path().join("ssh");
        std::fs::write(&ssh, SSH).expect("it is writable");
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        let direct = ["env", "-i", "sh", "-c", r#"shift; exec "$@""#, "agent"].map(OsString::from).to_vec();
        for agent in [vec![OsString::from("env"), ssh.into()], direct] {
            let nodes = Nodes { names: names("a"), spares: 0, agent };
            let words = ["two words", "it's", "a\nb", "$HOME `id`", "*", "", "-n", "\"", "\\"];
            let there = place.path().join("there");
            let script = r#"printf '%s\n' "$@" >"$0""#;
            let mut command: Vec<OsString> = ["sh", "-c", script].map(OsString::from).to_vec();
            command.push(there.clone().into());
            command.extend(words.map(OsString::from));
            let answers = nodes.ask_all(&command, ANSWER_MAX);
            assert!(answers.iter().all(|(_, answer)| answer.is_ok()), "{answers:?}");
            let arrived = std::fs::read_to_string(&there).expect("it was written");
            assert_eq!(arrived, words.map(|word| format!("{word}\n")).concat(), "{:?}", nodes.agent);
        }
    }

    #[test]
    fn node_names_that_could_be_options_or_commands_are_refused() {
        assert_eq!(check_names(&names("node-1 me@b.c [fe80::1%eth0]:22 alias_1")), Ok(()));
        for name in ["-oProxyCommand=id", "", "a b", "a,b", "a;id", "$(id)", "a\nb", "a\x1b[2J"] {
            assert!(check_names(&[name.to_owned()]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_not_taken() {
        let agent = ["sh", "-c", r#"test "$0" != b && "$@""#].map(OsString::from).to_vec();
        let nodes = Nodes { names: names("a b c"), spares: 1, agent };
        let asked = ["true".into()];
        assert_eq!(nodes.take(&names("a b"), &asked), Ok((names("a c"), names("b"))));
        let none_to_spare = Nodes { spares: 0, ..nodes };
        let refused = none_to_spare.take(&[], &asked);
        assert!(refused.is_err_and(|reason| reason.contains("2 nodes answer and 3 are needed; these do not: b")));
    }
}
