//! A container as Docker makes it without options: `victims/container.c` runs a command as its process 1.

use crate::arena::Arena;
use crate::workshop;
use anyhow::Result;
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

const SOURCE: &str = include_str!("../victims/container.c");

/// A kind of container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Container {
    /// With the seccomp profile, and without capabilities.
    #[default]
    Ordinary,
    /// No program in it can gain privileges either, as in restricted pods of Kubernetes.
    NoNewPrivileges,
}

impl Container {
    /// Returns a command that runs `inner` as process 1 of such a container.
    ///
    /// # Errors
    /// When the program that makes containers does not compile.
    pub fn around(self, arena: &Arena, inner: &Command) -> Result<Command> {
        let mut command = arena.command(loader()?);
        command.args((self == Self::NoNewPrivileges).then_some("--no-new-privileges"));
        command.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
        Ok(command)
    }

    /// Reports whether this system lets this user make one.
    ///
    /// # Errors
    /// When the program that makes containers does not compile.
    pub fn is_possible() -> Result<bool> {
        let tried = Command::new(loader()?).arg("true").stdin(Stdio::null()).stderr(Stdio::null()).status()?;
        Ok(tried.success())
    }
}

fn loader() -> Result<PathBuf> {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _turn = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let build = |path: &std::path::Path| workshop::compile_c(path, SOURCE, "cc", ["-O2"]);
    workshop::built(&workshop::folder("container", SOURCE)?, "container", build)
}

/// Returns the ids, here and inside, of the processes of a container whose command is `loader`. Process 1 is the first.
#[must_use]
pub fn processes(loader: Pid) -> Vec<(Pid, i32)> {
    let children = |pid: Pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect::<Vec<_>>()
    };
    let mut found = children(loader);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children(*pid));
        next += 1;
    }
    let inside = |pid: &Pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        Some((*pid, ids.split_whitespace().last()?.parse().ok()?))
    };
    found.iter().filter_map(inside).collect()
}
