//! Simulated nodes on one machine: each with a name, memory and a folder for temporary files of its own. A launcher reaches
//! them through an agent, as through `ssh`. A node dies with all its processes and its memory, and may come back.

use crate::arena::Arena;
use crate::running::{PATIENCE, until};
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Runs a command on a node: `AGENT [-x] NODE COMMAND...`. The command starts with hardly any environment, as after a login
/// from elsewhere.
const AGENT: &str = r#"#!/bin/sh
test "$1" = -x && shift
node=$1
shift
test -e "$STANDFAST_ARENA/$node.dead" && exit 255
memory=$STANDFAST_ARENA/memory-$node
mkdir -p "$memory/tmp"
exec env -i PATH="$PATH" HOME="$memory" STANDFAST_ARENA="$STANDFAST_ARENA" NODE="$node" TMPDIR="$memory/tmp" \
    STANDFAST_GROUP_MEMORY="$memory" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FIELD_TELLS= sh -c "$*"
"#;

/// The nodes of one arena.
#[derive(Debug)]
pub struct Nodes<'a> {
    arena: &'a Arena,
    names: Vec<String>,
    agent: PathBuf,
}

impl<'a> Nodes<'a> {
    /// So many.
    ///
    /// # Errors
    /// When the agent cannot be written.
    pub fn new(arena: &'a Arena, count: usize) -> Result<Self> {
        let agent = arena.folder().join("agent");
        fs::write(&agent, AGENT).context("writing the agent")?;
        fs::set_permissions(&agent, Permissions::from_mode(0o755))?;
        Ok(Self { arena, names: (1..=count).map(|number| format!("node{number}")).collect(), agent })
    }

    /// Their names, with commas.
    pub fn list(&self) -> String {
        self.names.join(",")
    }

    /// What a launcher reaches them by.
    pub fn agent(&self) -> OsString {
        self.agent.clone().into()
    }

    /// The name of one, counted from 0.
    pub fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    /// What a node keeps in memory.
    pub fn memory(&self, node: usize) -> PathBuf {
        self.arena.folder().join(format!("memory-{}", self.names[node]))
    }

    /// The power goes out: its processes and its memory are gone, and it does not answer any more.
    ///
    /// # Errors
    /// When its processes do not end.
    pub fn kill(&self, node: usize) -> Result<()> {
        fs::write(self.tombstone(node), "").context("a node dies")?;
        until(PATIENCE, "the processes of a node to end", || {
            let left = self.processes(node);
            for pid in &left {
                let _ = kill(*pid, Signal::SIGKILL);
            }
            Ok(left.is_empty().then_some(()))
        })?;
        let _ = fs::remove_dir_all(self.memory(node));
        Ok(())
    }

    /// It answers again, with nothing in its memory.
    ///
    /// # Errors
    /// When it was not dead.
    pub fn revive(&self, node: usize) -> Result<()> {
        fs::remove_file(self.tombstone(node)).context("a node comes back")
    }

    fn tombstone(&self, node: usize) -> PathBuf {
        self.arena.folder().join(format!("{}.dead", self.names[node]))
    }

    fn processes(&self, node: usize) -> Vec<Pid> {
        let sign = format!("NODE={}", self.names[node]);
        let is_here = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == sign.as_bytes())
        };
        self.arena.processes().into_iter().filter(is_here).collect()
    }
}
