//! A scratch folder for one scenario, and the processes in it.
//!
//! Every process started here carries a tag in its environment. The tag stays in the program's memory across checkpoint
//! and restart. Orphans and restarted programs can thus be found and killed when the arena is dropped, whatever their
//! pids.

use crate::waiting::until;
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The environment variable that keeps the scratch folder of a failed scenario.
pub const KEEP_EVIDENCE: &str = "STANDFAST_KEEP";

const TAG_NAME: &str = "STANDFAST_ARENA";

/// The number of bytes of a log's end that an error shows.
const LOG_SHOWN_BYTES: usize = 2000;

/// A scratch folder with `work` (where the victim runs), `images` (the job's directory) and `logs`.
#[derive(Debug)]
pub struct Arena {
    folder: PathBuf,
    tag: String,
    kept: bool,
}

impl Arena {
    /// Makes an arena below the folder for temporary files.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("standfast-test-").tempdir().context("making a scratch folder")?;
        let folder = folder.keep();
        let tag = format!("{TAG_NAME}={}", folder.display());
        let arena = Self { folder, tag, kept: false };
        for part in [arena.work(), arena.logs()] {
            fs::create_dir(&part).with_context(|| format!("making {}", part.display()))?;
        }
        Ok(arena)
    }

    /// Returns the whole folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder where the victim runs and leaves its files.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Returns the job's directory. The command creates it, not the arena.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    /// Returns the folder for files that the command can make again.
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Returns the folder for the output of commands.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Keeps the folder as evidence when the arena is dropped.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Returns a command that runs in `work` and carries the tag.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).env(TAG_NAME, &self.folder).env_remove("STANDFAST_DIR");
        // Jobs of one scenario share the cache; scenarios do not.
        command.env("XDG_CACHE_HOME", self.cache());
        command
    }

    /// Returns all live processes that were started here, or restarted from one that was.
    pub fn processes(&self) -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| self.owns(*pid)).map(Pid::from_raw).collect()
    }

    fn owns(&self, pid: i32) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        environment.split(|byte| *byte == 0).any(|entry| entry == self.tag.as_bytes())
    }

    /// Returns the live processes of this arena that execute `program`.
    pub fn processes_of(&self, program: &Path) -> Vec<Pid> {
        let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
        let executes = |pid: &Pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        self.processes().into_iter().filter(executes).collect()
    }

    /// Waits until no process of this arena runs any more.
    ///
    /// # Errors
    /// When a process still runs after `limit`. The error names it.
    pub fn wait_until_empty(&self, limit: Duration) -> Result<()> {
        until(limit, "all processes of the scenario to end", || Ok(self.processes().is_empty().then_some(())))
            .with_context(|| {
                format!("still running: {:?}", self.processes().into_iter().map(described).collect::<Vec<_>>())
            })
    }

    /// Kills all processes that still run here.
    pub fn clear(&self) {
        // A process may start another one between the search and the kill, so search again, but not for ever.
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for pid in left {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the output of this scenario's commands, for an error message.
    pub fn evidence(&self) -> String {
        let mut text = format!("scratch folder {}", self.folder.display());
        let Ok(entries) = fs::read_dir(self.logs()) else { return text };
        let mut logs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        logs.sort();
        for log in logs {
            let said = fs::read(&log).unwrap_or_default();
            if said.is_empty() {
                continue;
            }
            let tail = String::from_utf8_lossy(&said[said.len().saturating_sub(LOG_SHOWN_BYTES)..]).into_owned();
            text.push_str(&format!("\n--- {}\n{tail}", log.file_name().unwrap_or_default().display()));
        }
        text
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.clear();
        if !self.kept {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Describes a process as `ps` does: pid, state and command line.
fn described(pid: Pid) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = state.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    format!("{pid} {state} {}", String::from_utf8_lossy(&words).replace('\0', " ").trim_end())
}
