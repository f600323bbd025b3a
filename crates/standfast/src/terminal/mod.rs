//! The proxied terminal: a pseudo-terminal of the job's own, whose master a small process holds. Attached users see
//! what the program writes there, and type.
//!
//! ```text
//! program <== slave | master ==> holder <== socket `terminal` ==> attachment (proxy, or `attach`) <==> user's terminal
//!                        \         ^
//!                         \        | messages: keep still, go on
//!                          supervisor
//! ```
//!
//! The holder does not belong to the job and does not end with the supervisor. If the supervisor is killed, the program
//! keeps its terminal. If the holder is killed, the program sees a hangup as with any lost terminal.

mod attach;
mod attachment;
mod container_init;
mod detach_key;
mod foreground;
mod foreground_proxy;
mod frames;
mod held;
mod holder;
mod modes;
mod raw;
mod shells;

pub use attach::{AttachRequest, Departure, attach};
pub(crate) use attachment::{Attachment, Progress};
pub use detach_key::DetachKey;
pub(crate) use foreground::Foreground;
pub use foreground_proxy::{ForegroundConnection, ForegroundProxy, Left, Side, split};
pub(crate) use held::HeldTerminal;
pub(crate) use raw::open_own;

use crate::Error;
use rustix::fs::{Mode, OFlags};
use rustix::termios::{isatty, tcgetattr, tcgetwinsize};
use standfast_engine::LaunchTerminal;
use standfast_format::words;
use standfast_linux::sys::terminal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, stderr, stdin, stdout};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Name of the socket in the job's directory.
pub(crate) const SOCKET_NAME: &str = "terminal";

words! {
    /// The terminal on which a program starts.
    TerminalKind, "is not a kind of terminal",
    /// One of its own for an interactive shell, else the shared one.
    #[default]
    Auto = "auto",
    /// The terminal on which the command was started, shared with all other processes there.
    Shared = "shared",
    /// One of its own, to which users attach.
    Proxied = "proxied",
}

impl TerminalKind {
    /// Reports whether this program gets a terminal of its own.
    pub(crate) fn is_own(self, program: &OsStr, arguments: &[OsString]) -> bool {
        let streams = [isatty(stdin()), isatty(stdout()), isatty(stderr())];
        match self {
            Self::Auto => {
                let is_typed_into = streams.iter().all(|is_terminal| *is_terminal) && open_own().is_ok();
                is_typed_into && shells::is_interactive_shell(program, arguments)
            }
            Self::Shared => false,
            Self::Proxied => true,
        }
    }
}

/// Makes a terminal for a program that is about to start, like the one on which we were started, and starts its holder.
/// With `detached`, what the program would write to our pipes goes to the terminal as well.
pub(crate) fn make(directory: &Path, detached: bool) -> Result<(Arc<HeldTerminal>, LaunchTerminal), Error> {
    let making = |error: io::Error| Error::system("make a terminal for the program")(error);
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC;
    let made = rustix::pty::openpt(flags).map_err(io::Error::from).and_then(|master| {
        terminal::set_locked(master.as_fd(), false)?;
        let slave = open_again(&terminal::open_slave(master.as_fd())?)?;
        liken(&slave, open_own().ok().as_ref());
        Ok((master, slave))
    });
    let (master, slave) = made.map_err(making)?;
    let held = Arc::new(HeldTerminal::start(directory, master)?);
    let leads_there = |stream: BorrowedFd<'_>| isatty(stream) || detached && !is_file(stream);
    let streams = [leads_there(stdin().as_fd()), leads_there(stdout().as_fd()), leads_there(stderr().as_fd())];
    Ok((held, LaunchTerminal::New { slave: Arc::new(slave), streams }))
}

/// Opens the same terminal again as programs do: with blocking calls, and without the close-on-exec flag. TIOCGPTPEER
/// leaves that flag with the open file, so that all its descriptors seem to have it (Linux 6.18).
fn open_again(slave: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/self/fd/{}", slave.as_raw_fd()), flags, Mode::empty())?)
}

fn is_file(stream: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Gives a new terminal the settings and the window size of ours, if there is one.
fn liken(slave: &OwnedFd, ours: Option<&File>) {
    let Some(ours) = ours else { return };
    if let Ok(settings) = tcgetattr(ours) {
        let _ = rustix::termios::tcsetattr(slave, rustix::termios::OptionalActions::Now, &settings);
    }
    if let Ok(window) = tcgetwinsize(ours) {
        let _ = rustix::termios::tcsetwinsize(slave, window);
    }
}
