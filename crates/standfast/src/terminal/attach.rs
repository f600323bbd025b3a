//! `attach`: attaches the user's terminal to that of a running job, until the user detaches or the job ends. The
//! foreground proxy of a job does the same while it waits for the job.

use crate::Error;
use crate::signals::SignalInbox;
use crate::terminal::{Attachment, DetachKey, Progress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::signal::{SIGINT, SIGQUIT, SIGTERM};
use std::path::PathBuf;
use std::time::Instant;

/// To which job's terminal to attach, and how to detach.
#[derive(Debug, Clone)]
pub struct AttachRequest {
    /// The job's directory.
    pub directory: PathBuf,
    /// Key that detaches when pressed twice.
    pub detach_key: DetachKey,
}

impl AttachRequest {
    pub(crate) fn attach(&self) -> Result<Attachment, Error> {
        Attachment::open(&self.directory, self.detach_key)
    }
}

/// Why an attachment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The user has detached, or another user has attached: the program continues to run.
    Detached,
    /// No process has the job's terminal open any more.
    Ended,
}

/// Attaches our controlling terminal to that of a job, until one of them is gone or the user detaches.
///
/// # Errors
/// If one of the two terminals does not exist.
pub fn attach(request: &AttachRequest) -> Result<Departure, Error> {
    let mut signals = SignalInbox::open().map_err(Error::system("take over the signals"))?;
    let mut attachment = request.attach()?;
    loop {
        await_terminal(&attachment, &[PollFd::new(&signals, PollFlags::IN)])?;
        for (signal, _) in signals.take(0) {
            match attachment.handle_signal(signal) {
                Some(Progress::GoesOn) => {}
                None if !matches!(signal, SIGINT | SIGQUIT | SIGTERM) => {}
                _ => return Ok(Departure::Detached),
            }
        }
        match attachment.handle(Instant::now()) {
            Progress::GoesOn => {}
            Progress::Detached => return Ok(Departure::Detached),
            Progress::Ended => {
                attachment.finish();
                return Ok(Departure::Ended);
            }
        }
    }
}

/// Sleeps until there is data to relay, or something happens to `others`.
fn await_terminal(attachment: &Attachment, others: &[PollFd<'_>]) -> Result<(), Error> {
    let mut fds: Vec<PollFd<'_>> = attachment.poll_fds().into_iter().chain(others.iter().cloned()).collect();
    let rest = attachment.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = rest.and_then(|rest| Timespec::try_from(rest).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Error::system("wait for the terminal")(error.into())),
    }
}
