//! The user's own terminal, put into raw mode and back, whatever happens but SIGKILL.

use rustix::fs::{Mode, OFlags};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::File;
use std::io;

/// Our controlling terminal, opened again: to read from it and write to it without waiting changes nobody else's.
pub(crate) fn open_own() -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?.into())
}

/// A terminal in raw mode; dropped, it is as it was.
#[derive(Debug)]
pub(super) struct RawTerminal {
    pub(super) file: File,
    before: Termios,
}

impl RawTerminal {
    pub(super) fn enter(file: File) -> io::Result<Self> {
        let this = Self { before: tcgetattr(&file)?, file };
        this.enter_again()?;
        Ok(this)
    }

    /// Once more, after [`Self::leave`] or after somebody else has had the terminal.
    pub(super) fn enter_again(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(&self.file, OptionalActions::Now, &raw)?)
    }

    /// As it was, for as long as somebody else has it.
    pub(super) fn leave(&self) {
        // A terminal that is lost has no settings any more.
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
    }

    /// Rows, columns, width and height in pixels.
    pub(super) fn window(&self) -> io::Result<[u16; 4]> {
        let size = tcgetwinsize(&self.file)?;
        Ok([size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel])
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave();
    }
}
