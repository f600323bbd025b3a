//! Simulated nodes on one machine (`scripts/simulated-nodes`): each with a network, processes, memory and a folder for temporary
//! files of its own. A launcher stands beside them and reaches them through an agent, as through `ssh`. A node dies with all its
//! processes, and with its memory or without it, and may come back.

use crate::arena::Arena;
use crate::mpi::MPIS;
use crate::running::{PATIENCE, until};
use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The nodes of one arena. They end when this goes, and with the process that has it.
#[derive(Debug)]
pub struct Nodes {
    folder: tempfile::TempDir,
    names: Vec<String>,
    holder: Child,
}

impl Nodes {
    /// So many; `None` where this machine gives nobody namespaces of their own.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn new(count: usize) -> Result<Option<Self>> {
        let may =
            Command::new("unshare").args(["--user", "--map-root-user", "--net", "--pid", "--fork", "true"]).output();
        if !may.is_ok_and(|answer| answer.status.success()) {
            return Ok(None);
        }
        // Sockets lie in it, whose paths must be short.
        let folder = tempfile::Builder::new().prefix("nodes-").tempdir_in("/tmp").context("a folder for nodes")?;
        let mut command = Command::new(script());
        command.arg("hold").arg(folder.path()).arg(count.to_string());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("holding nodes")?;
        let mut told = [0; 6];
        let ready = holder.stdout.take().context("it is piped")?.read_exact(&mut told);
        let names = (1..=count).map(|number| format!("node{number}")).collect();
        let nodes = Self { folder, names, holder };
        ensure!(ready.is_ok() && &told == b"ready\n", "the nodes do not stand");
        Ok(Some(nodes))
    }

    /// Open MPI's launcher and the words by which it reaches them, one rank on each.
    pub fn open_mpi(&self) -> Vec<String> {
        let words = MPIS[0].on_nodes(&self.agent());
        words.into_iter().map(|word| word.replace("{nodes}", &self.list())).collect()
    }

    /// Their names, with commas.
    pub fn list(&self) -> String {
        self.names.join(",")
    }

    /// The name of one, counted from 0.
    pub fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    /// What a launcher reaches them by.
    pub fn agent(&self) -> String {
        self.folder.path().join("agent").display().to_string()
    }

    /// On which a process runs, if it is on one.
    pub(crate) fn node_of(&self, process: Pid) -> Option<usize> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let is_of =
            |name: &String| environment.split(|byte| *byte == 0).any(|it| it == format!("NODE={name}").as_bytes());
        self.names.iter().position(is_of)
    }

    /// The power goes out: processes and memory of a node are gone, and it does not answer any more.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn lose(&self, node: usize) -> Result<()> {
        self.ask("lose", &[self.name(node)]).map(drop)
    }

    /// The same, but its memory stays.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn stop(&self, node: usize) -> Result<()> {
        self.ask("stop", &[self.name(node)]).map(drop)
    }

    /// It comes back, with what its memory holds.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn start(&self, node: usize) -> Result<()> {
        self.ask("start", &[self.name(node)]).map(drop)
    }

    /// What jobs have in the memory of all nodes: a path for each file and folder.
    ///
    /// # Errors
    /// When nobody can look.
    pub fn left(&self) -> Result<BTreeSet<String>> {
        Ok(self.ask("left", &[])?.lines().map(str::to_owned).collect())
    }

    /// A command beside them, where a launcher stands; it and what it starts on nodes belong to the arena. Processes on nodes
    /// have these variables.
    pub fn command(&self, arena: &Arena, program: &OsStr, variables: &[&str]) -> Command {
        let mut command = arena.command(script());
        command.arg("head").arg(self.folder.path()).arg(program);
        let tag = format!("STANDFAST_ARENA={}", arena.folder().display());
        command.env("NODE_ENVIRONMENT", [&[tag.as_str()], variables].concat().join(" "));
        command
    }

    /// Carries a command of the shell out on a node.
    ///
    /// # Errors
    /// When it fails.
    pub fn on(&self, node: usize, command: &str) -> Result<String> {
        self.ask("on", &[&self.names[node], command])
    }

    fn ask(&self, action: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new(script());
        let asked = command.arg(action).arg(self.folder.path()).args(words).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&asked.stderr);
        ensure!(asked.status.success(), "{action} {words:?}: {}: {said}", asked.status);
        Ok(String::from_utf8_lossy(&asked.stdout).into_owned())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let ended = until(PATIENCE, "the nodes to end", || Ok(self.holder.try_wait()?));
        if ended.is_err() {
            let _ = self.holder.kill();
            let _ = self.holder.wait();
        }
    }
}

fn script() -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/simulated-nodes").into()
}
