//! Simulated nodes on one machine (`scripts/simulated-nodes`): each with a network, processes, memory and a folder for temporary
//! files of its own. A launcher stands beside them and reaches them through an agent, as through `ssh`. What the script
//! can do beyond that, this does not ask for.

use crate::arena::Arena;
use crate::running::{PATIENCE, until};
use anyhow::{Context as _, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// All nodes have the same processors; messages go from node to node by TCP.
const OPEN_MPI: &str = "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
    --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.77.0.0/24 --mca btl self,tcp \
    --mca btl_tcp_if_include 10.77.0.0/24";

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
        let agent = self.folder.path().join("agent").display().to_string();
        let words = OPEN_MPI.split_whitespace().map(str::to_owned);
        words.chain(["--mca".into(), "plm_rsh_agent".into(), agent, "--host".into(), self.names.join(",")]).collect()
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
