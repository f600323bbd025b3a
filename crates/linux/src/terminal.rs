//! Ring 2: the controlling terminal and its foreground process group.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use crate::sys::check;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The controlling terminal of this process.
#[derive(Debug)]
pub struct Terminal {
    file: File,
}

impl Terminal {
    /// Opens the controlling terminal, or returns `None` if there is none.
    pub fn controlling() -> Option<Self> {
        OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(|file| Self { file })
    }

    /// Returns the foreground process group, to which the keys go.
    ///
    /// # Errors
    /// When it is not our terminal any more.
    pub fn foreground(&self) -> io::Result<i32> {
        // SAFETY: a live descriptor.
        check(unsafe { libc::tcgetpgrp(self.file.as_raw_fd()) }.into()).map(|group| group as i32)
    }

    /// Reports whether this process group is in the foreground.
    pub fn is_held_by(&self, group: i32) -> bool {
        self.foreground().is_ok_and(|foreground| foreground == group)
    }

    /// Brings a process group of this session to the foreground. A process in the background may do that too.
    ///
    /// # Errors
    /// When there is no such group, or it is not our terminal any more.
    pub fn give_to(&self, group: i32) -> io::Result<()> {
        give(self.file.as_raw_fd(), group)
    }
}

impl AsRawFd for Terminal {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Returns this process's group.
pub fn own_group() -> i32 {
    // SAFETY: cannot fail.
    unsafe { libc::getpgrp() }
}

/// Makes this process the leader of a process group of its own, in the foreground of `terminal` if given.
/// Async-signal-safe.
pub(crate) fn lead_group(terminal: Option<RawFd>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    terminal.map_or(Ok(()), |terminal| give(terminal, own_group()))
}

/// Calls tcsetpgrp(3) with SIGTTOU blocked, so that it also works in the background.
fn give(terminal: RawFd, group: i32) -> io::Result<()> {
    // SAFETY: signal sets are bit masks for which all zeros is a value; all are live.
    unsafe {
        let (mut output, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigaddset(&raw mut output, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const output, &raw mut before);
        let given = check(libc::tcsetpgrp(terminal, group).into());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        given.map(drop)
    }
}
