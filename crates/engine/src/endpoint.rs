//! The named external endpoint: a pseudo-terminal whose slave belongs to the job, and whose master a holder outside the
//! job keeps to relay between the job and a user. The engine does not relay; it only asks the holder to pause.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Holds the master of the job's terminal.
pub trait TerminalHolder: fmt::Debug + Send + Sync {
    /// Returns the master, which is also open in this process.
    fn master(&self) -> BorrowedFd<'_>;

    /// Makes the holder neither read from the master nor write to it until [`Self::go_on`].
    ///
    /// # Errors
    /// If the holder does not answer. It may then continue to use the master.
    fn hold_still(&self) -> io::Result<()>;

    /// Lets the holder use the master again.
    fn go_on(&self);
}

/// A paused holder; dropping it lets the holder continue.
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
