//! A user's terminal that is attached to that of a job. It relays until either terminal is gone, or the detach key is
//! pressed twice.

use super::SOCKET_NAME;
use super::detach_key::{DetachKey, KeyWatch};
use super::frames::Frame;
use super::modes::Modes;
use super::raw::{RawTerminal, open_own};
use crate::Error;
use crate::control::{SocketPlace, is_trusted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::signal::{SIGCONT, SIGHUP, SIGTSTP, SIGWINCH};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that may wait for the other terminal. If there are more, nothing is read.
const WAITING_BYTES_MAX: usize = 64 << 10;
/// Time for showing the last output of the program.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// State of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It relays.
    GoesOn,
    /// The detach key was pressed, the user's own terminal was lost, or another user has attached.
    Detached,
    /// No process has the job's terminal open any more, or its holder is gone.
    Ended,
}

/// An attachment. Dropping it restores the user's terminal.
#[derive(Debug)]
pub(crate) struct Attachment {
    own: RawTerminal,
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    unshown: Vec<u8>,
    modes: Modes,
    key: KeyWatch,
}

impl Attachment {
    /// Attaches our controlling terminal to that of the job in `directory`.
    pub(crate) fn open(directory: &Path, key: DetachKey) -> Result<Self, Error> {
        let own = open_own().map_err(|_| Error::Declined("there is no terminal here to attach".to_owned()))?;
        let nobody = || {
            Error::Declined(
                "this job has no terminal to attach: it is not running, or was not started with --terminal proxied"
                    .into(),
            )
        };
        let place = SocketPlace::open(directory, SOCKET_NAME).map_err(|_| nobody())?;
        let stream = place.connect().map_err(|_| nobody())?;
        let attaching = |error| Error::system("attach to the program's terminal")(error);
        if !is_trusted(&stream).map_err(attaching)? {
            return Err(Error::Declined("the program's terminal is held by another user".to_owned()));
        }
        stream.set_nonblocking(true).map_err(attaching)?;
        let mut this = Self {
            own: RawTerminal::enter(own).map_err(Error::system("set this terminal"))?,
            stream,
            received: Vec::new(),
            unsent: Vec::new(),
            unshown: Vec::new(),
            modes: Modes::default(),
            key: KeyWatch::new(key),
        };
        this.resize();
        Ok(this)
    }

    /// Returns the descriptors to poll.
    pub(crate) fn poll_fds(&self) -> [PollFd<'_>; 2] {
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        [
            PollFd::new(&self.own.file, flags(self.unsent.len() < WAITING_BYTES_MAX, !self.unshown.is_empty())),
            PollFd::new(&self.stream, flags(self.unshown.len() < WAITING_BYTES_MAX, !self.unsent.is_empty())),
        ]
    }

    /// Returns the deadline of the poll.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.key.deadline()
    }

    /// Relays the available data.
    pub(crate) fn handle(&mut self, now: Instant) -> Progress {
        match self.read_typed(now) {
            Ok(true) => {}
            // A lost terminal counts as detached.
            Ok(false) | Err(_) => return Progress::Detached,
        }
        let sent = write(&mut self.stream, &mut self.unsent);
        let progress = self.receive();
        match (write(&mut self.own.file, &mut self.unshown), sent) {
            (Err(_), _) => Progress::Detached,
            (Ok(()), Err(_)) if progress == Progress::GoesOn => Progress::Ended,
            _ => progress,
        }
    }

    /// Reads what was typed. Returns false if the detach key was pressed twice.
    fn read_typed(&mut self, now: Instant) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let mut typed: Vec<u8> = self.key.overdue(now).into_iter().collect();
        while self.unsent.len() < WAITING_BYTES_MAX {
            match self.own.file.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => match self.key.pass(&buffer[..length], now) {
                    Some(passed) => typed.extend(passed),
                    None => return Ok(false),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            Frame::Data(std::mem::take(&mut typed)).encode(&mut self.unsent);
        }
        Frame::Data(typed).encode(&mut self.unsent);
        Ok(true)
    }

    fn receive(&mut self) -> Progress {
        let mut buffer = [0; 4096];
        while self.unshown.len() < WAITING_BYTES_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Progress::Ended,
                Ok(length) => self.received.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Ended,
            }
            loop {
                match Frame::take(&mut self.received) {
                    Ok(Some(Frame::Data(shown))) => {
                        self.modes.note(&shown);
                        self.unshown.extend(shown);
                    }
                    Ok(Some(Frame::TakenOver)) => return Progress::Detached,
                    Ok(Some(Frame::Ended | Frame::Window(_))) | Err(_) => return Progress::Ended,
                    Ok(None) => break,
                }
            }
        }
        Progress::GoesOn
    }

    /// Shows the last output of the program, as long as it arrives soon.
    pub(crate) fn finish(mut self) {
        let deadline = Instant::now() + FAREWELL_MAX;
        let mut progress = Progress::GoesOn;
        while progress == Progress::GoesOn || !self.unshown.is_empty() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(rest) else { return };
            let [own, stream] = self.poll_fds();
            let mut fds = if progress == Progress::GoesOn { vec![own, stream] } else { vec![own] };
            if rest.is_zero() || poll(&mut fds, Some(&timeout)).is_err() {
                return;
            }
            if progress == Progress::GoesOn {
                progress = self.receive();
            }
            if write(&mut self.own.file, &mut self.unshown).is_err() {
                return;
            }
        }
    }

    /// Handles a signal that concerns the terminal. Returns `None` for other signals.
    pub(crate) fn handle_signal(&mut self, signal: i32) -> Option<Progress> {
        match signal {
            SIGWINCH => self.resize(),
            SIGTSTP => {
                self.leave();
                // The process that wakes us sends SIGCONT.
                let _ = kill_process(getpid(), Signal::STOP);
            }
            SIGCONT => {
                // In the background the kernel stops us here, until we are in the foreground.
                let _ = self.own.enter_again();
                self.show_modes(&self.modes.enter());
                self.resize();
            }
            SIGHUP => return Some(Progress::Detached),
            _ => return None,
        }
        Some(Progress::GoesOn)
    }

    /// Tells the program the size of the window, so that it redraws.
    fn resize(&mut self) {
        if let Ok(size) = self.own.window() {
            Frame::Window(size).encode(&mut self.unsent);
        }
    }

    fn leave(&self) {
        self.show_modes(&self.modes.leave());
        self.own.leave();
    }

    fn show_modes(&self, sequences: &[u8]) {
        // Do not wait for a terminal that accepts nothing.
        let _ = (&self.own.file).write_all(sequences);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Writes what `to` accepts without blocking.
fn write(to: &mut impl Write, bytes: &mut Vec<u8>) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(length) => drop(bytes.drain(..length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
