//! A command on a terminal of its own, as a login gives it one.

use crate::arena::Arena;
use crate::running::{PATIENCE, until};
use crate::screen::Screen;
use anyhow::{Context as _, Result};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::process::{Child, Command, ExitStatus};

/// A command and the terminal that it controls.
#[derive(Debug)]
pub struct Desk {
    child: Child,
    /// The terminal.
    pub screen: Screen,
}

impl Desk {
    /// Starts `command` on a terminal with so many rows and columns.
    ///
    /// # Errors
    /// When that cannot be had.
    pub fn start(arena: &Arena, size: (u16, u16), command: &Command) -> Result<Self> {
        let window = Winsize { ws_row: size.0, ws_col: size.1, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&window, None).context("opening a pseudo terminal")?;
        // Other tests start programs at the same time, which are not to inherit it, nor is the command more than its streams.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(&pty.slave, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context("reading without waiting")?;
        let terminal = File::from(pty.slave);
        let mut login = arena.command("setsid");
        login.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env("PS1", "$ ");
        login.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        let child = login.spawn()?;
        Ok(Self { child, screen: Screen::of(File::from(pty.master)) })
    }

    /// Types, and waits until something is shown.
    ///
    /// # Errors
    /// When it is not.
    pub fn say(&mut self, keys: &str, answer: &str) -> Result<()> {
        self.screen.type_in(keys.as_bytes())?;
        self.screen.await_text(answer)
    }

    /// Waits for the command's end.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let ended = until(PATIENCE, "the command on the terminal to end", || {
            self.screen.take_shown();
            Ok(self.child.try_wait()?)
        });
        ended.with_context(|| format!("the terminal shows: {}", self.screen.shown))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
