//! What a terminal shows, read from its other side.

use crate::running::{PATIENCE, until};
use anyhow::{Context as _, Result, bail};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::unistd::{Pid, tcgetpgrp};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The master side of a nonblocking pseudo terminal, and its output.
#[derive(Debug)]
pub struct Screen {
    terminal: File,
    /// Text that has been shown but not yet awaited.
    pub shown: String,
}

impl Screen {
    /// Opens a pseudo terminal. Returns it with its other side and the path of that. Programs that other tests start at
    /// the same time must not inherit it even for a moment, since their checkpoints would be refused.
    ///
    /// # Errors
    /// When the machine has no pseudo terminal left.
    pub fn open() -> Result<(Self, File, PathBuf)> {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .context("opening a pseudo terminal")?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = PathBuf::from(ptsname_r(&master)?);
        let mut options = OpenOptions::new();
        let terminal = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(&path)?;
        Ok((Self { terminal: File::from(OwnedFd::from(master)), shown: String::new() }, terminal, path))
    }

    /// Presses keys.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn type_in(&mut self, keys: &[u8]) -> Result<()> {
        self.terminal.write_all(keys).context("typing")
    }

    /// Resizes the window to this many rows and columns.
    ///
    /// # Errors
    /// When stty fails.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]).stdin(self.terminal.try_clone()?);
        let done = stty.status().context("starting stty")?;
        if done.success() { Ok(()) } else { bail!("stty ended with {done}") }
    }

    /// Returns the process group that receives the keys.
    ///
    /// # Errors
    /// When the terminal controls no session.
    pub fn foreground(&self) -> Result<Pid> {
        tcgetpgrp(&self.terminal).context("asking for the group in the foreground")
    }

    /// Reads what the terminal shows by now.
    pub fn take_shown(&mut self) {
        let mut piece = [0; 1024];
        while let Ok(got @ 1..) = self.terminal.read(&mut piece) {
            self.shown.push_str(&String::from_utf8_lossy(&piece[..got]));
        }
    }

    /// Waits until the terminal shows `text`, after everything that was awaited before.
    ///
    /// # Errors
    /// When the text does not appear within [`PATIENCE`].
    pub fn await_text(&mut self, text: &str) -> Result<()> {
        until(PATIENCE, &format!("the terminal to show {text:?}"), || {
            let mut piece = [0; 1024];
            match self.terminal.read(&mut piece) {
                Ok(0) => bail!("the terminal was closed"),
                Ok(got) => self.shown.push_str(&String::from_utf8_lossy(&piece[..got])),
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => {}
                Err(problem) => return Err(problem).context("reading the terminal"),
            }
            Ok(self.shown.find(text).map(|at| self.shown.drain(..at + text.len()).count()))
        })
        .map(drop)
        .with_context(|| format!("it shows: {}", self.shown))
    }
}
