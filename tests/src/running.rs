//! A running command. Its output goes to files, so that an orphan that holds a pipe open cannot hang a test. Every wait
//! has a limit.

use crate::arena::Arena;
pub use crate::waiting::{PATIENCE, until};
use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Returns how long a victim may take from start to end. The limit grows with its work (`make soak`).
pub fn patience_for_a_whole_run() -> Duration {
    PATIENCE * std::env::var("VICTIM_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Where the standard output of a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// To `logs/NAME.out`.
    Log,
    /// To this file, which is created or truncated.
    File(PathBuf),
    /// Nowhere.
    Nowhere,
}

/// Returns the lock to hold while files are open that a command is to write to. Otherwise, another command started
/// meanwhile would hold them, too, until it executes its program. A checkpoint would then find two writers.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static STARTING: Mutex<()> = Mutex::new(());
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Redirects a command's output to files, and returns their paths: standard output, standard error.
pub(crate) fn redirect(arena: &Arena, name: &str, output: Output, command: &mut Command) -> Result<(PathBuf, PathBuf)> {
    let output = match output {
        Output::Log => arena.logs().join(format!("{name}.out")),
        Output::File(path) => path,
        Output::Nowhere => PathBuf::from("/dev/null"),
    };
    let errors = arena.logs().join(format!("{name}.err"));
    let create = |path: &PathBuf| File::create(path).with_context(|| format!("creating {}", path.display()));
    command.stdout(create(&output)?).stderr(create(&errors)?);
    Ok((output, errors))
}

/// A started command. It is killed with SIGKILL if dropped before it ends.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    output: PathBuf,
    errors: PathBuf,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl Running {
    /// Starts a command. `name` names its logs. Standard input stays as `command` sets it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(arena: &Arena, name: &str, output: Output, command: &mut Command) -> Result<Self> {
        let _alone = alone();
        let (output, errors) = redirect(arena, name, output, command)?;
        let child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child, name: name.to_owned(), output, errors })
    }

    /// Starts a command with empty input and waits for its end.
    ///
    /// # Errors
    /// When it cannot be started or takes longer than [`PATIENCE`].
    pub fn complete(arena: &Arena, name: &str, command: &mut Command) -> Result<Ended> {
        Self::start(arena, name, Output::Log, command.stdin(Stdio::null()))?.wait(PATIENCE)
    }

    /// Returns its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid fits in 31 bits"))
    }

    /// Returns its standard input, if the command was given a pipe.
    pub fn input(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// Reports whether it has ended.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Returns what it has written to its standard error so far.
    pub fn errors_so_far(&self) -> String {
        fs::read(&self.errors).map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When the command has ended and has been waited for.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).with_context(|| format!("sending {signal} to {}", self.name))
    }

    /// Waits for the command's end.
    ///
    /// # Errors
    /// When the command takes longer than `limit`. It is then killed.
    pub fn wait(mut self, limit: Duration) -> Result<Ended> {
        let waited = until(limit, &format!("{} to end", self.name), || Ok(self.child.try_wait()?));
        let status = waited.map_err(|problem| anyhow!("{problem}; it had said: {}", self.errors_so_far()))?;
        let read = |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Ok(Ended { status, output: read(&self.output), errors: read(&self.errors) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// Reports whether the command ended with this exit status.
    pub fn exited(&self, code: i32) -> bool {
        self.status.code() == Some(code)
    }

    /// Reports whether this signal ended the command.
    pub fn killed_by(&self, signal: Signal) -> bool {
        self.status.signal() == Some(signal as i32)
    }

    /// Returns itself if the command succeeded.
    ///
    /// # Errors
    /// When the command failed. The error contains its standard error.
    pub fn well(self, what: &str) -> Result<Self> {
        if self.exited(0) { Ok(self) } else { bail!("{what} ended with {}: {}", self.status, self.errors) }
    }

    /// Returns the reason if the command refused. It must have ended by itself with status 1 or 2, without a panic, and
    /// have given a reason.
    ///
    /// # Errors
    /// When it did not refuse, or gave a bare error number as the reason.
    pub fn refusal(self, what: &str) -> Result<String> {
        let decent = self.status.code().is_some_and(|code| code == 1 || code == 2);
        if !decent || self.errors.trim().is_empty() || self.errors.contains("panicked") {
            bail!("{what} should have been refused with a reason, but ended with {}: {}", self.status, self.errors);
        }
        if self.errors.contains("os error") || self.errors.contains("errno") {
            bail!("{what} was refused with a bare error number: {}", self.errors);
        }
        Ok(self.errors)
    }
}
