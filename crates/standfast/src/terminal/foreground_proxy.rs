//! The foreground proxy: the process for which our caller waits, while its child is the supervisor. The proxy passes on
//! the signals that it receives, stops when the job is stopped, and ends as the job's program does. The supervisor may
//! continue after that. If the proxy is killed, the job stays protected.
//!
//! ```text
//! shell --- waits for ---> foreground proxy <=== connection ===> supervisor ---> program ---> ...
//! ```
//!
//! The supervisor leads a process group of its own. So a signal to the group that the shell knows reaches only the
//! proxy, which passes it on once.

use super::attach::AttachRequest;
use super::container_init::ContainerInit;
use crate::event::{JobEvent, Listener};
use crate::signals::{Sender, SignalInbox};
use crate::terminal::{Attachment, Progress};
use crate::{Ending, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpgrp, getpid, pidfd_open, pidfd_send_signal, waitpid};
use signal_hook::consts::signal::SIGCHLD;
use standfast_linux::{Half, step_aside};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

/// A message has two bytes. For a signal, they are its number and its sender. For an end, they are its kind and its
/// number. The pid of the program follows the two bytes that announce it. The constant is the number of messages read at
/// a time.
const MESSAGES_AT_ONCE: usize = 64;
const FROM_KERNEL: u8 = b'k';
const FROM_PROCESS: u8 = b'p';
const EXITED: u8 = b'e';
const KILLED: u8 = b'k';
const HAS_TERMINAL: u8 = b't';
const PROGRAM: u8 = b'm';

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Side {
    /// The process for which the caller waits.
    ForegroundProxy(ForegroundProxy),
    /// The process that becomes the supervisor.
    Supervisor(ForegroundConnection),
}

/// Splits this process into foreground proxy and supervisor. Call it while this process is single-threaded.
///
/// # Errors
/// If no further process can be created.
pub fn split() -> Result<Side, Error> {
    let splitting = |error| Error::system("start a process for the supervisor")(error);
    let (ours, theirs) = UnixStream::pair().map_err(splitting)?;
    let (proxy, group) = (getpid(), getpgrp());
    let init = ContainerInit::of_this_process();
    let is_init = init.is_some();
    match standfast_linux::split().map_err(splitting)? {
        Half::Parent { child, held } => {
            let signals = SignalInbox::open().map_err(Error::system("take over the signals"))?;
            drop(held);
            let supervisor = Pid::from_raw(child.get()).expect("the kernel has just made it");
            Ok(Side::ForegroundProxy(ForegroundProxy { supervisor, connection: ours, signals, attachment: None, init }))
        }
        Half::Child => {
            step_aside().map_err(splitting)?;
            theirs.set_nonblocking(true).map_err(splitting)?;
            // If the proxy has been killed by now, the connection shows it.
            let process = pidfd_open(proxy, PidfdFlags::empty()).ok();
            let group = group.as_raw_nonzero().get();
            Ok(Side::Supervisor(ForegroundConnection(Arc::new(Connection { stream: theirs, process, group, is_init }))))
        }
    }
}

/// The foreground proxy.
#[derive(Debug)]
pub struct ForegroundProxy {
    supervisor: Pid,
    connection: UnixStream,
    signals: SignalInbox,
    attachment: Option<Box<Attachment>>,
    /// Further duties, if it is process 1 of a container.
    init: Option<ContainerInit>,
}

/// Why the foreground proxy has nothing to do any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The program or the supervisor has ended.
    Ended(Ending),
    /// Its user has detached: the program continues to run in the background.
    Detached,
}

impl ForegroundProxy {
    /// Passes on signals, and relays for the terminal of the job if it has one. Returns when the program or the
    /// supervisor has ended, or the user detaches. Process 1 of a container stays until the program has ended.
    ///
    /// # Errors
    /// If the kernel reports an error of a wait.
    pub fn serve(mut self, request: &AttachRequest, listener: &mut Listener<'_>) -> Result<Left, Error> {
        loop {
            let news = self.wait()?;
            if let Some(init) = &self.init {
                init.reap_orphans(Some(self.supervisor));
            }
            if news && let Some(ending) = self.hear(request)? {
                self.attachment.take().into_iter().for_each(|attachment| attachment.finish());
                let Some(init) = self.init else { return Ok(Left::Ended(ending)) };
                return init.outlive(&mut self.signals, ending, listener).map(Left::Ended);
            }
            let relayed = self.attachment.as_mut().map(|attachment| attachment.handle(Instant::now()));
            if self.hand_on() == Progress::Detached || relayed == Some(Progress::Detached) {
                if self.init.is_none() {
                    return Ok(Left::Detached);
                }
                self.attachment = None;
                listener(&JobEvent::Detached { directory: request.directory.clone() });
            }
            if relayed == Some(Progress::Ended) {
                self.attachment.take().into_iter().for_each(|attachment| attachment.finish());
            }
        }
    }

    /// Sleeps until something happens. Returns whether the supervisor has sent a message or is gone.
    fn wait(&self) -> Result<bool, Error> {
        let mut fds = vec![PollFd::new(&self.connection, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
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
                // If the supervisor is gone, the connection shows it.
                None if signal != SIGCHLD => drop(self.connection.write_all(&[signal as u8, from])),
                None => {}
            }
        }
        Progress::GoesOn
    }

    /// Handles a message or the end of the supervisor. Returns how the program has ended, if it did.
    fn hear(&mut self, request: &AttachRequest) -> Result<Option<Ending>, Error> {
        let mut message = [0; 2];
        if self.connection.read_exact(&mut message).is_err() {
            return self.reap().map(Some);
        }
        let [kind, number] = message;
        match kind {
            // Without a terminal here, the program keeps its terminal to itself.
            HAS_TERMINAL => self.attachment = request.attach().ok().map(Box::new),
            PROGRAM => {
                let mut pid = [0; 4];
                if self.connection.read_exact(&mut pid).is_ok() {
                    self.init.iter_mut().for_each(|init| init.note_program(i32::from_ne_bytes(pid)));
                }
            }
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

/// The supervisor's end of the connection to the foreground proxy.
#[derive(Debug, Clone)]
pub struct ForegroundConnection(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    process: Option<OwnedFd>,
    group: i32,
    is_init: bool,
}

impl ForegroundConnection {
    /// Returns the process group of the foreground proxy, which gets the terminal when the job does not have it.
    pub(crate) fn group(&self) -> i32 {
        self.0.group
    }

    /// Reports whether the foreground proxy is process 1 of a container, which ends with it.
    pub(crate) fn is_init(&self) -> bool {
        self.0.is_init
    }

    /// Tells process 1 of a container which process is the program.
    pub(crate) fn name_program(&self, pid: i32) {
        if self.is_init() {
            let [a, b, c, d] = pid.to_ne_bytes();
            // A proxy that is gone needs no message.
            let _ = (&self.0.stream).write_all(&[PROGRAM, 0, a, b, c, d]);
        }
    }

    /// Returns the signals that the foreground proxy has received since the last call; `None` once it is gone.
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

    /// Returns the signals that the foreground proxy has received. They stay in the queue, and are acted on once the
    /// program runs.
    pub(crate) fn waiting_signals(&self) -> Vec<i32> {
        let mut bytes = [0; 2 * MESSAGES_AT_ONCE];
        let length = recv(&self.0.stream, &mut bytes, RecvFlags::PEEK).map_or(0, |(length, _)| length);
        bytes[..length].chunks_exact(2).map(|message| i32::from(message[0])).collect()
    }

    /// Stops the foreground proxy as job control does, so that the shell notices.
    pub(crate) fn stop(&self) {
        // Not SIGTSTP, which the kernel does not deliver to orphaned process groups.
        let _ = self.0.process.as_ref().map(|process| pidfd_send_signal(process, Signal::STOP));
    }

    /// Tells the foreground proxy that the job has a terminal to attach to.
    pub(crate) fn show_terminal(&self) {
        // A proxy that is gone needs no message.
        let _ = (&self.0.stream).write_all(&[HAS_TERMINAL, 0]);
    }

    /// Lets the foreground proxy end because the program has ended, while we continue.
    pub(crate) fn let_go(&self, ending: Ending) {
        let message = match ending {
            Ending::Exited { status } => [EXITED, status as u8],
            Ending::Killed { signal } => [KILLED, signal as u8],
            Ending::Stopped { .. } => unreachable!("nothing goes on after a checkpoint that stops"),
        };
        // A proxy that is gone needs no message.
        let _ = (&self.0.stream).write_all(&message);
    }
}

impl AsFd for ForegroundConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.stream.as_fd()
    }
}
