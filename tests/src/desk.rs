//! A command on its own terminal, as after a login.

use crate::arena::Arena;
use crate::running::{PATIENCE, until};
use crate::screen::Screen;
use anyhow::{Context as _, Result};
use std::process::{Child, Command, ExitStatus};

/// A command and the terminal that it controls.
#[derive(Debug)]
pub struct Desk {
    child: Child,
    /// The terminal.
    pub screen: Screen,
}

impl Desk {
    /// Starts `command` on a terminal with this many rows and columns.
    ///
    /// # Errors
    /// When the terminal or the command cannot be started.
    pub fn start(arena: &Arena, rows: u16, columns: u16, command: &Command) -> Result<Self> {
        let (screen, terminal, _) = Screen::open()?;
        screen.resize(rows, columns)?;
        let mut login = arena.command("setsid");
        login.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env("PS1", "$ ");
        login.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        let child = login.spawn()?;
        Ok(Self { child, screen })
    }

    /// Types keys, and waits until the terminal shows an answer.
    ///
    /// # Errors
    /// When the answer does not appear.
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
