//! The user's own terminal, put into raw mode and back. Only SIGKILL prevents the restoration.

use rustix::fs::{Mode, OFlags};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::File;
use std::io;

/// Opens our controlling terminal again, so that making it non-blocking does not affect other processes.
pub(crate) fn open_own() -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?.into())
}

/// A terminal in raw mode. Dropping it restores the settings.
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

    /// Enters raw mode again, after [`Self::leave`] or after another process has had the terminal.
    pub(super) fn enter_again(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(&self.file, OptionalActions::Now, &raw)?)
    }

    /// Restores the settings while another process has the terminal.
    pub(super) fn leave(&self) {
        // A lost terminal has no settings any more.
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
    }

    /// Returns rows, columns, width and height in pixels.
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
