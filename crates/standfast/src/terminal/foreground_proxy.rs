//! The front: the process that whoever has started us waits for, while another one, its child, is the supervisor. The front
//! hands on what signals it gets, stops when the job is stopped, and ends as the job's program does; the supervisor may
//! go on behind it. When the front is killed the job is protected on.
//!
//! ```text
//! shell --- waits for ---> front <=== line ===> supervisor ---> program ---> ...
//! ```
//!
//! The supervisor leads a process group of its own: what is sent to the group that the shell knows reaches the front
//! alone, and is handed on once.

use super::attach::AttachRequest;
use crate::signals::{Sender, SignalInbox};
use crate::terminal::{Attachment, Progress};
use crate::{Ending, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpgrp, getpid, pidfd_open, pidfd_send_signal, waitpid};
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use standfast_linux::{Half, step_aside};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

/// A message is two bytes: of a signal its number and who has sent it; of an end what kind it is and the number with it.
/// As many are taken at a time.
const MESSAGES_AT_ONCE: usize = 64;
const FROM_KERNEL: u8 = b'k';
const FROM_PROCESS: u8 = b'p';
const EXITED: u8 = b'e';
const KILLED: u8 = b'k';
const HAS_TERMINAL: u8 = b't';

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Side {
    /// The one that is waited for.
    ForegroundProxy(ForegroundProxy),
    /// The one that becomes the supervisor.
    Behind(ForegroundConnection),
}

/// Becomes two processes, front and supervisor. Call it while this process has a single thread.
///
/// # Errors
/// When no further process can be had.
pub fn split() -> Result<Side, Error> {
    let splitting = |error| Error::system("start a process for the supervisor")(error);
    let (ours, theirs) = UnixStream::pair().map_err(splitting)?;
    let (front, group) = (getpid(), getpgrp());
    match standfast_linux::split().map_err(splitting)? {
        Half::Parent { child, held } => {
            let signals = SignalInbox::open().map_err(Error::system("take over the signals"))?;
            drop(held);
            let supervisor = Pid::from_raw(child).expect("the kernel has just made it");
            Ok(Side::ForegroundProxy(ForegroundProxy { supervisor, line: ours, signals, attachment: None }))
        }
        Half::Child => {
            step_aside().map_err(splitting)?;
            theirs.set_nonblocking(true).map_err(splitting)?;
            // One that has been killed by now shows at the line.
            let process = pidfd_open(front, PidfdFlags::empty()).ok();
            let group = group.as_raw_nonzero().get();
            Ok(Side::Behind(ForegroundConnection(Arc::new(Line { stream: theirs, process, group }))))
        }
    }
}

/// The front.
#[derive(Debug)]
pub struct ForegroundProxy {
    supervisor: Pid,
    line: UnixStream,
    signals: SignalInbox,
    attachment: Option<Box<Attachment>>,
}

/// Why the front has nothing to do any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The program has ended, or the supervisor.
    Ended(Ending),
    /// Its user has detached: the program runs on in the background.
    Detached,
}

impl ForegroundProxy {
    /// Hands on signals, and relays for the terminal of the job if it gets one, until the program has ended, or the
    /// supervisor, or the user detaches.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn serve(mut self, request: &AttachRequest) -> Result<Left, Error> {
        loop {
            let news = self.wait()?;
            if news && let Some(ending) = self.hear(request)? {
                self.attachment.take().into_iter().for_each(|attachment| attachment.finish());
                return Ok(Left::Ended(ending));
            }
            let relayed = self.attachment.as_mut().map(|attachment| attachment.handle(Instant::now()));
            if self.hand_on() == Progress::Detached || relayed == Some(Progress::Detached) {
                return Ok(Left::Detached);
            }
            if relayed == Some(Progress::Ended) {
                self.attachment.take().into_iter().for_each(|attachment| attachment.finish());
            }
        }
    }

    /// Sleeps until something happens; whether the supervisor has said something, or is gone.
    fn wait(&self) -> Result<bool, Error> {
        let mut fds = vec![PollFd::new(&self.line, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.attachment.iter().flat_map(|attachment| attachment.poll_fds()));
        let deadline = self.attachment.as_ref().and_then(|attachment| attachment.deadline());
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match poll(&mut fds, rest.and_then(|rest| Timespec::try_from(rest).ok()).as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Error::system("wait for the supervisor")(error.into())),
        }
    }

    fn hand_on(&mut self) -> Progress {
        for (signal, sender) in self.signals.take(self.supervisor.as_raw_nonzero().get()) {
            let from = match sender {
                Sender::Kernel => FROM_KERNEL,
                Sender::Process => FROM_PROCESS,
                Sender::Program => continue,
            };
            match self.attachment.as_mut().and_then(|attachment| attachment.handle_signal(signal)) {
                Some(Progress::GoesOn) => {}
                Some(left) => return left,
                // A supervisor that is gone shows at the line.
                None if signal != SIGCHLD => drop(self.line.write_all(&[signal as u8, from])),
                None => {}
            }
        }
        Progress::GoesOn
    }

    /// The supervisor has said something, or is gone: how the program has ended, if it did.
    fn hear(&mut self, request: &AttachRequest) -> Result<Option<Ending>, Error> {
        let mut message = [0; 2];
        if self.line.read_exact(&mut message).is_err() {
            return self.reap().map(Some);
        }
        let [kind, number] = message;
        match kind {
            // Without a terminal here it is the program's alone.
            HAS_TERMINAL => self.attachment = request.attach().ok().map(Box::new),
            EXITED => return Ok(Some(Ending::Exited { status: number.into() })),
            _ => return Ok(Some(Ending::Killed { signal: number.into() })),
        }
        Ok(None)
    }

    fn reap(&self) -> Result<Ending, Error> {
        loop {
            match waitpid(Some(self.supervisor), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(Ending::of_status(ExitStatus::from_raw(status.as_raw()))),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::system("wait for the supervisor")(error.into())),
            }
        }
    }
}

/// The supervisor's end of the line between the two.
#[derive(Debug, Clone)]
pub struct ForegroundConnection(Arc<Line>);

#[derive(Debug)]
struct Line {
    stream: UnixStream,
    process: Option<OwnedFd>,
    group: i32,
}

impl ForegroundConnection {
    /// The process group of the front, to which the terminal's keys are to go when the job does not have them.
    pub(crate) fn group(&self) -> i32 {
        self.0.group
    }

    /// The signals that the front has got since the last call; `None` once it is gone.
    pub(crate) fn take(&self) -> Option<Vec<(i32, Sender)>> {
        let mut bytes = [0; 2 * MESSAGES_AT_ONCE];
        let sender = |from: u8| if from == FROM_KERNEL { Sender::Kernel } else { Sender::Process };
        match (&self.0.stream).read(&mut bytes) {
            Ok(0) => None,
            Ok(length) => Some(bytes[..length].chunks_exact(2).map(|it| (it[0].into(), sender(it[1]))).collect()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Some(Vec::new())
            }
            Err(_) => None,
        }
    }

    /// The signal with which the front has been asked to end, if it has been: as long as no program runs that it could be meant
    /// for. It is not taken.
    pub(crate) fn asks_to_end(&self) -> Option<i32> {
        let mut bytes = [0; 2 * MESSAGES_AT_ONCE];
        let (length, _) = recv(&self.0.stream, &mut bytes, RecvFlags::PEEK).ok()?;
        let mut signals = bytes[..length].chunks_exact(2).map(|message| i32::from(message[0]));
        signals.find(|signal| [SIGTERM, SIGINT, SIGQUIT, SIGHUP].contains(signal))
    }

    /// Stops the front as job control does, so that the shell takes note.
    pub(crate) fn stop(&self) {
        // Not SIGTSTP, which the kernel keeps from groups that no shell looks after.
        let _ = self.0.process.as_ref().map(|process| pidfd_send_signal(process, Signal::STOP));
    }

    /// Tells the front that the job has a terminal to attach to.
    pub(crate) fn show_terminal(&self) {
        // One that is gone needs no word.
        let _ = (&self.0.stream).write_all(&[HAS_TERMINAL, 0]);
    }

    /// Lets the front end as the program has ended, while we go on.
    pub(crate) fn let_go(&self, ending: Ending) {
        let message = match ending {
            Ending::Exited { status } => [EXITED, status as u8],
            Ending::Killed { signal } => [KILLED, signal as u8],
            Ending::Stopped { .. } => unreachable!("nothing goes on after a checkpoint that stops"),
        };
        // One that is gone needs no word.
        let _ = (&self.0.stream).write_all(&message);
    }
}

impl AsFd for ForegroundConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.stream.as_fd()
    }
}
