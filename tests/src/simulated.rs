//! Simulated nodes on one machine (`scripts/simulated-nodes`). Each has its own network, processes, memory and directories,
//! except for one that all share; what runs there has no capabilities. A launcher runs next to them and reaches them through
//! an agent, as through `ssh`. A node dies with all its processes, with or without its memory, and can return.

use crate::arena::Arena;
use crate::mpi::MPIS;
use crate::running::{PATIENCE, until};
use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The nodes of one arena. They end when this value is dropped, or when its process ends.
#[derive(Debug)]
pub struct Nodes {
    folder: tempfile::TempDir,
    names: Vec<String>,
    holder: Child,
}

impl Nodes {
    /// Starts this many nodes. Returns `None` if this machine does not let users create namespaces.
    ///
    /// # Errors
    /// When the nodes cannot be started.
    pub fn new(count: usize) -> Result<Option<Self>> {
        let may =
            Command::new("unshare").args(["--user", "--map-root-user", "--net", "--pid", "--fork", "true"]).output();
        if !may.is_ok_and(|answer| answer.status.success()) {
            return Ok(None);
        }
        // The folder contains sockets, whose paths must be short.
        let folder = tempfile::Builder::new().prefix("nodes-").tempdir_in("/tmp").context("a folder for nodes")?;
        let mut command = Command::new(script());
        command.arg("hold").arg(folder.path()).arg(count.to_string()).arg(shared());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("holding nodes")?;
        let mut told = [0; 6];
        let ready = holder.stdout.take().context("it is piped")?.read_exact(&mut told);
        let names = (1..=count).map(|number| format!("node{number}")).collect();
        let nodes = Self { folder, names, holder };
        ensure!(ready.is_ok() && &told == b"ready\n", "the nodes do not stand");
        Ok(Some(nodes))
    }

    /// Returns Open MPI's launcher with the arguments that start one rank on each node.
    pub fn open_mpi(&self) -> Vec<String> {
        let words = MPIS[0].on_nodes(&self.agent());
        words.into_iter().map(|word| word.replace("{nodes}", &self.list())).collect()
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns where the nodes' disks and memory are on this machine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the names of the nodes, separated by commas.
    pub fn list(&self) -> String {
        self.names.join(",")
    }

    /// Returns the name of a node, counted from 0.
    pub fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    /// Returns the agent through which a launcher reaches the nodes.
    pub fn agent(&self) -> String {
        self.folder.path().join("agent").display().to_string()
    }

    /// Returns the node on which a process runs, if any.
    pub fn node_of(&self, process: Pid) -> Option<usize> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let is_of =
            |name: &String| environment.split(|byte| *byte == 0).any(|it| it == format!("NODE={name}").as_bytes());
        self.names.iter().position(is_of)
    }

    /// Cuts a node's power: its processes and memory are gone, and it does not answer any more.
    ///
    /// # Errors
    /// When the script fails.
    pub fn lose(&self, node: usize) -> Result<()> {
        self.ask("lose", &[self.name(node)]).map(drop)
    }

    /// Stops a node without losing its memory.
    ///
    /// # Errors
    /// When the script fails.
    pub fn stop(&self, node: usize) -> Result<()> {
        self.ask("stop", &[self.name(node)]).map(drop)
    }

    /// Starts a node again, with what its memory holds.
    ///
    /// # Errors
    /// When the script fails.
    pub fn start(&self, node: usize) -> Result<()> {
        self.ask("start", &[self.name(node)]).map(drop)
    }

    /// Returns what jobs hold in the memory of all nodes: a path for each file and folder.
    ///
    /// # Errors
    /// When the script fails.
    pub fn left(&self) -> Result<BTreeSet<String>> {
        Ok(self.ask("left", &[])?.lines().map(str::to_owned).collect())
    }

    /// Returns a command that runs next to the nodes, like a launcher. The command and everything that it starts on
    /// nodes belong to the arena. Processes on nodes get these variables.
    pub fn command(&self, arena: &Arena, program: &OsStr, variables: &[&str]) -> Command {
        let mut command = arena.command(script());
        command.arg("head").arg(self.folder.path()).arg(program);
        let tag = format!("STANDFAST_ARENA={}", arena.folder().display());
        command.env("NODE_ENVIRONMENT", [&[tag.as_str()], variables].concat().join(" "));
        command
    }

    /// Executes a shell command on a node.
    ///
    /// # Errors
    /// When the command fails.
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
        let _ = open_directories(&self.folder.path().join("disk"));
    }
}

/// Lets its owner remove a tree: an overlay leaves directories behind that nobody may read.
fn open_directories(directory: &Path) -> std::io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns the directory that all nodes share: that of the command under test and of the arenas. Without `scripts/test` it is
/// the one for temporary files.
fn shared() -> OsString {
    std::env::var_os("STANDFAST_STAGE").unwrap_or_else(|| std::env::temp_dir().into())
}

fn script() -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/simulated-nodes").into()
}
