//! The named external endpoint: a pseudo-terminal whose slave is the job's, and whose master is held outside of it by
//! somebody who relays between it and a user. Not how that is done: the engine only asks whoever it is to keep still.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Holds the master of the job's terminal.
pub trait TerminalHolder: fmt::Debug + Send + Sync {
    /// The master, open in this process as well.
    fn master(&self) -> BorrowedFd<'_>;

    /// Neither reads from the master nor writes to it until [`Self::go_on`].
    ///
    /// # Errors
    /// When it does not answer: it may go on using it.
    fn hold_still(&self) -> io::Result<()>;

    /// Uses it again.
    fn go_on(&self);
}

/// A holder that keeps still; dropped, it goes on.
pub(crate) struct Still<'a>(&'a dyn TerminalHolder);

impl<'a> Still<'a> {
    pub(crate) fn hold(holder: &'a dyn TerminalHolder) -> io::Result<Self> {
        holder.hold_still().map(|()| Self(holder))
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.go_on();
    }
}
