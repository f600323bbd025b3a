//! The `standfast` command line and its answers.

use crate::arena::Arena;
use crate::result::OUTPUT;
use crate::running::{Ended, Output, PATIENCE, Running, alone, until};
use crate::victims::Program;
use crate::workshop::target_folder;
use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

/// How often a scenario's run takes checkpoints by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoints {
    /// At this interval, in milliseconds.
    EveryMilliseconds(u64),
    /// At intervals that the supervisor chooses.
    Automatically,
    /// Only on request.
    OnRequest,
}

/// Truncates files even if another copy of the job has written to them. For jobs that are restarted from several copies
/// of their directory.
pub const ROLLBACK: [&str; 2] = ["--files", "rollback"];

/// The command, applied to the job of one arena.
#[derive(Debug, Clone, Copy)]
pub struct Standfast<'a> {
    arena: &'a Arena,
    binary: &'static Path,
}

impl<'a> Standfast<'a> {
    /// Finds the command: `STANDFAST_BIN`, or the binary that cargo builds.
    ///
    /// # Errors
    /// When the command cannot be built.
    pub fn new(arena: &'a Arena) -> Result<Self> {
        Ok(Self { arena, binary: standfast_binary()? })
    }

    /// Returns the command with these arguments, in the arena's working folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.arena.command(self.binary);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Returns `run -d IMAGES -i INTERVAL -- PROGRAM`.
    pub fn run_command(&self, checkpoints: Checkpoints, program: &Program) -> Command {
        self.run_command_with(&[], checkpoints, program)
    }

    /// Like [`Standfast::run_command`], with more options.
    pub fn run_command_with(&self, options: &[String], checkpoints: Checkpoints, program: &Program) -> Command {
        let interval = match checkpoints {
            Checkpoints::EveryMilliseconds(milliseconds) => format!("{milliseconds}ms"),
            Checkpoints::Automatically => "auto".to_owned(),
            Checkpoints::OnRequest => "off".to_owned(),
        };
        let mut command = self.command(&["run", "-d"]);
        command.arg(self.arena.images()).args(["-i", &interval]).args(options);
        let is_beside = rehearsals().is_some_and(|how| how == "beside");
        if !options.iter().any(|option| option == "--rehearse") {
            // Otherwise the tests would take half as long again.
            command.args(["--rehearse", if is_beside { "every:1" } else { "off" }]);
        }
        command.arg("--");
        command.arg(&program.path).args(&program.arguments);
        command
    }

    /// Returns `restart DIRECTORY`.
    pub fn restart_command(&self, directory: &Path) -> Command {
        let mut command = self.command(&["restart"]);
        command.arg(directory);
        command
    }

    /// Starts a program. Its output goes to the working folder.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn run(&self, checkpoints: Checkpoints, program: &Program) -> Result<Running> {
        let output = Output::File(self.arena.work().join(OUTPUT));
        Running::start(self.arena, "run", output, &mut self.run_command(checkpoints, program))
    }

    /// Like [`Standfast::run`], for a job whose copies will be restarted. A restart then cuts off everything that the
    /// job's files have grown by, even if another copy wrote it.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn run_to_be_copied(&self, checkpoints: Checkpoints, program: &Program) -> Result<Running> {
        self.run_with(&ROLLBACK.map(str::to_owned), checkpoints, program)
    }

    /// Like [`Standfast::run`], with more options.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn run_with(&self, options: &[String], checkpoints: Checkpoints, program: &Program) -> Result<Running> {
        let output = Output::File(self.arena.work().join(OUTPUT));
        Running::start(self.arena, "run", output, &mut self.run_command_with(options, checkpoints, program))
    }

    /// Restarts the job in `directory`. The program's output goes to its own file, as before.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn restart(&self, directory: &Path, name: &str) -> Result<Running> {
        Running::start(self.arena, name, Output::Nowhere, &mut self.restart_command(directory))
    }

    /// Runs a subcommand on a directory and waits until it ends.
    ///
    /// # Errors
    /// When the subcommand cannot be started or does not end.
    pub fn ask(&self, subcommand: &str, directory: &Path, more: &[&str]) -> Result<Ended> {
        let mut command = self.command(&[subcommand]);
        Running::complete(self.arena, subcommand, command.arg(directory).args(more))
    }

    /// Runs `checkpoint`, which must succeed.
    ///
    /// # Errors
    /// When it fails.
    pub fn checkpoint(&self) -> Result<()> {
        self.ask("checkpoint", &self.arena.images(), &[])?.well("checkpoint").map(drop)
    }

    /// Like [`Standfast::checkpoint`], but first waits until a restarted job's supervisor answers.
    ///
    /// # Errors
    /// When no checkpoint succeeds within [`PATIENCE`].
    pub fn checkpoint_when_supervised(&self) -> Result<()> {
        let mut last = String::new();
        let taken = until(PATIENCE, "a supervisor that takes a checkpoint", || {
            let ended = self.ask("checkpoint", &self.arena.images(), &[])?;
            last = ended.errors;
            Ok(ended.status.success().then_some(()))
        });
        taken.with_context(|| format!("the last answer: {last}"))
    }

    /// If STANDFAST_REHEARSALS is `here`, rehearses a restart, which must succeed.
    ///
    /// # Errors
    /// When it fails.
    pub fn rehearse_if_asked(&self) -> Result<()> {
        if rehearsals().is_some_and(|how| how == "here") {
            self.ask("rehearse", &self.arena.images(), &[])?.well("a rehearsal")?;
        }
        Ok(())
    }

    /// Runs `verify`, which must find every generation intact.
    ///
    /// # Errors
    /// When it finds damage.
    pub fn verify(&self, directory: &Path) -> Result<()> {
        self.ask("verify", directory, &[])?.well("verify").map(drop)
    }

    /// Returns the answer of `status --json`.
    ///
    /// # Errors
    /// When it fails or its answer is not JSON.
    pub fn status(&self, directory: &Path) -> Result<Value> {
        let said = self.ask("status", directory, &["--json"])?.well("status")?;
        serde_json::from_str(&said.output).with_context(|| format!("status --json said {:?}", said.output))
    }

    /// Returns the newest generation, if the directory exists and has one.
    ///
    /// # Errors
    /// When the status cannot be read.
    pub fn newest_generation(&self, directory: &Path) -> Result<Option<u64>> {
        if !directory.join("manifest").exists() {
            return Ok(None);
        }
        let status = self.status(directory)?;
        let generations = status["generations"].as_array().context("status has no generations")?;
        Ok(generations.iter().filter_map(|generation| generation["generation"].as_u64()).max())
    }

    /// Returns the pid of the program's main process as the command reports it, while that process lives.
    ///
    /// # Errors
    /// When the status cannot be read.
    pub fn program_pid(&self) -> Result<Option<Pid>> {
        Ok(pid_in(&self.status(&self.arena.images())?["program_pid"]))
    }

    /// Returns the pid of the supervisor.
    ///
    /// # Errors
    /// When the status cannot be read, or reports no supervisor.
    pub fn supervisor_pid(&self) -> Result<Pid> {
        pid_in(&self.status(&self.arena.images())?["live"]["supervisor_pid"]).context("a supervisor answers")
    }

    /// Kills the whole job, as a power cut would. The main process dies first, so that it cannot react to the end of
    /// another process. Returns whether there was a main process to kill.
    ///
    /// # Errors
    /// When the status cannot be read, or a process does not end within [`PATIENCE`].
    pub fn kill_job(&self) -> Result<bool> {
        let status = self.status(&self.arena.images())?;
        let Some(main) = pid_in(&status["program_pid"]) else { return Ok(false) };
        let supervisor = pid_in(&status["live"]["supervisor_pid"]);
        let others = self.job_processes();
        let killed = kill(main, Signal::SIGKILL).is_ok();
        others.into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
        until(PATIENCE, "all processes of the job to end", || {
            let rest = self.job_processes();
            rest.iter().for_each(|pid| _ = kill(*pid, Signal::SIGKILL));
            Ok(rest.is_empty().then_some(()))
        })?;
        // If the supervisor saw that other processes outlived the main process, it has let the command end and still
        // owns the directory.
        until(PATIENCE, "the supervisor to end", || {
            let lives = supervisor.is_some_and(|pid| self.arena.processes().contains(&pid));
            Ok((!lives).then_some(()))
        })?;
        Ok(killed)
    }

    /// Returns the processes of the arena that do not execute the command itself.
    fn job_processes(&self) -> Vec<Pid> {
        let command = self.arena.processes_of(self.binary);
        self.arena.processes().into_iter().filter(|pid| !command.contains(pid)).collect()
    }

    /// Waits until the status reports that the program runs.
    ///
    /// # Errors
    /// When that takes longer than [`PATIENCE`].
    pub fn await_program(&self) -> Result<Pid> {
        until(PATIENCE, "the program to run", || {
            if self.arena.images().join("manifest").exists() { self.program_pid() } else { Ok(None) }
        })
    }

    /// Waits until the victim has reached its gate.
    ///
    /// # Errors
    /// When that takes longer than [`PATIENCE`].
    pub fn await_gate(&self) -> Result<()> {
        let waiting = self.arena.work().join("waiting");
        until(PATIENCE, "the victim to reach its gate", || Ok(waiting.exists().then_some(())))
    }

    /// Waits for a generation newer than `last`. Returns `None` if the command ends first.
    ///
    /// # Errors
    /// When that takes longer than [`PATIENCE`], or the status cannot be read.
    pub fn await_generation(&self, last: Option<u64>, running: &mut Running) -> Result<Option<u64>> {
        until(PATIENCE, "a new generation", || {
            let ended = running.has_ended()?;
            let newest = self.newest_generation(&self.arena.images())?;
            Ok(if newest > last { Some(newest) } else { ended.then_some(None) })
        })
    }
}

/// Copies a folder with `cp -a`, as a user would. Tries again if a file was removed meanwhile.
///
/// # Errors
/// When `cp` fails.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    until(PATIENCE, "a folder that nobody changes", || {
        let mut copying = Command::new("cp");
        copying.arg("-a").arg(from).arg(to).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let alone = alone();
        let started = copying.spawn().context("starting cp")?;
        drop(alone);
        let done = started.wait_with_output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() {
            return Ok(Some(()));
        }
        ensure!(said.contains("No such file or directory") && from.exists(), "cp -a {}: {said}", from.display());
        fs::remove_dir_all(to).map(|()| None).context("removing half a copy")
    })
}

fn pid_in(value: &Value) -> Option<Pid> {
    i32::try_from(value.as_i64()?).ok().map(Pid::from_raw)
}

/// Returns the path of the command: `STANDFAST_BIN`, or the binary that cargo builds.
///
/// # Errors
/// When the command cannot be built.
pub fn standfast_binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BINARY.get_or_init(|| locate().map_err(|problem| format!("{problem:#}"))) {
        Ok(binary) => Ok(binary),
        Err(problem) => bail!("{problem}"),
    }
}

fn locate() -> Result<PathBuf> {
    if let Some(named) = env::var_os("STANDFAST_BIN") {
        return fs::canonicalize(&named).with_context(|| format!("STANDFAST_BIN is {}", named.display()));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "-p", "standfast-cli"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let done = build.output().context("building the command; set STANDFAST_BIN to use one that exists")?;
    if !done.status.success() {
        bail!("building the command failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    let binary = target_folder().join("release/standfast");
    fs::canonicalize(&binary).with_context(|| format!("looking for {}", binary.display()))
}

/// Returns how restarts are rehearsed in all tests: after each checkpoint (`here`), or in the background (`beside`).
fn rehearsals() -> Option<std::ffi::OsString> {
    std::env::var_os("STANDFAST_REHEARSALS")
}
